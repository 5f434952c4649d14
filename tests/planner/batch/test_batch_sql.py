"""Batch SQL of plans that are put together by hand, against what DuckDB gives for SQL that says the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pytest
from sqlglot import exp

from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.spec import SinkSpec, SourceSpec
from sqlstream_operators.plan.types import BIGINT, BOOLEAN, INTEGER, TIMESTAMP, SqlType, array
from sqlstream_operators.plan.window_spec import WindowKind, WindowSpec
from sqlstream_planner.batch.queries import query_of
from sqlstream_planner.catalog.source_identity import ColumnIdentity, SourceIdentity
from sqlstream_planner.logical import (
    Aggregate,
    AggregateCall,
    Apply,
    ColumnId,
    ConflictAction,
    EventTime,
    Field,
    Filter,
    Join,
    JoinKind,
    Node,
    OrderLimit,
    OrderTerm,
    OverWindow,
    Project,
    Scan,
    SetOperation,
    SetOperator,
    Sink,
    SubqueryKind,
    Unnest,
    Values,
    WindowCall,
    WindowColumn,
    WindowFunction,
    column,
    raw,
)
from tests.duckdb_batch import empty_duckdb

TABLES = """
CREATE TABLE t(k INT, v INT, l INT[], ts TIMESTAMP);
INSERT INTO t VALUES (1, 2, [1, 2], '2026-01-01 00:00:01'), (1, NULL, [], '2026-01-01 00:00:04'), (2, 5, NULL, NULL),
  (NULL, 1, [7], '2026-01-01 00:00:11'), (3, 3, [3], '2026-01-01 00:00:02'), (3, 3, [4], '2026-01-01 00:00:03');
CREATE TABLE u(a INT, b INT);
INSERT INTO u VALUES (1, 2), (2, NULL), (2, 6), (NULL, 1), (4, 3);
CREATE TABLE c(k INT, v INT, __kind VARCHAR, __order BIGINT);
"""
_T = (("k", INTEGER), ("v", INTEGER), ("l", array(INTEGER)), ("ts", TIMESTAMP))
_U = (("a", INTEGER), ("b", INTEGER))


@pytest.fixture
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with empty_duckdb() as con:
        con.execute(TABLES)
        yield con


@dataclass
class Build:
    """Nodes with ids of their own."""

    used: Counter[str] = field(default_factory=Counter)

    def new(self, name: str, type_: SqlType = INTEGER) -> Field:
        self.used[name] += 1
        return Field(f"{name}_{self.used[name]}" if self.used[name] > 1 else name, name, type_)

    def scan(self, name: str = "t", columns: tuple[tuple[str, SqlType], ...] = _T, **other: Any) -> Scan:
        schema = tuple(Column(n, t) for n, t in columns)
        source = SourceSpec(name, "filesystem", {}, schema, tuple(n for n, _ in columns))
        known = tuple(ColumnIdentity(n, str(t), name=n) for n, t in columns)
        return Scan(
            source, SourceIdentity(name, (), known), tuple(self.new(n, t) for n, t in columns), **other
        )

    def project(self, node: Node, **items: str) -> Project:
        """`items`: expressions over the input's columns by their names."""
        return Project(
            node, tuple(self.new(n) for n in items), tuple(over(node, text) for text in items.values())
        )

    def renamed(self, node: Node) -> Project:
        return Project(
            node,
            tuple(self.new(f.name, f.type) for f in node.fields),
            tuple(column(f.id) for f in node.fields),
        )

    def call(self, node: Node, name: str, *arguments: str, type_: SqlType = BIGINT) -> AggregateCall:
        given = tuple(over(node, a) for a in arguments)
        return AggregateCall(self.new(name, type_), name, given, tuple(INTEGER for _ in given))


def id_of(node: Node, name: str) -> ColumnId:
    return ColumnId(next(f.id for f in node.fields if f.name == name))


def over(node: Node, text: str) -> exp.Expr:
    """An expression whose columns are named as the node's."""
    known = {f.name: f.id for f in node.fields}

    def swap(e: exp.Expr) -> exp.Expr:
        return column(known[e.name]) if isinstance(e, exp.Column) and e.name in known else e

    return raw(text).transform(swap)


def sink(node: Node, **other: Any) -> Sink:
    schema = tuple(Column(f.name if f.name else f"c{n}", f.type) for n, f in enumerate(node.fields))
    names = Counter(c.name for c in schema)
    if max(names.values()) > 1:
        schema = tuple(Column(f"c{n}", f.type) for n, f in enumerate(node.fields))
    key = other.pop("primary_key", ())
    return Sink(node, SinkSpec("out", "blackhole", {}, schema, primary_key=key), "out", **other)


