"""The dialect: scalar expressions mean what DuckDB means, Flink's syntax parses, every node has a place."""
# ruff: noqa: E501, SIM905 -- lists of snippets

from __future__ import annotations

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from sqlstream_planner.sql.dialect import (
    IntervalValue,
    SqlSyntaxError,
    WindowTvf,
    constant_value,
    duckdb_sql,
    function_name,
    parse_expression,
    range_of,
)
from sqlstream_planner.sql.parse import parse_file
from sqlstream_planner.sql.statements import Select

ROW = """
    SELECT 7 AS i, -3 AS j, NULL::INTEGER AS n, 2.5 AS d, 1.25::DOUBLE AS f, 'Straße, a' AS s, '' AS e,
      TRUE AS b, DATE '2024-02-29' AS dt, TIMESTAMP '1969-12-31 23:59:58.123456' AS ts,
      [3, 1, NULL, 2] AS l, {'a': 1, 'b': {'c': 'x'}} AS r, MAP {'k': 1, 'm': 2} AS m,
      '{"a": {"b": 5}, "c.d": "q"}' AS js
"""


def evaluate(connection: duckdb.DuckDBPyConnection, text: str) -> object:
    """What DuckDB makes of an expression: value and type, or just that it fails."""
    try:
        found = connection.execute(f"SELECT v, typeof(v) FROM (SELECT {text} AS v FROM ({ROW}))").fetchall()
    except duckdb.Error:
        return "error"
    return repr(found)


def written_or_refused(text: str) -> str | None:
    """The expression as we write it for DuckDB, None if it does not parse."""
    try:
        return duckdb_sql(parse_expression(text))
    except SqlSyntaxError:
        return None


def literals() -> st.SearchStrategy[str]:
    return st.sampled_from(
        ["0", "1", "-2", "5", "0x1F", "1_000", "2.50", "1e3", ".5", "5.", "NULL", "TRUE", "FALSE", "'a'", "'it''s'", "''",
         "DATE '2020-02-29'", "TIMESTAMP '2020-01-01 10:00:00'", "INTERVAL '90' MINUTE", "INTERVAL 5 SECONDS",
         "INTERVAL '1 day 2 hours'", "INTERVAL (i) DAY", "[1, 2, 3]", "{'x': 1}", "MAP {'a': 1}", "E'a\\nb'",
         "TIME '10:11:12'", "'{\"a\": 1}'", "i", "j", "n", "d", "f", "s", "e", "b", "dt", "ts", "l", "r", "m", "js",
         "r.a", "r.b.c", "l[1]", "l[-1]", "l[1:2]", "m['k']", "s[2]", "s[1:3]"]
    )  # fmt: skip


