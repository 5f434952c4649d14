"""Tables in databases that Spark reads through JDBC: a real PostgreSQL, with its driver."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from sqlstream.planning import plan_file
from sqlstream.runtime.spark.stages import SparkJobRunner
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.postgres_server import PASSWORD, USER, Database
from tests.jars import classpath
from tests.properties.in_process import run_here
from tests.properties.updating import collecting
from tests.runtime.support import Crash, crash_at

COUNTS = """
CREATE TABLE counts (v STRING, n BIGINT, s BIGINT, PRIMARY KEY (v) NOT ENFORCED)
WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');
INSERT INTO counts SELECT v, COUNT(*), CAST(SUM(k) AS BIGINT) FROM t GROUP BY v;
"""
RANGES = (
    ", 'scan.partition.column' = 'k', 'scan.partition.num' = '3', 'scan.partition.lower-bound' = '100', "
    "'scan.partition.upper-bound' = '300', 'scan.fetch-size' = '50'"
)


@pytest.fixture
def spark(spark_runner: SparkJobRunner) -> SparkSession:
    """Spark that has the driver of PostgreSQL."""
    found = spark_runner.session()
    for jar in classpath(Path(__file__).with_name("pom.xml"), "JDBC driver").split(":"):
        found.sql(f"ADD JAR '{jar}'")
    return found


def jdbc(database: Database, columns: str, more: str = "", name: str = "t") -> str:
    url = f"jdbc:postgresql://127.0.0.1:{database.server.port}/{database.name}"
    given = f"'connector' = 'jdbc', 'url' = '{url}', 'username' = '{USER}', 'password' = '{PASSWORD}'"
    return f"CREATE TABLE {name} ({columns}) WITH ({given}{more});\n"


def run(folder: Path, sql: str, **options: Any) -> Any:
    (folder / "p.sql").write_text(sql)
    return run_here(plan_file(folder / "p.sql"), folder, **options)


def counts(folder: Path) -> Counter[Any]:
    with duckdb.connect(str(folder / "out.duckdb"), read_only=True) as con:
        return Counter(con.execute("SELECT * FROM counts").fetchall())


@pytest.mark.parametrize("more", ["", RANGES], ids=["one", "ranges"])
def test_a_table_is_read_once(spark: SparkSession, database: Database, tmp_path: Path, more: str) -> None:
    """By one connection, or by several that read a range each; what is beyond the ranges is read, too, and NULL."""
    database.rows("CREATE TABLE t (other int, v text, k int)")
    database.rows("INSERT INTO t SELECT 0, 'v' || i % 3, nullif(i, 7) FROM generate_series(1, 500) i")
    expected = Counter(database.rows("SELECT v, count(*), sum(k)::bigint FROM t GROUP BY v"))
    sql = jdbc(database, "k BIGINT, v STRING", more) + COUNTS
    with pytest.raises(Crash):
        run(tmp_path, sql, rows_per_epoch=100, faults=crash_at("run", 2))
    database.rows("DELETE FROM t WHERE k % 2 = 0")
    assert run(tmp_path, sql, rows_per_epoch=100).outcome == "exhausted"
    assert counts(tmp_path) == expected
    for file in (tmp_path / "state").rglob("*"):
        assert not file.is_file() or PASSWORD.encode() not in file.read_bytes()


def test_types(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    """A time without a zone is the one that is there, whatever zone the machine has; one with a zone is the instant."""
    columns = {
        "b BOOLEAN": ("boolean", "true"),
        "i INT": ("integer", "-7"),
        "l BIGINT": ("bigint", "9007199254740993"),
        "d DECIMAL(12, 3)": ("numeric(12,3)", "-123456789.125"),
        "x DOUBLE": ("double precision", "0.1"),
        "s STRING": ("text", "'é😀'"),
        "y BYTES": ("bytea", "'\\x00ff'"),
        "a DATE": ("date", "'1881-02-03'"),
        "ts TIMESTAMP": ("timestamp", "'2024-03-10 02:30:00.123456'"),
        "tz TIMESTAMP_LTZ": ("timestamptz", "'2024-03-10 02:30:00.123456+05'"),
        "old TIMESTAMP": ("timestamp", "'1881-02-03 04:05:06'"),
    }
    there = ", ".join(f"{c.split()[0]} {type_}" for c, (type_, _) in columns.items())
    database.rows(f"CREATE TABLE t ({there})")
    database.rows(f"INSERT INTO t VALUES ({', '.join(value for _, value in columns.values())})")
    database.rows("INSERT INTO t (i) VALUES (1)")
    sql = jdbc(database, ", ".join(columns)) + (
        "CREATE TABLE s WITH ('connector' = 'blackhole') AS SELECT * FROM t;"
    )
    with collecting() as collected:
        run(tmp_path, sql)
        found = {row[1]: row for row in collected.folded("s")}
    expected = {row[1]: row for row in database.rows("SELECT * FROM t")}
    assert found == expected


def test_lookups(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    database.rows("CREATE TABLE names (k int, name text)")
    database.rows("INSERT INTO names VALUES (1, 'one'), (2, 'two')")
    (tmp_path / "in.json").write_text('{"k": 1}\n{"k": 3}\n')
    sql = jdbc(database, "k INT, name STRING", name="names") + (
        "CREATE TABLE a (k INT, p AS PROCTIME()) WITH ('connector' = 'filesystem', 'path' = 'in.json', "
        "'format' = 'json');\nCREATE TABLE s WITH ('connector' = 'blackhole') AS "
        "SELECT a.k, d.name FROM a LEFT JOIN names FOR SYSTEM_TIME AS OF a.p AS d ON a.k = d.k;"
    )
    with collecting() as collected:
        run(tmp_path, sql)
        assert sorted(collected.folded("s")) == [(1, "one"), (3, None)]


@pytest.mark.parametrize(
    ("columns", "more", "change", "code", "says"),
    [
        ("k BIGINT, v STRING", ", 'table-name' = 'none'", ("", ""), "DAT004", "does not exist"),
        ("k INT, v STRING", "", ("", ""), "DAT018", "`k` is BIGINT"),
        ("k BIGINT, v STRING", "", (PASSWORD, "wrong-secret"), "ENV006", "password authentication failed"),
        ("k BIGINT, v STRING", "", ("127.0.0.1:", "127.0.0.1:1"), "ENV006", ""),
        ("k BIGINT, v STRING", "", ("'username'", "'driver' = 'org.none.Driver', 'username'"), "ENV023", "org.none.Driver"),
    ],
)  # fmt: skip
def test_what_is_refused(
    spark: SparkSession, database: Database, tmp_path: Path, columns: str, more: str,
    change: tuple[str, str], code: str, says: str,
) -> None:  # fmt: skip
    database.rows("CREATE TABLE t (k bigint, v text)")
    with pytest.raises(DiagnosticError) as raised:
        run(tmp_path, jdbc(database, columns, more).replace(*change, 1) + COUNTS)
    (found,) = raised.value.diagnostics
    assert (found.code, says in f"{found.message} {found.notes}") == (code, True), found
    assert found.help
    assert PASSWORD not in str(found)
    assert "wrong-secret" not in str(found)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("'url' = 'postgresql://h/d'", "OPT003"),
        ("'url' = 'jdbc:x'", "OPT003"),
        ("'url' = 'jdbc:oracle:thin:scott/not-to-be-shown@h:1521:x'", "OPT003"),
        ("'table-name' = 'x'", "OPT004"),
        ("'url' = 'jdbc:h2:mem:x', 'scan.partition.column' = 'k'", "OPT004"),
        ("'url' = 'jdbc:h2:mem:x'" + RANGES.replace("'k'", "'other'"), "OPT003"),
        ("'url' = 'jdbc:h2:mem:x', 'scan.fetch-size' = 'many'", "OPT003"),
    ],
)
def test_options_that_are_refused(options: str, code: str) -> None:
    """Without Spark."""
    with pytest.raises(DiagnosticError) as raised:
        plan_file(
            f"CREATE TABLE t (k BIGINT) WITH ('connector' = 'jdbc', {options});\nSELECT COUNT(*) FROM t;",
            file="p.sql",
        )
    assert [d.code for d in raised.value.diagnostics] == [code]
    assert "not-to-be-shown" not in str(raised.value.diagnostics)
