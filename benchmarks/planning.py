"""What planning costs: `check` of every file in `pipelines/`, `plan` of an edit and looks at its state, and chains of UNION
ALL views that are each used twice.

Prints a Markdown table. Run it on a quiet machine: `python benchmarks/planning.py [--rounds 5]`. Seconds are wall
time, and of the processor, which says more where others work on the machine. A command is a new process each time, with
the byte code of earlier runs, as a user's is (the first run after an installation compiles it, and takes a second more).
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.tasks.local_runner import InProcessRunner

ROOT = Path(__file__).parent.parent

TABLE = """
CREATE TABLE t (a BIGINT, b BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'bids', 'format' = 'json');
CREATE VIEW v0 AS SELECT a, b FROM t UNION ALL SELECT b, a FROM t;
"""
#: A pipeline, and an edit of it with a field that is computed from the source's history.
EDITED = """
CREATE TABLE orders (customer STRING, amount BIGINT) WITH ('connector' = 'filesystem', 'path' = 'orders', 'format' = 'json');
CREATE TABLE totals (customer STRING PRIMARY KEY NOT ENFORCED, orders BIGINT, amount BIGINT)
WITH ('connector' = 'duckdb', 'path' = 'totals.duckdb');
INSERT INTO totals SELECT customer, COUNT(*), SUM(amount) FROM orders GROUP BY customer;
"""
EDIT = ("SUM(amount)", "MAX(amount)")


def seconds(environment: dict[str, str], *arguments: str) -> tuple[float, float]:
    """Wall and CPU time of one `sqlstream` command in a new process. Raises CalledProcessError where it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "sqlstream", *arguments],
        check=True,
        capture_output=True,
        cwd=ROOT,
        env=environment,
    )
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def row(name: str, taken: list[tuple[float, float]]) -> str:
    """A line of the table."""
    wall, cpu = zip(*taken, strict=True)
    return f"| {name} | {statistics.median(wall):.2f} | {min(wall):.2f} | {statistics.median(cpu):.2f} |"


def edited(folder: Path) -> Path:
    """A pipeline that has run, in this process, and was edited since."""
    (folder / "orders").mkdir()
    rows = "".join(f'{{"customer": "c{n % 100}", "amount": {n}}}\n' for n in range(1000))
    (folder / "orders" / "1.json").write_text(rows)
    file = folder / "totals.sql"
    file.write_text(EDITED)
    planned = plan_file(file)
    run_pipeline(
        RunRequest(
            planned.physical,
            state_dir=folder / ".sqlstream" / "totals",
            local_dir=folder / "cache",
            base_dir=folder,
            parallelism=2,
            runner=InProcessRunner(2),
            sql=planned.masked_sql,
        )
    )
    file.write_text(EDITED.replace(*EDIT))
    return file


def chain(views: int) -> str:
    """A file with so many views, each of which reads the one before twice."""
    later = [
        f"CREATE VIEW v{i} AS SELECT a + 1 AS a, b FROM v{i - 1} UNION ALL SELECT a, b + 1 AS b FROM v{i - 1};\n"
        for i in range(1, views)
    ]
    return f"{TABLE}{''.join(later)}SELECT a, COUNT(*) AS n FROM v{views - 1} GROUP BY a;"


def chain_seconds(views: int) -> tuple[float, float]:
    """Wall and CPU time of the chain's planning, within this process."""
    text = chain(views)
    started, cpu = time.perf_counter(), time.process_time()
    plan_file(text)
    return time.perf_counter() - started, time.process_time() - cpu


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print("| what | median s | fastest s | CPU s, median |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as folder:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = cache
        file = edited(Path(folder))
        commands = {
            **{
                f"check {file.relative_to(ROOT)}": ("check", str(file))
                for file in sorted((ROOT / "pipelines").glob("*/*.sql"))
            },
            "check of an edit": ("check", str(file)),
            "plan of an edit": ("plan", str(file)),
            "savepoint list": ("savepoint", "list", str(file)),
            "state list": ("state", "list", str(file)),
        }
        for name, arguments in commands.items():
            seconds(environment, *arguments)
            taken = [seconds(environment, *arguments) for _ in range(rounds)]
            print(row(name, taken))
    chain_seconds(2)
    for views in (50, 100, 200):
        taken = [chain_seconds(views) for _ in range(rounds)]
        print(row(f"plan {views} views", taken))


if __name__ == "__main__":
    main()
