"""What an edit that rolls groups up costs, beside making their state: `python benchmarks/roll_up.py [--spark M] KEYS ...`.

A pipeline counts and sums by two keys, in this process, without Spark, over two shards; each row is a group of its own. Then
the query is edited, three times: so that as many groups are left, a tenth of them, and 19. Figures are CPU seconds of
the process, so that what else the machine does counts little, less those of the same edit of a thousand groups.

With `--spark local[2]` the edit is a Spark job, timed by the clock from the start of `run_pipeline` to its manifest, Spark
being up. `--wide` groups by a text of 100 characters in place of a number.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.spark.stages import SparkJobRunner
from sqlstream.runtime.tasks.job import JobRunner
from sqlstream.runtime.tasks.local_runner import InProcessRunner

SQL = """CREATE TABLE t (id BIGINT, v INT) WITH ('connector' = 'datagen',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '1000000000');
CREATE TABLE out WITH ('connector' = 'blackhole') AS SELECT {keys}, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY {keys};
"""
EPOCH = 250_000
BOTH, AS_MANY, TENTH, FEW = "id, v % 10", "id", "id // 10", "v % 10"
WIDE = {"id": "printf('%0100d', id)", "id // 10": "printf('%0100d', id)[1:99]"}


def run(folder: Path, keys: str, epochs: int, rows: int = EPOCH, runner: JobRunner | None = None) -> float:
    """Some epochs by these keys; the CPU seconds that they took."""
    planned = plan_file(SQL.format(keys=keys), file="bench.sql")
    start = time.process_time()
    run_pipeline(
        RunRequest(
            planned.physical,
            nodes=planned.state_nodes,
            state_dir=folder / "state",
            local_dir=folder / "cache",
            base_dir=folder,
            parallelism=2,
            max_rows_per_epoch=rows,
            runner=runner or InProcessRunner(2),
            max_epochs=epochs,
            poll_s=0.0,
            sync=False,
        )
    )
    return time.process_time() - start


def keyed(keys: str, wide: bool) -> str:
    """The keys as they are in the query."""
    return ", ".join(WIDE.get(key, key) if wide else key for key in keys.split(", "))


def edited(groups: int, keys: str, wide: bool) -> tuple[float, float]:
    """CPU seconds of making the state of so many groups, and of the edit, an epoch that reads nothing."""
    with tempfile.TemporaryDirectory() as name:
        epoch = min(groups, EPOCH)
        made = run(Path(name), keyed(BOTH, wide), max(1, groups // epoch), epoch)
        return made, run(Path(name), keyed(keys, wide), 1)


def measure(groups: int, wide: bool) -> str:
    """A line of the table in STATE.md."""
    cells = [f"{groups / 1e6:g} M"]
    for keys in (AS_MANY, TENTH, FEW):
        fixed = edited(1000, keys, wide)
        made, rolled_up = (took - less for took, less in zip(edited(groups, keys, wide), fixed, strict=True))
        cells += [f"{rolled_up / groups * 1e6:.2f} µs", f"{rolled_up / made:.2f}"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"| {' | '.join(cells)} | {peak:,.0f} MB |"


def on_spark(groups: int, wide: bool, runner: JobRunner) -> str:
    """A line of the table in docs/performance/edits.md."""
    cells = [f"{groups / 1e6:g} M"]
    with tempfile.TemporaryDirectory() as name:
        made = Path(name) / "made"
        made.mkdir()
        run(made, keyed(BOTH, wide), groups // min(groups, EPOCH), min(groups, EPOCH))
        run(made, keyed(BOTH, wide), 1, 1000, runner)  # the workers are up
        for keys in (AS_MANY, TENTH, FEW):
            copy = Path(name) / "copy"
            shutil.copytree(made, copy)
            start = time.perf_counter()
            run(copy, keyed(keys, wide), 1, runner=runner)
            seconds = time.perf_counter() - start
            cells.append(f"{seconds:.1f} s, {groups / seconds / 1e6:.2f} M groups/s")
            shutil.rmtree(copy)
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print a line for each number of keys."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("keys", type=int, nargs="+")
    parser.add_argument("--spark", metavar="MASTER")
    parser.add_argument("--wide", action="store_true")
    given = parser.parse_args()
    runner = SparkJobRunner.start(given.spark) if given.spark else None
    for keys in given.keys:
        line = measure(keys, given.wide) if runner is None else on_spark(keys, given.wide, runner)
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    if runner is not None:
        runner.close()


if __name__ == "__main__":
    main()
