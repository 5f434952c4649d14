"""Schemas that change: what a reader makes of records of another schema, and what it refuses."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from sqlstream.formats.avro.plain import AvroRecordReader
from sqlstream.formats.avro.records import decode, present
from sqlstream.formats.avro.resolve import record_decoder
from sqlstream.formats.avro.schema import SchemaError, parse_schema, to_json
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from tests.formats.avro_rows import binary, columns, record, record_format, written

OLD = record(("a", "int"), ("b", "string"))
ROWS = [{"a": 1, "b": "x"}, {"a": -2, "b": "yy"}]


def read(types: dict[str, str], schema: Any, rows: list[Any], reader: Any = None) -> list[Any]:
    wanted = None if reader is None else parse_schema(json.dumps(reader))
    decoder = record_decoder(columns(types), parse_schema(json.dumps(schema)), wanted)
    decoded = decode(decoder, *present(binary(written(schema, rows))))
    assert not decoded.bad
    return list(decoded.rows.to_pylist())


def test_reordered_and_removed() -> None:
    assert read({"b": "VARCHAR", "a": "INTEGER"}, OLD, ROWS) == [{"b": "x", "a": 1}, {"b": "yy", "a": -2}]
    assert read({"b": "VARCHAR"}, OLD, ROWS) == [{"b": "x"}, {"b": "yy"}]


def test_promoted() -> None:
    assert read({"a": "BIGINT"}, OLD, ROWS) == [{"a": 1}, {"a": -2}]
    assert read({"a": "DOUBLE"}, OLD, ROWS) == [{"a": 1.0}, {"a": -2.0}]


def test_added() -> None:
    """Without a reader's schema a new column is NULL, as by the schema that Flink derives; with one, its default."""
    assert read({"a": "INTEGER", "c": "BIGINT"}, OLD, ROWS[:1]) == [{"a": 1, "c": None}]
    with pytest.raises(SchemaError, match="c: not in the records' schema, and the column is NOT NULL"):
        read({"c": "BIGINT!"}, OLD, ROWS)
    new = record(("a", "int"), {"name": "c", "type": "long", "default": 7})
    assert read({"a": "INTEGER", "c": "BIGINT!"}, OLD, ROWS[:1], new) == [{"a": 1, "c": 7}]
    with pytest.raises(SchemaError, match="no default"):
        read({"c": "BIGINT"}, OLD, ROWS, record(("c", "long")))


@pytest.mark.parametrize(
    ("type_", "schema", "default", "value"),
    [
        ("VARCHAR", "string", "d", "d"),
        ("VARCHAR", ["null", "string"], None, None),
        ("BIGINT[]", {"type": "array", "items": "long"}, [1, 2], [1, 2]),
        ("MAP(VARCHAR, INTEGER)", {"type": "map", "values": "int"}, {"k": 1}, [("k", 1)]),
        ("BLOB", "bytes", "\u00ff", b"\xff"),
        ('STRUCT("x" BIGINT)', record(("x", "long"), name="n"), {"x": 1}, {"x": 1}),
    ],
)
def test_defaults(type_: str, schema: Any, default: Any, value: Any) -> None:
    new = record({"name": "c", "type": schema, "default": default})
    assert read({"c": type_}, OLD, ROWS[:1], new) == [{"c": value}]


def test_renamed_by_alias() -> None:
    new = record({"name": "number", "type": "long", "aliases": ["a"]}, ("b", "string"))
    assert read({"number": "BIGINT", "b": "VARCHAR"}, OLD, ROWS[:1], new) == [{"number": 1, "b": "x"}]


def test_records_in_records() -> None:
    inner = record(("x", "int"), ("gone", {"type": "map", "values": ["null", "string"]}), name="i")
    schema = record(("r", ["null", inner]), ("l", {"type": "array", "items": "i"}))
    row = {
        "r": {"x": 1, "gone": {"k": None, "l": "m"}},
        "l": [{"x": 2, "gone": {}}, {"x": 3, "gone": {"a": "b"}}],
    }
    types = {"l": 'STRUCT("x" BIGINT, "new" VARCHAR)[]', "r": 'STRUCT("x" BIGINT)'}
    assert read(types, schema, [row, {"r": None, "l": []}]) == [
        {"l": [{"x": 2, "new": None}, {"x": 3, "new": None}], "r": {"x": 1}},
        {"l": [], "r": None},
    ]


def test_unions_of_several_types() -> None:
    schema = record(("u", ["int", "null", "long"]), ("v", ["string", "double"]))
    rows = [{"u": 1, "v": 0.5}, {"u": None, "v": "x"}, {"u": 2**40, "v": "y"}]
    assert read({"u": "BIGINT"}, schema, rows) == [{"u": 1}, {"u": None}, {"u": 2**40}]
    with pytest.raises(SchemaError, match="v: double can't be read as VARCHAR; declare it as DOUBLE"):
        read({"v": "VARCHAR"}, schema, rows)


def test_a_record_that_contains_itself_is_skipped() -> None:
    tree = record(("v", "int"), ("next", ["null", "tree"]), name="tree")
    schema = record(("t", tree), ("a", "int"))
    rows = [{"t": {"v": 1, "next": {"v": 2, "next": None}}, "a": 7}, {"t": {"v": 1, "next": None}, "a": 8}]
    assert read({"a": "INTEGER"}, schema, rows) == [{"a": 7}, {"a": 8}]