def rows(con: duckdb.DuckDBPyConnection, text: str) -> list[str]:
    return sorted(repr(row) for row in con.execute(text).fetchall())


def check(con: duckdb.DuckDBPyConnection, node: Node, wanted: str, **other: Any) -> str:
    text = query_of(sink(node, **other))
    assert rows(con, text) == rows(con, wanted), text
    return text


def test_projections_and_filters_of_a_table_are_one_select(duck: duckdb.DuckDBPyConnection) -> None:
    b = Build()
    node = b.project(b.scan(), w="v * 2", k="k")
    text = check(
        duck, Filter(node, over(node, "w > 4 OR k = 1")), "SELECT v * 2, k FROM t WHERE v > 2 OR k = 1"
    )
    assert text == ('SELECT\n  "v" * 2 AS "w",\n  "k"\nFROM "t"\nWHERE (("v" * 2) > 4 OR "k" = 1)')


def test_long_expressions_are_not_repeated(duck: duckdb.DuckDBPyConnection) -> None:
    b = Build()
    node: Node = b.project(b.scan(), x="v")
    for _ in range(20):
        node = b.project(node, x="(x + x) % 1000")
    assert len(query_of(sink(node))) < 20_000
    duck.execute(query_of(sink(node)))


def test_views_that_are_read_twice_give_linear_text(duck: duckdb.DuckDBPyConnection) -> None:
    def chained(count: int) -> Node:
        b = Build()
        node: Node = b.project(b.scan(), x="v")
        for _ in range(count):
            node = Filter(SetOperation((b.renamed(node), b.renamed(node)), (b.new("x"),)), raw("true"))
            node = b.project(node, x="x + 1")
        return node

    lengths = [len(query_of(sink(chained(n)))) for n in (50, 100, 200)]
    assert lengths[2] - lengths[1] < 2.2 * (lengths[1] - lengths[0])
    check(duck, chained(3), "SELECT v + 3 FROM t, range(8)")
    assert rows(duck, f"SELECT count(*) FROM ({query_of(sink(chained(10)))})") == [f"({6 * 1024},)"]


def test_thousands_of_nodes_need_no_stack() -> None:
    b = Build()
    node: Node = b.project(b.scan(), x="v")
    for _ in range(1200):
        keys = b.renamed(node)
        node = Aggregate(node, keys.fields, keys.items, (tuple(range(len(keys.fields))),), None, ())
    query_of(sink(node))


@pytest.mark.parametrize(
    ("operator", "all_", "wanted"),
    [
        (SetOperator.UNION, True, "UNION ALL"),
        (SetOperator.UNION, False, "UNION"),
        (SetOperator.INTERSECT, True, "INTERSECT ALL"),
        (SetOperator.INTERSECT, False, "INTERSECT"),
        (SetOperator.EXCEPT, True, "EXCEPT ALL"),
        (SetOperator.EXCEPT, False, "EXCEPT"),
    ],
)
def test_set_operations(
    duck: duckdb.DuckDBPyConnection, operator: SetOperator, all_: bool, wanted: str
) -> None:
    b = Build()
    branches = (b.project(b.scan(), k="k", v="v"), b.scan("u", _U))
    node = SetOperation(branches, (b.new("x"), b.new("y", BIGINT)), operator, all_)
    check(duck, node, f"SELECT k, v FROM t {wanted} SELECT a, b FROM u")


def test_aggregates(duck: duckdb.DuckDBPyConnection) -> None:
    b = Build()
    t = b.scan()
    calls = (b.call(t, "sum", "v + 1"), b.call(t, "count"), b.call(t, "list", "v", type_=array(INTEGER)))
    node = Aggregate(t, (b.new("key"),), (over(t, "k % 2"),), ((0,),), None, calls)
    check(duck, node, "SELECT k % 2, sum(v + 1), count(*), list(v ORDER BY v) FROM t GROUP BY k % 2")
    check(duck, Aggregate(t, (), (), ((),), None, calls[:1]), "SELECT sum(v + 1) FROM t")
    distinct = Aggregate(t, (b.new("a"), b.new("b")), (over(t, "k"), over(t, "'1'")), ((0, 1),), None, ())
    check(duck, distinct, "SELECT DISTINCT k, '1' FROM t")


def test_grouping_sets(duck: duckdb.DuckDBPyConnection) -> None:
    b = Build()
    t = b.scan()
    node = Aggregate(
        t,
        (b.new("a"), b.new("b")),
        (over(t, "k"), over(t, "v + 1")),
        ((0, 1), (0,), ()),
        b.new("id", BIGINT),
        (b.call(t, "count"),),
    )
    wanted = "SELECT k, v, grouping(k, v), count(*) FROM (SELECT k, v + 1 AS v FROM t) GROUP BY ROLLUP (k, v)"
    check(duck, node, wanted)


