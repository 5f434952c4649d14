"""Columns of each type: what they are declared as, and that the connector reads and writes what is declared."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import DateType, LongType, NestedField, StringType, TimestampType

from sqlstream.planning import plan_file
from sqlstream_planner.catalog.foreign.descriptor import FoundTable
from sqlstream_planner.catalog.tables import TableDef
from sqlstream_planner.sql.statements import PhysicalColumn
from tests.connectors.postgres_server import PASSWORD, Database
from tests.properties.in_process import run_here

POSTGRES = {
    "boolean": "BOOLEAN", "smallint": "SMALLINT", "integer": "INTEGER", "bigint": "BIGINT", "real": "FLOAT",
    "double precision": "DOUBLE", "numeric(10,2)": "DECIMAL(10,2)", "text": "VARCHAR", "varchar(5)": "VARCHAR",
    "char(3)": "VARCHAR", "bytea": "BLOB", "date": "DATE", "time": "TIME", "timestamp": "TIMESTAMP",
    "timestamp(3)": "TIMESTAMP", "timestamptz": "TIMESTAMP WITH TIME ZONE", "interval": "INTERVAL", "uuid": "UUID",
    "json": "JSON", "jsonb": "JSON", "mood": "VARCHAR", "cents": "BIGINT", "numeric": None, "numeric(50,2)": None,
    "integer[]": None, "point": None, "timetz": None, "inet": None,
}  # fmt: skip


def declared(table: TableDef | None) -> dict[str, str | None]:
    assert table is not None
    found: dict[str, str | None] = {
        c.name: str(c.type) for c in table.columns if isinstance(c, PhysicalColumn)
    }
    return {**found, **{one.name: None for one in table.left_out}}


def test_postgres(database: Database, tmp_path: Path) -> None:
    database.rows("CREATE TYPE mood AS ENUM ('ok'); CREATE DOMAIN cents AS bigint CHECK (value >= 0)")
    columns = {f"c{n}": sql for n, sql in enumerate(POSTGRES)}
    database.rows(f"CREATE TABLE t ({', '.join(f'{n} {sql}' for n, sql in columns.items())})")
    database.rows("INSERT INTO t (c0) VALUES (true), (NULL)")
    file = tmp_path / "p.sql"
    file.write_text(
        f"CREATE CATALOG b WITH ('type' = 'postgres', 'url' = '{database.server.url(database.name, password=None)}', "
        f"'password' = '{PASSWORD}');\n"
        "CREATE TABLE o WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json') AS SELECT * FROM b.public.t;"
    )
    planned = plan_file(file)
    expected = dict(zip(columns, POSTGRES.values(), strict=True))
    assert declared(planned.catalog.table("b.public.t")) == expected
    run_here(planned, tmp_path)
    lines = [line for one in (tmp_path / "out").glob("part-*") for line in one.read_text().splitlines()]
    assert sorted(str(json.loads(line)["c0"]) for line in lines) == ["None", "True"]
    assert json.loads(lines[0]).keys() == {name for name, type_ in expected.items() if type_ is not None}


def test_what_postgres_has_besides_tables(database: Database, tmp_path: Path) -> None:
    """Views are tables, sequences and indexes are none; names may have any letter; a key is in its own order."""
    database.rows(
        'CREATE SCHEMA "my.schema"; CREATE TABLE "my.schema"."T t" (b int, a int, "A b" int, PRIMARY KEY (a, b));'
        "CREATE VIEW v AS SELECT 1 AS one; CREATE MATERIALIZED VIEW m AS SELECT 2 AS two; CREATE SEQUENCE s;"
        "CREATE TABLE p (k int) PARTITION BY RANGE (k); CREATE INDEX i ON p (k);"
        'INSERT INTO "my.schema"."T t" VALUES (1, 2, 3)'
    )
    created = (
        f"CREATE CATALOG b WITH ('type' = 'postgres', 'url' = '{database.server.url(database.name, password=None)}', "
        f"'password' = '{PASSWORD}');\n"
    )
    text = 'SELECT a, "A b" FROM b.`my.schema`."T t" UNION ALL SELECT one, 0 FROM b.public.v UNION ALL SELECT two, k '
    planned = plan_file(f"{created}{text} FROM b.public.m, b.public.p;", file=str(tmp_path / "p.sql"))
    table = planned.catalog.table("b.`my.schema`.T t")
    assert table is not None
    assert table.primary_key is not None
    assert table.primary_key.columns == ("a", "b")
    assert [(c.name, c.nullable) for c in table.columns if isinstance(c, PhysicalColumn)] == [
        ("b", False),
        ("a", False),
        ("A b", True),
    ]
    assert table.settings["table-name"] == '"my.schema".T t'
    run_here(planned, tmp_path)
    for name in ("s", "i", "sqlstream_epochs"):
        with pytest.raises(Exception, match="unknown table"):
            plan_file(f"{created}SELECT * FROM b.public.{name}")


def test_duckdb(tmp_path: Path) -> None:
    types = {
        "BOOLEAN": "BOOLEAN", "TINYINT": "TINYINT", "UBIGINT": "UBIGINT", "HUGEINT": "HUGEINT",
        "DECIMAL(38,2)": "DECIMAL(38,2)",
        "VARCHAR": "VARCHAR", "BLOB": "BLOB", "TIMESTAMP": "TIMESTAMP", "TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE",
        "INTEGER[]": "INTEGER[]", "STRUCT(a INTEGER, b VARCHAR[])": 'STRUCT("a" INTEGER, "b" VARCHAR[])',
        "MAP(VARCHAR, INTEGER)": "MAP(VARCHAR, INTEGER)", "JSON": "JSON", "UUID": "UUID", "INTERVAL": "INTERVAL",
        "ENUM('x', 'y')": "ENUM('x', 'y')", "INTEGER[3]": None, "UNION(a INTEGER, b VARCHAR)": None,
    }  # fmt: skip
    columns = {f"c{n}": sql for n, sql in enumerate(types)}
    with duckdb.connect(str(tmp_path / "m.duckdb")) as there:
        there.execute(f"CREATE TABLE t ({', '.join(f'{n} {sql}' for n, sql in columns.items())})")
        there.execute("CREATE TABLE u AS FROM t")
        there.execute("INSERT INTO t (c0, c1) VALUES (true, 1)")
    file = tmp_path / "p.sql"
    listed = ", ".join(f"r.{name}" for name, sql in columns.items() if types[sql] is not None)
    file.write_text(
        "CREATE CATALOG m WITH ('type' = 'duckdb', 'path' = 'm.duckdb');\n"
        "CREATE TABLE l (c1 TINYINT, p AS PROCTIME()) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
        f"INSERT INTO m.main.u SELECT {listed} FROM l JOIN m.main.t FOR SYSTEM_TIME AS OF l.p AS r ON l.c1 = r.c1;"
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.json").write_text('{"c1": 1}\n')
    planned = plan_file(file)
    assert declared(planned.catalog.table("m.main.t")) == dict(zip(columns, types.values(), strict=True))
    run_here(planned, tmp_path)
    with duckdb.connect(str(tmp_path / "m.duckdb"), read_only=True) as there:
        assert there.execute("SELECT c0, c1, c2 FROM u").fetchall() == [(True, 1, None)]


def test_delta(tmp_path: Path) -> None:
    """A key by which a table is partitioned is one here, and types inside are read."""
    schema = pa.schema(
        [
            pa.field("i", pa.int32(), nullable=False),
            pa.field("t", pa.timestamp("us", tz="UTC")),
            pa.field("n", pa.timestamp("us")),
            pa.field("l", pa.list_(pa.struct([("a", pa.int64())]))),
            pa.field("day", pa.date32()),
        ]
    )
    for name in ("t", "u"):
        write_deltalake(str(tmp_path / "lake" / name), schema.empty_table(), partition_by=["day"])
    (tmp_path / "lake/no table").mkdir()
    planned = plan_file(
        "CREATE CATALOG c WITH ('type' = 'delta', 'path' = 'lake'); USE CATALOG c; INSERT INTO u SELECT * FROM t",
        file=str(tmp_path / "p.sql"),
    )
    assert declared(planned.catalog.table("c.default.t")) == {
        "i": "INTEGER",
        "t": "TIMESTAMP WITH TIME ZONE",
        "n": "TIMESTAMP",
        "l": 'STRUCT("a" BIGINT)[]',
        "day": "DATE",
    }
    (sink,) = planned.physical.sinks
    assert (sink.partitioned_by, [c.nullable for c in sink.schema][:2]) == (("day",), [False, True])
    run_here(planned, tmp_path)


@pytest.mark.parametrize("hidden", [False, True], ids=["by values", "by day of a time"])
def test_iceberg_partitions(hidden: bool, tmp_path: Path) -> None:
    (tmp_path / "ice").mkdir()
    catalog = load_catalog(
        "default", type="sql", uri=f"sqlite:///{tmp_path}/ice/c.db", warehouse=f"file://{tmp_path}/ice"
    )
    catalog.create_namespace("a")
    catalog.create_namespace("a.b")
    schema = Schema(
        NestedField(1, "k", LongType(), required=True),
        NestedField(2, "at", TimestampType(), required=False),
        NestedField(3, "day", DateType(), required=False),
        NestedField(4, "v", StringType(), required=False),
    )
    field = (
        PartitionField(2, 1000, DayTransform(), "at_day")
        if hidden
        else PartitionField(3, 1000, IdentityTransform(), "day")
    )
    catalog.create_table("a.b.t", schema)
    catalog.create_table("a.b.u", schema, partition_spec=PartitionSpec(field))
    rows = pa.table(
        {
            "k": pa.array([1, 2], pa.int64()),
            "at": pa.array([0, 1], pa.timestamp("us")),
            "day": pa.array([0, 1], pa.date32()),
            "v": ["x", "y"],
        },
        schema=pa.schema(
            [
                pa.field("k", pa.int64(), nullable=False),
                ("at", pa.timestamp("us")),
                ("day", pa.date32()),
                ("v", pa.string()),
            ]
        ),
    )
    catalog.load_table("a.b.t").append(rows)
    planned = plan_file(
        "CREATE CATALOG c WITH ('type' = 'iceberg', 'catalog-type' = 'sql', 'uri' = 'sqlite:///ice/c.db', "
        "'warehouse' = 'ice'); INSERT INTO c.`a.b`.u SELECT * FROM c.`a.b`.t",
        file=str(tmp_path / "p.sql"),
    )
    (sink,) = planned.physical.sinks
    assert sink.partitioned_by == (() if hidden else ("day",))
    run_here(planned, tmp_path)
    assert sorted(catalog.load_table("a.b.u").scan().to_arrow().column("k").to_pylist()) == [1, 2]


def test_a_found_table_shows_no_options() -> None:
    assert "geheim" not in repr(FoundTable("d", "t", "postgres", {"password": "geheim"}, ()))
