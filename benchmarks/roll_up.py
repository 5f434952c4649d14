"""What an edit that rolls groups up costs, beside making their state: `python benchmarks/roll_up.py KEYS ...`.

A pipeline counts and sums by two keys, in this process, without Spark, over two shards; each row is a group of its own. Then
one key is dropped from the query: once so that as many groups are left, and once so that ten are. Figures are CPU seconds of
the process, so that what else the machine does counts little, less those of the same edit of a state without rows.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

from sqlstream.planning import plan_file
from sqlstream.runtime.api import run_pipeline
from sqlstream.runtime.tasks.local_runner import InProcessRunner

SQL = """CREATE TABLE t (id BIGINT, v INT) WITH ('connector' = 'datagen',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '1000000000');
CREATE TABLE out WITH ('connector' = 'blackhole') AS SELECT {keys}, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY {keys};
"""
EPOCH = 250_000
BOTH, AS_MANY, FEW = "id, v % 10", "id", "v % 10"


def run(folder: Path, keys: str, epochs: int, rows: int = EPOCH) -> float:
    """Some epochs by these keys; the CPU seconds that they took."""
    planned = plan_file(SQL.format(keys=keys), file="bench.sql")
    start = time.process_time()
    run_pipeline(
        planned.physical,
        nodes=planned.state_nodes,
        state_dir=folder / "state",
        local_dir=folder / "cache",
        base_dir=folder,
        parallelism=2,
        max_rows_per_epoch=rows,
        runner=InProcessRunner(2),
        max_epochs=epochs,
        poll_s=0.0,
        sync=False,
    )
    return time.process_time() - start


def edited(groups: int, keys: str) -> tuple[float, float]:
    """CPU seconds of making the state of so many groups, and of the edit, an epoch that reads nothing."""
    with tempfile.TemporaryDirectory() as name:
        epoch = min(groups, EPOCH)
        made = run(Path(name), BOTH, max(1, groups // epoch), epoch)
        return made, run(Path(name), keys, 1)


def measure(groups: int) -> str:
    """A line of the table in STATE.md."""
    cells = [f"{groups / 1e6:g} M"]
    for keys in (AS_MANY, FEW):
        fixed = edited(1000, keys)
        made, rolled_up = (took - less for took, less in zip(edited(groups, keys), fixed, strict=True))
        cells += [f"{rolled_up / groups * 1e6:.1f} µs", f"{rolled_up / made:.2f}"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"| {' | '.join(cells)} | {peak:,.0f} MB |"


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sys.stdout.write(measure(int(argument)) + "\n")
        sys.stdout.flush()
