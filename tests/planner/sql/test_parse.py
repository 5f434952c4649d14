"""Files into statements: what must parse, what each statement holds, and what broken ones are told."""
# ruff: noqa: E501 -- lists of snippets

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from sqlstream_operators.plan.types import Kind
from sqlstream_planner.diagnostics import DiagnosticError, render
from sqlstream_planner.sql.dialect import WindowTvf
from sqlstream_planner.sql.parse import parse_file, span_of
from sqlstream_planner.sql.statements import (
    ComputedColumn,
    CreateTable,
    CreateView,
    DropIfExists,
    InsertInto,
    LikeFeature,
    LikeStrategy,
    MetadataColumn,
    PhysicalColumn,
    Select,
    SetOption,
    Statement,
    StatementSet,
    Unsupported,
)

GOLDEN = Path(__file__).parent / "syntax_errors.txt"

MUST_PARSE = [
    "SELECT 1",
    "SELECT * FROM t",
    "SELECT t.*, a AS b FROM t AS t",
    'SELECT DISTINCT a, `b c`, "d" FROM `t`',
    "SELECT bid.price, bid.a.b.c FROM events WHERE bid.price > 10 AND bid IS NOT NULL",
    "SELECT a[1], m['k'], r.f FROM t",
    "SELECT CASE WHEN a > 1 THEN 'x' ELSE 'y' END FROM t",
    "SELECT CAST(a AS DECIMAL(10, 2)), a::BIGINT, TRY_CAST(a AS INT) FROM t",
    "SELECT COUNT(*), COUNT(DISTINCT a), SUM(b) FILTER (WHERE c > 1) FROM t GROUP BY d HAVING COUNT(*) > 1",
    "SELECT a, SUM(b) FROM t GROUP BY GROUPING SETS ((a), (b), ())",
    "SELECT a, SUM(b) FROM t GROUP BY ROLLUP (a, c)",
    "SELECT a, SUM(b) FROM t GROUP BY CUBE (a, c)",
    "SELECT LISTAGG(DISTINCT a, ';') FROM t",
    "SELECT STRING_AGG(a, ',' ORDER BY b) FROM t",
    "SELECT window_start, window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end",
    "SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' MINUTE, INTERVAL '-5' MINUTE))",
    "SELECT * FROM TABLE(HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES)) AS h",
    "SELECT * FROM TABLE(HOP(DATA => TABLE bid, TIMECOL => DESCRIPTOR(ts), SLIDE => INTERVAL '5' MINUTES, SIZE => INTERVAL '10' MINUTES, OFFSET => INTERVAL '1' MINUTE))",
    "SELECT * FROM TABLE(CUMULATE(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES))",
    "SELECT * FROM TABLE(SESSION(TABLE bid PARTITION BY item, DESCRIPTOR(ts), INTERVAL '5' MINUTES))",
    "SELECT * FROM TABLE(SESSION(DATA => TABLE bid PARTITION BY item, TIMECOL => DESCRIPTOR(ts), GAP => INTERVAL '5' MINUTES))",
    "SELECT * FROM (SELECT * FROM TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR)) AS x JOIN u ON x.a = u.a",
    "SELECT TUMBLE_START(ts, INTERVAL '1' DAY) AS s, SUM(a) FROM t GROUP BY TUMBLE(ts, INTERVAL '1' DAY), b",
    "SELECT HOP_END(ts, INTERVAL '1' HOUR, INTERVAL '1' DAY) FROM t GROUP BY HOP(ts, INTERVAL '1' HOUR, INTERVAL '1' DAY)",
    "SELECT SESSION_ROWTIME(ts, INTERVAL '1' HOUR) FROM t GROUP BY SESSION(ts, INTERVAL '1' HOUR)",
    "WITH a AS (SELECT 1 AS x), b AS (SELECT * FROM a) SELECT * FROM b",
    "WITH a (x, y) AS (SELECT 1, 2) SELECT x FROM a",
    "SELECT a FROM t UNION ALL SELECT b FROM u",
    "(SELECT a FROM t) UNION (SELECT b FROM u) ORDER BY 1 LIMIT 3",
    "SELECT a FROM t INTERSECT SELECT b FROM u EXCEPT SELECT c FROM v",
    "SELECT a FROM t WHERE a IN (SELECT b FROM u) AND EXISTS (SELECT 1 FROM v WHERE v.x = t.x)",
    "SELECT * FROM a, b WHERE a.x = b.x",
    "SELECT * FROM a INNER JOIN b ON a.x = b.x LEFT OUTER JOIN c USING (y) FULL JOIN d ON TRUE CROSS JOIN e",
    "SELECT * FROM o LEFT JOIN r FOR SYSTEM_TIME AS OF o.ts ON o.c = r.c",
    "SELECT * FROM o JOIN r FOR SYSTEM_TIME AS OF o.proctime AS r2 ON o.c = r2.c",
    "SELECT * FROM o, s WHERE o.id = s.id AND o.ts BETWEEN s.ts - INTERVAL '4' HOUR AND s.ts",
    "SELECT a, x FROM t CROSS JOIN UNNEST(tags) AS u (x)",
    "SELECT a, x, i FROM t CROSS JOIN UNNEST(tags) WITH ORDINALITY AS u (x, i)",
    "SELECT a, w FROM t, LATERAL TABLE(split(a)) AS s(w)",
    "SELECT a, w FROM t LEFT JOIN LATERAL TABLE(split(a)) AS s(w) ON TRUE",
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b DESC) AS rn FROM t) WHERE rn <= 3",
    "SELECT * FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) = 1",
    "SELECT SUM(a) OVER w FROM t WINDOW w AS (PARTITION BY b ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW)",
    "SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY s ORDER BY ts MEASURES A.p AS x ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+ C) DEFINE B AS B.p > 1) AS m",
    "SELECT * FROM t ORDER BY ts, a DESC NULLS LAST LIMIT 10 OFFSET 5",
    "SELECT * FROM t FETCH FIRST 5 ROWS ONLY",
    "SELECT /*+ STATE_TTL('a' = '1d', 'b' = '2d') */ * FROM a JOIN b ON a.x = b.x",
    "SELECT /*+ BROADCAST(a) */ * FROM a JOIN b ON a.x = b.x",
    "SELECT * FROM t /*+ OPTIONS('scan.startup.mode' = 'earliest') */ AS x",
    "SELECT list_transform(a, x -> x + 1), {'k': a}, [1, 2], MAP['a', 1], ARRAY['x'], ROW(1, 'a') FROM t",
    "SELECT FLOOR(ts TO HOUR), CEIL(ts TO DAY), EXTRACT(DOW FROM ts), TIMESTAMPADD(DAY, 1, ts) FROM t",
    "SELECT DATE '2024-01-01', TIMESTAMP '2024-01-01 00:00:00', TIME '10:00:00', INTERVAL '1' YEAR",
    "SELECT CURRENT_TIMESTAMP, LOCALTIMESTAMP, CURRENT_DATE, PROCTIME(), NOW()",
    "SELECT a FROM t WHERE a LIKE 'x%' ESCAPE '!' AND b SIMILAR TO 'a|b' AND c IS DISTINCT FROM d",
    "VALUES (1, 'a'), (2, 'b')",
    "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v (x, y)",
    "FROM t SELECT a",
    'SELECT date, timestamp, value, user, key, year, channel, url, `order`, "group" FROM t',
    "SELECT a -- comment; with semicolon\n, /* b; */ c FROM t /* end */",
    "SELECT * EXCLUDE (a), COLUMNS('x.*') FROM t",
    "SELECT 'it''s', '--no', '/* no */', '; no'",
    "SET 'table.exec.source.idle-timeout' = '10 s'",
    "SET parallelism.default = 4",
    "CREATE TEMPORARY VIEW v AS SELECT 1 AS a",
    "CREATE VIEW IF NOT EXISTS v (a, b) COMMENT 'x' AS SELECT 1, 2",
    "INSERT INTO t SELECT * FROM u",
    "INSERT INTO t (a, b) VALUES (1, 2)",
    "INSERT INTO t (SELECT * FROM u)",
    "INSERT OVERWRITE t WITH x AS (SELECT 1 AS a) SELECT a FROM x",
    "EXECUTE INSERT INTO t SELECT * FROM u",
    "INSERT INTO t /*+ OPTIONS('sink.parallelism' = '2') */ SELECT 1",
    "CREATE TABLE t (a INT, b STRING) WITH ('connector' = 'datagen')",
    "CREATE TEMPORARY TABLE IF NOT EXISTS t (a INT NOT NULL COMMENT 'x') COMMENT 'y' WITH ('connector' = 'print')",
    "CREATE TABLE t WITH ('connector' = 'print') AS SELECT 1 AS a",
    "CREATE TABLE t LIKE u",
    "CREATE TABLE t WITH ('a' = 'b') LIKE u (EXCLUDING ALL INCLUDING WATERMARKS)",
    "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT CASE WHEN x THEN 1 END FROM t; END",
    "BEGIN STATEMENT SET; INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END",
]


