"""Bound queries, and what DuckDB gives for the SQL that the referee makes of them."""

from __future__ import annotations

import duckdb

from sqlstream.connectors.registry import REGISTERED
from sqlstream_planner.batch.queries import query_of
from sqlstream_planner.bind.script import bind_script
from sqlstream_planner.catalog.script import read_catalog
from sqlstream_planner.logical import Sink
from sqlstream_planner.rules import SETTLE, optimize
from sqlstream_planner.sql.parse import parse_file

_WITH = "WITH ('connector' = 'filesystem', 'path' = '{0}', 'format' = 'json')"
DECLARED = f"""
CREATE TABLE t (k INT, v INT, s STRING, x DOUBLE, l ARRAY<INT>, r ROW<f INT>, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  {_WITH.format("t")};
CREATE TABLE u (k INT, w BIGINT, s STRING) {_WITH.format("u")};
CREATE TABLE q (a INT, b INT) {_WITH.format("q")};
"""
TABLES = """
CREATE TABLE t (k INT, v INT, s VARCHAR, x DOUBLE, l INT[], r STRUCT(f INT), ts TIMESTAMP);
CREATE TABLE u (k INT, w BIGINT, s VARCHAR);
CREATE TABLE q (a INT, b INT);
"""
ROWS = """
INSERT INTO t SELECT nullif(i % 5, 4), nullif((i * 7) % 6, 3), chr(97 + (i % 3)::INT), i / 4, range(i % 3)::INT[],
  {'f': i % 2}, TIMESTAMP '2026-01-01' + INTERVAL (i) SECOND FROM range(14) AS r(i);
INSERT INTO u SELECT nullif(i % 6, 5), (i * 5) % 7, chr(97 + (i % 4)::INT) FROM range(9) AS r(i);
INSERT INTO q SELECT nullif(i % 4, 2), nullif((i * 3) % 5, 1) FROM range(7) AS r(i);
"""


def bound(query: str) -> Sink:
    """The algebra of a query, ties settled. Raises DiagnosticError."""
    script = parse_file(f"{DECLARED}CREATE TABLE out WITH ('connector' = 'blackhole') AS {query};")
    [root] = optimize(bind_script(script, read_catalog(script, REGISTERED.descriptors)).roots, SETTLE)
    return root


def given(con: duckdb.DuckDBPyConnection, text: str) -> list[str]:
    """The rows of a SELECT, sorted."""
    return sorted(repr(row) for row in con.execute(text).fetchall())


def referee(query: str) -> str:
    """The referee's SQL of a query."""
    return query_of(bound(query))
