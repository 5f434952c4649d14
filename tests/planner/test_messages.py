"""What messages call things."""

from __future__ import annotations

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span, render

TABLE = """CREATE TABLE t (k INT, s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'json');
"""


def refused(query: str) -> Diagnostic:
    """The one mistake of a query over `t`."""
    with pytest.raises(DiagnosticError) as raised:
        plan_file(f"{TABLE}{query};", file="p.sql")
    [diagnostic] = raised.value.diagnostics
    return diagnostic


def test_columns_are_called_as_the_user_calls_them() -> None:
    text = """CREATE TABLE t (`user` STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'json');
        SELECT `user` FROM t;
        SELECT ts FROM t WHERE `user` > 5;"""
    with pytest.raises(DiagnosticError) as raised:
        plan_file(text, file="p.sql")
    [diagnostic] = raised.value.diagnostics
    assert diagnostic.help is not None
    assert "CAST(`user` AS INTEGER)" in diagnostic.help


@pytest.mark.parametrize(
    ("query", "column", "help_"),
    [
        ('SELECT k FROM t WHERE s = "bob"', 27, "a string stands in single quotes: 'bob'"),
        ("SELECT k FROM t WHERE s = ‘bob’", 27, "strings stand in straight quotes: 'bob'"),
        ("SELECT SUM(k) OVER (ORDER BY k) AS z FROM t WHERE z > 3", 51, "`z` is a name of the SELECT list"),
        ("SELECT ts - 5 AS x FROM t", 8, "INTERVAL '5' SECOND"),
        ("SELECT ts - ts + 5 AS x FROM t", 8, "INTERVAL '5' SECOND"),
        ("SELECT k FROM t WHERE k > 'abc'", 27, "write a number"),
        ("SELECT k FROM t WHERE k IN (1, 'x')", 32, "write a number"),
        ("SELECT k FROM t WHERE ts BETWEEN 'soon' AND '2024-01-01'", 34, "TIMESTAMP '2024-01-31 12:30:00'"),
        ("SELECT k FROM t WHERE ts < '2024-13-01'", 28, "TIMESTAMP '2024-01-31 12:30:00'"),
        ("SELECT k FROM t WHERE (k > 1) = 'maybe'", 33, "write TRUE or FALSE"),
        ("SELECT DATE 'soon' AS d FROM t", 8, "DATE '2024-01-31'"),
        ("SELECT TIMESTAMP '2023-02-29 00:00:00' AS d FROM t", 8, "TIMESTAMP '2024-01-31 12:30:00'"),
        ("SELECT CAST('abc' AS INT) AS i FROM t", 8, "write a number"),
        ("SELECT DATEFORMAT(ts, 'yyyy') AS y FROM t", 8, "did you mean `date_format`?"),
        ("SELECT k, SUMM(s) AS n FROM t GROUP BY k", 11, "did you mean `sum`?"),
        (
            "SELECT TUMBLE_START(ts, INTERVAL '2' MINUTE) AS s FROM t GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)",
            8,
            "write TUMBLE_START(ts, INTERVAL '1' MINUTE)",
        ),
        (
            "SELECT TUMBLE_START(ts, INTERVAL '1' MINUTE) AS s FROM t GROUP BY k",
            8,
            "add TUMBLE(ts, INTERVAL '1' MINUTE) to GROUP BY",
        ),
        (
            "SELECT * FROM TABLE(TUMBEL(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))",
            21,
            "did you mean TUMBLE?",
        ),
    ],
)
def test_frequent_mistakes_are_understood(query: str, column: int, help_: str) -> None:
    diagnostic = refused(query)
    assert diagnostic.help is not None
    assert help_ in diagnostic.help
    assert diagnostic.span is not None
    assert (diagnostic.span.line, diagnostic.span.column) == (3, column)


def test_a_name_in_backticks_is_not_taken_for_a_string() -> None:
    assert "single quotes" not in (refused("SELECT k FROM t WHERE s = `bob`").help or "")


def test_a_misspelt_unit_is_named() -> None:
    assert "did you mean MINUTE?" in refused("SELECT ts + INTERVAL '1' MINUTEZ AS x FROM t").message


def test_gaps_between_windows_are_warned_of() -> None:
    hop = "TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '{}' MINUTE, INTERVAL '2' MINUTE))"
    query = f"{TABLE}SELECT COUNT(*) FROM {hop} GROUP BY window_start, window_end;"
    [warning] = plan_file(query.format(3), file="p.sql").warnings
    assert (warning.code, warning.severity) == ("SQL104", "warning")
    assert "a window of 2 minutes every 3 minutes" in warning.message
    assert plan_file(query.format(2), file="p.sql").warnings == ()


@pytest.mark.parametrize(
    ("condition", "help_"),
    [("k = NULL", "IS NULL"), ("NULL <> s", "IS NOT NULL"), ("k > 1 OR (s < NULL)", "IS NULL")],
)
def test_comparisons_with_null_are_warned_of(condition: str, help_: str) -> None:
    for query in (
        f"SELECT k FROM t WHERE {condition}",
        f"SELECT {condition} AS c, COUNT(*) FROM t GROUP BY {condition}",
    ):
        warnings = plan_file(f"{TABLE}{query};", file="p.sql").warnings
        assert {(w.code, w.severity) for w in warnings} == {("SQL105", "warning")}
        assert all(help_ in (w.help or "") for w in warnings)
    assert (
        plan_file(
            f"{TABLE}SELECT k FROM t WHERE k IS NULL OR s IS DISTINCT FROM NULL;", file="p.sql"
        ).warnings
        == ()
    )


