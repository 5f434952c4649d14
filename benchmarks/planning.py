"""What planning costs: `check` of every file in `pipelines/`, and chains of UNION ALL views that are each used twice.

Prints a Markdown table. Run it on a quiet machine: `python benchmarks/planning.py [--rounds 5]`. Seconds are wall
time. `check` is a new process each time, with the byte code of earlier runs, as a user's is (the first run after an
installation compiles it, and takes a second more).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sqlstream.planning import plan_file

ROOT = Path(__file__).parent.parent

TABLE = """
CREATE TABLE t (a BIGINT, b BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'bids', 'format' = 'json');
CREATE VIEW v0 AS SELECT a, b FROM t UNION ALL SELECT b, a FROM t;
"""


def check_seconds(file: Path, environment: dict[str, str]) -> float:
    """One `sqlstream check` of the file in a new process. Raises CalledProcessError where it fails."""
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "sqlstream", "check", str(file)],
        check=True,
        capture_output=True,
        cwd=ROOT,
        env=environment,
    )
    return time.perf_counter() - started


def chain(views: int) -> str:
    """A file with so many views, each of which reads the one before twice."""
    later = [
        f"CREATE VIEW v{i} AS SELECT a + 1 AS a, b FROM v{i - 1} UNION ALL SELECT a, b + 1 AS b FROM v{i - 1};\n"
        for i in range(1, views)
    ]
    return f"{TABLE}{''.join(later)}SELECT a, COUNT(*) AS n FROM v{views - 1} GROUP BY a;"


def chain_seconds(views: int) -> float:
    """Planning of the chain, within this process."""
    text = chain(views)
    started = time.perf_counter()
    plan_file(text)
    return time.perf_counter() - started


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print("| what | median s | fastest s |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as cache:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = cache
        for file in sorted((ROOT / "pipelines").glob("*/*.sql")):
            check_seconds(file, environment)
            taken = [check_seconds(file, environment) for _ in range(rounds)]
            print(f"| check {file.relative_to(ROOT)} | {statistics.median(taken):.2f} | {min(taken):.2f} |")
    chain_seconds(2)
    for views in (50, 100, 200):
        taken = [chain_seconds(views) for _ in range(rounds)]
        print(f"| plan {views} views | {statistics.median(taken):.2f} | {min(taken):.2f} |")


if __name__ == "__main__":
    main()
