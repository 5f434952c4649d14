"""Restart over tables: a driver that is killed at any step leaves DuckDB and PostgreSQL right."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.connectors.postgres_server import Database, Server, database, postgres_server
from tests.e2e.killing import Killer, Order, steps_within
from tests.runtime.support import manifests

__all__ = ["Database", "Server", "database", "postgres_server"]

KILLS = 5
SQL = """
CREATE TABLE t (k INT, s STRING, v INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');

CREATE TABLE per_key (k INT, n BIGINT, total BIGINT, kinds BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'duckdb', 'path' = 'out/results.duckdb');
CREATE TABLE passed (k INT, v INT) WITH ('connector' = 'duckdb', 'path' = 'out/results.duckdb');
CREATE TABLE by_kinds (kinds BIGINT, keys BIGINT, most BIGINT, PRIMARY KEY (kinds) NOT ENFORCED)
WITH ('connector' = 'postgres', 'url' = '{url}');
CREATE TABLE top_keys (k INT, total BIGINT) WITH ('connector' = 'postgres', 'url' = '{url}');

CREATE VIEW sums AS SELECT k, COUNT(*) AS n, SUM(v) AS total, COUNT(DISTINCT s) AS kinds FROM t
WHERE k IS NOT NULL GROUP BY k; -- NULL is no key of a table

EXECUTE STATEMENT SET BEGIN
INSERT INTO per_key SELECT k, n, CAST(total AS BIGINT), kinds FROM sums;
INSERT INTO passed SELECT k, v FROM t WHERE v % 3 = 0;
INSERT INTO by_kinds SELECT kinds, COUNT(*), CAST(MAX(total) AS BIGINT) FROM sums GROUP BY kinds;
INSERT INTO top_keys SELECT k, CAST(total AS BIGINT) FROM (
  SELECT k, total, ROW_NUMBER() OVER (ORDER BY total DESC, k) AS place FROM sums
) WHERE place <= 5;
END;
"""
#: What the tables must hold in the end, written independently of the pipeline.
EXPECTED = {
    "per_key": "SELECT k, count(*), sum(v)::BIGINT, count(DISTINCT s) FROM t WHERE k > -1 GROUP BY k",
    "passed": "SELECT k, v FROM t WHERE v IN (0, 3, 6, 9, 12, 15, 18)",
    "by_kinds": "WITH q AS (SELECT k, sum(v)::BIGINT AS total, count(DISTINCT s) AS kinds FROM t WHERE k > -1 "
    "GROUP BY k) "
    "SELECT kinds, count(*), max(total) FROM q GROUP BY kinds",
    "top_keys": "SELECT k, sum(v)::BIGINT AS total FROM t WHERE k > -1 GROUP BY k ORDER BY total DESC, k LIMIT 5",
}


def _input(folder: Path, rng: random.Random) -> None:
    (folder / "in").mkdir(parents=True)
    for number in range(3):
        rows: list[dict[str, Any]] = [
            {
                "k": rng.choice([None, *range(40)]),
                "s": rng.choice([*[None] * 40, *"abcd"]),
                "v": rng.randrange(20),
            }
            for _ in range(700)
        ]
        (folder / "in" / f"{number}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _expected(folder: Path, query: str) -> Counter[Any]:
    with duckdb.connect() as connection:
        columns = "{k: 'INTEGER', s: 'VARCHAR', v: 'INTEGER'}"
        connection.execute(f"CREATE VIEW t AS FROM read_json('{folder}/in/*.json', columns={columns})")
        return Counter(connection.execute(query).fetchall())


def _tables(folder: Path, database: Database) -> dict[str, Counter[Any]]:
    with duckdb.connect(str(folder / "out" / "results.duckdb"), read_only=True) as connection:
        found = {
            name: Counter(connection.execute(f"FROM {name}").fetchall()) for name in ("per_key", "passed")
        }
    return found | {
        name: Counter(database.rows(f"SELECT * FROM {name}")) for name in ("by_kinds", "top_keys")
    }


def _recorded(folder: Path, database: Database) -> set[tuple[Any, ...]]:
    query = "SELECT table_name, epoch FROM sqlstream_epochs"
    with duckdb.connect(str(folder / "out" / "results.duckdb"), read_only=True) as connection:
        return {*connection.execute(query).fetchall(), *database.rows(query)}


@pytest.mark.kill
def test_tables_are_right_after_kills_at_any_step(tmp_path: Path, database: Database) -> None:
    rng = random.Random(20241121)
    _input(tmp_path, rng)
    (tmp_path / "pipeline.sql").write_text(SQL.format(url=database.url))
    order = Order(str(tmp_path), rows_per_epoch=150, parallelism=2)
    with Killer.running(tmp_path) as killer:
        first = killer.run(replace(order, point="collected", occurrence=2, counted=True))
        assert first.killed, first.errors
        for point in ("prepared", "published", "committed"):
            killer.kill(replace(order, point=point))
        for step in steps_within(rng, first.steps, KILLS):
            killer.kill(replace(order, step=step))
        killer.finish(replace(order, rows_per_epoch=700))
    expected = {name: _expected(tmp_path, query) for name, query in EXPECTED.items()}
    assert _tables(tmp_path, database) == expected
    last = max(manifests(tmp_path / "state"))
    assert last > 1
    assert _recorded(tmp_path, database) == {(name, last) for name in EXPECTED}
