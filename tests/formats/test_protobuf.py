"""Messages of Protocol Buffers both ways: of a descriptor set, and of a schema registry."""

from __future__ import annotations

import base64
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from sqlstream.formats.protobuf.messages import message_class
from sqlstream.formats.protobuf.plain import ProtobufRecordReader, ProtobufRecordWriter
from sqlstream.formats.protobuf.registry_records import ProtoRegistryReader, ProtoRegistryWriter
from sqlstream.formats.schema_registry.framing import header
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.kafka.schema_registry import SchemaRegistry
from tests.formats.avro_rows import binary, record_format

#: number: (name, label, type, type_name); labels 1 optional, 3 repeated; proto3's `optional` is 0
FIELDS: list[tuple[str, int, int, str]] = [
    ("id", 1, 3, ""),
    ("name", 0, 9, ""),
    ("u", 1, 13, ""),
    ("big", 1, 4, ""),
    ("color", 1, 14, ".shop.Color"),
    ("tags", 3, 9, ""),
    ("inner", 1, 11, ".shop.Order.Inner"),
    ("inners", 3, 11, ".shop.Order.Inner"),
    ("counts", 3, 11, ".shop.Order.CountsEntry"),
    ("at", 1, 11, ".google.protobuf.Timestamp"),
    ("data", 1, 12, ""),
    ("d", 1, 1, ""),
    ("ok", 1, 8, ""),
]
TYPES = {
    "id": "BIGINT",
    "name": "VARCHAR",
    "u": "BIGINT",
    "big": "BIGINT",
    "color": "VARCHAR",
    "tags": "VARCHAR[]",
    "inner": 'STRUCT("x" INTEGER)',
    "inners": 'STRUCT("x" INTEGER)[]',
    "counts": "MAP(VARCHAR, INTEGER)",
    "at": "TIMESTAMP WITH TIME ZONE",
    "data": "BLOB",
    "d": "DOUBLE",
    "ok": "BOOLEAN",
}


def the_file() -> FileDescriptorProto:
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    color = file.enum_type.add(name="Color")
    for number, name in enumerate(("RED", "GREEN")):
        color.value.add(name=name, number=number)
    file.message_type.add(name="Other").field.add(name="id", number=1, label=1, type=9)
    order = file.message_type.add(name="Order")
    order.nested_type.add(name="Inner").field.add(name="x", number=1, label=1, type=5)
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=1, type=9)
    entry.field.add(name="value", number=2, label=1, type=5)
    for number, (name, label, type_, type_name) in enumerate(FIELDS, 1):
        field = order.field.add(
            name=name, number=number, label=label or 1, type=type_, type_name=type_name or None
        )
        if not label:
            field.proto3_optional = True
            field.oneof_index = len(order.oneof_decl)
            order.oneof_decl.add(name=f"_{name}")
    return file


ORDER = message_class([the_file().SerializeToString()], "shop.Order")


@pytest.fixture
def descriptors(tmp_path: Path) -> str:
    path = tmp_path / "shop.desc"
    path.write_bytes(FileDescriptorSet(file=[the_file()]).SerializeToString())
    return str(path)


def options(descriptors: str, **more: str) -> dict[str, str]:
    return {"message-class-name": "shop.Order", "descriptor-set": descriptors, **more}


def full() -> Any:
    message = ORDER(
        id=-5, name="n", u=2**32 - 1, big=2**63, color=1, tags=["a", ""], data=b"\xff", d=0.5, ok=True
    )
    message.inner.x = 7
    message.inners.add(x=1)
    message.inners.add()
    message.counts["k"] = 3
    message.at.seconds, message.at.nanos = 1_000_000_000, 123456789
    return message


FULL = {
    "id": -5,
    "name": "n",
    "u": 2**32 - 1,
    "big": -(2**63),
    "color": "GREEN",
    "tags": ["a", ""],
    "inner": {"x": 7},
    "inners": [{"x": 1}, {"x": 0}],
    "counts": [("k", 3)],
    "at": datetime(2001, 9, 9, 1, 46, 40, 123456, UTC),
    "data": b"\xff",
    "d": 0.5,
    "ok": True,
}