def expressions() -> st.SearchStrategy[str]:
    def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        binary = st.sampled_from(
            ["+", "-", "*", "/", "//", "%", "^", "**", "||", "=", "<>", "!=", "<", "<=", ">", ">=", "AND", "OR", "&", "|",
             "<<", ">>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM", "LIKE", "NOT LIKE", "ILIKE", "SIMILAR TO", "~",
             "^@", "==", "GLOB", "->", "->>", "&&", "@>"]
        )  # fmt: skip
        unary = st.sampled_from(
            ["-{}", "NOT {}", "~({})", "({})", "({} IS NULL)", "({} IS NOT NULL)", "({} IS TRUE)", "{}::VARCHAR", "{}::DOUBLE",
             "{}::DECIMAL(10, 2)", "{}::INTEGER", "CAST({} AS BIGINT)", "TRY_CAST({} AS INTEGER)", "TRY_CAST({} AS DATE)",
             "{}[1]", "[{}]", "{{'a': {}}}", "@({})", "CAST({} AS TIMESTAMP)"]
        )  # fmt: skip
        calls = st.sampled_from(
            ["upper({0})", "length({0})", "abs({0})", "coalesce({0}, {1})", "nullif({0}, {1})", "greatest({0}, {1})",
             "substring({0}, 2, 3)", "substring({0} FROM 2 FOR 3)", "substring({0} FOR 2)", "position({0} IN {1})",
             "trim({0})", "trim(BOTH 'a' FROM {0})", "trim(LEADING FROM {0})", "trim({0}, 'a')", "floor({0})", "ceil({0})",
             "round({0}, 1)", "concat({0}, {1})", "concat_ws('-', {0}, {1})", "replace({0}, 'a', {1})", "left({0}, 2)",
             "if({0}, {1}, {2})", "date_trunc('hour', {0})", "date_diff('day', {0}, {1})", "datediff('day', {0}, {1})",
             "extract(year FROM {0})", "extract('hour' FROM {0})", "date_part('minute', {0})", "year({0})", "epoch({0})",
             "epoch_ms({0})", "make_timestamp({0})", "strftime({0}, '%Y-%m-%d')", "strptime({0}, '%Y')",
             "to_timestamp({0})", "list_transform({0}, x -> x + 1)", "list_filter({0}, lambda x: x > 1)",
             "list_sort({0}, 'DESC')", "list_reverse_sort({0})", "list_contains({0}, {1})", "list_distinct({0})",
             "list_slice({0}, 1, 2)", "array_slice({0}, 1, 2)", "list_value({0}, {1})", "struct_pack(a := {0})",
             "row({0}, {1})", "map([{0}], [{1}])", "map_keys({0})", "regexp_extract({0}, 'a(.)', 1)",
             "regexp_replace({0}, '[a-c]', 'x', 'g')", "regexp_matches({0}, 'a')", "string_split({0}, ',')",
             "split_part({0}, ',', 1)", "json_extract({0}, '$.a')", "json_extract_string({0}, 'a')", "json({0})",
             "md5({0})", "sha256({0})", "hash({0})", "chr({0})", "ascii({0})", "unicode({0})", "hex({0})", "bin({0})",
             "bit_count({0})", "xor({0}, {1})", "log({0})", "log2({0})", "ln({0})", "power({0}, 2)", "mod({0}, 3)",
             "sign({0})", "generate_series({0}, 3)", "range({0})", "time_bucket(INTERVAL '1' DAY, {0})",
             "CASE WHEN {0} THEN {1} ELSE {2} END", "CASE {0} WHEN {1} THEN {2} END", "{0} BETWEEN {1} AND {2}",
             "{0} NOT BETWEEN {1} AND {2}", "{0} IN ({1}, {2})", "{0} NOT IN ({1}, {2})", "({0}, {1}) = ({1}, {0})",
             "[y * 2 FOR y IN {0} IF y > 1]", "encode({0})", "decode({0})", "date_add({0}, INTERVAL 1 DAY)",
             "date_sub('day', {0}, {1})", "last_day({0})", "monthname({0})", "{0} COLLATE nocase", "levenshtein({0}, {1})",
             "editdist3({0}, {1})", "array_prepend({0}, {1})", "list_append({0}, {1})", "list_min({0})", "isnan({0})",
             "quarter({0})", "{0} AT TIME ZONE 'UTC'", "format('{{}}', {0})", "printf('%d', {0})", "translate({0}, 'a', 'b')",
             "initcap({0})", "reverse({0})", "repeat({0}, 2)", "lpad({0}, 5, 'x')", "starts_with({0}, {1})",
             "contains({0}, {1})", "ifnull({0}, {1})", "typeof({0})", "unnest({0})", "bar({0}, 0, 10)"]
        )  # fmt: skip
        return st.one_of(
            st.tuples(inner, binary, inner).map(lambda p: f"{p[0]} {p[1]} {p[2]}"),
            st.tuples(unary, inner).map(lambda p: p[0].format(p[1])),
            st.tuples(calls, inner, inner, inner).map(lambda p: p[0].format(*p[1:])),
        )

    return st.recursive(literals(), grow, max_leaves=5)


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    made = duckdb.connect()
    made.execute("SET TimeZone = 'UTC'")
    return made


@given(text=expressions())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_expression_means_what_it_means_in_duckdb(duck: duckdb.DuckDBPyConnection, text: str) -> None:
    expected = evaluate(duck, text)
    written = written_or_refused(text)
    if expected == "error":
        return
    # Refusing is sound, but only for what readers would misread.
    if written is None:
        assert "->" in text, text
    else:
        assert evaluate(duck, written) == expected, (text, written)


