"""What `sqlstream state query` costs: a look-up of one key beside a scan of all, over groups of an unwindowed GROUP BY.

`python benchmarks/state_query.py [KEYS]` makes the state in this process (no Spark) and prints seconds, and their ratio.
"""

from __future__ import annotations

import io
import statistics
import sys
import tempfile
import time
from pathlib import Path

from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream.state.query import run_query
from sqlstream_operators.state.checkpoint_store import CheckpointStore

PIPELINE = """
CREATE TABLE t (id BIGINT, v BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '{keys}',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '{keys}');
CREATE TABLE o (id BIGINT, n BIGINT, total BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO o SELECT id, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY id;
"""


def spent(store: CheckpointStore, sql: str, times: int) -> list[float]:
    """Seconds for a query from the look at the last epoch to its result, each in a database of its own."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        run_query(store, None, sql, "csv", io.StringIO())
        found.append(time.perf_counter() - start)
    return found


def main(keys: int, epochs: int = 8, shards: int = 4) -> None:
    """Make the state, measure, print."""
    with tempfile.TemporaryDirectory() as folder:
        planned = plan_file(PIPELINE.format(keys=keys), file="q.sql")
        run_pipeline(
            RunRequest(
                planned.physical,
                state_dir=Path(folder) / "state",
                local_dir=Path(folder) / "cache",
                base_dir=Path(folder),
                parallelism=shards,
                max_rows_per_epoch=keys // epochs,
                runner=InProcessRunner(2),
                sync=False,
            )
        )
        store = CheckpointStore(Path(folder) / "state")
        size = sum(store.size(name) or 0 for name in store.list("state"))
        print(f"{keys:,} groups in {shards} shards, {epochs} epochs, {size >> 20} MiB of files")
        look_ups = [
            spent(store, f"FROM group_aggregate_1 WHERE id = {key}", 1)[0] for key in range(7, 7 * 21, 7)
        ]
        many = ", ".join(str(key) for key in range(1, keys, max(keys // 100, 1)))
        hundred = spent(store, f"SELECT sum(n) FROM group_aggregate_1 WHERE id IN ({many})", 3)
        scans = spent(store, "SELECT count(*), sum(total) FROM group_aggregate_1", 2)
        stored = spent(store, "SELECT count(*), sum(row_count) FROM group_aggregate_1.acc", 2)
        one = statistics.median(look_ups)
        print(
            f"look-up of one key       {one:.3f} s (median of {len(look_ups)}, longest {max(look_ups):.3f})"
        )
        print(f"look-up of 100 keys      {min(hundred):.3f} s")
        print(f"scan of the answer       {min(scans):.2f} s, {min(scans) / one:.0f} look-ups")
        print(f"scan of what is stored   {min(stored):.2f} s, {min(stored) / one:.0f} look-ups")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
