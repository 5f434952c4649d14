"""Tables that lookup joins read: in PostgreSQL every type, and what is said of tables that are not as declared."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from tests.connectors.postgres_server import PASSWORD, Database
from tests.properties.in_process import run_here

SQL = """
CREATE TABLE l (k INT) WITH ('connector' = 'filesystem', 'path' = 'l', 'format' = 'json');
CREATE TABLE d ({columns}) WITH ({place});
CREATE TABLE o WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'parquet') AS
SELECT l.k, {shown} FROM l LEFT JOIN d FOR SYSTEM_TIME AS OF PROCTIME() ON l.k = d.id;
"""


def look_up(
    folder: Path,
    columns: str,
    place: str,
    done: Callable[[EpochReport], Any] = lambda report: None,
    shown: str = "d.*",
) -> list[tuple[Any, ...]]:
    """What rows 1 and 2, in an epoch each, find."""
    (folder / "l").mkdir(exist_ok=True)
    (folder / "l" / "0.json").write_text('{"k": 1}\n{"k": 2}\n')
    (folder / "p.sql").write_text(SQL.format(columns=columns, place=place, shown=shown))
    run_here(plan_file(folder / "p.sql"), folder, rows_per_epoch=1, on_epoch=done)
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        found: list[tuple[Any, ...]] = con.execute(
            f"SELECT * FROM '{folder}/out/*.parquet' ORDER BY 1, 2"
        ).fetchall()
        return found


def refused(folder: Path, columns: str, place: str) -> Diagnostic:
    with pytest.raises(DiagnosticError) as caught:
        look_up(folder, columns, place)
    [found] = caught.value.diagnostics
    return found


#: The type here, that in PostgreSQL, a value there, and as it is found.
POSTGRES: list[tuple[str, str, str, Any]] = [
    ("BOOLEAN", "boolean", "true", True),
    ("SMALLINT", "smallint", "-3", -3),
    ("BIGINT", "integer", "7", 7),
    ("BIGINT", "bigint", str(2**63 - 1), 2**63 - 1),
    ("DECIMAL(10, 2)", "numeric(8,2)", "-123456.78", Decimal("-123456.78")),
    ("DOUBLE", "real", "1.5", 1.5),
    ("DOUBLE", "double precision", "0.1", 0.1),
    ("STRING", "text", "'ü\n'", "ü\n"),
    ("STRING", "varchar(9)", "'x'", "x"),
    ("BYTES", "bytea", r"'\x00ff'", b"\x00\xff"),
    ("DATE", "date", "'1969-12-31'", date(1969, 12, 31)),
    ("TIME", "time", "'23:59:59.5'", time(23, 59, 59, 500000)),
    ("TIMESTAMP(6)", "timestamp", "'2024-02-29 01:02:03.000004'", datetime(2024, 2, 29, 1, 2, 3, 4)),
    ("TIMESTAMP_LTZ(6)", "timestamptz", "'2024-07-01 12:00+02'", datetime(2024, 7, 1, 10, tzinfo=UTC)),
    ("UUID", "uuid", "'8a6e0804-2bd0-4672-b79d-d97027f9071a'", "8a6e0804-2bd0-4672-b79d-d97027f9071a"),
    ("ARRAY<INT>", "integer[]", "'{1, NULL, 3}'", [1, None, 3]),
]


def test_a_table_in_postgresql(tmp_path: Path, database: Database) -> None:
    """Every type, and NULL; the table is another one for the second epoch."""
    listed = ", ".join(f"c{n} {there}" for n, (_, there, _, _) in enumerate(POSTGRES))
    declared = ", ".join(f"c{n} {here}" for n, (here, _, _, _) in enumerate(POSTGRES))
    database.rows(f"CREATE SCHEMA s; CREATE TABLE s.things (unread point, id int PRIMARY KEY, {listed})")
    values = ", ".join(value for _, _, value, _ in POSTGRES)
    database.rows(f"INSERT INTO s.things VALUES (NULL, 1, {values})")

    def change(report: EpochReport) -> None:
        if report.epoch == 1:
            database.rows("DELETE FROM s.things; INSERT INTO s.things (id) VALUES (1), (2)")

    place = f"'connector' = 'postgres', 'url' = '{database.url}', 'table-name' = 's.things'"
    found = look_up(tmp_path, f"id BIGINT, {declared}, PRIMARY KEY (id) NOT ENFORCED", place, change)
    assert found == [(1, 1, *(value for *_, value in POSTGRES)), (2, 2, *(None for _ in POSTGRES))]
    assert not any(PASSWORD in file.read_text(errors="ignore") for file in tmp_path.rglob("*.json"))


@pytest.mark.parametrize(
    ("columns", "message", "note"),
    [
        ("id BIGINT, nam STRING", "has no column `nam`", "(id bigint, name text, price numeric)"),
        ("id INT", "has bigint as its column `id`, which is declared as INTEGER", "(id bigint"),
        ("id BIGINT, price DECIMAL(10, 2)", "has numeric as its column `price`", "price numeric)"),
    ],
)
def test_columns_that_postgresql_has_otherwise(
    tmp_path: Path, database: Database, columns: str, message: str, note: str
) -> None:
    database.rows("CREATE TABLE things (id bigint, name text, price numeric)")
    place = f"'connector' = 'postgres', 'url' = '{database.url}', 'table-name' = 'things'"
    found = refused(tmp_path, columns, place)
    assert (found.code, message in found.message, note in found.notes[0]) == ("DAT009", True, True)


def test_a_table_or_a_server_that_is_not_there(tmp_path: Path, database: Database) -> None:
    database.rows("CREATE TABLE thing (id bigint)")
    place = f"'connector' = 'postgres', 'url' = '{database.url}', 'table-name' = 'things'"
    found = refused(tmp_path, "id BIGINT", place)
    assert (found.code, found.notes) == ("DAT009", ("it has the tables thing",))
    assert found.help == "did you mean 'table-name' = 'thing'?"
    away = place.replace(f":{database.server.port}/", ":1/")
    found = refused(tmp_path, "id BIGINT", away)
    assert (found.code, "can't be read" in found.message, PASSWORD in str(found)) == ("ENV006", True, False)


@pytest.mark.parametrize(
    ("columns", "table", "message", "help_"),
    [
        ("id INT, nme STRING", "things", "has no column `nme`", "did you mean `name`?"),
        (
            "id INT, name DOUBLE",
            "things",
            "has VARCHAR as its column `name`, which is declared as DOUBLE",
            "declare",
        ),
        ("id SMALLINT", "things", "has INTEGER as its column `id`, which is declared as SMALLINT", "declare"),
        ("id INT", "thing", "there is no table thing in", "did you mean 'table-name' = 'things'?"),
    ],
)
def test_columns_and_tables_that_duckdb_has_otherwise(
    tmp_path: Path, columns: str, table: str, message: str, help_: str
) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as con:
        con.execute("CREATE TABLE things (id INTEGER, name VARCHAR)")
    found = refused(
        tmp_path, columns, f"'connector' = 'duckdb', 'path' = 'd.duckdb', 'table-name' = '{table}'"
    )
    assert (found.code, message in found.message, (found.help or "").startswith(help_)) == (
        "DAT009",
        True,
        True,
    )


def test_a_key_that_python_has_no_value_for_is_shown(tmp_path: Path) -> None:
    at = "2024-01-01 00:00:00.123456789"
    with duckdb.connect(str(tmp_path / "d.duckdb")) as con:
        con.execute(f"CREATE TABLE things AS SELECT 1 AS id, TIMESTAMP_NS '{at}' AS at FROM range(2)")
    place = "'connector' = 'duckdb', 'path' = 'd.duckdb', 'table-name' = 'things'"
    found = refused(tmp_path, "id INT, at TIMESTAMP_NS, PRIMARY KEY (id, at) NOT ENFORCED", place)
    assert (found.code, f"2 rows with the PRIMARY KEY (id = 1, at = {at})" in found.message) == (
        "DAT009",
        True,
    )


def test_a_duckdb_file_or_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert refused(tmp_path, "id INT", "'connector' = 'duckdb', 'path' = 'no.duckdb'").code == "ENV006"
    assert not (tmp_path / "no.duckdb").exists()
    files = "'connector' = 'filesystem', 'path' = 'no', 'format' = 'csv'"
    assert refused(tmp_path, "id INT", files).code == "DAT004"


def test_a_row_of_a_file_that_can_not_be_read_is_told(tmp_path: Path) -> None:
    """It is no dead letter: nobody would miss it in a join."""
    (tmp_path / "d.csv").write_text("id,name\n1,one\nx,two\n")
    found = refused(
        tmp_path, "id INT, name STRING", "'connector' = 'filesystem', 'path' = 'd.csv', 'format' = 'csv'"
    )
    assert (found.code, "`d` can't be read" in found.message) == ("DAT009", True)


def test_views_enums_and_wide_types_in_duckdb(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as con:
        con.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
        con.execute(
            "CREATE TABLE t (id TINYINT, m mood, h HUGEINT, s STRUCT(a INT, b VARCHAR[]), i INTERVAL)"
        )
        con.execute(
            "INSERT INTO t VALUES (1, 'ok', 12345678901234567890123, {a: 1, b: ['x', NULL]}, INTERVAL '1 month')"
        )
        con.execute("CREATE VIEW v AS SELECT * FROM t")
    columns = "id BIGINT, m STRING, h HUGEINT, s ROW<a INT, b ARRAY<STRING>>, i INTERVAL"
    place = "'connector' = 'duckdb', 'path' = 'd.duckdb', 'table-name' = 'v'"
    found = look_up(tmp_path, columns, place, shown="m, CAST(h AS STRING) AS h, s, CAST(i AS STRING) AS i")
    assert found[0] == (1, "ok", "12345678901234567890123", {"a": 1, "b": ["x", None]}, "1 month")
    assert found[1] == (2, None, None, None, None)
