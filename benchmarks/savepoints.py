"""How long a savepoint takes, and a restart from one, by the size of the state: `python benchmarks/savepoints.py ROWS ...`.

A pipeline that counts rows by a key of 100 characters runs in this process, without Spark, over two shards: each row is a
key of its own, and about 116 bytes of state. Then a savepoint is made, and the run goes on to the first committed epoch of
1,000 rows, with the local cache as it is (warm), and without one (cold).
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream.storage.journal import Journal
from sqlstream.storage.savepoints import Savepoints
from sqlstream_operators.state.checkpoint_store import CheckpointStore

SQL = """CREATE TABLE t (id BIGINT, s STRING) WITH ('connector' = 'datagen', 'fields.s.length' = '100',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '1000000000');
CREATE TABLE out WITH ('connector' = 'blackhole') AS SELECT s, COUNT(*) AS n FROM t GROUP BY s;
"""
EPOCH = 250_000


def run(folder: Path, rows: int, epochs: int) -> None:
    """Some epochs of so many rows."""
    planned = plan_file(SQL, file="bench.sql")
    run_pipeline(
        RunRequest(
            planned.physical,
            state_dir=folder / "state",
            local_dir=folder / "cache",
            base_dir=folder,
            parallelism=2,
            max_rows_per_epoch=rows,
            runner=InProcessRunner(2),
            max_epochs=epochs,
            poll_s=0.0,
        )
    )


def timed(what: Callable[[], Any]) -> float:
    """Seconds that it takes."""
    start = time.perf_counter()
    what()
    return time.perf_counter() - start


def measure(rows: int) -> str:
    """A line of the table in STATE.md."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        epoch = min(rows, EPOCH)
        run(folder, epoch, max(1, rows // epoch))
        store = CheckpointStore(folder / "state")
        journal = Journal(store)
        size = sum(state.bytes for state in journal.manifest(journal.epochs()[1][-1]).states)
        points = Savepoints(store)
        savepoint = min(timed(lambda n=n: points.create(f"s{n}")) for n in range(5))
        run(folder, 1000, 1)  # the cache applies the last delta
        warm = min(timed(lambda: run(folder, 1000, 1)) for _ in range(3))
        shutil.rmtree(folder / "cache")
        cold = timed(lambda: run(folder, 1000, 1))
        return f"| {size / 1e6:,.0f} MB | {savepoint * 1000:.1f} ms | {warm:.2f} s | {cold:.2f} s |"


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sys.stdout.write(measure(int(argument)) + "\n")
        sys.stdout.flush()
