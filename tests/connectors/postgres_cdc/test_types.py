"""Each type that can be read: the same values from the copy and from the log as PostgreSQL's own client gives."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sqlstream.connectors.api import Limits
from sqlstream.connectors.registry import REGISTERED
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from tests.connectors.postgres_cdc.reading import Reading, cdc_spec
from tests.connectors.postgres_server import Database
from tests.examples import seeds

#: What a column is in PostgreSQL, how it is declared, and SQL of values.
TYPES = {
    "boolean": ("BOOLEAN", ["true", "false"]),
    "smallint": ("SMALLINT", ["0", "-32768", "32767"]),
    "integer": ("INTEGER", ["7", "-2147483648", "2147483647"]),
    "int": ("BIGINT", ["7", "-2147483648"]),
    "bigint": ("BIGINT", ["7", "-9223372036854775808", "9223372036854775807"]),
    "real": ("FLOAT", ["1.5", "'-Infinity'", "'NaN'"]),
    "float4": ("DOUBLE", ["1.5", "-0.25"]),
    "double precision": ("DOUBLE", ["1e300", "'Infinity'", "'NaN'", "-0.0"]),
    "numeric(5,2)": ("DECIMAL(5,2)", ["0", "-999.99", "0.01", "100", "10000e-2", "1.5"]),
    "numeric(12,6)": ("DECIMAL(18,8)", ["0", "-123456.654321", "0.000001", "999999.999999"]),
    "numeric(18,0)": ("DECIMAL(18,0)", ["999999999999999999", "-1", "10000", "100000000"]),
    "numeric(38,10)": (
        "DECIMAL(38,10)",
        ["1234567890123456789012345678.0123456789", "-0.0000000001", "0", "70000"],
    ),
    "text": ("VARCHAR", ["''", "'äöü€'", "repeat('x', 5000)"]),
    "varchar(3)": ("VARCHAR", ["'abc'", "''"]),
    "char(3)": ("VARCHAR", ["'a'"]),
    "mood": ("VARCHAR", ["'sad'", "'happy'"]),
    "positive": ("INTEGER", ["1", "5"]),
    "bytea": ("BLOB", ["'\\x00ff'", "''"]),
    "date": ("DATE", ["'2000-01-01'", "'1969-12-31'", "'9999-12-31'", "'0001-01-01'"]),
    "time": ("TIME", ["'00:00'", "'23:59:59.999999'"]),
    "timestamp": ("TIMESTAMP", ["'2000-01-01 00:00:00'", "'1969-12-31 23:59:59.999999'", "'9999-12-31'"]),
    "timestamptz": (
        "TIMESTAMP WITH TIME ZONE",
        ["'2000-01-01 00:00:00+02'", "'1969-12-31 23:59:59.999999Z'"],
    ),
    "interval": ("INTERVAL", ["'1 day'", "'-3 hours'", "'10 days 5 minutes'"]),
    "uuid": ("UUID", ["gen_random_uuid()", "'00000000-0000-0000-0000-0000000000ff'"]),
    "json": ("JSON", ["'{\"a\": [1, null]}'", "'1'"]),
    "jsonb": ("JSON", ["'{\"a\": [1, null]}'", "'\"x\"'"]),
}


def as_text(value: Any) -> Any:
    if isinstance(value, Decimal):
        return value.normalize()
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC)
    if isinstance(value, float) and value != value:
        return "nan"
    return value


@pytest.mark.parametrize("seed", seeds(3))
def test_values(cdc: Database, tmp_path: Path, duck: DuckSession, seed: int) -> None:
    rng = random.Random(seed)
    cdc.rows("CREATE TYPE mood AS ENUM ('sad', 'happy')")
    cdc.rows("CREATE DOMAIN positive AS int CHECK (value > 0)")
    columns = {f"c{n}": sql for n, sql in enumerate(TYPES)}
    cdc.rows(
        f"CREATE TABLE t (k bigint PRIMARY KEY, {', '.join(f'{n} {sql}' for n, sql in columns.items())})"
    )
    cdc.rows("ALTER TABLE t REPLICA IDENTITY FULL")
    schema = {"k": "BIGINT", **{name: TYPES[sql][0] for name, sql in columns.items()}}

    def insert(first: int) -> None:
        for k in range(first, first + 8):
            values = [rng.choice([*TYPES[sql][1], "NULL"]) for sql in columns.values()]
            cdc.rows(f"INSERT INTO t VALUES ({k}, {', '.join(values)})")

    insert(0)
    one = Reading(cdc_spec(cdc, schema=schema), tmp_path, duck)
    rows, at = one.all()
    insert(8)
    more, at = one.all(at)
    shown = (
        ", ".join(
            f"{name}::text::{sql}"
            if sql in ("json", "jsonb")
            else f"{name}::text"
            if sql in ("mood", "uuid")
            else name
            for name, sql in columns.items()
        )
        .replace("::text::jsonb", "::text")
        .replace("::text::json", "::text")
    )
    with psycopg.connect(cdc.url) as connection:
        expected = connection.execute(f"SELECT k, {shown} FROM t ORDER BY k".encode()).fetchall()
    found = sorted(rows + more)
    for row, wanted in zip(found, expected, strict=True):
        for (name, declared), value, there in zip(schema.items(), row, wanted, strict=False):
            if declared == "INTERVAL" and value is not None:
                assert there == datetime.timedelta(days=value.days, microseconds=value.nanoseconds // 1000), (
                    name
                )
            elif declared == "UUID" and value is not None:
                assert str(value) == there
            else:
                assert as_text(value) == as_text(there), (name, declared)
    cdc.rows("DELETE FROM t WHERE k IN (2, 9)")
    gone, _ = one.all(at)
    assert [(row[:-1], row[-1]) for row in map(_comparable, gone)] == [
        (row[:-1], "-D") for row in map(_comparable, (found[2], found[9]))
    ]


def _comparable(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(as_text(value) for value in row)


@pytest.mark.parametrize(
    ("sql", "declared", "value"),
    [
        ("numeric(5,2)", "DECIMAL(5,2)", "'NaN'"),
        ("timestamp", "TIMESTAMP", "'294276-12-31'"),
        ("interval", "INTERVAL", "interval '1 hour' * 3000000"),
    ],
)
def test_values_that_no_type_has(
    cdc: Database, tmp_path: Path, duck: DuckSession, sql: str, declared: str, value: str
) -> None:
    cdc.rows(f"CREATE TABLE t (k bigint PRIMARY KEY, v {sql})")
    cdc.rows(f"INSERT INTO t VALUES (1, {value})")
    one = Reading(cdc_spec(cdc, schema={"k": "BIGINT", "v": declared}, key=("k",)), tmp_path, duck)
    with pytest.raises(DataError, match=r"^column `v`: .*PostgreSQL"):
        one.all()


@pytest.mark.parametrize("sql", ["date", "timestamp"])
def test_infinite_times_are_those_of_duckdb(
    cdc: Database, tmp_path: Path, duck: DuckSession, sql: str
) -> None:
    cdc.rows(f"CREATE TABLE t (k bigint PRIMARY KEY, v {sql})")
    cdc.rows("INSERT INTO t VALUES (1, 'infinity'), (2, '-infinity')")
    one = Reading(cdc_spec(cdc, schema={"k": "BIGINT", "v": sql.upper()}, key=("k",)), tmp_path, duck)
    (split,) = one.source.plan(one.source.initial_position(), Limits()).splits
    reader: Any = REGISTERED.reader(one.spec, "")
    reader.in_store(one.store)
    reader.open_strict(duck, "rows", split, queries=1)
    found = duck.query("SELECT CAST(v AS VARCHAR) AS v FROM rows ORDER BY k").column("v").to_pylist()
    assert found == ["infinity", "-infinity"]
