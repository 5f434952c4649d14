"""Types of random expressions are DuckDB's; what is refused says why and the way out."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from sqlstream_operators.plan.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    NULL,
    TIMESTAMP,
    UNKNOWN,
    VARCHAR,
    array,
    decimal,
    struct,
)
from sqlstream_planner.diagnostics import Span
from sqlstream_planner.expressions.infer import infer, require_boolean
from sqlstream_planner.sql.problems import TypeProblem
from tests.planner.expressions.typing_referee import COLUMNS, agrees, duckdb_type, our_type, parse

LITERALS = [
    "1",
    "0",
    "100",
    "300",
    "70000",
    "3000000000",
    "99999999999999999999",
    "1.5",
    "0.10",
    "123456.789",
    "1e3",
    "'a'",
    "'1'",
    "'2020-01-01'",
    "''",
    "NULL",
    "TRUE",
    "FALSE",
    "-1",
    "[1,2]",
    "['a']",
    "[]",
    "{'a':1}",
    "MAP{'a':1}",
]
TIMES = ["DATE '2020-01-01'", "TIMESTAMP '2020-01-01 10:00:00'", "INTERVAL 1 DAY", "TIME '10:00:00'"]
TYPES = (*COLUMNS.values(), "DECIMAL(4,1)", "VARCHAR(5)", "INTEGER[][]", "DATE[]", "STRUCT(a BIGINT, c DATE)")
UNARY = (
    "abs",
    "upper",
    "length",
    "round",
    "ceil",
    "year",
    "sqrt",
    "to_json",
    "md5",
    "list_sort",
    "sign",
    "hash",
    "trim",
)
BINARY = (
    "greatest",
    "coalesce",
    "nullif",
    "concat",
    "list_contains",
    "round",
    "power",
    "date_diff_day",
    "list_concat",
)
AGGREGATES = (
    "sum",
    "avg",
    "min",
    "max",
    "count",
    "median",
    "list",
    "any_value",
    "mode",
    "stddev",
    "bool_and",
    "first",
)
OPERATORS = ("+", "-", "*", "/", "//", "%", "||", "&", "|", "<<")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM")

leaves = st.sampled_from([*COLUMNS, *COLUMNS, *LITERALS, *TIMES])


def compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Bigger expressions out of smaller ones."""
    binary = st.builds("({} {} {})".format, inner, st.sampled_from(OPERATORS), inner)
    compared = st.builds("({} {} {})".format, inner, st.sampled_from(COMPARISONS), inner)
    one = st.builds("{}({})".format, st.sampled_from(UNARY), inner)
    two = st.builds(
        lambda name, a, b: f"date_diff('day', {a}, {b})" if name == "date_diff_day" else f"{name}({a}, {b})",
        st.sampled_from(BINARY),
        inner,
        inner,
    )
    return st.one_of(
        binary,
        compared,
        one,
        two,
        st.builds("(- {})".format, inner),
        st.builds("({} AND {})".format, inner, inner),
        st.builds("(NOT {})".format, inner),
        st.builds("({} IS NULL)".format, inner),
        st.builds("({} BETWEEN {} AND {})".format, inner, inner, inner),
        st.builds("({} IN ({}, {}))".format, inner, inner, inner),
        st.builds("({} LIKE {})".format, inner, inner),
        st.builds("CASE WHEN {} THEN {} ELSE {} END".format, inner, inner, inner),
        st.builds("CASE {} WHEN {} THEN {} END".format, inner, inner, inner),
        st.builds("CAST({} AS {})".format, inner, st.sampled_from(TYPES)),
        st.builds("TRY_CAST({} AS {})".format, inner, st.sampled_from(TYPES)),
        st.builds("[{}, {}]".format, inner, inner),
        st.builds("{{'a': {}, 'b': {}}}".format, inner, inner),
        st.builds("({})[{}]".format, inner, inner),
        st.builds("({})[1:2]".format, inner),
        st.builds("struct_pack(a := {}, b := {}).a".format, inner, inner),
        st.builds("EXTRACT(YEAR FROM {})".format, inner),
        st.builds("date_trunc('day', {})".format, inner),
        st.builds("list_transform({}, lambda x: x + {})".format, inner, inner),
        st.builds("list_filter({}, lambda x: x > {})".format, inner, inner),
        st.builds("if({}, {}, {})".format, inner, inner, inner),
    )


