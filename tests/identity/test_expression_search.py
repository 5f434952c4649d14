"""Soundness by search: expressions of one form give the same rows in DuckDB; a changed one does, or has another."""

from __future__ import annotations

import os
import random
from functools import cache

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from sqlstream_planner.expressions.functions.translate import translate_marked
from sqlstream_planner.expressions.infer import infer
from sqlstream_planner.identity.form import from_json, text, to_json
from sqlstream_planner.sql.as_written import as_written, without_marks
from sqlstream_planner.sql.dialect import SqlSyntaxError, duckdb_sql, parse_expression
from sqlstream_planner.sql.problems import TypeProblem
from tests.identity.expressions import form_of
from tests.planner.expressions.test_infer import scalars
from tests.planner.expressions.typing_referee import COLUMNS, SCOPE

VALUES = {
    "bo": "TRUE FALSE",
    "i1": "-128 127 0 1 2",
    "i2": "-32768 32767 0 1 3",
    "i4": "-2147483648 2147483647 0 1 2 5",
    "i8": "-9223372036854775808 9223372036854775807 9007199254740992 9007199254740993 0 1 2",
    "hu": "-170141183460469231731687303715884105727 9007199254740993 0 1 2",
    "u1": "0 255 1", "u2": "0 65535 1", "u4": "0 4294967295 1", "u8": "0 18446744073709551615 1",
    "fl": "'nan' '-inf' 'inf' 0 '-0.0' 1.5 16777217 1",
    "db": "'nan' '-inf' 'inf' 0 '-0.0' 1e308 9007199254740993 0.1 1.5 1",
    "dc": "-99999999.99 99999999.99 0 0.01 1 1.50",
    "db38": "-9999999999999999999999999999.9999999999 0 1 1.5 9007199254740993",
    "vc": "'' 'a' 'A' '1' '%' '_' '{\"a\":1}' '2020-01-01' '[1]'",
    "bl": "'' 'a' '\\x00'",
    "da": "'0001-01-01' '1970-01-01' '2020-02-29' 'infinity'",
    "ti": "'00:00:00' '23:59:59.999999'",
    "ts": "'0001-01-01' '1970-01-01' '2020-02-29T23:59:59.999999' 'infinity'",
    "tz": "'1970-01-01T00:00:00Z' '2020-02-29T23:59:59.999999Z' '-infinity'",
    "iv": "'0s' '1month' '30days' '720h' '-1us'",
    "uu": "'00000000-0000-0000-0000-000000000000' 'ffffffff-ffff-ffff-ffff-ffffffffffff'",
    "js": "'1' '\"a\"' '{\"a\":1}' 'null'",
    "li": "[] [1] [1,NULL] [2,1] [NULL]", "lv": "[] ['a'] [NULL]", "ld": "[] ['nan'] [1,NULL]",
    "lb": "[] [TRUE,NULL]", "lf": "[] ['nan','1']", "l8": "[] [1] [2,1]", "ll": "[] [[1],[]] [NULL]",
    "mp": "MAP{} MAP{'a':1} MAP{'b':NULL}", "st": "{'a':1,'b':'x'} {'a':NULL,'b':NULL} {'a':1,'b':'y'}",
}  # fmt: skip
ROWS = 40


@cache
def rows() -> duckdb.DuckDBPyConnection:
    """A DuckDB with the referee's table, full of NULLs, extremes and values that compare oddly."""
    opened = duckdb.connect()
    opened.execute("SET TimeZone = 'UTC'; SET threads = 1")
    opened.execute(f"CREATE TABLE t({', '.join(f'{n} {t}' for n, t in COLUMNS.items())})")
    chosen = random.Random(7)
    for number in range(ROWS):
        values = []
        for name, type_ in COLUMNS.items():
            value = chosen.choice([*VALUES[name].split(" "), *(["NULL"] if number else [])])
            values.append(f"CAST({value} AS {type_})")
        opened.execute(f"INSERT INTO t VALUES ({', '.join(values)})")
    return opened


def bound(sql: str) -> exp.Expr | None:
    """The expression as the binder leaves it, None if it would be refused."""
    try:
        node = translate_marked(parse_expression(sql), lambda e: infer(e, SCOPE).type)
        node = node.transform(_with_fields, copy=False)
        infer(node, SCOPE)
        if not {c.name for c in node.find_all(exp.Column)} <= SCOPE.keys():
            return None  # a change made a name of something else a column
    except (TypeProblem, SqlSyntaxError):
        return None
    return node


