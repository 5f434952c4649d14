"""The catalogue from end to end: what is planned of each call is what DuckDB makes of it.

Refusing is always right; what is accepted must have DuckDB's type, must not be NULL where it is said not to be,
and must not be refused by DuckDB once it runs.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import duckdb
import pytest

from sqlstream.connectors.registry import REGISTERED
from sqlstream_operators.plan.types import INTEGER, NULL, TIMESTAMP, VARCHAR, SqlType
from sqlstream_planner.aggregates import registry
from sqlstream_planner.bind.script import bind_script
from sqlstream_planner.catalog.script import read_catalog
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.expressions.casts import TypedExpr
from sqlstream_planner.expressions.functions import catalogue
from sqlstream_planner.expressions.functions.catalogue import FunctionKind
from sqlstream_planner.expressions.functions.translate import translate
from sqlstream_planner.expressions.functions.translate.rewrite import translated_names
from sqlstream_planner.expressions.infer import infer
from sqlstream_planner.sql.dialect import SqlSyntaxError, duckdb_sql
from sqlstream_planner.sql.parse import parse_file
from sqlstream_planner.sql.problems import TypeProblem
from tests.planner.expressions.catalogue_calls import calls, database, functions, some
from tests.planner.expressions.typing_referee import SCOPE, parse, same, type_named

LONG = os.environ.get("SQLSTREAM_SEARCH") == "long"
#: Of so many calls one is tried; the long search tries all.
ONE_OF = 1 if LONG else 8
#: The columns of a table in which nothing is NULL.
FULL = {name: (type_, False) for name, (type_, _) in SCOPE.items()}

#: Their constants are looked at where an aggregate is planned (tests/planner/aggregates/test_aggregate_records.py), or their
#: type is not known, so that no column can be made of them.
_LATER = frozenset(
    {"decimal_division", "decimal_average", "from_json", "from_json_strict", "json_transform"}
    | {"json_transform_strict", "quantile", "quantile_cont", "quantile_disc", "approx_quantile"}
    | {"reservoir_quantile", "approx_top_k"}
    | {"string_agg", "listagg", "group_concat"}
)


@dataclass(frozen=True)
class Planned:
    """A call, its name, as DuckDB's SQL, and what is planned of it (or why not)."""

    call: str
    name: str
    sql: str
    typed: TypedExpr | TypeProblem


@cache
def planned(call: str, name: str) -> Planned:
    """What a call is to the planner, over columns that are never NULL."""
    node = parse(call)
    try:
        translated = translate(node, lambda e: infer(e, FULL, aggregates=True).type)
        return Planned(call, name, duckdb_sql(translated), infer(translated, FULL, aggregates=True))
    except TypeProblem as problem:
        return Planned(call, name, duckdb_sql(node), problem)


def tried(*, aggregates: bool, one_of: int = ONE_OF) -> Iterator[tuple[str, str]]:
    """The calls that are tried, each with the name of its function."""
    shift = random.randrange(one_of) if LONG else 0
    for function in functions():
        aggregate = function.kind is FunctionKind.AGGREGATE
        if aggregate is not aggregates or (aggregate and registry.find(function.name) is None):
            continue
        found = list(dict.fromkeys(c for o in function.overloads for c in calls(function, o)))
        yield from ((call, function.name) for call in (found[:1] + some(found[1:], one_of, shift=shift)))


@cache
def every(aggregates: bool) -> tuple[Planned, ...]:
    return tuple(planned(call, name) for call, name in tried(aggregates=aggregates))


@pytest.fixture(scope="module")
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    con = database()
    yield con
    con.close()


def theirs(db: duckdb.DuckDBPyConnection, sql: str) -> SqlType | str:
    """DuckDB's type, or why it refuses; its messages can end within a character."""
    try:
        return type_named(str(db.sql(f"SELECT {sql} AS x FROM t").types[0]))
    except (duckdb.Error, UnicodeDecodeError) as error:
        return f"refused: {error}"


@pytest.mark.parametrize("aggregates", [False, True])
def test_what_is_planned_has_the_type_that_duckdb_gives_it(
    db: duckdb.DuckDBPyConnection, aggregates: bool
) -> None:
    wrong, agreed, too_careful = [], 0, 0
    for each in every(aggregates):
        given = theirs(db, each.sql)
        if isinstance(each.typed, TypeProblem):
            too_careful += not isinstance(given, str)
            continue
        agreed += not isinstance(given, str)
        if isinstance(given, str):
            if each.typed.type.is_known and each.name not in _LATER:
                wrong.append(f"{each.call}: planned as {each.typed.type}, DuckDB {given[:100]}")
        elif (  # of NULLs any type is right
            each.typed.type.is_known
            and given != NULL
            and not (given.is_known and same(each.typed.type, given))
        ):
            wrong.append(f"{each.call}: planned as {each.typed.type}, DuckDB's is {given}")
    assert wrong == []
    assert agreed > (150 if aggregates else 1250)
    assert too_careful < 0.05 * agreed


