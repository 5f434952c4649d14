"""What is wrong with a table in a database is told by `check`, at its place and without a server."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from sqlstream.connectors.database.declared import wrong_table_name
from sqlstream.connectors.database.postgres_url import wrong_url
from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, render

POSTGRES = "'connector' = 'postgres', 'url' = 'postgresql://db:5432/shop'"
DUCKDB = "'connector' = 'duckdb', 'path' = 'out.duckdb'"


def _script(options: str, columns: str = "a BIGINT", table: str = "out") -> str:
    return f"""
        CREATE TABLE t (a BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '1');
        CREATE TABLE {table} ({columns}) WITH ({options});
        INSERT INTO {table} SELECT a FROM t
    """


def _mistakes(text: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(DiagnosticError) as caught:
        plan_file(text, file="f.sql")
    return caught.value.diagnostics


@pytest.mark.parametrize("options", [POSTGRES, DUCKDB])
@pytest.mark.parametrize(
    "name", ["a.b.c", "", " ", ".", "s.", '"a', 'a"b', "SQLStream_Epochs", "s.sqlstream_epochs"]
)
def test_a_table_name_that_can_not_be(options: str, name: str) -> None:
    (found,) = _mistakes(_script(f"{options}, 'table-name' = '{name}'"))
    assert (found.code, found.message) == ("OPT003", f"`table-name` can't be '{name}'")
    assert found.span is not None
    assert found.span.line == 3


@pytest.mark.parametrize("options", [POSTGRES, DUCKDB])
@pytest.mark.parametrize("name", ["b", "s.b", '"a.b".c', 's."x ""y"""', "Ünï cödé"])
def test_a_table_name_that_can_be(options: str, name: str) -> None:
    plan_file(_script(f"{options}, 'table-name' = '{name}'"))
    assert wrong_table_name(name) is None


@pytest.mark.parametrize("path", ["md:mine", ":memory:", "s3://bucket/file.duckdb", " "])
def test_a_path_that_is_no_local_file(path: str) -> None:
    (found,) = _mistakes(_script(f"'connector' = 'duckdb', 'path' = '{path}'"))
    assert (found.code, found.help) == ("OPT003", "write a DuckDB file on the driver's disk")


def test_a_uri_without_an_absolute_path() -> None:
    (found,) = _mistakes(_script("'connector' = 'duckdb', 'path' = 'file:// '"))
    assert (found.code, found.help) == ("OPT003", "write a path, or file:/// and an absolute path")


@pytest.mark.parametrize("key", ["i INTERVAL", "l ARRAY<BIGINT>", "r ROW<x INT>", "m MAP<INT, INT>"])
def test_a_key_that_duckdb_can_not_have(key: str) -> None:
    declared = f"{key}, PRIMARY KEY ({key.split()[0]}) NOT ENFORCED"
    (found,) = _mistakes(_script(DUCKDB, declared))
    assert found.code == "SQL053"
    assert "DuckDB has no PRIMARY KEY over a column of type" in found.message


def test_names_that_postgres_would_cut_off() -> None:
    column, table = "é" * 32, "x" * 64
    found = _mistakes(_script(POSTGRES, f"a BIGINT, `{column}` BIGINT", table))
    assert [d.span and d.span.line for d in found] == [3, 3]
    assert {d.message for d in found} == {"PostgreSQL has names of at most 63 bytes"}
    (cut,) = _mistakes(_script(f"{POSTGRES}, 'table-name' = 's.{table}'"))
    assert cut.help == "write names of at most 63 bytes"
    plan_file(_script(f"{POSTGRES}, 'table-name' = 'short'", table=table))


#: Addresses, and whether libpq, which looks at fewer values before it connects, would take those that we refuse.
WRONG = {
    "": True,
    "mysql://u:Hidden-Secret@h/db": False,
    "jdbc:mysql://u:Hidden-Secret@h/db": False,
    "host=h password=Hidden-Secret": True,
    "POSTGRESQL://h": False,
    "postgresql://[::1/d": False,
    "postgresql://[::1]x/d": False,
    "postgresql://[]/d": False,
    "postgresql://h/d?a=b": False,
    "postgresql://h/d?sslmode": False,
    "postgresql://h/d?ssl=1": False,
    "postgresql://h/d?&user=x": False,
    "postgresql://h/d?user=a=b": False,
    "postgresql://h/d?options=-c a=b": False,
    "postgresql://h/d?=": False,
    "postgresql://u:Hidden-Secret%@h/d": False,
    "postgresql://h/d%4": False,
    "postgresql://h/%00": False,
    "postgresql://h h/d": False,
    "postgresql://u:Hidden Secret@h/d": False,
    "postgresql://h/d e": False,
    "postgresql://h:port/d": True,
    "postgresql://h:99999/d": True,
    "postgresql://h:0/d": True,
    "postgresql://h:-1/d": True,
    "postgresql://h:1:2/d": True,
    "postgresql://a:1,b:x/d": True,
    "postgresql://h/d?port=x": True,
    "postgresql://h/d?sslmode=required": True,
    "postgresql://h/d?target_session_attrs=master": True,
    "postgresql://h/d?connect_timeout=10s": True,
}
RIGHT = [
    "postgresql://",
    "postgres:///d",
    "jdbc:postgresql://h:1/d",
    " postgresql://h:/d ",
    "postgresql://u:p:q@h/d",
    "postgresql://u%40:p%20w@h/d",
    "postgresql://u:p?w@h/d",
    "postgresql://u:p[w@h/d",
    "postgresql://u/p@h/d",
    "postgresql://@h/d",
    "postgresql://a,b:1,[::1]:2,:3/d",
    "postgresql://h/d/e#f",
    "postgresql://h?user=x&",
    "postgresql://h/d?%75ser=x&ssl=true",
    "postgresql://h/d?options=-c%20a%3Db&sslmode=verify-full&connect_timeout=-1",
    "postgresql://%2Ftmp/d?host=/var/run",
]


