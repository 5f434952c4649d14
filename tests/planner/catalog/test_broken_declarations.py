"""Tables with a mistake in their options: what is wrong with queries over them is told beside it, and nothing else."""

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


_OPTIONS = [
    "'connector' = 'filesystem', 'pth' = 'in', 'format' = 'json'",
    "'connector' = 'filesystem', 'path' = 'in'",
    "'connector' = 'filesystem', 'path' = 'in', 'format' = 'jsom'",
    "'connector' = 'filesytem'",
    "'path' = 'in'",
    "'connector' = 'filesystem', 'path' = 'in', 'format' = 'json', 'lookup.cache' = 'some'",
    "'connector' = 'kafka', 'topic' = 't'",
]
_COLUMNS = (
    "(k INT, amount DECIMAL(10, 2), ts TIMESTAMP(3), day AS CAST(ts AS DATE), p AS PROCTIME(), "
    "WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE, PRIMARY KEY (k) NOT ENFORCED)"
)
_QUERIES = [
    ("SELECT k, sum(amount) FROM s GROUP BY k", None),
    ("SELECT k, sum(amuont) FROM s GROUP BY k", "SQL010"),
    ("SELECT k, day FROM s WHERE day = DATE '2024-01-01'", None),
    (
        "SELECT window_start, count(*) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) "
        "GROUP BY window_start, window_end",
        None,
    ),
    ("SELECT l.k FROM right_one l JOIN s FOR SYSTEM_TIME AS OF l.p ON l.k = s.k", None),
    ("SELECT l.k FROM s l JOIN right_one FOR SYSTEM_TIME AS OF l.ts AS r ON l.k = r.k", None),
    ("SELECT l.k FROM s l JOIN right_one r ON l.k = r.no", "SQL010"),
]
_RIGHT = "'connector' = 'filesystem', 'path' = 'in', 'format' = 'json'"


@pytest.mark.parametrize(("query", "code"), _QUERIES)
@pytest.mark.parametrize("options", _OPTIONS)
def test_queries_over_a_table_with_wrong_options(options: str, query: str, code: str | None) -> None:
    with pytest.raises(DiagnosticError) as raised:
        plan_file(
            f"CREATE TABLE s {_COLUMNS} WITH ({options});\n"
            f"CREATE TABLE right_one {_COLUMNS} WITH ({_RIGHT});\n{query};\n",
            file="q.sql",
        )
    codes = [d.code for d in raised.value.diagnostics]
    assert codes[0].startswith("OPT")
    assert [c for c in codes if not c.startswith("OPT")] == ([] if code is None else [code])


def test_wrong_columns_say_nothing_of_queries() -> None:
    """What the columns are is not known where their declaration has a mistake."""
    with pytest.raises(DiagnosticError) as raised:
        plan_file(
            f"CREATE TABLE s (k INT, k TEXT) WITH ('pth' = 'x', {_RIGHT});\nSELECT nope FROM s;\n",
            file="q.sql",
        )
    assert [d.code for d in raised.value.diagnostics] == ["CAT003", "OPT002"]


def test_a_table_of_a_query_has_no_columns_to_check_with() -> None:
    with pytest.raises(DiagnosticError) as raised:
        plan_file(
            f"{_SOURCE}CREATE TABLE o WITH ('connector' = 'prnt') AS SELECT k FROM t;\nSELECT k FROM o;\n",
            file="q.sql",
        )
    assert [d.code for d in raised.value.diagnostics] == ["OPT001"]