def test_what_is_planned_as_not_null_is_not(db: duckdb.DuckDBPyConnection) -> None:
    sure = [e for e in every(False) if isinstance(e.typed, TypedExpr) and not e.typed.nullable]
    assert [e.call for e in _gives_null(db, sure)] == []
    assert len(sure) > 250


def _gives_null(db: duckdb.DuckDBPyConnection, some_: Sequence[Planned]) -> Iterator[Planned]:
    """Those that give NULL for a row in which nothing is; what fails for some row is left out."""
    for start in range(0, len(some_), 64):
        yield from _nulls_in(db, some_[start : start + 64])


def _nulls_in(db: duckdb.DuckDBPyConnection, part: Sequence[Planned]) -> Iterator[Planned]:
    items = ", ".join(f"count(*) FILTER (WHERE ({e.sql}) IS NULL)" for e in part)
    try:
        [counts] = db.sql(f"SELECT {items} FROM t").fetchall()
    except (duckdb.Error, UnicodeDecodeError):
        if len(part) > 1:
            middle = len(part) // 2
            yield from _nulls_in(db, part[:middle])
            yield from _nulls_in(db, part[middle:])
        return
    yield from (e for e, count in zip(part, counts, strict=True) if count)


# ------------------------------------------------------------------------- what outsiders came across

TABLE = """CREATE TABLE t (
  i INT, s STRING, j JSON, b BOOLEAN, d DECIMAL(4, 0), m MAP<STRING, INT>, r ROW<a INT, b STRING>, l ARRAY<INT>,
  ts TIMESTAMP(3), da DATE, ti TIME, by BYTES
) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
"""


def planned_type(expression: str) -> SqlType:
    """The type of the column that CREATE TABLE … AS makes of an expression. Raises DiagnosticError."""
    script = parse_file(
        f"{TABLE}CREATE TABLE o WITH ('connector' = 'blackhole') AS SELECT {expression} AS z FROM t;",
        file="f.sql",
    )
    [root] = bind_script(script, read_catalog(script, REGISTERED.descriptors)).roots
    return root.fields[0].type


@pytest.mark.parametrize(
    ("expression", "type_"),
    [
        ("ROUND(d, -1)", "DECIMAL(5,0)"),
        ("ROUND(d, -5)", "DECIMAL(4,0)"),
        ("TRUNC(d, -1)", "DECIMAL(4,0)"),
        ("CAST(MAP{} AS MAP<STRING, INT>)", "MAP(VARCHAR, INTEGER)"),
        ("MAP{}::MAP(VARCHAR, INTEGER)", "MAP(VARCHAR, INTEGER)"),
        ("COALESCE(m, MAP{})", "MAP(VARCHAR, INTEGER)"),
        ("MAP{'a': 1}['a']", "INTEGER"),
        ("MAP{'a': MAP{'b': [2]}}['a']['b'][1]", "INTEGER"),
        ("CARDINALITY(MAP{})", "BIGINT"),
        ("REGEXP_EXTRACT(s, '(a)(b)', ['a', 'b'])", 'STRUCT("a" VARCHAR, "b" VARCHAR)'),
        ("REGEXP_EXTRACT(s, '(a)(b)', ['a', 'b'], 'i').a", "VARCHAR"),
        ("REGEXP_EXTRACT_ALL(s, '(a)(b)', ['a'])", 'STRUCT("a" VARCHAR)[]'),
        ("JSON_KEYS(j, '$.*')", "VARCHAR[][]"),
        ("JSON_EXTRACT(j, '$..a')", "JSON[]"),
        ("JSON_EXTRACT(j, '$.\"a.*\"')", "JSON"),
        ("JSON_EXTRACT(j, s)", "JSON"),
        ("JSON_EXTRACT(j, '$' || '.*')", "JSON[]"),
        ("j -> '$.a[*]'", "JSON[]"),
        ("j ->> '*'", "VARCHAR[]"),
        ("JSON_TYPE(j, '$.a*')", "VARCHAR"),
        ("STRPTIME(s, '%Y %z')", "TIMESTAMP WITH TIME ZONE"),
        ("STRPTIME(s, ['%Y', '%Y-%m'])", "TIMESTAMP"),
        ("STRPTIME(s, '%n')", "TIMESTAMP_NS"),
        ("STRPTIME(s, ['%Y', '%n'])", "TIMESTAMP_NS"),
        ("TRY_STRPTIME(s, '%' || 'n')", "TIMESTAMP_NS"),
        ("BITSTRING(s, 8)", "BIT"),
        ("MEDIAN(NULL)", "DOUBLE"),
        ("MAX_BY(j, i)", "JSON"),
        ("STRUCT_PACK(i, x := s)", 'STRUCT("i" INTEGER, "x" VARCHAR)'),
        ("STRUCT_PACK(x => s)", 'STRUCT("x" VARCHAR)'),
        ("DAYS_IN_MONTH(da)", "BIGINT"),
        # What has a type that no column can have may stand inside.
        ("CAST(MD5_NUMBER(s) AS STRING)", "VARCHAR"),
        ("BIT_COUNT(BITSTRING(s, 8))", "BIGINT"),
        ("ST_ASTEXT(ST_GEOMFROMWKB(by))", "VARCHAR"),
        ("LIST_TRANSFORM(l, lambda x: GET_BIT(BITSTRING(s, 8), x + i))", "INTEGER[]"),
        ('JSON_TRANSFORM(s, \'{"a": ["INTEGER"]}\').a[1]', "INTEGER"),
        ("MD5_NUMBER_LOWER(s)", "UBIGINT"),
        ("AGE(ts, ts)", "INTERVAL"),
        ("formatReadableSize(i)", "VARCHAR"),
        ("EXTRACT(HOUR FROM ti)", "BIGINT"),
    ],
)
def test_the_type_of(expression: str, type_: str) -> None:
    assert str(planned_type(expression)) == type_