@pytest.mark.parametrize(
    ("type_", "schema", "message"),
    [
        ("INTEGER", "long", "a: long can't be read as INTEGER; declare it as BIGINT"),
        ("TIMESTAMP", "long", "TO_TIMESTAMP_LTZ"),
        ("VARCHAR", "int", "declare it as INT"),
        (
            "DECIMAL(5,1)",
            {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
            "DECIMAL\\(5, 2\\)",
        ),
        ("TIMESTAMP", {"type": "long", "logicalType": "timestamp-nanos"}, "TIMESTAMP_NS"),
        ("BIGINT", {"type": "array", "items": "long"}, "array<long> can't be read as BIGINT"),
    ],
)
def test_what_is_refused(type_: str, schema: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        record_decoder(columns({"a": type_}), parse_schema(json.dumps(record(("a", schema)))))


@pytest.mark.parametrize(
    "text",
    ['{"type": "record", "name": "r"}', '["int", ["null"]]', '"nope"', "{", '{"type": "array"}', '{"a": 1}'],
)
def test_what_is_no_schema(text: str) -> None:
    with pytest.raises(SchemaError):
        parse_schema(text)


def test_schemas_are_written_as_they_are_read() -> None:
    given = record(
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}},
        {
            "name": "e",
            "type": {"type": "enum", "name": "e", "symbols": ["A"]},
            "default": "A",
            "aliases": ["x"],
        },
        ("again", {"type": "map", "values": ["null", "e"]}),
    )
    assert json.loads(to_json(parse_schema(json.dumps(given)))) == given


BAD: list[tuple[bytes, str]] = [
    (b"", "ends in the middle of a number"),
    (b"\x02", "ends in the middle of a number"),
    (b"\x02\x08ab", "a length that is more"),
    (b"\x02\x01", "a length that is more"),
    (b"\x02\x04\xff\xfe", "not UTF-8"),
    (b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01\x00", "in the middle of a number"),
    (b"\xff\xff\xff\xff\xff\x01\x00", "not within"),
    (b"\x02\x02xz", "1 bytes are left over"),
]


def test_bad_records_are_found_without_the_others(duck: DuckSession) -> None:
    format_ = record_format("avro", {"a": "INTEGER!", "b": "VARCHAR!"})
    good = written(OLD, ROWS)
    values = [good[0], None]
    for bad, _ in BAD:
        values += [bad, good[1]]
    table, found = AvroRecordReader(format_).read_leniently(duck, binary(values))
    assert table.column("a").to_pylist() == [1] + [-2] * len(BAD)
    assert table.column("b").to_pylist() == ["x"] + ["yy"] * len(BAD)
    assert table.column("__record").to_pylist() == [0, *range(3, 3 + 2 * len(BAD), 2)]
    assert [bad.index for bad in found] == list(range(2, 2 + 2 * len(BAD), 2))
    for bad_record, (_, reason) in zip(found, BAD, strict=True):
        assert reason in bad_record.reason
    with pytest.raises(DataError, match="a record that is not Avro"):
        AvroRecordReader(format_).read(duck, binary(values))


@pytest.mark.parametrize(
    "bad",
    [
        b"\xfe\xff\xff\xff\x0f",  # items beyond the end
        b"\x01\x02",  # a block of -1 items and its size, and no end
        b"\x02\x06",  # no type of that number
        b"\x02\x02",  # a length, and no text
    ],
)
def test_bad_arrays(duck: DuckSession, bad: bytes) -> None:
    schema = record(("l", {"type": "array", "items": ["null", "string"]}))
    format_ = record_format("avro", {"l": "VARCHAR[]"}, {"schema": json.dumps(schema)})
    (good,) = written(schema, [{"l": ["a", None]}])
    table, found = AvroRecordReader(format_).read_leniently(duck, binary([good, bad, good]))
    assert table.column("l").to_pylist() == [["a", None]] * 2
    assert [b.index for b in found] == [1]


def test_every_cut_and_every_flipped_byte_is_bad_or_another_row(duck: DuckSession) -> None:
    """Nothing that is done to a record's bytes is an error of ours, or touches its neighbours."""
    schema = record(
        ("l", {"type": "array", "items": record(("m", {"type": "map", "values": "double"}), name="i")}),
        ("d", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
        ("u", ["null", "string", "float"]),
    )
    types = {"l": 'STRUCT("m" MAP(VARCHAR, DOUBLE))[]', "d": "DECIMAL(9,2)"}
    format_ = record_format("avro", types, {"schema": json.dumps(schema)})
    rows = [{"l": [{"m": {"a": 1.0, "b": 2.0}}], "d": Decimal("12.34"), "u": "text"}]
    (good,) = written(schema, rows)
    values = []
    for place in range(len(good)):
        values += [good[:place], good]
        for bit in range(8):
            values += [good[:place] + bytes([good[place] ^ 1 << bit]) + good[place + 1 :], good]
    table, found = AvroRecordReader(format_).read_leniently(duck, binary(values))
    bad = {b.index for b in found}
    assert not any(index % 2 for index in bad)
    assert table.num_rows == len(values) - len(bad)
    expected = AvroRecordReader(format_).read(duck, binary([good])).drop_columns("__record").to_pylist()
    by_record = dict(
        zip(table.column("__record").to_pylist(), table.drop_columns("__record").to_pylist(), strict=True)
    )
    assert all(by_record[index] == expected[0] for index in range(1, len(values), 2))