def _as_libpq_says(url: str) -> bool:
    try:
        conninfo_to_dict(url.strip().removeprefix("jdbc:"))
    except psycopg.Error:
        return False
    return True


@pytest.mark.parametrize("url", WRONG)
def test_an_address_that_can_not_be(url: str) -> None:
    text = _script(f"'connector' = 'postgres', 'url' = '{url}'")
    (found,) = _mistakes(text)
    assert (found.code, found.message) == ("OPT003", "`url` is no address of a PostgreSQL database")
    assert "Secret" not in (found.message + (found.help or "") + repr(found.notes))
    assert "Secret" not in render(found, text) or "://" not in url
    assert _as_libpq_says(url) is (WRONG[url])


@pytest.mark.parametrize("url", RIGHT)
def test_an_address_that_can_be(url: str) -> None:
    assert wrong_url(url) is None
    assert _as_libpq_says(url)


@pytest.mark.parametrize(
    ("columns", "options", "message", "caret"),
    [
        ("a INT", "'fields.a.min' = '5', 'fields.a.max' = '1'", "`fields.a.min` can't be '5'", "'5'"),
        ("a INT", "'fields.a.min' = '1.5'", "it is not a whole number", "'1.5'"),
        ("a INT", "'fields.a.length' = '7'", "datagen has no option `fields.a.length`", "'7'"),
        ("a INT", "'fields.a.kind' = 'sequence'", "`fields.a.start` is missing", "WITH"),
        (
            "a BOOLEAN, b MAP<INT, ARRAY<INT>>",
            "'fields.b.value.element.min' = '1.5'",
            "whole number",
            "'1.5'",
        ),
        (
            "a BOOLEAN",
            "'fields.a.kind' = 'sequence', 'fields.a.start' = '1', 'fields.a.end' = '2'",
            "sequence",
            "a",
        ),
        ("a INT", "'base-time' = '2024-02-30'", "`base-time` can't be '2024-02-30'", "'2024-02-30'"),
    ],
)
def test_values_that_datagen_can_not_make(columns: str, options: str, message: str, caret: str) -> None:
    text = f"CREATE TABLE t ({columns}) WITH ('connector' = 'datagen', {options}); SELECT * FROM t"
    (found,) = _mistakes(text)
    assert found.code in ("OPT003", "OPT020", "OPT021", "OPT022")
    assert message in found.message
    assert found.span is not None
    assert text[found.span.column - 1 :][: len(caret)] == caret


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ("'path' = ' ', 'format' = 'csv'", "path"),
        (
            "'path' = 'x', 'format' = 'canal-json', 'canal-json.table.include' = '*'",
            "canal-json.table.include",
        ),
        (
            "'path' = 'x', 'format' = 'canal-json', 'canal-json.database.include' = '(?=a)'",
            "canal-json.database.include",
        ),
    ],
)
def test_options_of_files_that_can_not_be(options: str, wrong: str) -> None:
    (found,) = _mistakes(
        f"CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', {options}); SELECT * FROM t"
    )
    assert found.message.startswith(f"`{wrong}` can't be")


def test_jdbc_names_the_connector_that_writes() -> None:
    table = (
        "CREATE TABLE t (a INT) WITH ('connector' = 'jdbc', 'url' = 'jdbc:{}://h/db', 'table-name' = 't');"
    )
    (found,) = _mistakes(table.format("postgresql") + "INSERT INTO t SELECT 1")
    assert (found.code, found.help and found.help.split(":")[0]) == (
        "OPT006",
        "write 'connector' = 'postgres'",
    )
    (found,) = _mistakes(table.format("mysql") + "INSERT INTO t SELECT 1")
    assert (found.code, found.help) == ("OPT006", None)


def test_a_table_that_only_reads_is_told_once() -> None:
    (found,) = _mistakes(
        "CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'orc');"
        "INSERT INTO t SELECT 1"
    )
    assert found.code == "OPT006"
