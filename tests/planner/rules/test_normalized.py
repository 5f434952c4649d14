"""Joins, sub-queries and OVER mean the same after the rules that go from algebra to algebra: equal sub-plans are one,
sub-queries are joins.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from sqlglot import exp

from sqlstream_planner.batch.queries import query_of
from sqlstream_planner.logical import Apply, Join, Sink, columns_of
from sqlstream_planner.logical.expressions import conjuncts
from sqlstream_planner.logical.tree import walk
from sqlstream_planner.rules import DECORRELATE, NORMALIZE, optimize
from tests.duckdb_batch import empty_duckdb
from tests.planner.bind.bound import ROWS, TABLES, bound, given
from tests.planner.bind.test_bound_joins import JOINS, STARS
from tests.planner.bind.test_bound_over import OVERS
from tests.planner.bind.test_bound_subqueries import CORRELATED, UNCORRELATED, VALUES

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


#: Sub-queries as other things are around them and in them.
NESTED = [
    "SELECT a FROM q WHERE a IN (SELECT i.a FROM q AS i WHERE q.a NOT IN (SELECT k FROM u WHERE k = 0))",
    "SELECT a, a IN (SELECT i.a FROM q AS i WHERE q.b < ANY (SELECT w FROM u WHERE k = i.a)) AS c FROM q",
    "SELECT k, v FROM t WHERE k IN (SELECT k FROM u) OR EXISTS (SELECT 1 FROM q WHERE q.a = t.v)",
    "SELECT k FROM t WHERE NOT (k NOT IN (SELECT k FROM u))",
    "SELECT k FROM t WHERE v NOT IN (SELECT w FROM u WHERE u.s = t.s AND u.w <> t.k)",
    "SELECT k, v FROM t WHERE (k, v) NOT IN (SELECT k, w FROM u)",
    "SELECT k, v, (k, v) NOT IN (SELECT a, b FROM q) AS c FROM t",
    "SELECT k, v FROM t WHERE v = ALL (SELECT w FROM u WHERE u.k = t.k)",
    "SELECT k, v, v <> ANY (SELECT w FROM u WHERE u.k < t.k) AS c, v > ANY (SELECT w FROM u) AS d FROM t",
    "SELECT k, (SELECT COUNT(*) FROM u WHERE u.k = t.k HAVING COUNT(*) > 1) AS n FROM t",
    "SELECT k, (SELECT COUNT(*) + 1 FROM u WHERE u.k + 1 = t.k) AS n FROM t",
    "SELECT k FROM t WHERE v IN (SELECT COUNT(*) FROM u WHERE u.k = t.k)",
    "SELECT k FROM t WHERE v NOT IN (SELECT COUNT(*) FROM u WHERE u.k = t.k)",
    "SELECT k FROM t WHERE NOT EXISTS (SELECT MAX(w) FROM u WHERE u.k = t.k)",
    "SELECT a, (SELECT SUM(n) FROM (SELECT COUNT(*) AS n FROM u WHERE u.k = q.a UNION ALL SELECT COUNT(*) FROM t "
    "WHERE t.k = q.b) AS e) AS n FROM q",
    "SELECT a, (SELECT COUNT(*) FROM u LEFT JOIN t ON t.k = u.k AND t.v < q.b) AS n FROM q",
    "SELECT a, (SELECT COUNT(*) FROM (SELECT * FROM u WHERE u.k = q.b) AS x RIGHT JOIN t ON t.k = x.k) AS n FROM q",
    "SELECT a, (SELECT COUNT(*) FROM (SELECT * FROM u WHERE u.w > q.b) AS x FULL JOIN (SELECT * FROM t WHERE t.v < "
    "q.b) AS y "
    "ON x.k = y.k) AS n FROM q",
    "SELECT a, (SELECT COUNT(*) FROM t SEMI JOIN u ON t.k = u.k AND u.w > q.b WHERE t.v > q.a) AS n FROM q",
    "SELECT a, (SELECT COUNT(*) FROM t ANTI JOIN (SELECT * FROM u WHERE u.w = q.b) AS x ON t.k = x.k) AS n FROM q",
    "SELECT a, (SELECT COUNT(*) FROM (SELECT k FROM t WHERE v = q.b INTERSECT SELECT k FROM u) AS e) AS n FROM q",
    "SELECT a, (SELECT COUNT(*) FROM (SELECT k FROM t EXCEPT ALL SELECT k FROM u WHERE u.w > q.b) AS e) AS n FROM q",
    "SELECT a, (SELECT MAX(g) FROM (SELECT s, k, GROUPING(s, k) AS g FROM t WHERE v > q.b GROUP BY GROUPING SETS "
    "((s), (k))) "
    "AS e) AS n FROM q",
    "SELECT a, (SELECT w + q.b FROM u WHERE u.w > q.a ORDER BY w DESC, s LIMIT 1 OFFSET 1) AS n FROM q",
    "SELECT a, b FROM q WHERE EXISTS (SELECT 1 FROM t WHERE t.k = q.a AND t.v > (SELECT MIN(w) FROM u WHERE u.k = q.b))",
    "SELECT a, b FROM q WHERE b > (SELECT COUNT(*) FROM t WHERE t.k IN (SELECT u.k FROM u WHERE u.w > q.a))",
    "SELECT a, (SELECT MAX(x.w) FROM u AS x, u AS y WHERE x.k = y.w AND x.k = q.a AND y.s <> x.s) AS n FROM q",
    "SELECT k, v IN (SELECT (SELECT MAX(w) FROM u WHERE u.k = q.a) FROM q WHERE q.b = t.k) AS c FROM t",
    "SELECT a FROM q WHERE a < (SELECT AVG(a) FROM q) AND b IN (SELECT b FROM q AS i WHERE i.a = q.a) ORDER BY a LIMIT 2",
    "SELECT o.k, o.n FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS o WHERE o.n = (SELECT MAX(n) FROM "
    "(SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS i)",
]


#: Joins that are written in an order, or in a way, that hides what they compare.
HIDDEN = [
    "SELECT x.a, y.b, u.w FROM q AS x, q AS y, u WHERE x.a = u.k AND u.w = y.b",
    "SELECT x.a, t.v, u.w FROM q AS x CROSS JOIN t, u WHERE x.a = u.k AND t.k = u.k AND t.v > x.b",
    "SELECT x.a, t.v, u.w FROM q AS x, t, u WHERE x.a + t.k = u.w",
    "SELECT x.a, t.v, u.w FROM q AS x, t, u WHERE (x.a = u.k AND t.k = u.k AND w > 2) OR (t.k = u.k AND x.a = u.k)",
    "SELECT t.v, u.w FROM t, u WHERE (t.k = u.k AND t.v > 2) OR (t.k = u.k)",
    "SELECT t.v, u.w FROM t JOIN u ON (t.k = u.k AND t.v > 2) OR (u.k = t.k AND t.k = u.k AND u.w > 3)",
    "SELECT t.v, u.w FROM t LEFT JOIN u ON (t.k = u.k AND t.v > 2) OR (t.k = u.k AND u.s = t.s)",
    "SELECT a.v, b.v AS w, x.a FROM t AS a, q AS x, t AS b, u WHERE a.k = b.k AND x.a = u.k AND b.v = u.w",
    "SELECT x.a FROM q AS x, t, u WHERE x.a = u.k AND t.k = u.k AND EXISTS (SELECT 1 FROM q AS y, t AS z, u AS w "
    "WHERE y.a = w.k AND w.w = z.v AND y.b = t.v)",
]


@pytest.mark.parametrize("query", HIDDEN)
def test_what_joins_compare_is_found(duck: duckdb.DuckDBPyConnection, query: str) -> None:
    [root] = optimize((bound(query),), (*NORMALIZE, *DECORRELATE))
    text = query_of(root)
    assert given(duck, text) == given(duck, query), text
    joins = [node for node in walk((root,)) if isinstance(node, Join)]
    equalities = [node for node in joins if node.condition is not None and any(_equalities(node.condition))]
    assert len(joins) - len(equalities) == ("x.a + t.k" in query)


def _equalities(condition: exp.Expr) -> Iterator[exp.Expr]:
    return (term for term in conjuncts(condition) if isinstance(term.unnest(), exp.EQ))


@pytest.mark.parametrize("query", [*UNCORRELATED, *CORRELATED, *AROUND, *NESTED])
def test_subqueries_are_joins_that_mean_the_same(duck: duckdb.DuckDBPyConnection, query: str) -> None:
    [root] = optimize((bound(query),), (*NORMALIZE, *DECORRELATE))
    assert not any(isinstance(node, Apply) for node in walk((root,)))
    text = query_of(root)
    assert given(duck, text) == given(duck, query), text


def test_a_time_to_live_is_of_the_rows_that_the_user_joins() -> None:
    """What is counted for each key is not forgotten: it could not be taken back from a join that has forgotten it."""
    hint = "/*+ STATE_TTL('t' = '1 d') */"
    for condition, ttls in (
        ("k IN (SELECT k FROM u)", [True]),
        ("EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND w > v)", [True]),
        ("v > (SELECT COUNT(*) FROM u WHERE u.k = t.k)", [False]),
        ("EXISTS (SELECT MAX(w) FROM u WHERE u.k = t.k HAVING MAX(w) > 1)", [False, False, False]),
    ):
        [root] = optimize((bound(f"SELECT {hint} k FROM t WHERE {condition}"),), (*NORMALIZE, *DECORRELATE))
        joins = [node for node in walk((root,)) if isinstance(node, Join)]
        assert [join.ttl_us is not None for join in joins] == ttls, condition


def _read_around(root: Sink) -> list[int]:
    """For each sub-query how many columns of the outer rows are read in it, where its own ones hide others."""
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
