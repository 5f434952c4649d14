"""Values of Avro's types both ways, with fastavro as the referee."""

from __future__ import annotations

import json
import math
import random
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.formats.avro.plain import AvroRecordReader, AvroRecordWriter
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.types import parse_type
from tests.formats.avro_rows import binary, read_back, record, record_format, written

UTC_1970 = datetime(1970, 1, 1, tzinfo=UTC)
LOCAL_1970 = datetime(1970, 1, 1)


def logical(form: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": form, "logicalType": name, **more}


def opt(schema: Any) -> list[Any]:
    return ["null", schema]


def some(values: list[Any]) -> list[Any]:
    return [*values, None]


#: (the column's type, the schema, values as fastavro takes them, as the column has them if otherwise)
CASES: list[tuple[str, Any, list[Any], list[Any] | None]] = [
    ("BOOLEAN", "boolean", [True, False], None),
    ("INTEGER", "int", [0, 1, -1, 63, 64, -64, -65, 2**31 - 1, -(2**31)], None),
    ("SMALLINT", "int", [0, 32767, -32768], None),
    ("BIGINT", "long", [0, 2**63 - 1, -(2**63), 2**56, 2**55, -(2**62), 127, 128, 2**49], None),
    ("BIGINT", "int", [5, -(2**31)], None),
    ("DOUBLE", "long", [5, 2**40], [5.0, float(2**40)]),
    ("DOUBLE", "float", [0.5, math.inf], None),
    ("FLOAT", "float", [0.25, -math.inf], None),
    ("DOUBLE", "double", [0.1, -0.0, 1e300], None),
    ("VARCHAR", "string", ["", "ä€😀", "x" * 300], None),
    ("VARCHAR", "bytes", [b"", "ä".encode()], ["", "ä"]),
    ("BLOB", "bytes", [b"", b"\0\xff" * 70], None),
    ("BLOB", {"type": "fixed", "name": "f", "size": 3}, [b"abc", b"\0\0\0"], None),
    ("VARCHAR", {"type": "enum", "name": "e", "symbols": ["A", "B"]}, ["B", "A"], None),
    ("DATE", logical("int", "date"), [date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31)], None),
    ("TIME", logical("int", "time-millis"), [time(0), time(23, 59, 59, 999000)], None),
    ("TIME", logical("long", "time-micros"), [time(1, 2, 3, 4), time(23, 59, 59, 999999)], None),
    (
        "TIMESTAMP",
        logical("long", "timestamp-millis"),
        [UTC_1970 - timedelta(milliseconds=1), UTC_1970 + timedelta(days=20000)],
        [LOCAL_1970 - timedelta(milliseconds=1), LOCAL_1970 + timedelta(days=20000)],
    ),
    (
        "TIMESTAMP WITH TIME ZONE",
        logical("long", "timestamp-micros"),
        [UTC_1970 + timedelta(microseconds=7)],
        None,
    ),
    ("TIMESTAMP", logical("long", "local-timestamp-micros"), [LOCAL_1970 + timedelta(microseconds=7)], None),
    ("TIMESTAMP", logical("long", "local-timestamp-millis"), [LOCAL_1970 + timedelta(hours=7)], None),
    (
        "DECIMAL(10,2)",
        logical("bytes", "decimal", precision=10, scale=2),
        [Decimal(s) for s in ("0.00", "1.28", "-1.28", "-1.29", "99999999.99", "-99999999.99", "0.01")],
        None,
    ),
    (
        "DECIMAL(38,4)",
        logical("bytes", "decimal", precision=36, scale=2),
        [Decimal("1.25"), -(Decimal(10) ** 30)],
        [Decimal("1.2500"), -(Decimal(10) ** 30)],
    ),
    (
        "DECIMAL(12,3)",
        {"type": "fixed", "name": "d", "size": 20, "logicalType": "decimal", "precision": 12, "scale": 3},
        [Decimal("-0.001"), Decimal("123456789.125")],
        None,
    ),
    ("UUID", logical("string", "uuid"), ["7b4e19b5-7fbb-4c7e-8e2e-6f3d54f7a7a1"], None),
    ("BIGINT[]", {"type": "array", "items": "long"}, [[], [1], [2**40, -3, 5]], None),
    ("VARCHAR[]", {"type": "array", "items": opt("string")}, [["a", None, "bc"], []], None),
    (
        "BIGINT[][]",
        {"type": "array", "items": {"type": "array", "items": "int"}},
        [[[1, 2], []], [], [[3]]],
        None,
    ),
    (
        "MAP(VARCHAR, DOUBLE)",
        {"type": "map", "values": opt("double")},
        [{"a": 1.5, "b": None}, {}],
        [[("a", 1.5), ("b", None)], []],
    ),
    (
        'STRUCT("x" BIGINT, "y" VARCHAR)',
        record(("x", "long"), ("y", opt("string")), name="n"),
        [{"x": 1, "y": None}, {"x": 2, "y": "z"}],
        None,
    ),
]

