"""Declarations and options: what a catalog holds, LIKE, and what each mistake is told."""
# ruff: noqa: E501 -- lists of snippets

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.connectors.registry import REGISTERED
from sqlstream_planner.catalog.job_options import JOB_OPTIONS, REFUSED, is_harmless
from sqlstream_planner.catalog.options import OptionDef, ValueKind, find_option, parse_bytes, parse_duration
from sqlstream_planner.catalog.script import read_catalog
from sqlstream_planner.catalog.tables import Catalog
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, render
from sqlstream_planner.sql.parse import parse_file

FILES = "'connector' = 'filesystem', 'path' = '/data', 'format' = 'json'"
BASE = f"""CREATE TABLE base (
  a INT,
  ts TIMESTAMP(3),
  m STRING METADATA FROM 'file.name',
  g AS a + 1,
  WATERMARK FOR ts AS ts,
  PRIMARY KEY (a) NOT ENFORCED
) PARTITIONED BY (a) WITH ({FILES});
"""


def catalog(text: str) -> Catalog:
    return read_catalog(parse_file(text, file="q.sql"), REGISTERED.descriptors)


def mistakes(text: str) -> list[Diagnostic]:
    with pytest.raises(DiagnosticError) as caught:
        catalog(text)
    for diagnostic in caught.value.diagnostics:
        assert diagnostic.span is not None
        assert render(diagnostic, text)
    return list(caught.value.diagnostics)


def mistake(text: str) -> Diagnostic:
    (found,) = mistakes(text)
    return found


def marked(text: str, diagnostic: Diagnostic) -> str:
    assert diagnostic.span is not None
    line = text.split("\n")[diagnostic.span.line - 1]
    return line[diagnostic.span.column - 1 :][: diagnostic.span.length]