# Found by the test above, or by a longer run of it.
@pytest.mark.parametrize(
    "text",
    [
        "DATE '2020-02-29'::VARCHAR",
        "TIMESTAMP '2020-02-29 10:00:00'::DATE::VARCHAR",
        "DECIMAL(10, 2) '5'::VARCHAR",
        "TIMESTAMP WITH TIME ZONE '2020-01-01 00:00:00+01'::VARCHAR",
        ".5",
        "5.",
        "1_000",
        "5 / 2",
        "5 // 2",
        "-5 % 3",
        "-2 ^ 2",
        "2 ^ 3 ^ 2",
        "l[1]",
        "l[i - 6]",
        "l[-1]",
        "l[2:]",
        "l[:-2]",
        "m['k']",
        "r.b.c",
        "(r).b.c",
        "js -> 'a' -> 'b'",
        "js ->> '$.a.b'",
        "(js ->> 'c.d') = 'q'",
        "list_transform(l, lambda x: x * 2)",
        "list_reduce([1, 2, 3], lambda x, y: x + y)",
        "count(DISTINCT i) + count(*)",
        "sum(i) FILTER (WHERE b)",
        "string_agg(s, ',' ORDER BY i DESC)",
        "array_agg(DISTINCT i ORDER BY i)",
        "E'a\\'b\\n'",
        "$$dollar ' quoted$$",
        "i NOT BETWEEN 1 AND 2 AND b",
        "CASE i WHEN 7 THEN 'x' ELSE 'y' END",
        "INTERVAL '1 day 02:03:04'",
        "ts - INTERVAL '90' MINUTE",
        "ts + INTERVAL (i) DAY",
        "-INTERVAL '1' MONTH",
        "INTERVAL '1.5 hours'",
        "INTERVAL '-1.25 days 1.5 weeks'",
        "INTERVAL '1.5 years 2.5 quarters 0.5 mons'",
        "INTERVAL '@ 2 hours 1 day ago'",
        "INTERVAL '90'",
        "INTERVAL '02:03'",
        "INTERVAL '-1 month 2 days -3 us'",
        "INTERVAL '5 m'",
        "INTERVAL '1' QUARTER",
        "INTERVAL 0 SECONDS",
        "first_value(i IGNORE NULLS) OVER (ORDER BY i)",
        "lag(i, 1) OVER (PARTITION BY b ORDER BY i)",
        "sum(i) OVER (ORDER BY i ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
        "s LIKE '%a' ESCAPE '!'",
        "i IS NOT DISTINCT FROM n",
        "CAST(NULL AS STRUCT(a INTEGER, b VARCHAR[]))",
        "'a' IN ('a', NULL)",
        "i = ANY([7, 8])",
        "EXISTS (SELECT 1)",
        "(SELECT max(x) FROM range(3) AS t(x))",
    ],
)
def test_examples_mean_what_they_mean_in_duckdb(duck: duckdb.DuckDBPyConnection, text: str) -> None:
    expected = evaluate(duck, text)
    assert expected != "error"
    assert evaluate(duck, duckdb_sql(parse_expression(text))) == expected


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("SUBSTRING(`s` FROM 2 FOR 3)", 'SUBSTRING("s", 2, 3)'),
        ("SUBSTRING(s FOR 3)", "SUBSTRING(s, 1, 3)"),
        ("POSITION('a' IN s)", "STRPOS(s, 'a')"),
        ("TRIM(LEADING 'x' FROM s)", "LTRIM(s, 'x')"),
        ("TRIM(BOTH FROM s)", "TRIM(s)"),
        ("OVERLAY(s PLACING 'x' FROM 2 FOR 1)", "OVERLAY(s, 'x', 2, 1)"),
        ("FLOOR(ts TO HOUR)", "FLOOR_TO('HOUR', ts)"),
        ("TIMESTAMPADD(HOUR, 1, ts)", "TIMESTAMPADD('HOUR', 1, ts)"),
        ("TIMESTAMPDIFF(minute, a, b)", "TIMESTAMPDIFF('MINUTE', a, b)"),
        ("MAP['a', 1, 'b', 2]", "MAP(['a', 'b'], [1, 2])"),
        ("ARRAY[1, 2]", "[1, 2]"),
        ("x'4142'", "UNHEX('4142')"),
        ("INTERVAL '1:30' MINUTE TO SECOND", "INTERVAL '90000000' MICROSECOND"),
        ("INTERVAL '-1 02:03:04.5' DAY TO SECOND", "INTERVAL '-93784500000' MICROSECOND"),
        ("INTERVAL '1-6' YEAR TO MONTH", "INTERVAL '18' MONTH"),
        ("INTERVAL '10' SECOND(3)", "INTERVAL '10' SECOND"),
        ("INTERVAL '10' MS", "INTERVAL '10' MILLISECOND"),
        ("CAST(x AS ROW<a INT NOT NULL, b ARRAY<STRING>>)", "CAST(x AS STRUCT(a INT, b TEXT[]))"),
        ("JSON_VALUE(j, '$.a' RETURNING INT NULL ON ERROR)", "TRY_CAST(JSON_VALUE(j, '$.a') AS INT)"),
        ("JSON_OBJECT(KEY 'a' VALUE 1)", "JSON_OBJECT('a', 1)"),
    ],
)
def test_calls_with_their_own_grammar_become_plain_ones(text: str, written: str) -> None:
    assert duckdb_sql(parse_expression(text)) == written