def statements(text: str) -> tuple[Statement, ...]:
    return parse_file(text, file="q.sql").statements


@pytest.mark.parametrize("text", MUST_PARSE)
def test_flinks_syntax_parses(text: str) -> None:
    for written in (text, text + ";", f"-- before\n{text}\n;\n-- after\n"):
        assert len(statements(written)) == 1


@pytest.mark.parametrize("text", MUST_PARSE)
def test_a_broken_end_never_crashes(text: str) -> None:
    tokens = text.split(" ")
    for cut in range(1, len(tokens)):
        try:
            statements(" ".join(tokens[:cut]))
        except DiagnosticError as error:
            (diagnostic,) = error.diagnostics
            assert diagnostic.span is not None
            assert diagnostic.code.startswith("SQL")


def test_a_table_with_everything() -> None:
    text = """CREATE TABLE bid (
        auction BIGINT NOT NULL,
        r ROW<a INT NOT NULL, b ARRAY<STRING>>,
        ts TIMESTAMP(3),
        file STRING METADATA FROM 'file.name' VIRTUAL,
        price2 AS price * 2,
        WATERMARK FOR ts AS ts - INTERVAL '5' SECOND,
        CONSTRAINT k PRIMARY KEY (auction) NOT ENFORCED
    ) PARTITIONED BY (auction) WITH ('connector' = 'filesystem', -- why
        'path' = '/data')"""
    (table,) = statements(text)
    assert isinstance(table, CreateTable)
    assert [type(c) for c in table.columns] == [
        PhysicalColumn, PhysicalColumn, PhysicalColumn, MetadataColumn, ComputedColumn,
    ]  # fmt: skip
    auction, row, ts, file, computed = table.columns
    assert isinstance(auction, PhysicalColumn)
    assert not auction.nullable
    assert isinstance(row, PhysicalColumn)
    assert str(row.type) == 'STRUCT("a" INTEGER, "b" VARCHAR[])'
    assert isinstance(ts, PhysicalColumn)
    assert (ts.type.kind, ts.precision) == (Kind.TIMESTAMP, 3)
    assert isinstance(file, MetadataColumn)
    assert (file.key, file.virtual) == ("file.name", True)
    assert isinstance(computed, ComputedColumn)
    assert computed.expression.sql() == "price * 2"
    assert table.watermark is not None
    assert table.watermark.column == ("ts",)
    assert table.primary_key is not None
    assert table.primary_key.columns == ("auction",)
    assert table.partitioned_by == ("auction",)
    assert [(o.key, o.value) for o in table.options] == [("connector", "filesystem"), ("path", "/data")]
    path = table.options[1]
    assert (path.key_span.line, path.key_span.column, path.key_span.length) == (10, 9, 6)
    assert (path.value_span.column, path.value_span.length) == (18, 7)