scalars = st.recursive(leaves, compound, max_leaves=5)
aggregated = st.builds("{}({})".format, st.sampled_from(AGGREGATES), scalars)


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(scalars)
def test_random_expressions_are_typed_as_duckdb_types_them(sql: str) -> None:
    assert agrees(sql) is None


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(aggregated)
def test_random_aggregates_are_typed_as_duckdb_types_them(sql: str) -> None:
    assert agrees(sql) is None


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(scalars)
def test_what_is_said_never_to_be_null_is_not(sql: str) -> None:
    from tests.planner.expressions.typing_referee import SCOPE, connection

    node = parse(sql)
    try:
        typed = infer(node, {name: (type_, False) for name, (type_, _) in SCOPE.items()})
    except TypeProblem:
        return
    if typed.nullable or duckdb_type(sql) is None:
        return
    connection().execute("CREATE TABLE IF NOT EXISTS full_row AS " + FULL_ROW)
    try:
        rows = connection().sql(f"SELECT ({sql}) IS NULL FROM full_row").fetchall()
    except Exception:
        return  # a value that does not fit: no answer at all
    assert rows == [(False,)]


_VALUES = {
    "BOOLEAN": "TRUE",
    "VARCHAR": "'1'",
    "BLOB": "'a'::BLOB",
    "DATE": "DATE '2020-01-01'",
    "TIME": "TIME '10:00:00'",
    "TIMESTAMP": "TIMESTAMP '2020-01-01'",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ '2020-01-01'",
    "INTERVAL": "INTERVAL 1 DAY",
    "UUID": "'00000000-0000-0000-0000-000000000000'::UUID",
    "JSON": "'{\"a\": 1}'::JSON",
    "INTEGER[]": "[1]",
    "VARCHAR[]": "['a']",
    "DOUBLE[]": "[1.5]::DOUBLE[]",
    "BOOLEAN[]": "[TRUE]",
    "FLOAT[]": "[1.5]::FLOAT[]",
    "BIGINT[]": "[1]::BIGINT[]",
    "INTEGER[][]": "[[1]]",
    "MAP(VARCHAR, INTEGER)": "MAP {'a': 1}",
    "STRUCT(a INTEGER, b VARCHAR)": "{'a': 1, 'b': 'x'}",
}
FULL_ROW = "SELECT " + ", ".join(f"{_VALUES.get(t, f'1::{t}')} AS {n}" for n, t in COLUMNS.items())

# Expressions that a search or a reader once got wrong, and the corners that the task names.
_PINNED = r"""
concat(bl, bl);
1 + 1; i1 + 1; i1 + 1000; u8 + i4; i1 + u1; i4 + dc; dc * dc; dc * 1; db38 * db38; db38 % dc; dc / dc;
i4 / 2; i4 // 2; fl / 2; da + 1; da - da; ts - ts; ts - da; da + ti; ts + iv; iv * 2; da + '1 day';
ts + '1 day'; vc + 1; i4 + '1'; -vc; -NULL; abs(NULL); NULL + 1; NULL || 1; vc || 1; li || li; li || lv;
li || i4; bl || bl; vc < 1; i4 = '1'; da = '2020-01-01'; ts = tz; CASE WHEN bo THEN 1 ELSE 'a' END;
CASE WHEN bo THEN i4 ELSE vc END; CASE WHEN bo THEN NULL END; coalesce(bo, 1); coalesce(fl, i8);
coalesce(dc, i8); coalesce(hu, dc); coalesce(dc, db38); greatest(i4, vc); [1, 2.5]; [i4, vc]; [];
{'a': NULL}; MAP {'a': 1}; map([], []); st.a; st['b']; st.zz; mp['a']; mp[1]; li[1]; li[vc]; vc[1];
vc[1:2]; js.a.b; js->'a'; js->>'$.a'; date_part('year', ts); date_part(vc, ts);
date_part(['year', 'epoch'], ts); EXTRACT(epoch FROM ts); EXTRACT(second FROM ts); date_trunc('day', da);
list_transform(li, lambda x, i: x + i); list_reduce(li, lambda x, y: x + y);
list_filter(li, lambda x: x); [x + 1 FOR x IN li IF x > 1]; list_aggregate(li, 'sum'); list_avg(li);
struct_insert(st, c := 1); struct_update(st, a := 'x'); map_from_entries([{'k': 1, 'v': 2}]); sum(i4);
sum(dc); sum(fl); sum(bo); sum(vc); avg(i4); avg(dc); avg(ts); avg(vc); median(i4);
quantile_cont(i4, 0.5); quantile_cont(da, [0.5]); histogram(i4); arg_max(st, ts); arg_min(i4, vc, 2);
string_agg(vc, ',' ORDER BY i4); sum(i4) FILTER (WHERE bo); count(*); count(DISTINCT i4); min(js);
approx_quantile(dc, [0.5]); mode(i4); list(st); bit_and(u2); bool_or(bo); stddev_samp(i4);
row_number() OVER (ORDER BY i4); sum(i4) OVER (PARTITION BY vc); lag(i4, 1, 0) OVER (ORDER BY i4);
first_value(vc) OVER (ORDER BY i4); sum(sum(i4)); row_number(); ts AT TIME ZONE 'UTC';
tz AT TIME ZONE 'UTC'; vc LIKE 'a%'; i4 LIKE 'a'; vc ILIKE vc; vc SIMILAR TO 'a'; round(dc, 1);
round(dc, -1); round(dc, i4); round(dc); round(u1); ceil(dc); floor(i4); trunc(dc, 9); 100.00;
3000000000; 99999999999999999999; 1e3; X'AB'; i4 IN (1, 2.5); i4 IN (1, 'a'); NOT 'a';
coalesce('a', 'b', 1); coalesce(1, 2, u1); CASE WHEN bo THEN 'a' WHEN bo THEN 'b' ELSE i4 END; js[1:2];
bl[1:2]; ['a', 'b', 1]; list_contains('[1]', 1); list_transform(NULL, lambda x: 1);
greatest('a', 'b', 1); ('1' BETWEEN '1' AND [1, 2]); ('1' BETWEEN 1 AND '1'); (da BETWEEN '1' AND '2');
try(i4 + 1); switch(i4, MAP {1: 'a'}); x'00'; date_add(da, INTERVAL 1 DAY); list_append(li, 'a')
"""
PINNED = [sql.strip() for sql in _PINNED.split(";")]