def test_a_table_and_its_settings() -> None:
    found = catalog(
        "SET 'parallelism.default' = '3';"
        "CREATE TABLE Bid (a INT, `T s` TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = '/x', "
        "'format' = 'csv', 'csv.field-delimiter' = '\\t', 'source.monitor-interval' = '10 s');"
        "CREATE VIEW v AS SELECT 1 AS x; INSERT INTO bid SELECT 1, NULL"
    )
    table = found.table("BID")
    assert table is not None
    assert table.settings["csv.field-delimiter"] == "\t"
    assert table.settings["source.monitor-interval"] == 10_000_000
    assert table.settings["csv.quote-character"] == '"'
    assert "csv.header" not in table.settings
    assert not any(key.startswith("json.") for key in table.settings)
    assert table.column("t S") is not None
    assert found.view("V") is not None
    assert found.names == ("Bid", "v")
    assert found.settings["parallelism.default"] == 3
    assert found.settings["pipeline.max-parallelism"] == 128
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("text", "code", "at", "expected"),
    [
        ("CREATE TABLE t (a INT) WITH ('connector' = 'pulsar')", "OPT001", "'pulsar'", "known from Flink"),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'filesytem')", "OPT001", "'filesytem'", "did you mean 'filesystem'"),
        ("CREATE TABLE t (a INT)", "OPT004", "t", "has no connector"),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = 'x')", "OPT004", "WITH", "'format' = 'json'"),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'format' = 'json')", "OPT004", "WITH", "'path'"),
        (f"CREATE TABLE t (a INT) WITH ({FILES}, 'json.ignore-parse-error' = 'true')", "OPT002",
         "'json.ignore-parse-error'", "did you mean 'json.ignore-parse-errors'"),
        (f"CREATE TABLE t (a INT) WITH ({FILES}, 'json.ignore-parse-errors' = 'yes')", "OPT003", "'yes'", "'true' or 'false'"),
        (f"CREATE TABLE t (a INT) WITH ({FILES}, 'source.monitor-interval' = 'soon')", "OPT003", "'soon'", "'10 s'"),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'arvo')", "OPT003", "'arvo'",
         "'parquet'"),
        (f"CREATE TABLE t (a INT) WITH ({FILES}, 'path' = 'y')", "OPT005", "'path'", "twice"),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'datagen', 'rows-per-second' = '0')", "OPT003", "'0'", "at least 1"),
        ("CREATE TABLE t (abc INT) WITH ('connector' = 'datagen', 'fields.abd.kind' = 'random')", "OPT002",
         "'fields.abd.kind'", "'fields.abc.kind'"),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'datagen', 'fields.a.null-rate' = '2')", "OPT003", "'2'", "from 0 to 1"),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'datagen'); INSERT INTO t SELECT 1", "OPT006", "t", "only reads"),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'orc'); INSERT INTO t SELECT 1",
         "OPT006", "t", "'orc' only reads"),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'print'); CREATE TABLE T (a INT)", "CAT001", "T", "declared twice"),
        ("CREATE TABLE v (a INT) WITH ('connector' = 'print'); CREATE VIEW v AS SELECT 1", "CAT001", "v", "declared twice"),
        ("CREATE TABLE t LIKE bse", "CAT002", "LIKE bse", "not declared"),
        ("CREATE VIEW v AS SELECT 1; CREATE TABLE t LIKE v", "CAT002", "LIKE v", "is a view"),
        ("CREATE TABLE t (a INT, A STRING) WITH ('connector' = 'print')", "CAT003", "A", "twice"),
        ("CREATE TABLE t (abc TIMESTAMP(3), WATERMARK FOR abd AS abc) WITH ('connector' = 'print')", "CAT004", "abd",
         "did you mean `abc`"),
        ("CREATE TABLE t (r ROW<x INT>, WATERMARK FOR r.y AS r.x) WITH ('connector' = 'print')", "CAT004", "r.y",
         "no field `y`"),
        ("CREATE TABLE t (a BIGINT, WATERMARK FOR a AS a) WITH ('connector' = 'print')", "CAT005", "a",
         "TO_TIMESTAMP_LTZ(a, 3)"),
        ("CREATE TABLE t (a STRING, WATERMARK FOR a AS a) WITH ('connector' = 'print')", "CAT005", "a", "TO_TIMESTAMP(a)"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (b) NOT ENFORCED) WITH ('connector' = 'print')", "CAT006",
         "PRIMARY KEY (b) NOT ENFORCED", "no column of `t`"),
        (f"CREATE TABLE t (a INT) PARTITIONED BY (b) WITH ({FILES})", "CAT007", "PARTITIONED BY (b)", "no column of `t`"),
        (f"CREATE TABLE t (a INT, b AS a) PARTITIONED BY (b) WITH ({FILES})", "CAT007", "PARTITIONED BY (b)", "not stored"),
        (f"CREATE TABLE t (a STRING METADATA FROM 'file.pth') WITH ({FILES})", "CAT008", "a", "'file.path'"),
        ("CREATE TABLE t (a INT METADATA) WITH ('connector' = 'print')", "CAT008", "a", "no metadata `a`"),
        (f"CREATE TABLE t (a INT METADATA FROM 'file.modification-time') WITH ({FILES})", "CAT008", "a",
         "is TIMESTAMP WITH TIME ZONE"),
        (f"CREATE TABLE t (a INT METADATA FROM 'file.size') WITH ({FILES})", "CAT008", "a", "declare it BIGINT"),
        (f"CREATE TABLE t (a BYTES METADATA FROM 'file.path') WITH ({FILES})", "CAT008", "a", "declare it VARCHAR"),
        ("CREATE TABLE db.t (a INT) WITH ('connector' = 'print')", "CAT009", "db.t", "write t"),
        ("CREATE TABLE t WITH ('connector' = 'print')", "CAT010", "t", "no columns"),
        ("SET 'parallelism.defautl' = '1'", "SET001", "'parallelism.defautl'", "did you mean 'parallelism.default'"),
        ("SET 'execution.max-row-per-epoch' = '1'", "SET001", "'execution.max-row-per-epoch'", "max-rows-per-epoch"),
        ("SET 'what' = '1'", "SET001", "'what'", "settings: pipeline.name"),
        ("SET 'parallelism.default' = 'all'", "SET002", "'all'", "a whole number, at least 1"),
        ("SET 'table.local-time-zone' = 'Europe/Pariss'", "SET002", "'Europe/Pariss'", "'Europe/Paris'"),
        ("SET 'table.exec.emit.late-fire.enabled' = 'true'", "SET003", "'table.exec.emit.late-fire.enabled'", "allow-lateness"),
        ("DROP TABLE t", "SQL009", "DROP", "remove the CREATE"),
    ],
)  # fmt: skip
def test_mistakes(text: str, code: str, at: str, expected: str) -> None:
    found = mistake(text)
    assert found.code == code
    assert marked(text, found) == at
    assert expected in render(found, text)