#: Promotions, which go one way.
READ_ONLY = {
    ("BIGINT", "int"),
    ("DOUBLE", "long"),
    ("DOUBLE", "float"),
    ("VARCHAR", "bytes"),
    ("DECIMAL(38,4)", str(logical("bytes", "decimal", precision=36, scale=2))),
}


@pytest.mark.parametrize(("type_", "schema", "given", "expected"), CASES)
def test_both_ways(
    duck: DuckSession, type_: str, schema: Any, given: list[Any], expected: list[Any] | None
) -> None:
    """Read what fastavro wrote; write it again; fastavro reads the same."""
    unread = {"name": "o", "type": ["null", "double"], "default": None}
    whole = record(("before", "string"), ("c", schema), ("n", opt("long")), unread)
    rows = [{"before": "b" * n, "c": v, "n": n or None, "o": None} for n, v in enumerate(given)]
    records = written(whole, rows)
    types = {"c": type_, "n": "BIGINT", "before": "VARCHAR"}
    format_ = record_format("avro", types, {"schema": json.dumps(whole)})
    table = AvroRecordReader(format_).read(duck, binary(records))
    assert table.column("c").type == to_arrow(parse_type(type_))
    assert table.column("c").to_pylist() == (given if expected is None else expected)
    assert table.column("n").to_pylist() == [n or None for n in range(len(given))]
    assert table.column("__record").to_pylist() == list(range(len(given)))
    if (type_, str(schema)) not in READ_ONLY:
        again = AvroRecordWriter(format_).write(duck, table).to_pylist()
        assert read_back(whole, again) == read_back(whole, records)