@pytest.mark.parametrize(
    ("written", "type_", "precision"),
    [
        ("BOOLEAN", "BOOLEAN", None), ("TINYINT", "TINYINT", None), ("SMALLINT", "SMALLINT", None),
        ("INT", "INTEGER", None), ("INTEGER", "INTEGER", None), ("BIGINT", "BIGINT", None),
        ("FLOAT", "FLOAT", None), ("DOUBLE", "DOUBLE", None), ("DOUBLE PRECISION", "DOUBLE", None),
        ("DECIMAL(10, 2)", "DECIMAL(10,2)", None), ("NUMERIC(5)", "DECIMAL(5,0)", None),
        ("DEC(4, 1)", "DECIMAL(4,1)", None), ("STRING", "VARCHAR", None), ("VARCHAR(20)", "VARCHAR", None),
        ("VARCHAR", "VARCHAR", None), ("CHAR(3)", "VARCHAR", None), ("BYTES", "BLOB", None),
        ("VARBINARY(10)", "BLOB", None), ("BINARY(10)", "BLOB", None), ("DATE", "DATE", None),
        ("TIME", "TIME", None), ("TIME(3)", "TIME", None), ("TIMESTAMP", "TIMESTAMP", None),
        ("TIMESTAMP(0)", "TIMESTAMP", 0), ("TIMESTAMP(3)", "TIMESTAMP", 3),
        ("TIMESTAMP(6) WITHOUT TIME ZONE", "TIMESTAMP", 6), ("TIMESTAMP_LTZ(3)", "TIMESTAMP WITH TIME ZONE", 3),
        ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP WITH TIME ZONE", 3), ("JSON", "JSON", None),
        ("UUID", "UUID", None), ("ARRAY<INT NOT NULL>", "INTEGER[]", None), ("INT ARRAY", "INTEGER[]", None),
        ("INT[]", "INTEGER[]", None), ("ARRAY<ARRAY<STRING>>", "VARCHAR[][]", None),
        ("MAP<STRING, BIGINT>", "MAP(VARCHAR, BIGINT)", None),
        ("MAP<STRING NOT NULL, BIGINT NOT NULL>", "MAP(VARCHAR, BIGINT)", None),
        ("ROW<a INT, `b c` ROW<d STRING>>", 'STRUCT("a" INTEGER, "b c" STRUCT("d" VARCHAR))', None),
        ("ROW(a INT, b STRING)", 'STRUCT("a" INTEGER, "b" VARCHAR)', None),
        ("ROW<`date` DATE, `time` TIME NOT NULL 'note'>", 'STRUCT("date" DATE, "time" TIME)', None),
        ("ROW<date DATE, ts TIMESTAMP(3)>", 'STRUCT("date" DATE, "ts" TIMESTAMP)', None),
        ("STRUCT(a INTEGER)", 'STRUCT("a" INTEGER)', None), ("HUGEINT", "HUGEINT", None),
    ],
)  # fmt: skip
def test_types(written: str, type_: str, precision: int | None) -> None:
    (table,) = statements(f"CREATE TABLE t (a {written} NOT NULL, b {written} COMMENT 'x', c {written})")
    assert isinstance(table, CreateTable)
    for column in table.columns:
        assert isinstance(column, PhysicalColumn)
        assert str(column.type) == type_
        assert column.precision == precision
    assert [c.nullable for c in table.columns if isinstance(c, PhysicalColumn)] == [False, True, True]