@pytest.mark.parametrize(
    "name",
    "DATE_FORMAT TO_TIMESTAMP TO_TIMESTAMP_LTZ SPLIT_INDEX CHAR_LENGTH LISTAGG COLLECT TO_DATE REGEXP NVL IF "
    "IFNULL COALESCE NULLIF JSON_VALUE DATE_ADD DATEDIFF CONCAT_WS UNIX_TIMESTAMP FROM_UNIXTIME DECODE ENCODE "
    "COUNT SUM MIN MAX AVG ANY_VALUE BIT_AND MAX_BY PERCENTILE LEFT RIGHT REPLACE YEAR DATE TUMBLE_START CHR".split(),
)
def test_a_call_keeps_the_name_that_was_written(name: str) -> None:
    call = parse_expression(f"{name}(a, 'b')")
    assert isinstance(call, exp.Anonymous)
    assert function_name(call) == name
    assert [a.sql() for a in call.expressions] == ["a", "'b'"]


def query(text: str) -> exp.Query:
    (statement,) = parse_file(text).statements
    assert isinstance(statement, Select)
    return statement.query


@pytest.mark.parametrize(
    "text",
    [
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))",
        "TABLE(TUMBLE(DATA => TABLE t, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '1' MINUTE))",
        "TABLE(TUMBLE(SIZE => INTERVAL '1' MINUTE, DATA => TABLE t, TIMECOL => DESCRIPTOR(`ts`)))",
        "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '60' SECONDS)",
        "TUMBLE(t, ts, INTERVAL '1 minute')",
        "TABLE (TUMBLE (TABLE `t`, DESCRIPTOR(\"ts\"), INTERVAL '0:60' MINUTE TO SECOND)) AS w",
    ],
)
def test_spellings_of_a_window(text: str) -> None:
    table = query(f"SELECT * FROM {text}").args["from_"].this
    window = table.this
    assert isinstance(window, WindowTvf)
    assert window.kind == "TUMBLE"
    assert window.args["data"].name == "t"
    assert window.args["timecol"].name == "ts"
    assert constant_value(window.args["size"]) == IntervalValue(micros=60_000_000)