@pytest.mark.parametrize(
    "expression",
    [
        *("MD5_NUMBER(s)", "GETENV('HOME')", "SETSEED(0.5)"),
        *("PG_HAS_ROLE(1, 2, 3)", "CREATE_SORT_KEY(s)", "COLLATE_DE(s)", "GENERATE_SUBSCRIPTS(l, 1)"),
        *("MAP([1])", "MAP([1], [2], [3])"),
        *(
            "CONCAT()",
            "STRUCT_CONCAT()",
            "STRUCT_CONCAT(i)",
            "STRUCT_CONCAT(r, r)",
            "{'a': 1, 'A': 2}",
        ),
        *("STRUCT_INSERT()", "STRUCT_INSERT(i, a := 1)", "STRUCT_INSERT(r, a := 1)", "STRUCT_INSERT(r, i)"),
        *(
            "CAST(i AS DECIMAL(3.2))",
            "CAST(i AS DECIMAL(3, NULL))",
            "CAST(i AS DECIMAL('3'))",
            "i::DECIMAL(1, 2, 3)",
        ),
        *("CAST(ts AS TIMESTAMP(NULL))", "CAST(ts AS TIMESTAMP(2.5))", "TRY_CAST(s AS TIMESTAMP('a'))"),
        *("CAST(s AS TIME(2.5))", "CAST(i AS INT(3))", "CAST(i AS DOUBLE(3))", "CAST(by AS VARBINARY(5))"),
        *("CAST(i AS NULL)", "TIMESTAMP(NULL)", "TIMESTAMP(ts)"),
        *(
            "REGEXP_EXTRACT(s, s, ['a'])",
            "REGEXP_EXTRACT(s, '(a)', ['a', 'b'])",
            "REGEXP_EXTRACT(s, '(a)', [])",
        ),
        *(
            "REGEXP_EXTRACT(s, '(a)(b)', ['a', 'A'])",
            "REGEXP_EXTRACT(s, '(a)', [NULL])",
            "REGEXP_EXTRACT(s, 'a', i)",
        ),
        *("REGEXP_EXTRACT(s, 'a', 10)", "REGEXP_MATCHES(s, 'a', 'x')", "REGEXP_MATCHES(s, s, 'ÿ')"),
        *("REGEXP_MATCHES(s, 'a', NULL)", "REGEXP_MATCHES(s, 'a', s)", "REGEXP_MATCHES(s, 'a', 'g')"),
        *("JSON_EXTRACT(j, ['$.a', '$.*'])", "JSON_EXTRACT(j, '$..')"),
        *(
            "JSON_VALUE(j, '$.*')",
            "JSON_QUERY(j, '$[*]')",
            "JSON_EXISTS(j, '$..a')",
            "GET_JSON_OBJECT(s, '$.*')",
        ),
        *(
            "JSON_VALUE(j, ['$.a'])",
            "JSON_QUERY(j, ['$.a', '$.b'])",
            "JSON_EXISTS(j, [s])",
            "JSON_VALUE(j, [])",
        ),
        *(
            "STRPTIME(s, s)",
            "STRPTIME(s, '')",
            "STRPTIME(s, '%')",
        ),
        *("STRFTIME(ts, '%Q')", "STRFTIME(ts, '')", "STRPTIME(s, [])"),
        *(
            "LIST_SORT(l, 'upwards')",
            "LIST_SORT(l, s)",
            "LIST_SORT(l, 'ASC', 'NULLS')",
            "LIST_AGGREGATE(l, s)",
        ),
        *("ARRAY_TO_JSON(i)", "ARRAY_TO_JSON(r)", "ARRAY_TO_JSON(m)", "ARRAY_TO_JSON(s)", "ROW_TO_JSON(l)"),
        *("CARDINALITY(i)", "CARDINALITY(r)", "COALESCE()", "MAP_CONCAT()", "MAP_CONCAT(m)"),
        *(
            "LIST_AGGREGATE(l, NULL)",
            "ARRAY_TO_STRING(l, s)",
            "TO_JSON(i, i)",
            "CARDINALITY(l, l)",
            "JSON_OBJECT(i, i)",
        ),
        *(
            "EXTRACT(YEAR FROM ti)",
            "DATE_PART('week', INTERVAL '1' DAY)",
            "DATE_TRUNC('era', ts)",
            "s[1:2:1]",
        ),
        *("DATE_PART(['year', 'year'], ts)", "DATE_PART([], ts)", "LIST_SLICE(s, 1, 2, 1)"),
        *(
            "UPPER(DISTINCT s)",
            "UPPER(s ORDER BY s)",
            "UPPER(s AS x)",
            "UPPER(x := s)",
            "SUM(x := i)",
            "NVL(a := i, b := 1)",
        ),
        *(
            "UPPER(t.*)",
            "UPPER(*)",
            "GREATEST(*, 1)",
            "CONCAT(t.*, 'a')",
            "t.* IS NULL",
            "CAST(t.* AS STRING)",
            "[*]",
        ),
        *(
            "i IN (t.*)",
            "CASE WHEN b THEN t.* END",
            "i + t.*",
            "STRUCT_PACK(*)",
            "STRUCT_PACK(1)",
            "STRUCT_PACK(i, i)",
        ),
    ],
)
def test_what_can_not_run_is_refused_at_its_place(expression: str) -> None:
    with pytest.raises(DiagnosticError) as refused:
        planned_type(expression)
    line = TABLE.count("\n") + 1
    start = len("CREATE TABLE o WITH ('connector' = 'blackhole') AS SELECT ") + 1
    for diagnostic in refused.value.diagnostics:
        assert diagnostic.span is not None
        assert diagnostic.span.line == line
        assert start <= diagnostic.span.column < start + len(expression)


