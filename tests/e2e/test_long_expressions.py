"""Chains and nests of thousands: planned, explained, run and judged as short ones are, with DuckDB's rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from sqlstream.golden.results import expected_rows
from sqlstream.planning import plan_file
from sqlstream_operators.large_stack import on_large_stack
from sqlstream_planner.explain.plan import explain_json, explain_text
from tests.properties.in_process import run_here

TABLE = """CREATE TABLE t (k STRING, a BIGINT, d DECIMAL(10, 2), f DOUBLE)
WITH ('connector' = 'filesystem', 'path' = 'input.csv', 'format' = 'csv');
"""
ROWS = [("v1", 1, "1.25", "0.1"), ("v7", -20, "2.50", "1e16"), ("x", 3, "0.01", "-3.7"), ("", 499, "", "0.3")]
_CLOSE = ", 'x')"
SINK = "CREATE TABLE o WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'parquet') AS "


def nested_case(levels: int) -> str:
    return "".join(f"CASE WHEN a = {i} THEN {i * 2} ELSE " for i in range(levels)) + "a" + " END" * levels


def nested_queries(levels: int) -> str:
    query = "SELECT k, a FROM t"
    for _ in range(levels):
        query = f"SELECT k, a + 1 AS a FROM ({query})"
    return query


#: name -> the query with so many terms or levels, and how many.
QUERIES: dict[str, tuple[Callable[[int], str], int]] = {
    "OR": (lambda n: "SELECT * FROM t WHERE " + " OR ".join(f"k = 'v{i}'" for i in range(n)), 1500),
    "AND": (lambda n: "SELECT * FROM t WHERE " + " AND ".join(f"a <> {i}" for i in range(n)), 800),
    "OR and AND": (
        lambda n: (
            "SELECT * FROM t WHERE "
            + " ".join(f"a = {i} {('OR', 'AND')[i % 2]}" for i in range(n))
            + " a = 3"
        ),
        1000,
    ),
    "an item of ORs": (
        lambda n: "SELECT k, " + " OR ".join(f"a = {i}" for i in range(n)) + " AS a FROM t",
        800,
    ),
    "+ of BIGINT": (lambda n: f"SELECT k, {' + '.join(['a'] * n)} AS a FROM t", 800),
    "+ of DOUBLE": (lambda n: f"SELECT k, {' + '.join(['f', '0.1', '-1e16'] * (n // 3))} AS a FROM t", 800),
    "+ of DECIMAL": (lambda n: f"SELECT k, {' + '.join(['d'] * n)} AS a FROM t", 600),
    "- and +": (lambda n: f"SELECT k, {' - a + '.join(['a'] * (n // 2))} AS a FROM t", 800),
    "||": (lambda n: "SELECT k, " + " || ".join(["k", "'x'"] * (n // 2)) + " AS a FROM t", 800),
    "UNION ALL": (
        lambda n: " UNION ALL ".join(f"SELECT k, a + {i} AS a FROM t WHERE a > {i}" for i in range(n)),
        375,
    ),
    "CASE branches": (
        lambda n: (
            "SELECT k, CASE "
            + " ".join(f"WHEN a = {i} THEN {2 * i}" for i in range(n))
            + " ELSE -1 END FROM t"
        ),
        800,
    ),
    "IN": (lambda n: f"SELECT * FROM t WHERE a IN ({', '.join(str(i) for i in range(n))})", 3000),
    "COALESCE": (
        lambda n: f"SELECT k, COALESCE({', '.join(f'NULLIF(a, {i % 5})' for i in range(n))}) FROM t",
        800,
    ),
    "calls": (lambda n: f"SELECT k, {'ABS(' * n}a{')' * n} AS a FROM t", 300),
    "translated calls": (lambda n: f"SELECT k, {'NVL(' * n}k{_CLOSE * n} AS a FROM t", 300),
    "parentheses": (lambda n: f"SELECT k, {'(' * n}a{')' * n} AS a FROM t", 600),
    "sums in parentheses": (lambda n: f"SELECT k, {'(' * n}a{' + 1)' * n} AS a FROM t", 600),
    "CASE in CASE": (lambda n: f"SELECT k, {nested_case(n)} AS a FROM t", 300),
    "NOT": (lambda n: f"SELECT * FROM t WHERE {'NOT ' * n} (k = 'v1')", 301),
    "casts": (lambda n: f"SELECT k, a{'::BIGINT' * n} AS a FROM t", 500),
    "queries in FROM": (nested_queries, 100),
    "columns": (lambda n: f"SELECT k, {', '.join(f'a + {i} AS c{i}' for i in range(n))} FROM t", 500),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "input.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in ROWS))
    return tmp_path


@on_large_stack
def by_duckdb(folder: Path, query: str) -> list[str]:
    """What DuckDB says of the query as the user wrote it."""
    duck = duckdb.connect(config={"threads": 1})
    duck.execute("SET max_expression_depth = 100000; SET disabled_optimizers = 'common_subexpressions'")
    duck.execute(
        "CREATE TABLE t AS SELECT * FROM read_csv(?, header = false, columns = "
        "{'k': 'VARCHAR', 'a': 'BIGINT', 'd': 'DECIMAL(10, 2)', 'f': 'DOUBLE'})",
        [str(folder / "input.csv")],
    )
    duck.execute("CREATE MACRO NVL(x, y) AS COALESCE(x, y)")
    return sorted(map(str, duck.execute(query).fetchall()))


def written(folder: Path) -> list[str]:
    files = [str(file) for file in (folder / "out").glob("*.parquet")]
    return (
        sorted(map(str, duckdb.execute("SELECT * FROM read_parquet(?)", [files]).fetchall())) if files else []
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", QUERIES)
def test_a_long_query_gives_what_duckdb_gives(name: str, folder: Path) -> None:
    make, length = QUERIES[name]
    query = make(length)
    (folder / "p.sql").write_text(f"{TABLE}{SINK}{query};")
    planned = plan_file(folder / "p.sql")
    run_here(planned, folder)
    wanted = by_duckdb(folder, query)
    assert written(folder) == wanted
    assert len(expected_rows(planned, folder)["o"].rows) == len(wanted)
    assert explain_text(planned)
    assert explain_json(planned)
