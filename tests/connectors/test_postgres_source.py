"""A table in PostgreSQL that is read once: one snapshot, whatever is written meanwhile, and however reading breaks off."""

from __future__ import annotations

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.connectors.api import ConnectorContext, Limits, Split
from sqlstream.connectors.database import copies, postgres_blocks, postgres_copies
from sqlstream.connectors.postgres.source import PostgresSource
from sqlstream.connectors.registry import REGISTERED
from sqlstream.planning import plan_file
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.harness import source_spec
from tests.connectors.postgres_server import Database
from tests.examples import examples
from tests.properties.in_process import run_here
from tests.runtime.support import Crash, crash_at

Row = tuple[Any, ...]


def spec_of(database: Database, table: str = "t") -> SourceSpec:
    given = {"url": database.url, "table-name": table}
    return source_spec({"k": "BIGINT", "v": "VARCHAR"}, given, connector="postgres")


def context(folder: Path, *, runs: bool = True) -> ConnectorContext:
    return ConnectorContext(CheckpointStore(folder / "store", sync=False), str(folder), runs=runs)


def read(spec: SourceSpec, folder: Path, duck: DuckSession, split: Split) -> list[Row]:
    reader: Any = REGISTERED.reader(spec, str(folder))
    reader.in_store(CheckpointStore(folder / "store", sync=False))
    split = Split(split.source, json.loads(json.dumps(split.payload)), split.rows)
    reader.open_strict(duck, "rows", split, queries=1)
    found = duck.query("SELECT k, v FROM rows")
    duck.drop("rows")
    rows = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
    assert split.rows is None or split.rows == len(rows)
    return rows


@settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    count=st.integers(0, 60),
    limits=st.lists(
        st.builds(
            Limits, rows=st.none() | st.integers(1, 20), bytes=st.none() | st.just(1), tasks=st.integers(1, 4)
        ),
        min_size=1,
    ),
    again=st.booleans(),
)
def test_however_it_is_cut(
    database: Database,
    duck: DuckSession,
    tmp_path_factory: pytest.TempPathFactory,
    count: int,
    limits: list[Limits],
    again: bool,
) -> None:
    """The rows are those of DuckDB over the same range, in one order; rows of other transactions don't come between."""
    folder = tmp_path_factory.mktemp("once")
    database.rows("DROP TABLE IF EXISTS t")
    database.rows("CREATE TABLE t (v text, k bigint, other int)")
    # Rows of 2 kB: four are a block of the table, and each block is a range that a connection copies.
    made = f"SELECT repeat('x', 1000 + i % 7) || i, i FROM generate_series(1, {count}) i"
    database.rows("ALTER TABLE t ALTER COLUMN v SET STORAGE PLAIN")
    database.rows(f"INSERT INTO t {made}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postgres_copies, "_PAGES", 1)
        patch.setattr(copies, "_FEWEST_ROWS", 1)
        patch.setattr(postgres_blocks, "_ROWS", 3)
        spec = spec_of(database)
        source = PostgresSource(spec, context(folder))
        position, rows, number = source.initial_position(), list[Row](), 0
        while True:
            plan = source.plan(position, limits[number % len(limits)])
            number += 1
            rows += [row for split in plan.splits for row in read(spec, folder, duck, split)]
            database.rows("UPDATE t SET v = v || '!'")
            database.rows("INSERT INTO t VALUES ('late', 0)")
            position = json.loads(json.dumps(plan.next_position))
            source.committed(position)
            if plan.exhausted:
                break
            if again:
                source = PostgresSource(spec, context(folder))
    with duckdb.connect() as con:
        text = "SELECT i, repeat('x', (1000 + i % 7)::INT) || i FROM generate_series(1, ?) AS t(i)"
        assert rows == con.execute(text, [count]).fetchall()
    assert not CheckpointStore(folder / "store").list("copies") or not rows
    assert PostgresSource(spec, context(folder)).plan(position, Limits()).exhausted


def test_one_snapshot_for_all_connections(
    database: Database, duck: DuckSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Money goes from account to account while several connections copy: none of it is there twice, or missing."""
    monkeypatch.setattr(postgres_copies, "_PAGES", 1)
    database.rows("CREATE TABLE t (k bigint, v text)")
    database.rows("INSERT INTO t SELECT 100, repeat('x', 500) FROM generate_series(1, 400)")
    stop = threading.Event()

    def transfers() -> None:
        with psycopg.connect(database.url) as connection:
            while not stop.is_set():
                for amount in (-7, 7):
                    connection.execute(
                        "UPDATE t SET k = k + %s WHERE ctid = (SELECT ctid FROM t ORDER BY random() LIMIT 1)",
                        [amount],
                    )
                connection.commit()

    worker = threading.Thread(target=transfers)
    worker.start()
    try:
        spec = spec_of(database)
        for number in range(3):
            folder = tmp_path / str(number)
            source = PostgresSource(spec, context(folder))
            plan = source.plan(source.initial_position(), Limits())
            rows = [row for split in plan.splits for row in read(spec, folder, duck, split)]
            assert (len(rows), sum(k for k, _ in rows)) == (400, 40_000)
    finally:
        stop.set()
        worker.join()


@pytest.mark.parametrize("kind", ["VIEW", "MATERIALIZED VIEW"])
def test_views(database: Database, duck: DuckSession, tmp_path: Path, kind: str) -> None:
    database.rows(f"CREATE {kind} t AS SELECT i::bigint AS k, 'v'::text AS v FROM generate_series(1, 3) i")
    spec = spec_of(database)
    plan = PostgresSource(spec, context(tmp_path)).plan({"begun": False}, Limits())
    assert [row for split in plan.splits for row in read(spec, tmp_path, duck, split)] == [
        (k, "v") for k in (1, 2, 3)
    ]


def test_a_view_that_fails(database: Database, tmp_path: Path) -> None:
    database.rows(
        "CREATE VIEW t AS SELECT i::bigint AS k, (1 / (i - 2))::text AS v FROM generate_series(1, 3) i"
    )
    source = PostgresSource(spec_of(database), context(tmp_path))
    with pytest.raises(DataError, match="can't be read: division by zero"):
        source.plan(source.initial_position(), Limits())


@pytest.mark.parametrize("runs", [True, False])
def test_tables_that_are_refused(database: Database, tmp_path: Path, runs: bool) -> None:
    database.rows("CREATE TABLE tt (k bigint, v text)")
    database.rows("CREATE TABLE other (k numeric, v text[])")
    for table, code in (("t", "DAT004"), ("other", "DAT018")):
        source = PostgresSource(spec_of(database, table), context(tmp_path, runs=runs))
        with pytest.raises(DiagnosticError) as raised:
            source.plan(source.initial_position(), Limits())
        assert [d.code for d in raised.value.diagnostics] == [code]
    assert not CheckpointStore(tmp_path / "store").list()


def test_a_copy_that_is_gone(database: Database, tmp_path: Path) -> None:
    database.rows("CREATE TABLE t (k bigint, v text)")
    database.rows("INSERT INTO t SELECT 1, 'a' FROM generate_series(1, 9)")
    source = PostgresSource(spec_of(database), context(tmp_path))
    plan = source.plan(source.initial_position(), Limits(rows=3))
    assert source.can_replay(plan.splits)
    store = CheckpointStore(tmp_path / "store", sync=False)
    store.delete_all(store.list("copies"))
    assert not source.can_replay(plan.splits)
    with pytest.raises(DiagnosticError, match="DAT015") as raised:
        PostgresSource(spec_of(database), context(tmp_path)).plan(plan.next_position, Limits())
    assert raised.value.exit_code == 4


SQL = """
CREATE TABLE t (k BIGINT, v STRING) WITH ('connector' = 'postgres', 'url' = '{url}');
CREATE TABLE counts (v STRING, n BIGINT, s BIGINT, PRIMARY KEY (v) NOT ENFORCED)
WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');
INSERT INTO counts SELECT v, COUNT(*), CAST(SUM(k) AS BIGINT) FROM t WHERE k > 3 GROUP BY v;
"""


@pytest.mark.parametrize("point", ["planned", "run", "published", "committed"])
def test_crashes(database: Database, tmp_path: Path, point: Any) -> None:
    """What is written between the runs is not read: the rows are those of the first run's snapshot."""
    database.rows("CREATE TABLE t (k bigint, v text)")
    database.rows("INSERT INTO t SELECT i, 'v' || i % 3 FROM generate_series(1, 50) i")
    expected = Counter(database.rows("SELECT v, count(*), sum(k)::bigint FROM t WHERE k > 3 GROUP BY v"))
    (tmp_path / "p.sql").write_text(SQL.format(url=database.url))
    planned = plan_file(tmp_path / "p.sql")
    with pytest.raises(Crash):
        run_here(planned, tmp_path, rows_per_epoch=7, faults=crash_at(point, 2))
    database.rows("DELETE FROM t WHERE k % 2 = 0")
    database.rows("INSERT INTO t VALUES (1000, 'v9')")
    assert run_here(planned, tmp_path, rows_per_epoch=7).outcome == "exhausted"
    with duckdb.connect(str(tmp_path / "out.duckdb"), read_only=True) as con:
        assert Counter(con.execute("SELECT * FROM counts").fetchall()) == expected
    assert run_here(planned, tmp_path).outcome == "nothing new"
    assert not list((tmp_path / "state" / "copies").rglob("*.arrow"))