def _kind(name: str) -> FunctionKind:
    function = catalogue.lookup(name)
    assert function is not None, name
    return function.kind


@pytest.mark.parametrize("kind", list(FunctionKind))
def test_every_function_with_any_number_of_arguments_is_planned_or_refused(kind: FunctionKind) -> None:
    """Nothing, too much, NULL, texts and other types: never a crash, always a place."""
    scope = {"i": (INTEGER, True), "s": (VARCHAR, True), "ts": (TIMESTAMP, True)}
    names = [n for n in catalogue.names() if _kind(n) is kind and n not in ("apply", "position")]
    if kind is FunctionKind.SCALAR:
        names += translated_names()
    forms = [
        "",
        *(", ".join([a] * n) for n in (1, 2, 3, 4) for a in ("NULL", "i", "s", "''", "MAP{}", "[]", "ts")),
    ]
    problems = 0
    for number, name in enumerate(names):
        # Each function a third of them, and its neighbours the others.
        for form in forms if LONG else forms[number % 3 :: 3]:
            try:
                node = parse(f"{name}({form})")
                infer(
                    translate(node, lambda e: infer(e, scope, aggregates=True).type), scope, aggregates=True
                )
            except (TypeProblem, SqlSyntaxError):
                problems += 1
    assert problems > (5 if LONG else 1.5) * len(names)