def test_like_and_as() -> None:
    like, as_ = statements(
        "CREATE TABLE a (x INT) WITH ('k' = 'v') LIKE b (EXCLUDING ALL OVERWRITING OPTIONS INCLUDING GENERATED);"
        "CREATE TABLE c WITH ('connector' = 'print') AS SELECT a FROM b"
    )
    assert isinstance(like, CreateTable)
    assert like.like is not None
    assert like.like.source == "b"
    assert like.like.rules == (
        (LikeStrategy.EXCLUDING, LikeFeature.ALL),
        (LikeStrategy.OVERWRITING, LikeFeature.OPTIONS),
        (LikeStrategy.INCLUDING, LikeFeature.GENERATED),
    )
    assert isinstance(as_, CreateTable)
    assert as_.as_select is not None


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("SET 'a.b' = 'c d'", "a.b", "c d"),
        ("SET a.b-c = 12 s", "a.b-c", "12 s"),
        ("SET 'a' = ''", "a", ""),
        ("set execution.max-rows-per-epoch=1000", "execution.max-rows-per-epoch", "1000"),
    ],
)
def test_set(text: str, key: str, value: str) -> None:
    (found,) = statements(text)
    assert isinstance(found, SetOption)
    assert (found.key, found.value) == (key, value)


@pytest.mark.parametrize(
    "text",
    [
        "EXECUTE STATEMENT SET\nBEGIN\n{}END;",
        "EXECUTE STATEMENT SET BEGIN {}END",
        "BEGIN STATEMENT SET;\n{}END;",
        "SELECT 0; execute statement set begin {}end; SELECT 3",
    ],
)
def test_statement_sets(text: str) -> None:
    inserts = "INSERT INTO a SELECT CASE WHEN x THEN 1 END FROM t;\nINSERT INTO b (c, d) SELECT 1, 2; "
    found = next(s for s in statements(text.format(inserts)) if isinstance(s, StatementSet))
    assert [i.table for i in found.inserts] == ["a", "b"]
    assert found.inserts[1].columns == ("c", "d")