def test_random_rows_of_a_derived_schema(duck: DuckSession) -> None:
    """What the writer writes by the schema of the table's columns reads back the same, NULLs and all."""
    rnd = random.Random(7)
    types = {
        "a": "BIGINT!",
        "b": "VARCHAR",
        "c": "DECIMAL(20,3)",
        "d": "DOUBLE[]",
        "e": 'STRUCT("x" INTEGER, "y" STRUCT("z" VARCHAR[]))',
        "f": "MAP(VARCHAR, BIGINT)",
        "g": "TIMESTAMP",
        "h": "TIMESTAMP WITH TIME ZONE",
        "i": "DATE!",
        "j": "BOOLEAN",
    }

    def maybe(value: Any) -> Any:
        return None if rnd.random() < 0.2 else value

    def row() -> dict[str, Any]:
        words = [maybe("w" * rnd.randrange(20)) for _ in range(rnd.randrange(4))]
        return {
            "a": rnd.randrange(-(2**63), 2**63) >> rnd.randrange(64),
            "b": maybe("é" * rnd.randrange(100)),
            "c": maybe(Decimal(rnd.randrange(-(10**20), 10**20) // 10 ** rnd.randrange(20)).scaleb(-3)),
            "d": maybe([maybe(rnd.random()) for _ in range(rnd.randrange(5))]),
            "e": maybe({"x": maybe(rnd.randrange(1000)), "y": maybe({"z": maybe(words)})}),
            "f": maybe([(f"k{n}", maybe(n)) for n in range(rnd.randrange(4))]),
            "g": maybe(LOCAL_1970 + timedelta(microseconds=rnd.randrange(-(10**15), 10**15))),
            "h": maybe(UTC_1970 + timedelta(microseconds=rnd.randrange(-(10**15), 10**15))),
            "i": date(1970, 1, 1) + timedelta(days=rnd.randrange(-100000, 100000)),
            "j": maybe(rnd.random() < 0.5),
        }

    format_ = record_format("avro", types, {"timestamp_mapping.legacy": "false"})
    schema = pa.schema([pa.field(c.name, to_arrow(c.type)) for c in format_.columns])
    rows = pa.Table.from_pylist([row() for _ in range(3000)], schema)
    records = AvroRecordWriter(format_).write(duck, rows)
    assert AvroRecordReader(format_).read(duck, records).drop_columns("__record").equals(rows)
    sliced = AvroRecordWriter(format_).write(duck, rows.slice(1000, 500))
    assert sliced.equals(records.slice(1000, 500))
    few = record_format("avro", types, {"timestamp_mapping.legacy": "false"}, wanted=["f", "b"])
    some_columns = AvroRecordReader(few).read(duck, records.slice(100, 50))
    assert some_columns.drop_columns("__record").equals(rows.select(["b", "f"]).slice(100, 50))
    none = record_format("avro", types, {"timestamp_mapping.legacy": "false"}, wanted=[])
    assert AvroRecordReader(none).read(duck, records).num_rows == 3000


def test_flinks_schema_of_a_table(duck: DuckSession) -> None:
    """TIMESTAMP is timestamp-millis by default, a nullable column a union with null first."""
    format_ = record_format("avro", {"a": "INTEGER!", "t": "TIMESTAMP"})
    schema = record(("a", "int"), ("t", opt(logical("long", "timestamp-millis"))))
    moment = datetime(2026, 1, 2, 3, 4, 5, 678000)
    rows = pa.table({"a": pa.array([1], pa.int32()), "t": pa.array([moment], pa.timestamp("us"))})
    (record_,) = AvroRecordWriter(format_).write(duck, rows).to_pylist()
    assert read_back(schema, [record_]) == [{"a": 1, "t": moment.replace(tzinfo=UTC)}]
    fine = rows.set_column(1, "t", pa.array([moment + timedelta(microseconds=1)], pa.timestamp("us")))
    with pytest.raises(DataError, match="timestamp-precision to 6"):
        AvroRecordWriter(format_).write(duck, fine)


def test_blocks_with_sizes_and_keys_that_come_twice(duck: DuckSession) -> None:
    """A block may say its size (its count is negative then), an array may have several, and maps a key twice."""
    whole = record(("c", {"type": "array", "items": "long"}), ("m", {"type": "map", "values": "int"}))
    array = b"\x03\x04\x02\x04" + b"\x02\x06" + b"\x00"  # -2 items, 2 bytes: 1, 2; then 1 item: 3
    map_ = b"\x06" + b"\x02a\x02" + b"\x02b\x04" + b"\x02a\x06" + b"\x00"
    format_ = record_format(
        "avro", {"c": "BIGINT[]", "m": "MAP(VARCHAR, INTEGER)"}, {"schema": json.dumps(whole)}
    )
    table = AvroRecordReader(format_).read(duck, binary([array + map_, b"\x00\x00", array + map_]))
    assert table.column("c").to_pylist() == [[1, 2, 3], [], [1, 2, 3]]
    assert table.column("m").to_pylist() == [[("b", 2), ("a", 3)], [], [("b", 2), ("a", 3)]]


def test_nulls_and_nothing(duck: DuckSession) -> None:
    format_ = record_format("avro", {"a": "BIGINT"})
    reader, writer = AvroRecordReader(format_), AvroRecordWriter(format_)
    table = reader.read(duck, binary([None, b"\x02\x04", None, b"\x00"]))
    assert table.to_pydict() == {"a": [2, None], "__record": [1, 3]}
    assert reader.read(duck, binary([])).num_rows == 0
    assert reader.read(duck, binary([None])).num_rows == 0
    assert len(writer.write(duck, pa.table({"a": pa.array([], pa.int64())}))) == 0