def test_messages_are_read(duck: DuckSession, descriptors: str) -> None:
    values = [full().SerializeToString(), None, b""]
    reader = ProtobufRecordReader(record_format("protobuf", TYPES, options(descriptors)))
    table = reader.read(duck, binary(values))
    first, second = table.to_pylist()
    assert first == {**FULL, "__record": 0}
    # What proto3 can't tell from its default is that; what has a presence is NULL.
    assert second == {
        "id": 0,
        "name": None,
        "u": 0,
        "big": 0,
        "color": "RED",
        "tags": [],
        "inner": None,
        "inners": [],
        "counts": [],
        "at": None,
        "data": b"",
        "d": 0.0,
        "ok": False,
        "__record": 2,
    }
    with_defaults = record_format("protobuf", TYPES, options(descriptors, **{"read-default-values": "true"}))
    assert ProtobufRecordReader(with_defaults).read(duck, binary([b""])).column("name").to_pylist() == [""]


def test_messages_are_written(duck: DuckSession, descriptors: str) -> None:
    format_ = record_format("protobuf", TYPES, options(descriptors))
    rows = ProtobufRecordReader(format_).read(duck, binary([full().SerializeToString(), b""]))
    written = ProtobufRecordWriter(format_).write(duck, rows).to_pylist()
    expected = full()
    expected.at.nanos = 123456000
    assert ORDER.FromString(written[0]) == expected
    assert ProtobufRecordReader(format_).read(duck, binary(written)).equals(rows)


def test_nulls_inside_are_written_as_defaults(duck: DuckSession, descriptors: str) -> None:
    format_ = record_format(
        "protobuf",
        {"tags": "VARCHAR[]", "counts": "MAP(VARCHAR, INTEGER)"},
        options(descriptors, **{"write-null-string-literal": "none"}),
    )
    rows = pa.table(
        {
            "tags": [["a", None], None],
            "counts": pa.array([[("k", None)], None], pa.map_(pa.string(), pa.int32())),
        }
    )
    first, second = ProtobufRecordWriter(format_).write(duck, rows).to_pylist()
    assert list(ORDER.FromString(first).tags) == ["a", "none"]
    assert dict(ORDER.FromString(first).counts) == {"k": 0}
    assert second == b""


def test_bad_messages(duck: DuckSession, descriptors: str) -> None:
    good = ORDER(id=1).SerializeToString()
    values = binary([good, b"\xff", good[:-1], good])
    format_ = record_format("protobuf", {"id": "BIGINT"}, options(descriptors))
    table, bad = ProtobufRecordReader(format_).read_leniently(duck, values)
    assert table.to_pydict() == {"id": [1, 1], "__record": [0, 3]}
    assert [b.index for b in bad] == [1, 2]
    assert "shop.Order" in bad[0].reason
    with pytest.raises(DataError):
        ProtobufRecordReader(format_).read(duck, values)


@pytest.mark.parametrize(
    ("types", "fragment"),
    [
        ({"no": "BIGINT"}, "no: shop.Order has no such field"),
        ({"id": "INTEGER"}, "id: int64 can't be read as INTEGER; declare it as BIGINT"),
        ({"tags": "VARCHAR"}, "a repeated field is an ARRAY"),
        ({"counts": "VARCHAR"}, "a map field is a MAP"),
        ({"inner": "VARCHAR"}, "ROW"),
        ({"data": "VARCHAR"}, "declare it as BYTES"),
        ({"inner": 'STRUCT("y" BIGINT)'}, "inner.y: shop.Order.Inner has no such field"),
    ],
)
def test_what_is_refused(descriptors: str, types: dict[str, str], fragment: str) -> None:
    with pytest.raises(DiagnosticError, match="SQL053") as caught:
        ProtobufRecordReader(record_format("protobuf", types, options(descriptors)))
    assert fragment in str(caught.value)


def test_values_that_have_no_room(duck: DuckSession, descriptors: str) -> None:
    format_ = record_format("protobuf", {"u": "BIGINT", "color": "VARCHAR"}, options(descriptors))
    for row, fragment in (({"u": 2**32}, "no uint32"), ({"color": "BLUE"}, "no value of enum")):
        rows = pa.Table.from_pylist([row], pa.schema([("u", pa.int64()), ("color", pa.string())]))
        with pytest.raises(DataError, match=fragment):
            ProtobufRecordWriter(format_).write(duck, rows)


