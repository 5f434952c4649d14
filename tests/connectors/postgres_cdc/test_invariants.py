"""Whatever is done to a table, and however reading is cut into epochs and runs, its rows go and come once, in order."""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.connectors.api import Limits
from sqlstream.connectors.database import copies
from sqlstream.connectors.postgres_cdc import source
from sqlstream_operators.duck.session import DuckSession
from tests.connectors.postgres_cdc.reading import SLOTS, Reading, Row, by_key, cdc_spec, folded
from tests.connectors.postgres_server import Database
from tests.examples import examples

#: Statements of transactions, of a number from 0 to 5.
DONE = {
    "insert": "INSERT INTO t SELECT nextval('n'), 'i' || {n} FROM generate_series(0, {n})",
    "update": "UPDATE t SET v = v || {n} WHERE k % 3 = {n} % 3",
    "other key": "UPDATE t SET k = nextval('n') WHERE k % 4 = {n} % 4",
    "delete": "DELETE FROM t WHERE k % 5 = {n} % 5",
    "long value": "UPDATE t SET v = long(k) WHERE k % 5 = {n}",
    "null": "UPDATE t SET v = NULL WHERE k % 5 = {n}",
    "other table": "INSERT INTO other SELECT i, 'x' FROM generate_series(1, {n}) i",
    "vacuum": "SELECT pg_switch_wal()",
}
STEPS = st.lists(
    st.tuples(
        st.lists(
            st.lists(st.tuples(st.sampled_from(list(DONE)), st.integers(0, 5)), min_size=1, max_size=3),
            max_size=3,
        ),
        st.builds(
            Limits, rows=st.none() | st.integers(1, 9), bytes=st.none() | st.just(1), tasks=st.integers(1, 3)
        ),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


def rows_there(database: Database) -> Counter[Row]:
    return Counter(database.rows("SELECT k, v FROM t"))


@pytest.mark.parametrize("full", [False, True], ids=["key", "full"])
@settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS, begins=st.integers(0, 12), beside=st.booleans())
def test_however_it_is_cut(
    cdc: Database,
    duck: DuckSession,
    full: bool,
    steps: Sequence[tuple[Sequence[Sequence[tuple[str, int]]], Limits, bool]],
    begins: int,
    beside: bool,
) -> None:
    """At the end of each epoch behind the copy the rows are the table's behind some transaction, as DuckDB has them."""
    cdc.rows(SLOTS)
    for sql in (
        "DROP TABLE IF EXISTS t, other",
        f"DROP PUBLICATION IF EXISTS slot_{cdc.name}",
        "DROP SEQUENCE IF EXISTS n",
        "CREATE SEQUENCE n",
        # With the old row in the log values may be so long that they are stored apart.
        "CREATE OR REPLACE FUNCTION long(k bigint) RETURNS text LANGUAGE sql AS $$ SELECT string_agg(md5((k + i)::text), "
        f"'') FROM generate_series(1, {200 if full else 20}) i $$",
        "CREATE TABLE t (k bigint PRIMARY KEY, v text)",
        "CREATE TABLE other (k bigint, v text)",
        "ALTER TABLE other REPLICA IDENTITY FULL",
        *(["ALTER TABLE t REPLICA IDENTITY FULL"] if full else []),
        f"INSERT INTO t SELECT nextval('n'), 'v' FROM generate_series(1, {begins})",
        *([f"CREATE PUBLICATION slot_{cdc.name} FOR TABLE t, other"] if beside else []),
    ):
        cdc.rows(sql)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(copies, "_FEWEST_ROWS", 1)
        patch.setattr(source, "_IDLE_BYTES", 1000)
        patch.setattr(source, "_WINDOW", 200)
        one = Reading(cdc_spec(cdc, key=() if full else ("k",)), Path(name), duck)
        states = [rows_there(cdc)]
        at = one.source.initial_position()
        rows: list[Row] = []
        for transactions, limits, another_run in steps:
            for statements in transactions:
                with psycopg.connect(cdc.url) as connection:
                    for what, n in statements:
                        connection.execute(DONE[what].format(n=n).encode())
                states.append(rows_there(cdc))
            if another_run:
                one = one.again()
            for epoch in one.epochs(at, limits):
                if not epoch.splits:
                    break
                assert [r for split in epoch.splits for r in one.read(split)] == epoch.rows, "read again"
                rows += epoch.rows
                at = epoch.after
                if "copy" not in at:
                    found = folded(rows) if full else Counter(by_key(rows).values())
                    assert found in states
                if another_run:  # the run breaks off before it confirms
                    one = one.again()
            if "copy" not in at:
                found = folded(rows) if full else Counter(by_key(rows).values())
                assert found == states[-1]
        with duckdb.connect() as con:
            changes = (
                pa.table(
                    {
                        "n": range(len(rows)),
                        **dict(zip("kvo", map(list, zip(*rows, strict=True)), strict=True)),
                    }
                )
                if rows
                else None
            )
            if changes is not None and not full:
                last = con.sql(
                    "SELECT k, last(v ORDER BY n) FROM changes GROUP BY k HAVING last(o ORDER BY n) <> '-D'"
                )
                assert Counter(last.fetchall()) == states[-1]
            elif changes is not None:
                weights = con.sql(
                    "SELECT k, v FROM changes GROUP BY k, v HAVING sum(CASE WHEN o IN ('+I', '+U') THEN 1 ELSE -1 END) = 1"
                )
                assert Counter(weights.fetchall()) == states[-1]
        one.close()
        shutil.rmtree(name, ignore_errors=True)
        Path(name).mkdir()


@contextmanager
def writing(database: Database, seed: int) -> Iterator[None]:
    """Transactions without an end, some of which are open for a while, are rolled back, or have savepoints."""
    stop = threading.Event()

    def work(number: int) -> None:
        rng = random.Random(seed + number)
        with psycopg.connect(database.url, autocommit=True) as connection:
            while not stop.is_set():
                with connection.transaction(force_rollback=rng.random() < 0.2):
                    for _ in range(rng.randrange(1, 4)):
                        what = rng.choice(["insert", "update", "other key", "delete"])
                        try:
                            with connection.transaction():
                                connection.execute(DONE[what].format(n=rng.randrange(6)).encode())
                        except psycopg.errors.DeadlockDetected:
                            break
                    stop.wait(rng.choice([0, 0, 0.01, 0.1]))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        stop.set()
        for worker in workers:
            worker.join()


@pytest.mark.parametrize("seed", range(examples(2)))
def test_a_table_that_is_written_while_reading_begins(
    cdc: Database, tmp_path: Path, duck: DuckSession, seed: int
) -> None:
    """What is in the copy is not in the log once more, and what is not is there; also of a table that comes later."""
    cdc.rows("CREATE SEQUENCE n")
    cdc.rows("CREATE TABLE t (k bigint PRIMARY KEY, v text)")
    cdc.rows("ALTER TABLE t REPLICA IDENTITY FULL")
    cdc.rows("INSERT INTO t SELECT nextval('n'), 'v' FROM generate_series(1, 30)")
    one = Reading(cdc_spec(cdc), tmp_path, duck)
    with writing(cdc, seed):
        rows, at = one.all()
        # The same table once more by the slot that is there, in another folder of the state directory.
        other = Reading(cdc_spec(cdc), tmp_path, duck, shared=one.shared)
        other_rows, other_at = other.all()
    more, _ = one.all(at)
    assert folded(rows + more) == rows_there(cdc)
    other_more, _ = other.all(other_at)
    assert folded(other_rows + other_more) == rows_there(cdc)