@pytest.mark.parametrize("sql", PINNED)
def test_known_expressions_are_typed_as_duckdb_types_them(sql: str) -> None:
    assert agrees(sql) is None


def test_most_random_expressions_are_typed_not_left_unknown() -> None:
    bound = [sql for sql in PINNED if duckdb_type(sql) is not None]
    assert [sql for sql in bound if our_type(parse(sql)) == UNKNOWN] == []
    assert len(bound) > 100


SCOPE = {
    "price": (BIGINT, False),
    "name": (VARCHAR, True),
    "ts": (TIMESTAMP, False),
    "s": (struct(("a", INTEGER), ("b", VARCHAR)), True),
    "b.bid": (INTEGER, False),
    "tags": (array(VARCHAR), True),
}


def problem_of(sql: str, *, aggregates: bool = False) -> TypeProblem:
    with pytest.raises(TypeProblem) as found:
        infer(parse(sql), SCOPE, aggregates=aggregates)
    return found.value


def test_a_name_ignores_case_and_may_be_qualified() -> None:
    assert infer(parse("PRICE"), SCOPE).type == BIGINT
    assert infer(parse("b.price"), SCOPE).type == BIGINT
    assert infer(parse("B.bid"), SCOPE).type == INTEGER
    assert infer(parse("s.A"), SCOPE).type == INTEGER


def test_an_unknown_column_names_the_nearest() -> None:
    problem = problem_of("pirce + 1")
    assert (problem.code, problem.message) == ("TYP008", "unknown column `pirce`")
    assert problem.help == "did you mean `price`?"
    assert isinstance(problem.node, exp.Column)


def test_an_unknown_field_names_the_fields() -> None:
    problem = problem_of("s.c")
    assert problem.code == "TYP006"
    assert problem.notes == ("its fields: a, b",)


def test_a_comparison_of_text_with_a_number_shows_the_cast() -> None:
    problem = problem_of("name = price")
    assert problem.code == "TYP003"
    assert problem.message == "VARCHAR can't be compared with BIGINT"
    assert problem.help == "CAST(name AS BIGINT), or TRY_CAST to get NULL where it is none"


def test_a_literal_adapts_to_what_it_is_compared_with() -> None:
    assert infer(parse("price = '5'"), SCOPE).nullable is False
    assert infer(parse("ts > '2020-01-01'"), SCOPE).nullable is False