def test_arguments_of_the_other_windows() -> None:
    hop = query(
        "SELECT * FROM HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '1' HOUR, INTERVAL '-5' SECOND)"
    )
    window = hop.find(WindowTvf)
    assert window is not None
    values = {k: constant_value(window.args[k]) for k in ("slide", "size", "offset")}
    assert values == {
        "slide": IntervalValue(micros=60_000_000),
        "size": IntervalValue(micros=3_600_000_000),
        "offset": IntervalValue(micros=-5_000_000),
    }
    session = query(
        "SELECT * FROM TABLE(SESSION(TABLE t PARTITION BY a, b, DESCRIPTOR(ts), INTERVAL '5' MINUTE)) AS s"
    )
    window = session.find(WindowTvf)
    assert window is not None
    assert [c.name for c in window.args["partition_by"]] == ["a", "b"]
    assert constant_value(window.args["gap"]) == IntervalValue(micros=300_000_000)
    over_query = query("SELECT * FROM CUMULATE((SELECT * FROM t), ts, INTERVAL '1' MINUTE, INTERVAL '1' DAY)")
    window = over_query.find(WindowTvf)
    assert window is not None
    assert isinstance(window.args["data"], exp.Subquery)
    assert constant_value(window.args["size"]) == IntervalValue(days=1)


@pytest.mark.parametrize(
    ("text", "months", "days", "micros"),
    [
        ("INTERVAL '1' MINUTE", 0, 0, 60_000_000),
        ("-INTERVAL '1.5' SECOND", 0, 0, -1_500_000),
        ("INTERVAL -2 HOURS", 0, 0, -7_200_000_000),
        ("INTERVAL '1 day 2 hours'", 0, 1, 7_200_000_000),
        ("INTERVAL '2' WEEK + INTERVAL '1' YEAR", 12, 14, 0),
        ("(INTERVAL '3' MONTH) - INTERVAL '1' DAY", 3, -1, 0),
        ("INTERVAL '1 02:03' DAY TO MINUTE", 0, 0, 93_780_000_000),
        ("INTERVAL '1 -02:03:00.5'", 0, 1, -7_380_500_000),
        ("INTERVAL 'P1Y2M-3DT4H5.5S'", 14, -3, 14_405_500_000),
        ("INTERVAL '-1-2'", -14, 0, 0),
    ],
)
def test_constant_intervals(
    duck: duckdb.DuckDBPyConnection, text: str, months: int, days: int, micros: int
) -> None:
    node = parse_expression(text)
    assert constant_value(node) == IntervalValue(months, days, micros)
    as_duckdb = f"to_months({months}) + to_days({days}) + to_microseconds({micros})"
    assert evaluate(duck, f"({duckdb_sql(node)}) = ({as_duckdb})") == "[(True, 'BOOLEAN')]"


def test_an_interval_of_columns_is_not_constant() -> None:
    assert constant_value(parse_expression("INTERVAL (i) DAY")) is None


@given(text=expressions())
@settings(max_examples=60, deadline=None)
def test_every_node_has_a_place_inside_its_parent(text: str) -> None:
    try:
        root = parse_expression(text)
    except SqlSyntaxError:
        return
    for node in root.walk():
        found = range_of(node)
        assert found is not None, (text, node)
        assert 0 <= found[0] < found[1] <= len(text), (text, node)
        if isinstance(node, exp.Column):
            assert text[found[0] : found[1]].lower() in (".".join(p.name for p in node.parts), node.name), (
                text
            )


def test_places_of_parts_of_a_query() -> None:
    text = "SELECT a.b AS x, sum(c) FILTER (WHERE d) FROM t AS u WHERE NOT e + 1 > 'f'"
    tree = query(text)

    def source(node: exp.Expr | None) -> str:
        assert node is not None
        start, end = range_of(node) or (0, 0)
        return text[start:end]

    assert source(tree) == text
    assert source(tree.find(exp.Alias)) == "a.b AS x"
    assert source(tree.find(exp.Anonymous)) == "sum(c)"
    assert source(tree.find(exp.Filter)) == "sum(c) FILTER (WHERE d)"
    assert source(tree.find(exp.Table)) == "t AS u"
    assert source(tree.find(exp.Not)) == "NOT e + 1 > 'f'"
    assert source(tree.find(exp.GT)) == "e + 1 > 'f'"
    assert source(tree.find(exp.Add)) == "e + 1"
    assert [source(n) for n in tree.find_all(exp.Literal)] == ["'f'", "1"]