@pytest.mark.parametrize(
    "condition",
    [
        "k = '1'",
        "k > ' 2 '",
        "ts > '2024-01-01'",
        "k / 2 < 'inf'",
        "ts > 'epoch'",
        "ts > '0000-02-29'",
        "ts < '12024-01-01'",
        "(k > 1) = 'yes'",
        "s = 'abc'",
    ],
)
def test_strings_that_can_be_read_as_the_other_side_may_be_compared(condition: str) -> None:
    assert plan_file(f"{TABLE}SELECT k FROM t WHERE {condition};", file="p.sql").warnings == ()


def test_the_forms_of_a_function_are_shown_when_its_arguments_are_too_few() -> None:
    diagnostic = refused("SELECT SPLIT_INDEX(s) AS x FROM t")
    assert diagnostic.code == "TYP002"
    assert diagnostic.message == "`split_index` does not take 1 argument"
    assert diagnostic.notes == ("SPLIT_INDEX(string, delimiter, index)",)


def test_a_time_column_that_is_a_keyword_is_not_quoted() -> None:
    text = """CREATE TABLE t (at BIGINT, ts AS TO_TIMESTAMP_LTZ(at, 3), WATERMARK FOR ts AS ts)
        WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'json');
        SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' MINUTE))
        GROUP BY window_start, window_end;"""
    with pytest.raises(DiagnosticError) as raised:
        plan_file(text, file="p.sql")
    [diagnostic] = raised.value.diagnostics
    assert diagnostic.message == "`at` is not an event-time column of `t`"


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("SELECT kk, tss FROM t WHERE zz > 1", ["8 kk", "12 tss", "29 zz"]),
        ("SELECT kk, COUNT(*) AS n FROM t GROUP BY kk HAVING n > 1 AND nn > 1", ["8 kk", "62 nn"]),
        (
            "SELECT q.a, q.k AS b FROM (SELECT k FROM t) AS q WHERE b > 1 ORDER BY q.c LIMIT 1",
            ["8 q.a", "71 q.c"],
        ),
        ("SELECT k AS n FROM t WHERE s > 1 AND x = 2", ["38 x"]),
        (
            "SELECT a, window_end FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(k), INTERVAL '1' DAY)) WHERE b > window_time",
            ["8 a", "49 an event-time column", "89 b"],
        ),
    ],
)
def test_all_wrong_names_of_a_select_are_told(query: str, wrong: list[str]) -> None:
    with pytest.raises(DiagnosticError) as raised:
        plan_file(f"{TABLE}{query};", file="p.sql")
    found = [(d.span.column if d.span else 0, d.message) for d in raised.value.diagnostics]
    assert len(found) == len(wrong), found
    for (column, message), expected in zip(found, wrong, strict=True):
        place, _, name = expected.partition(" ")
        assert (column, name in message) == (int(place), True), (column, message)


def test_a_subquery_in_an_expression_is_checked() -> None:
    reported = refused("SELECT k, (SELECT MAX(other) FROM t) AS m FROM t").message
    assert reported == "unknown column `other`"


@pytest.mark.parametrize("place", [1, 2, 80, 81, 82, 500, 99_990, 99_996])
@pytest.mark.parametrize("length", [1, 5, 159, 160, 161, 50_000])
def test_of_a_long_line_what_is_around_the_place_is_shown(place: int, length: int) -> None:
    line = "".join(f"{i:05d}" for i in range(20_000))
    found = Diagnostic("SQL010", "unknown", Span("f.sql", 2, place, length))
    _, _, _, shown, caret = render(found, f"first\n{line}\nlast").split("\n")
    assert len(shown) <= 170
    assert len(caret) <= len(shown)
    at = caret.index("^")
    marked = shown[at:][: caret.count("^")]
    assert line[place - 1 :].startswith(marked)
    assert len(marked) == min(length, 160, 100_000 - place + 1)
    text = shown.removeprefix("2 | ")
    assert text.startswith("…") == (not line.startswith(text.strip("…")))
    assert text.endswith("…") == (not line.endswith(text.strip("…")))
    assert text.strip("…") in line


def test_a_place_behind_a_line_and_a_short_line() -> None:
    assert render(Diagnostic("SQL002", "ends", Span("f", 1, 9)), "SELECT 1").endswith(
        "1 | SELECT 1\n  |         ^"
    )
    assert "…" not in render(Diagnostic("SQL002", "x", Span("f", 1, 3)), "x" * 160)


def test_a_mistake_in_a_long_query_is_told_in_short() -> None:
    many = " + ".join(["k"] * 700)
    for query in (
        f"SELECT {many} + typo FROM t",
        f"SELECT {many}, a FROM (SELECT {many} FROM t)",
        f"SELECT UPPER({many}) FROM t",
    ):
        text = f"{TABLE}{query};"
        with pytest.raises(DiagnosticError) as raised:
            plan_file(text, file="p.sql")
        for diagnostic in raised.value.diagnostics:
            assert len(render(diagnostic, text)) < 5_000


def test_a_long_message_is_cut_in_its_middle() -> None:
    shown = render(Diagnostic("X", "a" * 5000 + "b" * 5000, None, ("n" * 9000,), "h" * 9000), None)
    assert max(len(line) for line in shown.split("\n")) < 2_100
    assert "aaa … bbb" in shown