def test_files_that_are_no_descriptors(tmp_path: Path, descriptors: str) -> None:
    (tmp_path / "no.desc").write_bytes(b"syntax")
    for path, fragment in ((str(tmp_path / "no.desc"), "OPT003"), (str(tmp_path / "gone"), "ENV005")):
        with pytest.raises(DiagnosticError, match=fragment):
            ProtobufRecordReader(record_format("protobuf", {"id": "BIGINT"}, options(path)))
    other = options(descriptors, **{"message-class-name": "shop.No"})
    with pytest.raises(DiagnosticError, match=r"no message is called shop\.No, but shop\.Other, shop\.Order"):
        ProtobufRecordReader(record_format("protobuf", {"id": "BIGINT"}, other))


def test_without_the_library(monkeypatch: pytest.MonkeyPatch, descriptors: str) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf.descriptor_pb2", None)
    with pytest.raises(DiagnosticError, match="ENV021") as caught:
        ProtobufRecordReader(record_format("protobuf", {"id": "BIGINT"}, options(descriptors)))
    assert "sqlstream-spark[protobuf]" in (caught.value.diagnostics[0].help or "")


def test_a_registrys_messages(duck: DuckSession, schema_registry: SchemaRegistry) -> None:
    text = base64.b64encode(the_file().SerializeToString()).decode()
    id_ = schema_registry.register("t-value", text, "PROTOBUF")
    avro = schema_registry.register("u-value", {"type": "string"})
    message = ORDER(id=3, name="x").SerializeToString()
    # The second message of the file is [1]: one number, 1; the first may be written as a single 0.
    order = header(id_) + b"\x02\x02"
    values = [
        order + message,
        None,
        header(id_) + b"\x00" + b"\x0a\x01s",  # Other, whose id is a text
        order + b"\xff",
        header(avro) + b"\x00",
        header(id_),
        header(id_) + b"\x02\x08",  # there is no fifth message
        order + message,
    ]
    format_ = record_format(
        "proto-registry", {"id": "BIGINT", "name": "VARCHAR"}, {"url": schema_registry.url}
    )
    table, bad = ProtoRegistryReader(format_).read_leniently(duck, binary(values))
    assert table.to_pylist() == [{"id": 3, "name": "x", "__record": n} for n in (0, 7)]
    reasons = {b.index: b.reason for b in bad}
    assert list(reasons) == [2, 3, 4, 5, 6]
    assert "string" in reasons[2]
    assert "not PROTOBUF" in reasons[4]
    assert "which message" in reasons[5]
    assert "no message of number 4" in reasons[6]
    assert ProtoRegistryReader(format_).read(duck, binary([])).num_rows == 0


def test_a_registry_that_gives_text(duck: DuckSession, schema_registry: SchemaRegistry) -> None:
    id_ = schema_registry.register("t-value", 'syntax = "proto3"; message A { int64 id = 1; }', "PROTOBUF")
    format_ = record_format("proto-registry", {"id": "BIGINT"}, {"url": schema_registry.url})
    _, bad = ProtoRegistryReader(format_).read_leniently(duck, binary([header(id_) + b"\x00"]))
    assert "format=serialized" in bad[0].reason


def test_a_sink_registers_its_message(duck: DuckSession, schema_registry: SchemaRegistry) -> None:
    types = {
        "id": "BIGINT",
        "name": "VARCHAR",
        "t": "TIMESTAMP",
        "r": 'STRUCT("x" DOUBLE, "more" STRUCT("y" BOOLEAN)[])',
        "m": "MAP(VARCHAR, BIGINT)",
        "l": "INTEGER[]",
    }
    format_ = record_format("proto-registry", types, {"url": schema_registry.url})
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901)
    rows = [
        {
            "id": 1,
            "name": "",
            "t": moment,
            "r": {"x": None, "more": [{"y": True}, {"y": None}]},
            "m": [("k", 2)],
            "l": [0, 5],
        },
        {"id": None, "name": None, "t": None, "r": None, "m": [], "l": []},
    ]
    from sqlstream_operators.codec.arrow_types import to_arrow

    schema = pa.schema([pa.field(c.name, to_arrow(c.type)) for c in format_.columns])
    table = pa.Table.from_pylist(rows, schema)
    records = ProtoRegistryWriter(format_).write(duck, table)
    assert schema_registry.schemas[0]["schemaType"] == "PROTOBUF"
    assert all(r.startswith(header(1) + b"\0") for r in records.to_pylist())
    assert ProtoRegistryReader(format_).read(duck, records).drop_columns("__record").to_pylist() == rows
    with pytest.raises(DiagnosticError, match=r"SQL053.*DECIMAL"):
        ProtoRegistryWriter(
            record_format("proto-registry", {"p": "DECIMAL(5,2)"}, {"url": schema_registry.url})
        )