def _with_fields(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Column) and node.table:
        return exp.Dot(this=exp.column(node.table), expression=node.this.copy())
    return node


def answer(node: exp.Expr) -> tuple[bool, object]:
    """What DuckDB says: whether any row fails, and else all values with their type."""
    sql = duckdb_sql(without_marks(node))
    table = rows()
    try:
        return True, table.execute(f"SELECT CAST(({sql}) AS VARCHAR), typeof(({sql})) FROM t").fetchall()
    except duckdb.Error:
        return False, sql


def assert_sound(one: exp.Expr, other: exp.Expr) -> None:
    """Where the forms are equal, so is what DuckDB answers (unless one of both fails at some row)."""
    if form_of(one) != form_of(other):
        return
    first, second = answer(one), answer(other)
    if first[0] and second[0]:
        assert first[1] == second[1], f"{duckdb_sql(one)} and {duckdb_sql(other)}: {text(form_of(one))}"


OTHER_OPERATORS = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.And, exp.Or,
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.DPipe, exp.BitwiseAnd, exp.BitwiseOr,
)  # fmt: skip


def mutated(node: exp.Expr, chosen: random.Random) -> exp.Expr:
    """A copy with one change: another operator, literal, column or type, or another way to write the same."""
    tree = exp.Paren(this=node.copy())
    parts = [
        n for n in tree.walk()
        if n is not tree and isinstance(n, exp.Condition) and not isinstance(n, exp.PropertyEQ) and n.arg_key != "to"
        and not isinstance(n.parent, exp.DataTypeParam | exp.PropertyEQ | exp.Lambda | exp.Extract | exp.Interval | exp.Cast)
    ]  # fmt: skip
    if not parts:
        return tree
    part = chosen.choice(parts)
    if as_written(part) is not None:
        return tree
    if isinstance(part, exp.Binary) and not isinstance(part, exp.Dot):
        left, right = exp.paren(part.this.copy()), exp.paren(part.expression.copy())
        match chosen.randrange(5):
            case 0:
                new: exp.Expr = type(part)(this=right, expression=left)
            case 1:
                new = chosen.choice(OTHER_OPERATORS)(this=left, expression=right)
            case 2:
                new = chosen.choice(OTHER_OPERATORS)(this=right, expression=left)
            case 3:
                inner = chosen.choice(OTHER_OPERATORS)(this=left, expression=right)
                new = exp.Not(this=exp.paren(inner))
            case _:
                new = exp.Not(this=exp.paren(part.copy()))
    elif isinstance(part, exp.Between):
        value = exp.paren(part.this.copy())
        low, high = (exp.paren(part.args[key].copy()) for key in ("low", "high"))
        if chosen.randrange(3) == 0:
            low, high = high, low
        new = exp.And(
            this=exp.GTE(this=value, expression=low), expression=exp.LTE(this=value.copy(), expression=high)
        )
    elif isinstance(part, exp.In) and part.expressions:
        items = [e.copy() for e in part.expressions]
        new = exp.In(this=part.this.copy(), expressions=chosen.sample(items, chosen.randint(1, len(items))))
    elif isinstance(part, exp.Case):
        new = part.copy()
        if new.this is not None:
            operand = new.this.copy()
            new.set("this", None)
            for branch in new.args["ifs"]:
                branch.set("this", exp.EQ(this=exp.paren(branch.this.copy()), expression=exp.paren(operand)))
        elif new.args.get("default") is None:
            new.set("default", exp.Null())
    elif isinstance(part, exp.Column):
        new = exp.column(chosen.choice(list(COLUMNS)))
    elif isinstance(part, exp.Literal):
        new = parse_expression(
            chosen.choice(["0", "1", "1.0", "'1'", "'a'", "9007199254740993", "1e0", "NULL"])
        )
    else:
        wrapped = exp.paren(part.copy())
        new = chosen.choice(
            [
                exp.Not(this=wrapped),
                exp.Not(this=exp.paren(exp.Not(this=wrapped))),
                exp.And(this=wrapped, expression=wrapped.copy()),
                exp.Neg(this=wrapped),
                exp.Cast(this=wrapped, to=exp.DataType.build(chosen.choice(["BIGINT", "DOUBLE", "VARCHAR"]))),
                wrapped,
            ]
        )
    part.replace(exp.paren(new))
    return tree


