"""Joins, sub-queries and OVER mean the same after the rules that go from algebra to algebra: equal sub-plans are one."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from sqlstream_planner.batch.queries import query_of
from sqlstream_planner.logical import Apply, Join, Sink, columns_of
from sqlstream_planner.logical.tree import walk
from sqlstream_planner.rules import NORMALIZE, optimize
from tests.duckdb_batch import empty_duckdb
from tests.planner.bound import ROWS, TABLES, bound, given
from tests.planner.test_bound_joins import JOINS, STARS
from tests.planner.test_bound_over import OVERS
from tests.planner.test_bound_subqueries import CORRELATED, UNCORRELATED, VALUES

#: Relations with themselves, as they are and as others that have some of their columns.
THEMSELVES = [
    "SELECT a.k, a.w, b.w AS x FROM u AS a JOIN u AS b ON a.k = b.k AND a.w < b.w",
    "SELECT a.k, a.w, b.w AS x, c.s FROM u AS a JOIN u AS b ON a.k = b.w JOIN u AS c ON b.k = c.w",
    "SELECT x.a, q.b, u.w FROM q AS x JOIN (u JOIN q ON q.a = u.k) ON x.b = u.w AND x.a < q.b",
    "SELECT x.a, y.b, u.w FROM q AS x LEFT JOIN (q AS y JOIN u ON y.a = u.k) ON x.b = u.w",
    "SELECT a.k, a.w, b.x FROM u AS a JOIN (SELECT k, w + 1 AS x FROM u) AS b ON a.k = b.k",
    "SELECT a.k, a.x, b.w FROM (SELECT k, w + 1 AS x FROM u) AS a LEFT JOIN u AS b ON a.x = b.w",
    "SELECT a.k, a.w, b.k AS l FROM u AS a FULL JOIN (SELECT * FROM u WHERE w > 2) AS b ON a.k = b.k AND a.w = b.w",
    "SELECT a.w, b.w AS x FROM (SELECT * FROM u WHERE k > 1) AS a RIGHT JOIN (SELECT * FROM u WHERE k > 1) AS b "
    "ON a.w = b.k",
    "SELECT k, w FROM u WHERE w > (SELECT AVG(w) FROM u)",
    "SELECT a.k, m.n FROM u AS a JOIN (SELECT k, COUNT(*) AS n FROM u GROUP BY k) AS m ON a.k = m.k",
    "SELECT m.k, o.n FROM (SELECT k, COUNT(*) AS n FROM u GROUP BY k) AS m JOIN "
    "(SELECT k, COUNT(*) AS n FROM u GROUP BY k) AS o ON m.n = o.k",
]

#: Sub-queries over the relation around them.
AROUND = [
    "SELECT a.k FROM u AS a WHERE EXISTS (SELECT 1 FROM u AS b WHERE b.k = a.w AND b.w > a.k)",
    "SELECT a.k, (SELECT MAX(b.w) FROM u AS b WHERE b.k <= a.k) AS m FROM u AS a",
    "SELECT a.k, (SELECT MAX(b.w + a.w) FROM (SELECT w, k FROM u) AS b) AS m FROM u AS a",
    "SELECT a.k, b.w FROM u AS a, u AS b WHERE a.k IN (SELECT c.w FROM u AS c WHERE c.k = b.k)",
    "SELECT a.k FROM u AS a WHERE a.k IN (SELECT b.w + a.w FROM u AS b)",
    "SELECT k FROM u UNION ALL SELECT o.k FROM u AS o WHERE EXISTS (SELECT 1 FROM q WHERE q.a = o.k)",
    "WITH c AS (SELECT k, COUNT(*) AS n FROM u GROUP BY k) "
    "SELECT a.k FROM c AS a WHERE EXISTS (SELECT 1 FROM c AS b WHERE b.k = a.n AND b.n < a.k)",
]


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with empty_duckdb() as con:
        con.execute(TABLES)
        con.execute(ROWS)
        yield con


def normalized(query: str) -> Sink:
    [root] = optimize((bound(query),), NORMALIZE)
    return root


@pytest.mark.parametrize("query", [*THEMSELVES, *JOINS, *STARS, *UNCORRELATED, *VALUES, *OVERS])
def test_normalized_queries_mean_what_was_written(duck: duckdb.DuckDBPyConnection, query: str) -> None:
    text = query_of(normalized(query))
    theirs = query.replace("LEFT SEMI", "SEMI").replace("LAG(v) IGNORE NULLS", "LAG(v IGNORE NULLS)")
    assert given(duck, text) == given(duck, theirs), text


@pytest.mark.parametrize("query", [*THEMSELVES, *JOINS])
def test_no_column_of_a_join_has_the_id_of_one_of_its_other_side(query: str) -> None:
    for node in walk((normalized(query),)):
        if isinstance(node, Join):
            ids = [f.id for side in (node.left, node.right) for f in side.fields]
            assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("query", [*CORRELATED, *AROUND])
def test_what_a_subquery_reads_of_the_rows_around_it_is_read_of_them(query: str) -> None:
    """Where it reads the same table its columns have the same ids: they are renamed before they meet."""
    before, after = (_read_around(root) for root in (bound(query), normalized(query)))
    assert any(before)
    assert after == before


def _read_around(root: Sink) -> list[int]:
    """For each sub-query how many columns of the rows around it are read in it, where its own ones hide others."""
    found = []
    for apply in walk((root,)):
        if not isinstance(apply, Apply):
            continue
        around = {f.id for f in apply.input.fields}
        read: set[str] = set()
        for node in walk((apply.query,)):
            own = {f.id for i in node.inputs for f in i.fields}
            given_ = set(node.references()).union(*(columns_of(e) for e in node.expressions()))
            read |= (given_ & around) - own
        found.append(len(read))
    return found
