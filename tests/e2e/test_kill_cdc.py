"""A bank whose total never changes in any epoch: its accounts are in two tables of one slot, and drivers are killed."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import duckdb
import psycopg
import pytest

from tests.connectors.postgres_cdc.reading import SLOTS
from tests.connectors.postgres_server import Database, Server, database, postgres_server
from tests.e2e.killing import POINTS, Killer, Order
from tests.examples import examples, is_long

__all__ = ["Database", "Server", "database", "postgres_server"]

pytestmark = pytest.mark.kill
KILLS = 30 if is_long() else examples(6)
ACCOUNTS, MONEY = 20, 1000
SQL = """
CREATE TABLE checking (id INT, bank INT, balance BIGINT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'postgres-cdc', 'url' = '{url}', 'slot.name' = '{slot}');
CREATE TABLE savings (id INT, bank INT, balance BIGINT)
WITH ('connector' = 'postgres-cdc', 'url' = '{url}', 'slot.name' = '{slot}');
CREATE TABLE totals (bank INT, total BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'totals', 'format' = 'changelog-json');
CREATE TABLE held (id INT, balance BIGINT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'duckdb', 'path' = 'held.duckdb');

CREATE VIEW accounts AS SELECT bank, balance FROM checking UNION ALL SELECT bank, balance FROM savings;
EXECUTE STATEMENT SET BEGIN
INSERT INTO totals SELECT bank, CAST(SUM(balance) AS BIGINT) FROM accounts GROUP BY bank;
INSERT INTO held SELECT id, balance FROM checking;
END;
"""


def tables(database: Database) -> None:
    for name in ("checking", "savings"):
        database.rows(f"CREATE TABLE {name} (id int PRIMARY KEY, bank int, balance bigint, note text)")
        database.rows(f"INSERT INTO {name} SELECT i, 7, {MONEY} FROM generate_series(1, {ACCOUNTS}) i")
    database.rows("ALTER TABLE savings REPLICA IDENTITY FULL")


def transfer(connection: psycopg.Connection, rng: random.Random, number: int) -> None:
    """A transaction that leaves the total as it is, or one that is rolled back."""
    with connection.transaction(force_rollback=rng.random() < 0.1):
        for _ in range(rng.choice([1, 1, 1, 5, 40])):
            amount = rng.randrange(1, 50)
            for sign in (-1, 1):
                table = rng.choice(["checking", "savings"])
                found = connection.execute(f"SELECT id FROM {table} ORDER BY random() LIMIT 1").fetchone()
                assert found is not None
                change = f"UPDATE {table} SET balance = balance + {sign * amount} WHERE id = {found[0]}"
                with connection.transaction():
                    connection.execute(change.encode())
        if rng.random() < 0.3:  # an account gets another number, or is opened anew
            table = rng.choice(["checking", "savings"])
            where = f"id = (SELECT id FROM {table} ORDER BY random() LIMIT 1)"
            new = ACCOUNTS + 1 + number
            if rng.random() < 0.5:
                connection.execute(f"UPDATE {table} SET id = {new} WHERE {where}".encode())
            else:
                connection.execute(
                    f"WITH gone AS (DELETE FROM {table} WHERE {where} RETURNING bank, balance) "
                    f"INSERT INTO {table} SELECT {new}, bank, balance FROM gone".encode()
                )


@contextmanager
def transfers(database: Database, rng: random.Random) -> Iterator[None]:
    """Transfers without an end, in a thread, while it is open."""
    stop = threading.Event()

    def work() -> None:
        with psycopg.connect(database.url, autocommit=True) as connection:
            number = 0
            while not stop.wait(0.03):
                number += 1
                transfer(connection, rng, number)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.join()


def shown(folder: Path) -> list[object]:
    """All that the sink of the total was ever given."""
    return [
        json.loads(line)
        for file in sorted((folder / "totals").glob("*"))
        if file.is_file() and not file.name.startswith((".", "_"))
        for line in file.read_text().splitlines()
    ]


def test_a_bank_whose_total_never_changes(tmp_path: Path, database: Database) -> None:
    rng = random.Random(27)
    tables(database)
    slot = f"bank_{database.name}"
    (tmp_path / "pipeline.sql").write_text(SQL.format(url=database.url, slot=slot))
    order = Order(str(tmp_path), rows_per_epoch=60, parallelism=2)
    with Killer.running(tmp_path) as killer:
        with transfers(database, random.Random(28)):
            for number in range(KILLS):
                if number % 3 == 2:
                    killer.kill(replace(order, step=rng.randrange(2_000, 20_000)))
                else:
                    point = POINTS[number % len(POINTS)]
                    killer.kill(replace(order, point=point, occurrence=rng.choice([1, 2, 5])))
        killer.finish(replace(order, rows_per_epoch=5000, environment={"ENDS": "1"}))
    assert shown(tmp_path) == [{"data": {"bank": 7, "total": 2 * ACCOUNTS * MONEY}, "op": "+I"}]
    with duckdb.connect(str(tmp_path / "held.duckdb"), read_only=True) as connection:
        held = connection.execute("SELECT id, balance FROM held").fetchall()
    assert sorted(held) == sorted(database.rows("SELECT id, balance FROM checking"))
    assert not list((tmp_path / "state" / "copies").rglob("*.arrow")), "the copy goes once it was read"
    ((kept,),) = database.rows(
        f"SELECT pg_current_wal_lsn() - confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = '{slot}'"
    )
    assert kept < 1 << 20
    database.rows(SLOTS)