SEEDS = st.integers(0, 2**32)
#: `make search` draws so many times more.
FACTOR = 20 if os.environ.get("SQLSTREAM_SEARCH") == "long" else 1


def bounded(examples: int) -> settings:
    return settings(max_examples=FACTOR * examples, deadline=None, suppress_health_check=list(HealthCheck))


def typed(sql: str) -> st.SearchStrategy[str]:
    return st.sampled_from(sql.split(" "))


#: Expressions by the type that they have, so that most are what the binder takes.
integers = typed("i1 i2 i4 i8 hu u4 1 0 2 5 -1 9007199254740993 len(vc) cardinality(li) (st).a")
numbers = integers | typed("fl db dc db38 1.0 1.5 0.1 1e0 nvl(db,1)")
texts = typed("vc vc 'a' '' '1' upper(vc) (st).b lv[1] concat(vc,'a')")
times = typed("da ts DATE'2020-02-29' TIMESTAMP'1970-01-01'")
arrays = typed("li '[1]' l8 [1,2] [NULL] ld list_transform(li,x->x+i4)")
anything = st.one_of(numbers, texts, times, arrays, typed("bo uu iv ti tz mp st js bl NULL"))
COMPARED = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")


def grown(kind: st.SearchStrategy[str], operators: str) -> st.SearchStrategy[str]:
    return st.recursive(
        kind,
        lambda inner: st.one_of(
            st.builds("({} {} {})".format, inner, typed(operators), inner),
            st.builds("CASE WHEN {} IS NULL THEN {} ELSE {} END".format, anything, inner, inner),
            st.builds("CASE {} WHEN {} THEN {} END".format, inner, inner, inner),
            st.builds("nvl({}, {})".format, inner, inner),
            st.builds("coalesce({}, {})".format, inner, inner),
        ),
        max_leaves=3,
    )


values = [
    grown(integers, "+ * - & | % //"),
    grown(numbers, "+ * - /"),
    grown(texts, "||"),
    grown(times, "-") | times,
    grown(arrays, "+ ||"),
]


def compared(kind: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} {} {})".format, kind, st.sampled_from(COMPARED), kind),
        st.builds("({} {} {} AND {})".format, kind, st.sampled_from(("BETWEEN", "NOT BETWEEN")), kind, kind),
        st.builds("({} {} ({}, {}))".format, kind, st.sampled_from(("IN", "NOT IN")), kind, kind),
        st.builds("({} {} ({}))".format, kind, st.sampled_from(("IN", "NOT IN")), kind),
        st.builds("({} IS {})".format, kind, st.sampled_from(("NULL", "NOT NULL"))),
    )


simple = st.one_of(
    *(compared(kind) for kind in values),
    compared(integers),
    compared(numbers),
    typed("bo i4 TRUE FALSE NULL"),
    st.builds("({} {} {})".format, texts, st.sampled_from(("LIKE", "NOT LIKE", "ILIKE")), texts),
)
conditions = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(("AND", "OR")), inner),
        st.builds("(NOT {})".format, inner),
        st.builds("({} IS {})".format, inner, st.sampled_from(("TRUE", "NOT FALSE", "UNKNOWN"))),
        st.builds("if({}, {}, {})".format, inner, inner, inner),
    ),
    max_leaves=4,
)
expressions = st.one_of(conditions, conditions, *values, scalars)


@pytest.mark.search
@bounded(150)
@given(expressions, SEEDS)
def test_a_changed_expression_has_another_form_or_the_same_rows(sql: str, seed: int) -> None:
    node = bound(sql)
    if node is None:
        return
    chosen = random.Random(seed)
    other = node
    for _ in range(chosen.randint(1, 3)):
        other = mutated(other, chosen).unnest()
    changed = bound(duckdb_sql(without_marks(other)))
    if changed is not None:
        assert_sound(node, changed)


@pytest.mark.search
@bounded(15)
@given(st.lists(expressions, min_size=2, max_size=30))
def test_expressions_of_one_form_give_the_same_rows(written: list[str]) -> None:
    nodes = [node for node in map(bound, written) if node is not None]
    by_form: dict[str, exp.Expr] = {}
    for node in nodes:
        assert_sound(by_form.setdefault(form_of(node).digest, node), node)


@bounded(60)
@given(expressions)
def test_every_expression_has_a_form_that_is_read_back(sql: str) -> None:
    node = bound(sql)
    if node is None:
        return
    found = form_of(node)
    assert from_json(to_json({"root": found})) == {"root": found}
    assert form_of(node.copy()) == found
