"""A table that is declared as a query with a mistake in its options: both are told, the options' and the query's."""

from __future__ import annotations

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import DiagnosticError

_SOURCE = "CREATE TABLE t (k INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"


@pytest.mark.parametrize(
    ("declared", "query", "codes"),
    [
        ("'connector' = 'nope'", "SELECT k FROM t", ["OPT001"]),
        ("'connector' = 'duckdb', 'path' = 'o.duckdb', 'table' = 'o'", "SELECT k FROM t", ["OPT002"]),
        ("'connector' = 'nope'", "SELECT nope FROM t", ["OPT001", "SQL010"]),
        ("'connector' = 'print', 'nope' = '1'", "SELECT k FROM zz", ["OPT002", "SQL013"]),
    ],
)
def test_create_table_as(declared: str, query: str, codes: list[str]) -> None:
    with pytest.raises(DiagnosticError) as raised:
        plan_file(f"{_SOURCE}CREATE TABLE o WITH ({declared}) AS {query};\n", file="q.sql")
    assert [d.code for d in raised.value.diagnostics] == codes
