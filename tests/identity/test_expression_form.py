"""Forms of expressions: what is one, what is not, and that nothing of the parser's is in them."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from sqlglot import exp

from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.expressions.functions import catalogue
from sqlstream_planner.expressions.functions.translate import (
    AGGREGATES,
    TRANSLATIONS,
    translate,
    translate_marked,
)
from sqlstream_planner.expressions.functions.translate.rewrite import is_translated
from sqlstream_planner.identity.expression import OPERATORS, expression_form
from sqlstream_planner.identity.expression.synonyms import SYNONYMS
from sqlstream_planner.identity.form import Form, form, size, text, walk
from sqlstream_planner.sql.as_written import as_written, without_marks
from sqlstream_planner.sql.dialect import SqlSyntaxError, duckdb_sql, parse_expression
from sqlstream_planner.sql.problems import TypeProblem
from tests.identity.expressions import FORMS, form_of

EQUAL = """
i4 = 1 | 1 = i4
i4 > 1 | 1 < i4
i4 >= i8 | i8 <= i4
i4 <> 1 | 1 != i4
NOT i4 = 1 | i4 <> 1
NOT i4 <> 1 | i4 = 1
NOT i4 < 1 | i4 >= 1
NOT i4 >= 1 | 1 > i4
NOT NOT i4 < 1 | i4 < 1
NOT (i4 < 1 AND vc = 'a') | vc <> 'a' OR i4 >= 1
NOT (i4 < 1 OR bo) | NOT bo AND i4 >= 1
i4 = 1 AND i8 = 2 | i8 = 2 AND i4 = 1
i4 = 1 AND (i8 = 2 AND i2 = 3) | (i2 = 3 AND i4 = 1) AND i8 = 2
i4 = 1 AND i4 = 1 | i4 = 1
i4 = 1 OR i8 = 2 OR i4 = 1 | i8 = 2 OR i4 = 1
bo AND bo | NOT NOT bo
i4 BETWEEN 1 AND 5 | i4 >= 1 AND i4 <= 5
i4 BETWEEN 1 AND 5 | 5 >= i4 AND 1 <= i4
i4 NOT BETWEEN 1 AND 5 | i4 < 1 OR i4 > 5
i4 BETWEEN -5 AND 5 | i4 >= -5 AND i4 <= 5
da BETWEEN DATE '2020-01-01' AND DATE '2020-02-01' | da >= DATE '2020-01-01' AND da <= DATE '2020-02-01'
vc BETWEEN 'a' AND 'b' | vc <= 'b' AND vc >= 'a'
i8 BETWEEN i4 AND i4 | i4 <= i8 AND i8 <= i4
i4 IN (1) | i4 = 1
i4 IN (1, 2) | i4 IN (2, 1, 2)
i4 NOT IN (1, 2) | NOT (i4 IN (2, 1))
i4 NOT IN (1) | i4 <> 1
i4 IS NOT NULL | NOT (i4 IS NULL)
i4 IS NOT NULL | i4 NOTNULL
bo IS NOT TRUE | NOT bo IS TRUE
bo IS UNKNOWN | bo IS NULL
i4 IS DISTINCT FROM 1 | NOT (1 IS NOT DISTINCT FROM i4)
i4 <=> i8 | i8 IS NOT DISTINCT FROM i4
vc NOT LIKE 'a%' | NOT vc LIKE 'a%'
vc NOT ILIKE 'a%' | NOT (vc ILIKE 'a%')
vc NOT LIKE 'a!%' ESCAPE '!' | NOT (vc LIKE 'a!%' ESCAPE '!')
((i4)) + (1) | i4 + 1
i4 + 1 | 1 + i4
i4 + i8 | i8 + i4
i4 * 2 | 2 * i4
i4 & 3 | 3 & i4
i4 | 3 | 3 | i4
xor(i4, i8) | xor(i8, i4)
da + INTERVAL 1 DAY | INTERVAL 1 DAY + da
i4::BIGINT | CAST(i4 AS BIGINT)
CAST(i4 AS INT8) | CAST(i4 AS BIGINT)
CAST(i4 AS VARCHAR(5)) | CAST(i4 AS STRING)
CAST(i4 AS NUMERIC(10, 2)) | i4::DECIMAL(10, 2)
CAST(i4 AS DECIMAL(10)) | CAST(i4 AS DECIMAL(10, 0))
DATE '2020-01-01' | CAST('2020-01-01' AS DATE)
CAST(vc AS TIMESTAMP(6)) | CAST(vc AS TIMESTAMP)
CAST(vc AS TIMESTAMP_LTZ(6)) | CAST(vc AS TIMESTAMPTZ)
INTERVAL '60' SECOND | INTERVAL '1' MINUTE
INTERVAL '1:30' MINUTE TO SECOND | INTERVAL 90 SECONDS
INTERVAL '7' DAY | INTERVAL 1 WEEK
INTERVAL '1' YEAR | INTERVAL '12 months'
1E5 | 1e5
007 | 7
X'FF' | x'ff'
upper(vc) | UPPER(vc)
ucase(vc) | upper(vc)
len(vc) | CHARACTER_LENGTH(vc)
pow(i4, 2) | i4 ** 2
IF(bo, 1, 2) | CASE WHEN bo THEN 1 ELSE 2 END
CASE i4 WHEN 1 THEN 'a' END | CASE WHEN i4 = 1 THEN 'a' ELSE NULL END
NVL(i4, 0) | COALESCE(i4, 0)
IFNULL(i4, 0) | coalesce(i4, 0)
EXTRACT(YEAR FROM da) | extract(year FROM da)
li[1:2] | (li)[1:2]
MAP['a', 1] | MAP {'a': 1}
{'a': 1, 'b': i4} | struct_pack(a := 1, b := i4)
list_transform(li, x -> x + i4) | list_transform(li, lambda y: y + i4)
array_transform(li, x -> x) | list_apply(li, e -> e)
list_filter(li, (x, i) -> i > x) | list_filter(li, (e, n) -> e < n)
POSITION('a' IN vc) | instr(vc, 'a')
TRIM(BOTH 'x' FROM vc) | trim(vc, 'x')
SUBSTRING(vc FROM 2 FOR 3) | substr(vc, 2, 3)
vc ->> '$.a' | json_extract_string(vc, '$.a')
vc SIMILAR TO 'a%' | (vc SIMILAR TO 'a%')
SUM(i4) FILTER (WHERE i8 > 1) | sum(i4) FILTER (WHERE 1 < i8)
MEAN(i4) | AVG(i4)
COUNT(DISTINCT i4) | count(DISTINCT (i4))
"""

UNEQUAL = """
1 | 1.0
1 | '1'
1 | 1e0
.5 | 0.5
1.0 | 1.00
'a' | 'A'
'a' | 'a '
'a' | x'61'
TRUE | 'true'
NULL | 'NULL'
i4 | i8
i4 = 1 | i4 = 2
i4 = 1 | i4 <> 1
i4 < 1 | i4 > 1
i4 < 1 | i4 <= 1
i4 = 1 | i4 IS NOT DISTINCT FROM 1
i4 = NULL | i4 IS NULL
bo | bo IS TRUE
bo IS NOT TRUE | bo IS FALSE
bo = TRUE | bo IS TRUE
i4 AND i4 | i4
NOT NOT i4 | i4
i4 = 1 AND i8 = 2 | i4 = 1 OR i8 = 2
i4 = 1 OR i8 = 2 AND i2 = 3 | (i4 = 1 OR i8 = 2) AND i2 = 3
i4 BETWEEN 1 AND 5 | i4 BETWEEN 5 AND 1
i4 BETWEEN 1 AND 5 | i4 BETWEEN SYMMETRIC 1 AND 5
i4 BETWEEN SYMMETRIC 1 AND 5 | i4 BETWEEN SYMMETRIC 1 AND 6
i8 BETWEEN 9007199254740993 AND db | i8 >= 9007199254740993 AND i8 <= db
i8 BETWEEN i8 AND 1e300 | i8 >= i8 AND i8 <= 1e300
i4 IN (1, 2) | i4 IN (1, 3)
i4 IN (1, 2) | i4 IN (1, 2, 3)
i4 IN (1, 2) | i4 IN (1, 2.0)
i4 IN (1, NULL) | i4 IN (1)
vc LIKE 'a' | vc ILIKE 'a'
vc LIKE 'a' | 'a' LIKE vc
vc LIKE 'a!%' | vc LIKE 'a!%' ESCAPE '!'
vc LIKE 'a!%' ESCAPE '!' | vc LIKE 'a!%' ESCAPE '#'
vc SIMILAR TO 'a%' | vc LIKE 'a%'
vc SIMILAR TO 'a!%' | vc SIMILAR TO 'a!%' ESCAPE '!'
vc ~ 'a' | vc ~* 'a'
vc GLOB 'a*' | vc LIKE 'a*'
i4 + 1 | i4 - 1
i4 + 1 | i4 + 2
(db + fl) + i4 | db + (fl + i4)
i4 - i8 | i8 - i4
i4 / 2 | i4 // 2
i4 % 2 | i4 / 2
li + l8 | l8 + li
li + '[1]' | '[1]' + li
vc || 'a' | 'a' || vc
i4 << 1 | i4 >> 1
i4 & 1 | i4 | 1
~i4 | -i4
CAST(i4 AS DECIMAL(10, 0)) | CAST(i4 AS DECIMAL(10, 2))
CAST(i4 AS INTEGER) | CAST(i4 AS BIGINT)
CAST(vc AS INTEGER) | TRY_CAST(vc AS INTEGER)
CAST(vc AS TIMESTAMP) | CAST(vc AS TIMESTAMP(3))
CAST(vc AS TIMESTAMP(0)) | CAST(vc AS TIMESTAMP(3))
CAST(ts AS TIMESTAMP_S) | CAST(ts AS TIMESTAMP)
CAST(ts AS TIMESTAMP_S) | CAST(ts AS TIMESTAMP_MS)
CAST(ts AS TIMESTAMP_S) | CAST(ts AS TIMESTAMP(0))
CAST(li AS INT[2]) | CAST(li AS INT[3])
CAST(li AS INT[2]) | CAST(li AS INT[])
CAST(ll AS INT[2][]) | CAST(ll AS INT[][2])
CAST(vc AS TIMESTAMP) | CAST(vc AS TIMESTAMP_LTZ)
CAST(vc AS INTEGER[]) | CAST(vc AS INTEGER[][])
CAST(st AS ROW<a INT, b STRING>) | CAST(st AS ROW<a INT, c STRING>)
INTERVAL '24' HOUR | INTERVAL '1' DAY
INTERVAL '1' MONTH | INTERVAL '30' DAY
INTERVAL (i4) DAY | INTERVAL (i4) HOUR
INTERVAL (i4) DAY | INTERVAL (i8) DAY
CASE WHEN bo THEN 1 WHEN i4 = 1 THEN 2 END | CASE WHEN i4 = 1 THEN 2 WHEN bo THEN 1 END
CASE WHEN bo THEN 1 END | CASE WHEN bo THEN 1 ELSE 0 END
COALESCE(i4, i8) | COALESCE(i8, i4)
NVL2(i4, 1, 2) | NVL(i4, 1)
EXTRACT(YEAR FROM da) | EXTRACT(MONTH FROM da)
ts AT TIME ZONE 'UTC' | ts AT TIME ZONE 'Europe/Paris'
LOG(db) | LN(db)
LOG(2, db) | LOG(db)
DAYOFWEEK(da) | WEEKDAY(da)
DATE_FORMAT(ts, 'yyyy') | DATE_FORMAT(ts, 'yyyy-MM')
TO_TIMESTAMP(vc) | TO_TIMESTAMP(vc, 'yyyy')
FLOOR(ts TO HOUR) | FLOOR(ts TO DAY)
FLOOR(ts TO HOUR) | CEIL(ts TO HOUR)
TIMESTAMPADD(HOUR, 1, ts) | TIMESTAMPADD(DAY, 1, ts)
JSON_VALUE(vc, '$.a') | JSON_QUERY(vc, '$.a')
JSON_VALUE(vc, '$.a') | JSON_VALUE(vc, '$.b')
(st).a | (st).b
li[1] | li[2]
li[1] | li[-1]
li[1:2] | li[1:3]
li[1:2] | li[:2]
li[1:] | li[:1]
mp['a'] | mp['b']
[1, 2] | [2, 1]
{'a': 1, 'b': 2} | {'b': 2, 'a': 1}
{'a': 1} | {'b': 1}
struct_pack(i4) | struct_pack(a := i4)
MAP['a', 1] | MAP['a', 2]
(i4, i8) | [i4, i8]
list_transform(li, x -> x + 1) | list_filter(li, x -> x + 1)
list_transform(li, x -> x + i4) | list_transform(li, x -> x + x)
list_filter(li, (x, i) -> i > x) | list_filter(li, (x, i) -> x > i)
list_transform(ll, x -> list_transform(x, y -> y)) | list_transform(ll, x -> list_transform(x, y -> x))
SUM(i4) | SUM(DISTINCT i4)
SUM(i4) | SUM(i4) FILTER (WHERE bo)
COUNT(*) | COUNT(i4)
COUNT(DISTINCT i4) | COUNT(i4)
ARRAY_AGG(vc ORDER BY i4) | ARRAY_AGG(vc ORDER BY i4 DESC)
ARRAY_AGG(vc ORDER BY i4 NULLS FIRST) | ARRAY_AGG(vc ORDER BY i4 NULLS LAST)
ARRAY_AGG(vc ORDER BY i4) | ARRAY_AGG(vc)
LISTAGG(vc) | LISTAGG(vc, ';')
PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY i4) | PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY i4)
PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY i4) | PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY i4 DESC)
i4 = ANY(li) | i4 = ALL(li)
NOT i4 = ANY(li) | i4 <> ANY(li)
i4 <> ALL(li) | i4 <> ANY(li)
md5(vc) | sha256(vc)
vc IS JSON | vc IS NOT JSON
vc IS JSON | vc IS JSON OBJECT
vc IS JSON ARRAY | vc IS JSON OBJECT
substring(vc, 1) | substring(vc, 1, 2)
ARRAY_DISTINCT(li) | list_distinct(li)
ARRAY_SORT(li) | list_reverse_sort(li)
"""


def pairs(table: str) -> list[tuple[str, str]]:
    found = []
    for line in table.strip().splitlines():
        one, bar, other = line.partition(" | ")
        if other.count(" | ") == 1:  # an operator of one of the two
            one, other = (f"{one}{bar}{other.split(' | ')[0]}", other.split(" | ")[1])
        elif other.count(" | ") == 2:
            first, second, third = other.split(" | ")
            one, other = f"{one}{bar}{first}", f"{second} | {third}"
        found.append((one, other))
    return found


@pytest.mark.parametrize(("one", "other"), pairs(EQUAL))
def test_one_form(one: str, other: str) -> None:
    assert text(form_of(one)) == text(form_of(other))


@pytest.mark.parametrize(("one", "other"), pairs(UNEQUAL))
def test_two_forms(one: str, other: str) -> None:
    assert form_of(one) != form_of(other)


def test_there_are_enough_of_both() -> None:
    assert len(pairs(EQUAL)) >= 60
    assert len(pairs(UNEQUAL)) >= 60


@pytest.mark.parametrize(
    ("one", "other"), [("i4 + i8", "i8 + i4"), ("i8 BETWEEN i4 AND i4", "i8 >= i4 AND i8 <= i4")]
)
def test_without_types_what_needs_them_is_two(one: str, other: str) -> None:
    assert form_of(one, typed=False) != form_of(other, typed=False)
    assert form_of(one) == form_of(other)


def test_a_column_is_what_it_is_said_to_be() -> None:
    node = parse_expression("x + 1")
    one, other = form("column", "orders", 1), form("column", "orders", 2)
    assert expression_form(node, {"x": one}) != expression_form(node, {"x": other})
    assert expression_form(node, {"x": one}) == expression_form(parse_expression("y + 1"), {"y": one})


def test_a_column_without_a_form_is_a_bug() -> None:
    for sql in ("y + 1", "x.y", "list_transform(x, e -> e + f)", "y = ANY(x)"):
        with pytest.raises(InternalError, match="has no form"):
            expression_form(parse_expression(sql), {"x": form("column", "x")})


@pytest.mark.parametrize("sql", ["{} = ANY(li)", "CASE WHEN {} = ANY(li) THEN 1 END", "[e + {} FOR e IN li]"])
def test_what_has_no_operator_keeps_its_columns(sql: str) -> None:
    found = {form_of_parsed(sql.format(name)) for name in ("i4", "i8", "i4 + 1", "NVL(i4, 1)", "NVL(i8, 1)")}
    assert len(found) == 5


def form_of_parsed(sql: str) -> Form:
    return expression_form(translate_marked(parse_expression(sql)), {**FORMS, "e": form("column", "e")})


def test_a_name_bound_in_one_lambda_is_a_column_outside_of_it() -> None:
    columns = {"a": form("column", "a"), "x": form("column", "x"), "y": form("column", "y")}
    one, other = (
        expression_form(parse_expression(f"a = ANY([list_transform(a, x -> x), {c}])"), columns)
        for c in ("x", "y")
    )
    assert one != other


def test_what_a_comprehension_goes_over_is_no_name_of_its_own() -> None:
    node = parse_expression("[x + 1 FOR x IN x]")
    one, other = (expression_form(node, {"x": form("column", table)}) for table in ("orders", "users"))
    assert one != other


def test_a_translated_call_is_what_was_written() -> None:
    found = form_of("DAYOFWEEK(da) + 1")
    assert text(found) == '(+ (call "dayofweek" (column "da")) (number "1"))' or text(found) == (
        '(+ (number "1") (call "dayofweek" (column "da")))'
    )


def test_nested_translated_calls_do_not_grow_faster_than_their_text() -> None:
    sizes = []
    for depth in (10, 20):
        sql = "vc"
        for index in range(depth):
            sql = f"SPLIT_INDEX({sql}, 'b', {index})"
        node = translate_marked(parse_expression(sql))
        sizes.append((sum(1 for _ in node.walk()), size(form_of(node))))
    assert sizes[1][0] < 2.2 * sizes[0][0]
    assert sizes[1][1] < 2.2 * sizes[0][1]


def test_a_call_inside_an_aggregate_keeps_how_it_was_written() -> None:
    inside = form_of("SUM(NVL(i4, 0))")
    assert inside in set(walk(form_of("NVL(SUM(NVL(i4, 0)), 1)")))
    node = translate_marked(parse_expression("NVL(SUM(NVL(i4, 0)), 1)"))
    sums = [form_of(n) for n in node.find_all(exp.Anonymous) if n.name.upper() == "SUM"]
    assert sums == [inside, inside]  # in DuckDB's form, and in the call as it was written


def test_what_is_translated_is_not_translated_again() -> None:
    once = translate_marked(parse_expression("DAYOFWEEK(da)"))
    again = translate_marked(exp.Paren(this=once.copy()))
    assert again.unnest().sql() == once.unnest().sql()
    assert as_written(again.this) == as_written(once)


@pytest.mark.parametrize(
    "sql",
    [
        "DAYOFWEEK(da) * 2",
        "CONCAT(vc, 'a') LIKE vc",
        "-EXPM1(db)",
        "TIMESTAMPADD(DAY, 1, ts) - ts",
        "BIT_GET(i4, 1) * 2",
    ],
)
def test_without_its_marks_an_expression_is_the_translation(sql: str) -> None:
    node = parse_expression(sql)
    assert duckdb_sql(without_marks(translate_marked(node))) == duckdb_sql(translate(node))


def test_every_translation_is_the_same_without_its_marks() -> None:
    columns = ("vc", "i4", "db", "ts", "li", "da")
    for translation in TRANSLATIONS:
        arguments = ", ".join(columns[i % len(columns)] for i in range(len(translation.parameters)))
        node = parse_expression(f"-{translation.name}({arguments}) * 2 || 'a'")
        try:
            plain = translate(node)
        except TypeProblem:
            continue  # it takes literals
        assert duckdb_sql(without_marks(translate_marked(node))) == duckdb_sql(plain)


def test_synonyms_are_what_duckdb_calls_aliases() -> None:
    rows = duckdb.connect().execute(
        "SELECT DISTINCT function_name, alias_of FROM duckdb_functions() WHERE alias_of IS NOT NULL"
    )
    alias_of = dict(rows.fetchall())
    operators = {"**": "power", "//": "divide"}

    def root(name: str) -> str:
        named = str(alias_of.get(name, name))
        return operators.get(named, named)

    for name, stands_for in SYNONYMS.items():
        assert root(name) == root(stands_for), name
        assert not is_translated(name), f"{name} is what it is written as"
        assert not is_translated(stands_for), f"{stands_for} is what it is written as"
        assert catalogue.lookup(name) is not None
        assert catalogue.lookup(stands_for) is not None


OUR_AGGREGATES = {t.name.lower() for t in AGGREGATES} | {"first", "last"}


def every_call() -> Iterator[str]:
    columns = ("vc", "i4", "db", "ts", "li", "da")
    for name in catalogue.names():
        function = catalogue.lookup(name)
        if function is None or name in OUR_AGGREGATES:
            continue  # its name in DuckDB has capitals; or the registry of aggregates has a name for it
        counts = {len(o.parameters) + extra for o in function.overloads for extra in (0, bool(o.variadic))}
        for count in sorted(counts):
            yield f"{name}({', '.join(columns[i % len(columns)] for i in range(count))})"
    for translation in TRANSLATIONS:
        if translation in AGGREGATES:
            continue  # they are what our registry of aggregates calls them
        yield f"{translation.name}({', '.join(columns[i % len(columns)] for i in range(len(translation.parameters)))})"


def test_every_function_is_a_call_by_its_own_name() -> None:
    seen = 0
    for sql in every_call():
        try:
            node = translate_marked(parse_expression(sql))
        except (TypeProblem, SqlSyntaxError):
            continue  # it takes literals, or is written otherwise
        found = expression_form(node, FORMS)
        ops = {f.op for f in walk(found)}
        assert ops <= OPERATORS | {"column"}, sql
        if "struct" in ops:
            continue
        called = {f.args[0] for f in walk(found) if f.op == "call"}
        name = sql.partition("(")[0].lower()
        assert "sql" not in ops, sql
        assert called <= {SYNONYMS.get(name, name), "coalesce"}, sql
        seen += 1
    assert seen > 700


def test_operators_are_ours() -> None:
    used = set()
    for table in (EQUAL, UNEQUAL):
        for pair in pairs(table):
            for sql in pair:
                used |= {f.op for f in walk(form_of(sql))}
    assert used <= OPERATORS | {"column"}
    parsers = {c.key for c in vars(exp).values() if isinstance(c, type) and issubclass(c, exp.Expr)}
    words = "string negative xor and or not in between like ilike glob case cast extract interval array map"
    words += " struct lambda boolean null parameter distinct filter column slice star"
    assert used & parsers <= set(words.split())  # words of SQL, which the parser uses as well
