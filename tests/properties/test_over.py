"""The prefix invariant for OVER: after every epoch what was emitted folds to DuckDB's answer over what was read so far."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.duckdb_batch import empty_duckdb
from tests.examples import examples
from tests.properties import test_joins as joins
from tests.properties import test_rescaled_runs as rescaled
from tests.properties.query_generator import rows
from tests.properties.referee import assert_same
from tests.properties.test_updating_queries import ROWS
from tests.properties.updating import batch, check, fetched, plan

W = "WINDOW w AS (PARTITION BY k ORDER BY v)"
QUERIES = {
    "over everything": "SELECT k, COUNT(*) OVER () AS n, SUM(v) OVER (PARTITION BY k) AS m FROM t",
    "running": "SELECT k, v, SUM(v) OVER w AS a, COUNT(*) OVER w AS b, MIN(s) OVER w AS c, AVG(v) OVER w AS d FROM t " + W,
    "numbers": "SELECT k, v, ROW_NUMBER() OVER w AS a, RANK() OVER w AS b, DENSE_RANK() OVER w AS c, NTILE(3) OVER w AS d, "
    "PERCENT_RANK() OVER w AS e, CUME_DIST() OVER w AS f FROM t " + W,
    "before and behind": "SELECT k, v, LAG(v) OVER w AS a, LEAD(s) OVER w AS b, LAG(v, 2, 7) OVER w AS c, LEAD(v, "
    "0) OVER w AS d, "
    "LAG(v IGNORE NULLS) OVER w AS e FROM t WINDOW w AS (PARTITION BY k ORDER BY ts)",
    "first and last": "SELECT k, FIRST_VALUE(s) OVER w AS a, LAST_VALUE(s) OVER w AS b, NTH_VALUE(s, 2) OVER w AS c, "
    "FIRST_VALUE(v IGNORE NULLS) OVER w AS d FROM t " + W,
    "rows": "SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY ts ROWS 2 PRECEDING) AS a, "
    "MAX(v) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) AS b, "
    "LAST_VALUE(s) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING) AS c FROM t",
    "rows of all": "SELECT k, v, AVG(v) OVER (ORDER BY v NULLS FIRST ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS a FROM t",
    "rows to the end": "SELECT v, SUM(v) OVER (ORDER BY v DESC ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS a, "
    "COUNT(*) OVER (ORDER BY v DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS b FROM t",
    "ranges of time": "SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND "
    "CURRENT ROW) AS a FROM t",
    "ranges of numbers": "SELECT v, COUNT(*) OVER (ORDER BY v RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE TIES) AS a, "
    "SUM(v) OVER (ORDER BY v DESC RANGE 2 PRECEDING) AS b FROM t",
    "groups": "SELECT k, v, COUNT(*) OVER (PARTITION BY k ORDER BY v GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING "
    "EXCLUDE GROUP) "
    "AS a, ARRAY_AGG(v) OVER (PARTITION BY k ORDER BY v GROUPS 1 PRECEDING) AS b FROM t",
    "lists": "SELECT k, ARRAY_AGG(v) OVER (PARTITION BY k ORDER BY ts) AS a, LISTAGG(s) OVER (PARTITION BY k ORDER BY v "
    "ROWS 2 PRECEDING) AS b, ARRAY_AGG(DISTINCT v) OVER (PARTITION BY k ORDER BY ts) AS c FROM t",
    "many aggregates": "SELECT MEDIAN(v) OVER w AS a, MODE(s) OVER w AS b, MAX_BY(s, v) OVER w AS c, BOOL_OR(v > 2) "
    "OVER w AS d, "
    "COUNT(DISTINCT v) OVER w AS e, SUM(v) FILTER (WHERE s > 'a') OVER w AS f, ANY_VALUE(s) OVER w AS g FROM t " + W,
    "in orders of their own": "SELECT k, v, LIST(s ORDER BY v DESC, s) OVER w AS a, RANK(ORDER BY s) OVER w AS b, "
    "ROW_NUMBER(ORDER BY v DESC, ts) OVER (w ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS c, "
    "STRING_AGG(s, '-' ORDER BY v, s) FILTER (WHERE v > 0) OVER w AS d, "
    "LAG(v, 1, -1 ORDER BY v DESC, ts) OVER (w RANGE UNBOUNDED PRECEDING) AS e, "
    "NTH_VALUE(s, 2 ORDER BY v, ts IGNORE NULLS) OVER (w GROUPS 1 PRECEDING) AS f, SUM(v ORDER BY s) OVER w AS g, "
    "LIST(DISTINCT v ORDER BY v DESC) OVER w AS h, FIRST(v ORDER BY s, v) OVER (PARTITION BY s ROWS 1 PRECEDING) AS i, "
    "NTILE(2 ORDER BY v, ts) OVER w AS j FROM t WINDOW w AS (PARTITION BY k ORDER BY ts)",
    "a rank of a frame is no rank": "SELECT k, v FROM t QUALIFY "
    "ROW_NUMBER(ORDER BY v, s) OVER (PARTITION BY k ORDER BY ts) <= 1",
    "frames that differ from row to row": "SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY ts ROWS BETWEEN coalesce(v, 0) "
    "PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) AS a, COUNT(*) OVER (ORDER BY ts RANGE BETWEEN to_seconds(k) "
    "PRECEDING AND CURRENT ROW) AS b FROM t WHERE k IS NOT NULL",
    "in lower case": "SELECT v, sum(v) over (rows between current row and unbounded following) AS a, "
    "count(*) over (order by v range between 1 preceding and current row) AS b FROM (SELECT v FROM t)",
    "several windows": "SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY v) AS a, ROW_NUMBER() OVER (PARTITION BY s "
    "ORDER BY v) AS b, "
    "LAG(v) OVER (PARTITION BY k ORDER BY v) AS c, COUNT(*) OVER (ORDER BY k) AS d FROM t",
    "by expressions": "SELECT k % 2 AS p, SUM(v) OVER (PARTITION BY k % 2 ORDER BY v + k) AS a FROM t",
    "a condition that bounds nothing": "SELECT k, v FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) % 2 = 0",
    "a rank beside a sum": "SELECT k, v, a FROM (SELECT k, v, ROW_NUMBER() OVER w AS rn, SUM(v) OVER w AS a FROM t "
    + W
    + ") AS o WHERE rn <= 2",
    "above the average": "SELECT k, v FROM t QUALIFY v > AVG(v) OVER (PARTITION BY k)",
    "over groups": "SELECT k, n, SUM(n) OVER (ORDER BY k NULLS FIRST) AS a, LAG(n) OVER (ORDER BY n, k) AS b "
    "FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS g",
    "sums of sums": "SELECT k, SUM(v) AS n, SUM(SUM(v)) OVER (ORDER BY k) AS a FROM t GROUP BY k",
    "over the best": "SELECT k, AVG(v) OVER (PARTITION BY k ORDER BY ts, s ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) AS a "
    "FROM (SELECT * FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY s, k ORDER BY v DESC, ts) = 1) AS b",
    "over OVER": "SELECT k, a, MAX(a) OVER (PARTITION BY k ORDER BY a ROWS 1 PRECEDING) AS b "
    "FROM (SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY ts) AS a FROM t) AS o",
    "aggregated": "SELECT k, MAX(a) AS m, COUNT(*) AS n FROM (SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY ts) AS "
    "a FROM t) "
    "AS o GROUP BY k",
    "the last two of sums": "SELECT k, a FROM (SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY v) AS a FROM t) AS o "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY a DESC) <= 2",
}  # fmt: skip


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.sampled(3)
def test_every_prefix(tmp_path: Path, name: str) -> None:
    check(tmp_path, f"{QUERIES[name]} EMIT CHANGES", ROWS, rows_per_epoch=5)


#: Over `t`, whose rows stay, and `c`, whose rows change, of the tables of the joins.
CHANGING = {
    "changes": "SELECT id, k, v, SUM(v) OVER (PARTITION BY k ORDER BY v) AS a, LAG(id) OVER (PARTITION BY k ORDER "
    "BY v) AS b, "
    "COUNT(*) OVER (PARTITION BY k ORDER BY id ROWS 1 PRECEDING) AS d FROM c",
    "changes of all": "SELECT id, ROW_NUMBER() OVER (ORDER BY v, id) AS a, AVG(v) OVER () AS b FROM c",
    "a joined side": "SELECT t.v, o.a FROM t JOIN (SELECT k, id, SUM(v) OVER (PARTITION BY k ORDER BY id) AS a FROM c) AS o "
    "ON t.k = o.k",
    "over a join": "SELECT t.k, id, ROW_NUMBER() OVER (PARTITION BY t.k ORDER BY id, t.v) AS a FROM t LEFT JOIN c "
    "ON t.k = c.k",
    "equal rows": "SELECT v, ROW_NUMBER() OVER (ORDER BY v) AS a, LAG(v) OVER (ORDER BY v) AS b FROM "
    "(SELECT v FROM c UNION ALL SELECT v FROM t) AS u",
}  # fmt: skip


def test_every_prefix_of_changes(tmp_path: Path) -> None:
    joins.check(tmp_path, list(CHANGING.values()), joins.ROWS, rows_per_epoch=4)


FUNCTIONS = (
    "COUNT(*)", "COUNT(v)", "SUM(v)", "AVG(v)", "MIN(v)", "MAX(s)", "ARRAY_AGG(v)", "LISTAGG(s)", "FIRST_VALUE(v)",
    "LAST_VALUE(s)",
    "NTH_VALUE(v, 2)", "LAST_VALUE(v IGNORE NULLS)", "LAG(v)", "LAG(s, 2, 'z')", "LEAD(v)", "LEAD(s, 3)", "LAG(v "
    "IGNORE NULLS)",
    "ROW_NUMBER()", "RANK()", "DENSE_RANK()", "NTILE(3)", "PERCENT_RANK()", "CUME_DIST()", "COUNT(DISTINCT v)",
    "SUM(v) FILTER (WHERE s = 'a')", "MEDIAN(v)", "MODE(v)", "MAX_BY(s, v)", "BOOL_OR(v > 1)", "COUNT(*) FILTER "
    "(WHERE v > 0)",
)  # fmt: skip
_BEFORE = ("UNBOUNDED PRECEDING", "2 PRECEDING", "1 PRECEDING", "CURRENT ROW", "1 FOLLOWING")
_BEHIND = ("1 PRECEDING", "CURRENT ROW", "1 FOLLOWING", "3 FOLLOWING", "UNBOUNDED FOLLOWING")


@st.composite
def frames(draw: st.DrawFn) -> str:
    """A frame, or none."""
    unit = draw(st.sampled_from(["", "ROWS", "RANGE", "GROUPS"]))
    if not unit:
        return ""
    first = draw(st.integers(0, 4))
    last = draw(st.integers(max(first - 2, 0), 4))
    if first == 4 and last == 2:
        last = 3
    around = ["", "EXCLUDE CURRENT ROW", *(["EXCLUDE TIES", "EXCLUDE GROUP"] if unit != "ROWS" else [])]
    return f"{unit} BETWEEN {_BEFORE[first]} AND {_BEHIND[last]} {draw(st.sampled_from(around))}"


@st.composite
def overs(draw: st.DrawFn, source: str = "t") -> str:
    """A SELECT with some functions over some windows, ordered by numbers, so that any frame has a meaning."""
    items = []
    for number in range(draw(st.integers(1, 3))):
        partition = draw(st.sampled_from(["", "PARTITION BY k", "PARTITION BY s", "PARTITION BY k, s"]))
        order = draw(st.sampled_from(["v", "v DESC", "v NULLS FIRST", "k + v", "v DESC NULLS FIRST"]))
        window = f"{partition} ORDER BY {order} {draw(frames())}"
        items.append(f"{draw(st.sampled_from(FUNCTIONS))} OVER ({window}) AS f{number}")
    return f"SELECT k, v, s, {', '.join(items)} FROM {source}"


_BOUNDED = settings(
    max_examples=examples(10),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
_SOURCES = (
    "t",
    "(SELECT k, s, v, ts FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k, s ORDER BY v DESC, ts) <= 2) AS r",
)


@_BOUNDED
@given(st.sampled_from(_SOURCES).flatmap(overs), rows(), st.integers(1, 9), st.integers(1, 3))
@example("SELECT k, v, s, LAG(v) OVER (ORDER BY v ROWS 1 PRECEDING) AS f0 FROM t", ROWS, 1, 1)
def test_random_frames(
    query: str, data: list[dict[str, object]], rows_per_epoch: int, parallelism: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check(Path(folder), query, data, rows_per_epoch=rows_per_epoch, parallelism=parallelism)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["running", "before and behind", "over the best", "in orders of their own"])
def test_runs_that_are_rescaled(name: str, tmp_path: Path) -> None:
    layouts = [(2, 128), (3, 64), (4, 5)]
    rescaled.check(tmp_path, f"{QUERIES[name]} EMIT CHANGES", ROWS, layouts, epochs=1, rows_per_epoch=4)


def test_the_referee_gives_what_duckdb_gives_for_the_queries_themselves(tmp_path: Path) -> None:
    """Where ORDER BY tells all rows apart, or it doesn't matter which of equal ones is first."""
    expected = {
        "SELECT v, x, SUM(v) OVER (ORDER BY x) AS a, LAG(v) OVER (ORDER BY x, v) AS b FROM t",
        "SELECT v, COUNT(*) OVER (ORDER BY v GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) AS a FROM t",
        "SELECT v, ARRAY_AGG(v) OVER (ORDER BY v RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS a FROM t",
        "SELECT k, FIRST_VALUE(v) OVER (PARTITION BY k ORDER BY v ROWS 3 PRECEDING) AS a, NTILE(2) OVER (ORDER BY "
        "v) AS b FROM t",
        "SELECT v, SUM(v) OVER (rows between 1 preceding and unbounded following) AS a, "
        "RANK(ORDER BY k) OVER (ORDER BY x) AS b, "
        "LIST(v ORDER BY k, x) OVER (ORDER BY x ROWS 3 PRECEDING) AS c, LEAD(v ORDER BY v, x) OVER (ORDER BY k, x) AS d, "
        "CUME_DIST(ORDER BY k) OVER (ORDER BY x ROWS 2 PRECEDING) AS e, LAST(v ORDER BY v) OVER (PARTITION BY k) AS f, "
        "SUM(v) OVER (ORDER BY x ROWS BETWEEN k PRECEDING AND k FOLLOWING) AS g FROM t",
        "SELECT SUM(COUNT(*)) OVER () AS a, RANK() OVER (ORDER BY MAX(v)) AS b FROM t",
        "SELECT x, SUM(v) OVER (ORDER BY x ROWS (SELECT MIN(k) + 1 FROM t) PRECEDING) AS a FROM t",
    }
    data = [{"k": n % 3, "v": n * n % 11, "x": float(n)} for n in range(9)]
    for number, query in enumerate(sorted(expected)):
        folder = tmp_path / str(number)
        found = batch(folder, plan(folder, query, data), data)
        with empty_duckdb() as con:
            con.execute("CREATE TABLE t (k INT, v BIGINT, x DOUBLE)")
            con.executemany("INSERT INTO t VALUES (?, ?, ?)", [list(row.values()) for row in data])
            assert_same(found, fetched(con, query))