def test_an_aggregate_where_none_is_allowed() -> None:
    assert problem_of("sum(price) > 5").code == "TYP005"
    assert infer(parse("sum(price)"), SCOPE, aggregates=True).type.kind == "HUGEINT"
    assert problem_of("sum(sum(price))", aggregates=True).code == "TYP005"
    assert problem_of("sum(price) OVER ()").code == "TYP005"
    assert problem_of("row_number()").help == "row_number(…) OVER (PARTITION BY … ORDER BY …)"


def test_a_cast_that_can_only_fail_is_refused_with_what_to_write() -> None:
    problem = problem_of("CAST(price AS TIMESTAMP)")
    assert problem.code == "TYP007"
    assert problem.help is not None
    assert "TO_TIMESTAMP_LTZ(price, 3)" in problem.help


def test_a_condition_must_be_a_boolean() -> None:
    with pytest.raises(TypeProblem) as found:
        require_boolean(parse("ts"), SCOPE, "WHERE")
    assert found.value.code == "TYP004"
    assert found.value.message == "WHERE needs a BOOLEAN, this is TIMESTAMP"
    assert require_boolean(parse("price > 1"), SCOPE, "WHERE").nullable is False


def test_all_problems_are_reported_when_asked_for() -> None:
    found: list[TypeProblem] = []
    typed = infer(parse("pirce + nosuch(price) + CAST(ts AS INT)"), SCOPE, found.append)
    assert [p.code for p in found] == ["TYP008", "TYP001", "TYP007"]
    assert typed.type == UNKNOWN


def test_a_problem_becomes_a_diagnostic_with_its_place() -> None:
    diagnostic = problem_of("pirce").diagnostic(Span("q.sql", 1, 8, 5))
    assert diagnostic.code == "TYP008"
    assert diagnostic.span == Span("q.sql", 1, 8, 5)


@pytest.mark.parametrize(
    ("sql", "nullable"),
    [
        ("price + 1", False),
        ("price + NULL", True),
        ("upper(name)", True),
        ("coalesce(name, 'x')", False),
        ("name IS NULL", False),
        ("name IS NOT DISTINCT FROM 'a'", False),
        ("CASE WHEN price > 1 THEN 1 END", True),
        ("CASE WHEN price > 1 THEN 1 ELSE 2 END", False),
        ("TRY_CAST(price AS INT)", True),
        ("CAST(price AS INT)", False),
        ("tags[1]", True),
        ("count(name)", False),
        ("sum(price)", True),
        ("concat(name, name)", False),
        ("concat_ws('-', name, name)", False),
        ("concat_ws(name, 'a', 'b')", True),
        ("concat_ws(NULL, 'a', 'b')", True),
        ("date_trunc('day', ts)", False),
    ],
)
def test_nullability(sql: str, nullable: bool) -> None:
    assert infer(parse(sql), SCOPE, aggregates=True).nullable is nullable


def test_an_unknown_type_is_infectious_but_silent() -> None:
    scope = {"u": (UNKNOWN, True), "n": (INTEGER, True)}
    for sql, type_ in {
        "u + n": UNKNOWN,
        "u.x.y": UNKNOWN,
        "u[1]": UNKNOWN,
        "coalesce(u, n)": UNKNOWN,
        "CASE WHEN u THEN u ELSE n END": UNKNOWN,
        "sum(u)": UNKNOWN,
        "upper(u)": UNKNOWN,
        "[u]": array(UNKNOWN),
        # What gives one type whatever it is given.
        "u = n": BOOLEAN,
        "CAST(u AS INT)": INTEGER,
    }.items():
        assert infer(parse(sql), scope, aggregates=True).type == type_, sql


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.one_of(scalars, aggregated))
def test_no_expression_breaks_the_typing_itself(sql: str) -> None:
    for type_ in (UNKNOWN, NULL):
        found: list[TypeProblem] = []
        infer(parse(sql), dict.fromkeys(COLUMNS, (type_, True)), found.append, aggregates=True)
        assert all(problem.message for problem in found)


def test_a_decimal_keeps_its_digits() -> None:
    scope = {"d": (decimal(12, 4), False)}
    assert str(infer(parse("sum(d)"), scope, aggregates=True).type) == "DECIMAL(38,4)"
    assert infer(parse("d / 2"), scope).type == DOUBLE


@pytest.mark.parametrize("written", ["DECIMAL(NULL, 2)", "DECIMAL(a)", "DECIMAL(10, 'x')"])
def test_a_decimal_of_no_number_of_digits_is_no_type(written: str) -> None:
    with pytest.raises(TypeProblem, match="there is no type"):
        infer(parse(f"CAST(1 AS {written})"), {})