def test_keys_of_groups_are_not_taken_for_other_columns(duck: duckdb.DuckDBPyConnection) -> None:
    b = Build()
    t = b.project(b.scan(), v="k", k="v")
    node = Aggregate(
        t, (b.new("v"), b.new("k")), (over(t, "k"), over(t, "v")), ((0, 1),), None, (b.call(t, "sum", "v"),)
    )
    check(duck, node, "SELECT v, k, sum(k) FROM t GROUP BY v, k")


WINDOW = WindowSpec(WindowKind.TUMBLE, 10_000_000, 10_000_000)


def windowed(b: Build) -> tuple[WindowFunction, Field]:
    time = EventTime(("t",), 1, True)
    start, end, at = (b.new(f"window_{r}", TIMESTAMP) for r in ("start", "end", "time"))
    mark = WindowColumn("end", WINDOW, time)
    t = b.scan()
    end = Field(end.id, end.name, TIMESTAMP, False, None, mark)
    return WindowFunction(t, WINDOW, id_of(t, "ts"), start, end, at), Field(
        b.new("end").id, "end", TIMESTAMP, False, None, mark
    )


def test_windows(duck: duckdb.DuckDBPyConnection) -> None:
    node, _ = windowed(Build())
    wanted = (
        "SELECT *, time_bucket(INTERVAL '10 seconds', ts) AS s, s + INTERVAL '10 seconds', "
        "s + INTERVAL '9.999 seconds' FROM t WHERE ts IS NOT NULL"
    )
    check(duck, node, wanted)


def test_windows_that_are_given_once_take_rows_as_they_come(duck: duckdb.DuckDBPyConnection) -> None:
    b = Build()
    node, end = windowed(b)
    calls = (
        b.call(node, "list", "v", type_=array(INTEGER)),
        b.call(node, "arg_min", "l", "k", type_=array(INTEGER)),
    )
    aggregate = Aggregate(node, (end,), (over(node, "window_end"),), ((0,),), None, calls)
    wanted = (
        "SELECT time_bucket(INTERVAL '10 seconds', ts) + INTERVAL '10 seconds', list(v), arg_min(l, k) "
        "FROM t WHERE ts IS NOT NULL GROUP BY 1"
    )
    check(duck, aggregate, wanted)


def test_arrays(duck: duckdb.DuckDBPyConnection) -> None:
    b = Build()
    t = b.scan()
    plain = Unnest(t, over(t, "l"), (b.new("x"),), False, b.new("n", BIGINT), False)
    check(duck, plain, "SELECT t.*, unnest(l), unnest(range(1, len(l) + 1)) FROM t")
    outer = Unnest(t, over(t, "l"), (b.new("x"),), False, None, True)
    check(duck, outer, "SELECT t.*, x.x FROM t LEFT JOIN LATERAL unnest(l) AS x(x) ON true")


def test_ranks_and_limits(duck: duckdb.DuckDBPyConnection) -> None:
    b = Build()
    t = b.scan()
    order = (OrderTerm(id_of(t, "v"), True, False),)
    call = WindowCall(b.new("row_number", BIGINT), "row_number")
    ranked = OverWindow(t, (id_of(t, "k"),), order, (call,), ties=(id_of(t, "l"),))
    over_all = "row_number() OVER (PARTITION BY k ORDER BY v DESC NULLS LAST, l NULLS FIRST)"
    check(duck, ranked, f"SELECT *, {over_all} FROM t")
    first = Filter(ranked, over(ranked, "row_number <= 1"))
    check(duck, first, f"SELECT *, {over_all} AS n FROM t QUALIFY n = 1")
    limited = OrderLimit(t, order, 3, 1, ties=(id_of(t, "l"),))
    check(duck, limited, "FROM t ORDER BY v DESC NULLS LAST, l NULLS FIRST LIMIT 3 OFFSET 1")
    average = WindowCall(
        b.new("avg"), "sum", (over(t, "v"),), (INTEGER,), filter=over(t, "k > 1"), frame="ROWS 1 PRECEDING"
    )
    framed = OverWindow(t, (), order, (average,), ties=(id_of(t, "l"),))
    check(
        duck,
        framed,
        "SELECT *, sum(v) FILTER (WHERE k > 1) OVER (ORDER BY v DESC NULLS LAST, l NULLS FIRST "
        "ROWS 1 PRECEDING) FROM t",
    )