def test_hints_are_kept_where_they_stand() -> None:
    insert, select = statements(
        "INSERT INTO s /*+ OPTIONS('a' = 'b') */ SELECT /*+ STATE_TTL('t' = '1d') */ * FROM t /*+ OPTIONS('c' = 'd') */;"
        "SELECT * FROM u /*+ OPTIONS('e' = 'f') */ -- not /*+ X */\n; "
    )
    assert isinstance(insert, InsertInto)
    assert insert.hint is not None
    assert [h.name for h in insert.hint.expressions] == ["OPTIONS"]
    assert [h.name for h in insert.query.args["hint"].expressions] == ["STATE_TTL"]
    (table,) = insert.query.find_all(exp.Table)
    assert table.args["hints"][0].expressions[0].sql() == "OPTIONS('c' = 'd')"
    assert isinstance(select, Select)
    (table,) = select.query.find_all(exp.Table)
    assert table.args["hints"][0].expressions[0].sql() == "OPTIONS('e' = 'f')"


@pytest.mark.parametrize("what", ["TABLE", "VIEW", "TEMPORARY TABLE", "TEMPORARY VIEW"])
def test_drop_if_exists(what: str) -> None:
    found, following = statements(f"DROP {what} IF EXISTS `a b`; SELECT 1")
    assert isinstance(found, DropIfExists)
    assert found.name == "a b"
    assert isinstance(following, Select)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("DROP TABLE t", "DROP"),
        ("DROP FUNCTION IF EXISTS t", "DROP"),
        ("ALTER TABLE t ADD (a INT)", "ALTER"),
        ("DESCRIBE t", "DESCRIBE"),
        ("SHOW TABLES", "SHOW"),
        ("EXPLAIN SELECT 1", "EXPLAIN"),
        ("CREATE DATABASE d", "CREATE DATABASE"),
        ("CREATE TEMPORARY SYSTEM FUNCTION f AS 'a.b.C' LANGUAGE JAVA", "CREATE FUNCTION"),
        ("ADD JAR '/x.jar'", "ADD JAR"),
        ("RESET 'a'", "RESET"),
        ("UPDATE t SET a = 1", "UPDATE"),
        ("DELETE FROM t", "DELETE"),
    ],
)
def test_statements_that_can_not_be_run_have_a_name(text: str, kind: str) -> None:
    found, following = statements(text + "; SELECT 1")
    assert isinstance(found, Unsupported)
    assert found.kind == kind
    assert found.diagnostic.code == "SQL009"
    assert kind in found.diagnostic.message
    assert isinstance(following, Select)


def test_every_broken_statement_is_reported() -> None:
    with pytest.raises(DiagnosticError) as caught:
        statements("SELECT 1;\nSELECT a FROM;\nSELECT 2;\nSELEC 3;\nCREATE TABLE t (a);\nSELECT 'open")
    places = [(d.code, d.span.line) for d in caught.value.diagnostics if d.span is not None]
    assert places == [("SQL002", 2), ("SQL001", 4), ("SQL001", 5), ("SQL007", 6)]