@pytest.mark.parametrize(
    ("key", "type_"),
    [
        ("file.path", "STRING"),
        ("file.size", "BIGINT"),
        ("file.size", "HUGEINT"),
        ("file.size", "STRING"),
        ("file.modification-time", "TIMESTAMP_LTZ(3)"),
        ("file.modification-time", "TIMESTAMP(3)"),
    ],
)
def test_types_that_metadata_can_have(key: str, type_: str) -> None:
    catalog(f"CREATE TABLE t (a {type_} METADATA FROM '{key}') WITH ({FILES})")


def test_what_is_not_declared_may_be_dropped_if_it_exists() -> None:
    """As files for Flink's SQL client do, which are run again."""
    table = f"CREATE TABLE t (a INT) WITH ({FILES});"
    assert set(catalog(f"DROP TABLE IF EXISTS t;\nDROP VIEW IF EXISTS v;\n{table}").tables) == {"t"}
    [found] = mistakes(f"{table}\nDROP TABLE IF EXISTS T;")
    assert (found.code, found.span and found.span.line) == ("SQL009", 2)
    assert "`T` is declared above" in found.message


def test_all_mistakes_are_reported_together() -> None:
    found = mistakes(
        "SET 'a' = '1';\n"
        "CREATE TABLE t (a INT, WATERMARK FOR a AS a, PRIMARY KEY (b) NOT ENFORCED) WITH ('connector' = 'x');\n"
        "DROP TABLE t"
    )
    assert [d.code for d in found] == ["SET001", "CAT006", "CAT005", "OPT001", "SQL009"]


@pytest.mark.parametrize(
    "key",
    ["table.optimizer.agg-phase-strategy", "state.backend.type", "taskmanager.memory.size", "sql-client.x"],
)
def test_settings_that_change_nothing_are_only_a_warning(key: str) -> None:
    (warning,) = catalog(f"SET '{key}' = 'x'").warnings
    assert (warning.code, warning.severity) == ("SET004", "warning")


def test_no_setting_is_both_ours_and_refused_or_harmless() -> None:
    for option in JOB_OPTIONS:
        assert option.name not in REFUSED
        if option.name != "execution.checkpointing.interval":
            assert not is_harmless(option.name)
    assert not REGISTERED.descriptors.elsewhere & set(REGISTERED.descriptors.names)


def like(rules: str, body: str = "") -> Catalog:
    return catalog(BASE + f"CREATE TABLE t {body} LIKE base {rules}")


def test_like_takes_over_everything_and_overwrites_options() -> None:
    table = like("", "(b INT) WITH ('path' = '/other')").table("t")
    assert table is not None
    assert [c.name for c in table.columns] == ["a", "ts", "m", "g", "b"]
    assert table.settings["path"] == "/other"
    assert table.settings["format"] == "json"
    assert table.watermark is not None
    assert table.primary_key is not None
    assert table.partitioned_by == ("a",)


@pytest.mark.parametrize(
    ("rules", "columns", "watermark", "key", "partitions"),
    [
        ("(INCLUDING ALL)", "a ts m g b", True, True, True),
        ("(EXCLUDING GENERATED)", "a ts m b", True, True, True),
        ("(EXCLUDING METADATA)", "a ts g b", True, True, True),
        ("(EXCLUDING WATERMARKS)", "a ts m g b", False, True, True),
        ("(EXCLUDING CONSTRAINTS)", "a ts m g b", True, False, True),
        ("(EXCLUDING PARTITIONS)", "a ts m g b", True, True, False),
        ("(EXCLUDING ALL INCLUDING OPTIONS)", "a ts b", False, False, False),
        ("(INCLUDING GENERATED EXCLUDING ALL INCLUDING OPTIONS)", "a ts g b", False, False, False),
    ],
)
def test_like_rules(rules: str, columns: str, watermark: bool, key: bool, partitions: bool) -> None:
    table = like(rules, "(b INT)").table("t")
    assert table is not None
    assert [c.name for c in table.columns] == columns.split()
    assert (table.watermark is not None) == watermark
    assert (table.primary_key is not None) == key
    assert bool(table.partitioned_by) == partitions