def test_values(duck: duckdb.DuckDBPyConnection) -> None:
    b = Build()
    fields = (b.new("x"), b.new("y", BIGINT))
    written = Values(fields, ((raw("1"), raw("2")), (raw("NULL"), raw("'3'"))))
    check(duck, written, "SELECT 1, 2 UNION ALL SELECT NULL, 3")
    check(duck, Project(Values(fields[:1], ((raw("1"),),)), (b.new("x"),), (raw("1 + 1"),)), "SELECT 2")


@pytest.mark.parametrize("kind", list(JoinKind))
def test_joins(duck: duckdb.DuckDBPyConnection, kind: JoinKind) -> None:
    b = Build()
    t, u = b.project(b.scan(), k="k", v="v"), b.scan("u", _U)
    condition = None if kind is JoinKind.CROSS else raw(f'"{id_of(t, "k")}" = "{id_of(u, "a")}"')
    on = "" if kind is JoinKind.CROSS else " ON k = a"
    node = Join(t, u, kind, condition)
    check(duck, node, f"SELECT * FROM (SELECT k, v FROM t) {kind} JOIN u{on}")
    if kind not in (JoinKind.SEMI, JoinKind.ANTI):
        doubled = b.project(node, s="k + b")
        check(
            duck,
            Filter(doubled, over(doubled, "s > 3")),
            f"SELECT k + b FROM t {kind} JOIN u{on} WHERE k + b > 3",
        )
        third = b.project(Filter(b.scan("u", _U), raw("true")), a="a", c="b + 1")
        chain = Join(node, third, JoinKind.LEFT, raw(f'"{id_of(third, "c")}" > "{id_of(node, "k")}"'))
        check(
            duck,
            chain,
            f"SELECT k, v, u.*, w.a, w.b + 1 FROM t {kind} JOIN u{on} LEFT JOIN u AS w ON w.b + 1 > k",
        )


def test_the_same_rows_joined_with_themselves(duck: duckdb.DuckDBPyConnection) -> None:
    b = Build()
    shared = Aggregate(t := b.scan(), (b.new("key"),), (over(t, "k"),), ((0,),), None, (b.call(t, "count"),))
    one, other = b.renamed(shared), b.renamed(shared)
    node = Join(one, other, JoinKind.INNER, raw(f'"{id_of(one, "count")}" < "{id_of(other, "count")}"'))
    text = check(
        duck,
        node,
        "WITH g AS (SELECT k, count(*) AS c FROM t GROUP BY k) SELECT * FROM g JOIN g h ON g.c < h.c",
    )
    assert text.count("GROUP BY") == 1
    assert "MATERIALIZED" in text


def applied(b: Build, kind: SubqueryKind, outer: Node, query: Node, *ids: str, **other: Any) -> Apply:
    type_ = INTEGER if kind is SubqueryKind.SCALAR else BOOLEAN
    return Apply(outer, query, kind, b.new("result", type_), tuple(ColumnId(i) for i in ids), **other)


def test_subqueries(duck: duckdb.DuckDBPyConnection) -> None:
    b = Build()
    t, u = b.project(b.scan(), k="k", v="v"), b.scan("u", _U)
    largest = Aggregate(u, (), (), ((),), None, (b.call(u, "max", "b"),))
    check(duck, applied(b, SubqueryKind.SCALAR, t, largest), "SELECT k, v, (SELECT max(b) FROM u) FROM t")
    some = b.project(u, x="b")
    operand = (over(t, "v"),)
    check(
        duck,
        applied(b, SubqueryKind.IN, t, some, operand=operand),
        "SELECT k, v, v IN (SELECT b FROM u) FROM t",
    )
    check(
        duck,
        applied(b, SubqueryKind.ALL, t, some, operand=operand, comparison="<>"),
        "SELECT k, v, v <> ALL (SELECT b FROM u) FROM t",
    )
    check(
        duck,
        applied(b, SubqueryKind.IN, t, u, operand=(over(t, "k"), over(t, "v"))),
        "SELECT k, v, (k, v) IN (SELECT a, b FROM u) FROM t",
    )


