"""How long the parts of reading changes take: `python -m tests.connectors.postgres_cdc.measure [ROWS]`."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlstream.connectors.api import ConnectorContext, Limits
from sqlstream.connectors.postgres_cdc.reader import CdcReader
from sqlstream.connectors.postgres_cdc.source import CdcSource
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from tests.connectors.postgres_cdc.reading import cdc_spec
from tests.connectors.postgres_server import Database, run_server

SCHEMA = {"k": "BIGINT", "v": "VARCHAR", "d": "DECIMAL(12,2)", "ts": "TIMESTAMP"}


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print how long something takes, and how much of that is Python's process."""
    clock, cpu = time.perf_counter(), time.process_time()
    yield
    print(
        f"{what}: {time.perf_counter() - clock:.2f} s, CPU here {time.process_time() - cpu:.2f} s", flush=True
    )


def main(rows: int) -> None:
    servers = run_server()
    database = Database(next(servers), "postgres")
    database.rows("CREATE TABLE t (k bigint PRIMARY KEY, v text, d numeric(12,2), ts timestamp)")
    database.rows(
        "INSERT INTO t SELECT i, 'value ' || i, i * 1.5, '2020-01-01'::timestamp + i * interval '1 s' "
        f"FROM generate_series(1, {rows}) i"
    )
    spec = cdc_spec(database, schema=SCHEMA, key=("k",))
    with tempfile.TemporaryDirectory() as folder:
        store = CheckpointStore(folder, sync=False)
        source = CdcSource(spec, ConnectorContext(store, folder, runs=True))
        reader = CdcReader(spec)
        reader.in_store(store)
        with timed(f"copy of {rows:,} rows"):
            plan = source.plan(source.initial_position(), Limits())
        with timed("read the copy"):
            found = sum(reader.rows_of(split.payload).num_rows for split in plan.splits)
        assert found == rows
        source.committed(plan.next_position)
        for first in range(0, rows, 1000):
            database.rows(f"UPDATE t SET d = d + 1 WHERE k > {first} AND k <= {first + 1000}")
        while True:
            with timed("plan what the log has"):
                plan = source.plan(plan.next_position, Limits())
            if not plan.splits:
                break
            with timed(f"read {plan.splits[0].payload['changes']:,} changes"):
                reader.rows_of(plan.splits[0].payload)
            with timed("confirm"):
                source.committed(plan.next_position)
        source.close()
    next(servers, None)


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 500_000)
