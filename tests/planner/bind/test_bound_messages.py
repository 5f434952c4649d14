"""Mistakes in joins, sub-queries, OVER and VALUES are told before it is told what can't be run; each with its place."""

from __future__ import annotations

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from tests.planner.bind.bound import DECLARED

#: A query, with the place of its message between ⟦ and ⟧, the code, and what the message says.
REFUSED = [
    ("SELECT t.k FROM t ASOF JOIN ⟦u ON t.k = u.k⟧", "SQL081", "takes exactly one comparison by order"),
    ("SELECT t.k FROM t JOIN ⟦u⟧", "SQL035", "JOIN without a condition"),
    ("SELECT t.k FROM t NATURAL JOIN ⟦q⟧", "SQL035", "NATURAL JOIN of two tables without a column"),
    ("SELECT t.k FROM t JOIN ⟦t⟧ ON TRUE", "SQL018", "two items of FROM are called `t`"),
    ("SELECT t.k FROM t JOIN u ON t.k = ⟦u.kk⟧", "SQL010", "unknown column `u.kk`"),
    ("SELECT t.k FROM t JOIN u ON ⟦t.s = u.k⟧", "TYP003", "VARCHAR can't be compared with INTEGER"),
    ("SELECT ⟦k⟧ FROM t JOIN u ON t.k = u.k", "SQL011", "column `k` is ambiguous"),
    ("SELECT t.k FROM t JOIN u USING (⟦x⟧)", "SQL010", "unknown column `x`"),
    (
        "SELECT t.k FROM t JOIN (SELECT s AS v FROM u) AS z USING (⟦v⟧)",
        "SQL031",
        "INTEGER on the left and VARCHAR",
    ),
    ("SELECT q.a FROM q, u JOIN t ON ⟦z.a⟧ = t.k", "SQL012", "neither a table nor a column `z` is in scope"),
    ("SELECT ⟦FIRST_VALUE(v)⟧ AS f FROM t JOIN u ON t.k = u.k", "SQL100", "event time of rows behind a JOIN"),
    (
        "SELECT ⟦FIRST_VALUE(v)⟧ AS f FROM t WHERE k IN (SELECT k FROM u)",
        "SQL100",
        "event time of rows behind a sub-query",
    ),
    ("SELECT ⟦(SELECT NULL FROM u WHERE u.k = t.k)⟧ AS z FROM t", "SQL056", "its value has no type"),
    ("SELECT * FROM t USING SAMPLE ⟦10 ROWS⟧", "SQL100", "a sample of a number of rows"),
    ("SELECT ⟦o.rowid⟧ FROM (SELECT DISTINCT * FROM t) AS o", "SQL010", "unknown column"),
    (
        "SELECT a FROM q WHERE a > ⟦(SELECT COUNT(*) FROM (SELECT window_end FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), "
        "INTERVAL '1' MINUTE)) WHERE v < q.b GROUP BY window_start, window_end) AS w)⟧",
        "SQL100",
        "below a window",
    ),
    ("SELECT k FROM t WHERE ⟦k⟧ IN (SELECT s FROM u)", "TYP003", "INTEGER can't be compared with VARCHAR"),
    ("SELECT k FROM t WHERE v > ⟦(SELECT w, k FROM u)⟧", "SQL036", "gives 2 columns, not 1"),
    ("SELECT k FROM t WHERE (k, v) IN (⟦SELECT w FROM u⟧)", "SQL036", "gives 1 column, not 2"),
    ("SELECT (SELECT MAX(⟦nope⟧) FROM u) AS m FROM t", "SQL010", "unknown column `nope`"),
    ("SELECT (SELECT MAX(w) FROM u WHERE u.k = ⟦t.kk⟧) AS m FROM t", "SQL010", "unknown column `t.kk`"),
    (
        "SELECT s, (SELECT MAX(w) FROM u WHERE u.k = ⟦t.k⟧) AS m, COUNT(*) AS n FROM t GROUP BY s",
        "SQL045",
        "`k` is neither in GROUP BY",
    ),
    (
        "SELECT SUM(v) OVER (ORDER BY x), ⟦SUM(v) OVER (ORDER BY x ROWS 1 PRECEDING EXCLUDE TIES)⟧ AS n FROM t",
        "SQL100",
        "ROWS with EXCLUDE TIES or EXCLUDE GROUP in SUM OVER can't be run yet",
    ),
    (
        "SELECT ⟦FILL(v) OVER (ORDER BY x, k)⟧ AS n FROM t",
        "SQL060",
        "FILL goes by the distances of one value, and ORDER BY has 2",
    ),
    (
        "SELECT ⟦FILL(v) OVER ()⟧ AS n FROM t",
        "SQL060",
        "FILL goes by the distances of one value, and ORDER BY has none",
    ),
    (
        "SELECT ⟦FILL(v) FILTER (WHERE k > 1) OVER (ORDER BY x)⟧ AS n FROM t",
        "SQL100",
        "FILL OVER with FILTER can't be run yet",
    ),
    (
        "SELECT ⟦LAG(v) OVER (PARTITION BY t.k)⟧ AS n FROM t JOIN u ON t.k = u.k",
        "SQL060",
        "LAG without ORDER BY",
    ),
    ("SELECT SUM(v) OVER (ORDER BY ⟦nope⟧) AS n FROM t", "SQL010", "unknown column `nope`"),
    ("SELECT SUM(v) OVER ⟦w⟧ AS n FROM t", "SQL038", "no window is called `w`"),
    (
        "SELECT SUM(v) OVER (PARTITION BY k RANGE BETWEEN ⟦1 PRECEDING AND CURRENT ROW⟧) AS n FROM t",
        "SQL060",
        "RANGE with a distance goes by one value",
    ),
    (
        "SELECT SUM(v) OVER (⟦w⟧ ORDER BY v) AS n FROM t WINDOW w AS (ORDER BY x)",
        "SQL038",
        "can't say ORDER BY anew",
    ),
    (
        "SELECT SUM(v) OVER (⟦w⟧ PARTITION BY k) AS n FROM t WINDOW w AS (PARTITION BY s)",
        "SQL038",
        "can't say PARTITION BY anew",
    ),
    (
        "SELECT SUM(v) OVER (ORDER BY x ROWS BETWEEN CURRENT ROW AND ⟦1 PRECEDING⟧) AS n FROM t",
        "SQL060",
        "ends before",
    ),
    ("SELECT SUM(v) OVER (ORDER BY x ROWS ⟦'a'⟧ PRECEDING) AS n FROM t", "SQL060", "not VARCHAR"),
    ("SELECT SUM(v) OVER (ORDER BY x ROWS ⟦-1⟧ PRECEDING) AS n FROM t", "SQL060", "is not negative"),
    ("SELECT SUM(v) OVER (ORDER BY s RANGE ⟦1⟧ PRECEDING) AS n FROM t", "TYP002", "no `-` takes (VARCHAR"),
    (
        "SELECT SUM(v) OVER w AS n FROM t WINDOW w AS (ORDER BY x), ⟦w⟧ AS ()",
        "SQL038",
        "two windows are called `w`",
    ),
    (
        "SELECT DENSE_RANK(ORDER BY ⟦v⟧) OVER (ORDER BY x) AS n FROM t",
        "SQL100",
        "ORDER BY inside DENSE_RANK OVER",
    ),
    (
        "SELECT LIST(DISTINCT v ORDER BY ⟦x⟧) OVER (ORDER BY x) AS n FROM t",
        "SQL100",
        "in the order of another value",
    ),
    ("SELECT * FROM ⟦read_csv('a.csv')⟧", "SQL100", "the table function READ_CSV can't be run yet"),
    ("SELECT * FROM ⟦t WITH ORDINALITY⟧", "SQL100", "WITH ORDINALITY behind a table"),
    ("SELECT x FROM (VALUES (⟦1⟧), ('a')) AS r (x)", "SQL031", "is INTEGER and VARCHAR"),
]


@pytest.mark.parametrize(("marked", "code", "expected"), REFUSED)
def test_what_is_told_and_where(marked: str, code: str, expected: str) -> None:
    query = marked.replace("⟦", "").replace("⟧", "")
    start = "CREATE TABLE out WITH ('connector' = 'blackhole') AS "
    with pytest.raises(DiagnosticError) as caught:
        plan_file(f"{DECLARED}{start}{query};")
    found: Diagnostic = caught.value.diagnostics[0]
    assert (found.code, expected in found.message) == (code, True), found
    assert found.span is not None
    column = found.span.column - len(start) - 1
    assert query[column : column + found.span.length] == marked.split("⟦")[1].split("⟧")[0]