def test_like_overwrites_where_it_is_told_to() -> None:
    table = like("(OVERWRITING GENERATED OVERWRITING WATERMARKS)", "(g AS a + 2, WATERMARK FOR ts AS ts - INTERVAL '1' DAY)").table("t")  # fmt: skip
    assert table is not None
    assert [c.name for c in table.columns] == ["a", "ts", "m", "g"]
    assert table.watermark is not None
    assert table.watermark.expression.sql() == "ts - INTERVAL '1' DAY"


@pytest.mark.parametrize(
    ("rules", "body", "code", "expected"),
    [
        ("", "(a INT)", "CAT003", "already in `base`"),
        ("", "(g AS a)", "CAT003", "OVERWRITING GENERATED"),
        ("(OVERWRITING GENERATED)", "(g INT)", "CAT003", "already in `base`"),
        ("", "(WATERMARK FOR ts AS ts)", "CAT011", "EXCLUDING WATERMARKS"),
        ("", "(PRIMARY KEY (a) NOT ENFORCED)", "CAT011", "EXCLUDING CONSTRAINTS"),
        ("(INCLUDING OPTIONS)", "WITH ('path' = 'x')", "CAT011", "OVERWRITING OPTIONS"),
        ("(OVERWRITING CONSTRAINTS)", "", "CAT011", "does not exist"),
        ("(OVERWRITING ALL)", "", "CAT011", "does not exist"),
        ("(INCLUDING OPTIONS EXCLUDING OPTIONS)", "", "CAT011", "twice"),
        ("(EXCLUDING OPTIONS)", "", "OPT004", "no connector"),
    ],
)
def test_like_mistakes(rules: str, body: str, code: str, expected: str) -> None:
    found = mistake(BASE + f"CREATE TABLE t {body} LIKE base {rules}")
    assert found.code == code
    assert expected in render(found, None)


def test_like_of_like() -> None:
    table = catalog(BASE + "CREATE TABLE t (b INT) LIKE base; CREATE TABLE u (c INT) LIKE t;").table("u")
    assert table is not None
    assert [c.name for c in table.columns] == ["a", "ts", "m", "g", "b", "c"]


@given(
    st.integers(0, 10**9),
    st.sampled_from(["us", "ms", "s", "min", "h", "d"]),
    st.sampled_from(["", " ", "  "]),
)
def test_durations(amount: int, unit: str, space: str) -> None:
    size = {"us": 1, "ms": 10**3, "s": 10**6, "min": 6 * 10**7, "h": 36 * 10**8, "d": 864 * 10**8}[unit]
    assert parse_duration(f"{amount}{space}{unit}") == amount * size
    assert parse_duration(f" {amount}{space}{unit.upper()} ") == amount * size


@pytest.mark.parametrize("text", ["", "s", "1.5 s", "-1 s", "1 parsec", "1 s 2 ms"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="a duration such as"):
        parse_duration(text)


@pytest.mark.parametrize(("text", "size"), [("64 mb", 1 << 26), ("1gb", 1 << 30), ("5", 5), ("2 kb", 2048)])
def test_sizes(text: str, size: int) -> None:
    assert parse_bytes(text) == size


def test_an_exact_name_comes_before_a_pattern() -> None:
    exact = OptionDef("fields.a.kind", ValueKind.STRING, "")
    pattern = OptionDef("fields.#.kind", ValueKind.STRING, "")
    assert find_option([pattern, exact], "fields.a.kind") is exact
    assert find_option([pattern, exact], "fields.b.kind") is pattern
    assert find_option([pattern, exact], "fields..kind") is None


def test_an_option_that_contradicts_itself_can_not_be_made() -> None:
    with pytest.raises(ValueError, match="required"):
        OptionDef("a", ValueKind.STRING, "", required=True, default="x")
    with pytest.raises(ValueError, match="whole number"):
        OptionDef("a", ValueKind.INTEGER, "", default="x")
    with pytest.raises(ValueError, match="ENUM"):
        OptionDef("a", ValueKind.STRING, "", choices=("x",))