def test_correlated_subqueries(duck: duckdb.DuckDBPyConnection) -> None:
    b = Build()
    t = b.scan()
    inner = b.scan()  # the same columns once more: names of the inner table must not hide the outer ids
    mine = Filter(inner, raw(f'"{id_of(inner, "k")}" = "{id_of(t, "k")}"'))
    calls = (b.call(mine, "max", "v"),)
    node = applied(b, SubqueryKind.SCALAR, t, Aggregate(mine, (), (), ((),), None, calls), id_of(t, "k"))
    wanted = "SELECT t.*, (SELECT max(i.v) FROM t AS i WHERE i.k = t.k) FROM t"
    check(duck, node, wanted)
    some = Filter(node, over(node, "result = v"))
    check(
        duck,
        some,
        "SELECT * FROM (SELECT t.*, (SELECT max(i.v) FROM t AS i WHERE i.k = t.k) AS r FROM t) WHERE r = v",
    )
    exists = applied(b, SubqueryKind.EXISTS, t, mine, id_of(t, "k"))
    check(duck, exists, "SELECT t.*, EXISTS (FROM t AS i WHERE i.k = t.k) FROM t")


def test_subqueries_of_subqueries_see_the_rows_around_both(duck: duckdb.DuckDBPyConnection) -> None:
    b = Build()
    t, u, w = b.project(b.scan(), k="k", v="v"), b.scan("u", _U), b.scan("u", _U)
    inner = Filter(w, raw(f'"{id_of(w, "b")}" > "{id_of(t, "v")}" AND "{id_of(w, "a")}" = "{id_of(u, "a")}"'))
    middle = applied(b, SubqueryKind.EXISTS, u, inner, id_of(u, "a"))
    counted = Filter(middle, over(middle, "result"))
    node = applied(
        b,
        SubqueryKind.SCALAR,
        t,
        Aggregate(counted, (), (), ((),), None, (b.call(counted, "count"),)),
        id_of(t, "v"),
    )
    check(
        duck,
        node,
        "SELECT k, v, (SELECT count(*) FROM u WHERE EXISTS (FROM u AS w WHERE w.b > t.v AND w.a = u.a)) FROM t",
    )


CHANGES = [
    (1, 10, "+I"),
    (1, 10, "-U"),
    (1, 11, "+U"),
    (2, 5, "+I"),
    (2, 5, "+I"),
    (2, 5, "-D"),
    (3, 1, "+I"),
    (3, 1, "-D"),
]


def test_changelogs(duck: duckdb.DuckDBPyConnection) -> None:
    b = Build()
    for place, row in enumerate(CHANGES):
        duck.execute("INSERT INTO c VALUES (?, ?, ?, ?)", [*row, place])
    columns = (("k", INTEGER), ("v", INTEGER))
    wanted = "VALUES (1, 11), (2, 5)"
    check(duck, b.scan("c", columns, changelog=True), wanted)
    keyed = b.scan("c", columns, changelog=True, primary_key=(ColumnId("k_2"),))
    check(duck, keyed, "VALUES (1, 11)")


@pytest.mark.parametrize(
    ("action", "wanted"),
    [
        (ConflictAction.NOTHING, "SELECT k, first(struct_pack(v, ts)) FROM t GROUP BY k"),
        (ConflictAction.DEDUPLICATE, "SELECT k, last(struct_pack(v, ts)) FROM t GROUP BY k"),
        (ConflictAction.ERROR, "SELECT k, struct_pack(v, ts) FROM t"),
        (None, "SELECT k, struct_pack(v, ts) FROM t"),
    ],
)
def test_conflicts(duck: duckdb.DuckDBPyConnection, action: ConflictAction | None, wanted: str) -> None:
    b = Build()
    node = b.project(b.scan(), k="k", v="v", ts="ts")
    check(duck, node, f"SELECT k, s.v, s.ts FROM ({wanted}) AS x(k, s)", conflict=action, primary_key=("k",))


def test_conflicts_of_changing_rows_show_the_least(duck: duckdb.DuckDBPyConnection) -> None:
    b = Build()
    t = b.scan()
    counted = Aggregate(
        t, (b.new("k"), b.new("v")), (over(t, "k"), over(t, "v")), ((0, 1),), None, (b.call(t, "count"),)
    )
    check(
        duck,
        counted,
        "SELECT k, v, count(*) FROM t GROUP BY k, v "
        "QUALIFY row_number() OVER (PARTITION BY k ORDER BY v NULLS FIRST) = 1",
        conflict=ConflictAction.DEDUPLICATE,
        primary_key=("k",),
    )


def test_relations_have_names_that_mean_nothing_else(duck: duckdb.DuckDBPyConnection) -> None:
    b = Build()
    duck.execute("CREATE TABLE grouped AS SELECT k AS grouped FROM t")
    g = b.scan("grouped", (("grouped", INTEGER),))
    node = Aggregate(g, (b.new("combined"),), (over(g, "grouped"),), ((0,),), None, (b.call(g, "count"),))
    text = check(duck, node, "SELECT k, count(*) FROM t GROUP BY k")
    assert re.match(r'WITH "grouped_2" AS', text)