def test_a_place_in_a_template_is_the_place_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "part.sql").write_text("\nSELECT {{ column }} + 1, oops FROM t")
    file = tmp_path / "q.sql"
    file.write_text("{% set column = 'price' %}\n{% for i in [1] %}\n{% include 'part.sql' %}\n{% endfor %}")
    script = parse_file(file)
    (select,) = script.statements
    assert isinstance(select, Select)
    price, oops = sorted(select.query.find_all(exp.Column), key=lambda c: c.name, reverse=True)
    span = span_of(price, script.rendered)
    assert (Path(span.file).name, span.line, span.column, span.length) == ("part.sql", 2, 8, 12)
    span = span_of(oops, script.rendered)
    assert (Path(span.file).name, span.line, span.column, span.length) == ("part.sql", 2, 26, 4)


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(DiagnosticError) as caught:
        parse_file(tmp_path / "none.sql")
    assert caught.value.exit_code == 2


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_bytes(b"\xef\xbb\xbfSELECT 1;\r\nSELECT 2\r\n")
    assert len(parse_file(tmp_path / "q.sql").statements) == 2


def test_views_and_windows_over_them() -> None:
    view, _ = statements(
        "CREATE TEMPORARY VIEW v (a, b) AS SELECT 1, 2; SELECT * FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(b), INTERVAL '1' DAY)) AS x"
    )
    assert isinstance(view, CreateView)
    assert (view.columns, view.temporary) == (("a", "b"), True)
    (select,) = statements("SELECT x.a FROM TUMBLE(v, b, INTERVAL '1' DAY) AS x JOIN u ON x.a = u.a")
    assert isinstance(select, Select)
    table = select.query.args["from_"].this
    assert isinstance(table.this, WindowTvf)
    assert table.alias == "x"
    assert len(select.query.args["joins"]) == 1


@given(st.lists(st.sampled_from(["SELECT", "FROM", "t", "a", ",", "(", ")", "'x'", "1", "WITH", "AS", "=", ";", "TABLE",
                                 "CREATE", "TUMBLE", "DESCRIPTOR", "INTERVAL", "CASE", "END", "BEGIN", "EXECUTE",
                                 "STATEMENT", "SET", "INSERT", "INTO", "[", "]", "{", "}", "->", "::", "INT", "ROW", "<",
                                 ">", "MAP", "NOT", "NULL", "*", ".", "\"q\"", "`b`", "/*+ H(1) */", "-- c\n", "JOIN", "ON",
                                 "GROUP BY", "OVER", "LATERAL", "UNNEST", "VALUES", "LIKE", "WATERMARK", "FOR", "METADATA",
                                 "?", "@", "$1", "MATCH_RECOGNIZE", "PIVOT", "DATE", "CAST", "EXTRACT", "TRIM"]), max_size=14))  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_any_text_parses_or_is_reported(words: list[str]) -> None:
    try:
        statements(" ".join(words))
    except DiagnosticError as error:
        for diagnostic in error.diagnostics:
            assert diagnostic.span is not None


def golden_cases() -> list[tuple[str, str, str]]:
    """(name, SQL, rendered errors) of each case of the golden file."""
    cases = []
    for block in GOLDEN.read_text(encoding="utf-8").split("### ")[1:]:
        name, rest = block.split("\n", 1)
        text, rendered = rest.split("\n---\n", 1)
        cases.append((name, text, rendered.strip()))
    return cases


def render_errors(text: str) -> str:
    with pytest.raises(DiagnosticError) as caught:
        statements(text)
    return "\n".join(render(d, text) for d in caught.value.diagnostics)


def test_messages() -> None:
    """Rewrite the file with UPDATE_GOLDENS=1 and read the difference."""
    cases = golden_cases()
    assert len(cases) >= 30
    now = [(name, text, render_errors(text)) for name, text, _ in cases]
    if os.environ.get("UPDATE_GOLDENS"):
        GOLDEN.write_text("\n".join(f"### {n}\n{t}\n---\n{r}\n" for n, t, r in now), encoding="utf-8")
    else:
        assert now == cases
