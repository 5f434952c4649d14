"""A window over a column that was an event time says what on the way here lost it, and its help can be followed."""

from __future__ import annotations

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

TABLES = """
CREATE TABLE t (k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE u (k INT, v INT, ts TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
"""
WINDOW = """
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE d, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end;
"""


def _window_over(query: str) -> Diagnostic | None:
    try:
        plan_file(f"{TABLES}CREATE TEMPORARY VIEW d AS {query};{WINDOW}", file="q.sql")
    except DiagnosticError as error:
        [found] = error.diagnostics
        return found
    return None


@pytest.mark.parametrize(
    ("query", "behind", "help_"),
    [
        (
            "SELECT DISTINCT k, ts FROM t",
            "DISTINCT",
            "QUALIFY ROW_NUMBER() OVER (PARTITION BY k, ts ORDER BY PROCTIME())",
        ),
        ("SELECT k, ts FROM (SELECT DISTINCT k, ts FROM t) WHERE k > 1", "DISTINCT", "ROW_NUMBER()"),
        ("SELECT k, ts FROM t UNION SELECT k, ts FROM t", "UNION", "UNION ALL"),
        ("SELECT k, ts FROM t INTERSECT SELECT k, ts FROM t", "INTERSECT", "window below"),
        ("SELECT k, MAX(ts) AS ts FROM t GROUP BY k", "GROUP BY", "window_time"),
        ("SELECT k, ts, COUNT(*) AS n FROM t GROUP BY k, ts", "GROUP BY", "window_time"),
        ("SELECT k, ts + INTERVAL '1' HOUR AS ts FROM t", "an expression", "WATERMARK FOR event_time"),
        ("SELECT k, ts FROM t UNION ALL SELECT k, ts FROM u", "UNION ALL", "CREATE TABLE of that one"),
    ],
)
def test_a_window_says_where_the_event_time_was_lost(query: str, behind: str, help_: str) -> None:
    found = _window_over(query)
    assert found is not None
    assert (found.code, found.message.startswith(f"behind {behind} `ts` has no watermark")) == (
        "SQL022",
        True,
    )
    assert help_ in str(found.help)
    assert "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND` to the CREATE TABLE of the source" not in str(
        found.help
    )


def test_what_it_says_to_write_instead_of_distinct_can_be_run() -> None:
    found = _window_over("SELECT DISTINCT k, ts FROM t")
    assert found is not None
    written = str(found.help).partition(": ")[2].replace("…", "t")
    assert written.startswith("SELECT k, ts FROM t QUALIFY")
    assert _window_over(written) is None


def test_without_a_watermark_anywhere_one_is_to_be_declared() -> None:
    found = _window_over("SELECT k, ts FROM u")
    assert found is not None
    assert "to the CREATE TABLE of the source" in str(found.help)


@pytest.mark.parametrize(
    ("statement", "help_"),
    [
        ("SELECT * FROM c.db.t;", "write t"),
        ("SELECT * FROM db.t;", "write t"),
        ("SELECT * FROM c.db.orders;", "declare it with CREATE TABLE orders (…) WITH (…), and write orders"),
        (
            "INSERT INTO db.orders SELECT * FROM t;",
            "declare it with CREATE TABLE orders (…) WITH (…), and write orders",
        ),
    ],
)
def test_the_help_of_a_table_in_a_catalog_can_be_followed(statement: str, help_: str) -> None:
    """CREATE TABLE c.db.t is refused: it must not be what is said to write."""
    with pytest.raises(DiagnosticError) as raised:
        plan_file(f"{TABLES}{statement}", file="q.sql")
    [found] = raised.value.diagnostics
    assert found.code == "SQL013"
    assert help_ in str(found.help)
