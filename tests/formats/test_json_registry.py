"""JSON behind the id of its schema in a registry."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from sqlstream.formats.registry import record_reader, record_writer
from sqlstream.formats.schema_registry.framing import header
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from tests.connectors.kafka.schema_registry import SchemaRegistry
from tests.formats.avro_rows import binary, record_format

TYPES = {"a": "BIGINT", "b": "VARCHAR"}


def test_records_are_read_whatever_their_schema(duck: DuckSession) -> None:
    format_ = record_format("json-registry", TYPES, {"url": "http://localhost:1"})
    values = [header(1) + b'{"a": 1, "b": "x"}', None, header(2) + b'{"b": "y", "c": 3}']
    table = record_reader(format_).read(duck, binary(values))
    assert table.to_pydict() == {"a": [1, None], "b": ["x", "y"], "__record": [0, 2]}


def test_bad_records(duck: DuckSession) -> None:
    format_ = record_format("json-registry", TYPES, {"url": "http://localhost:1"})
    values = [b'{"a": 1}', header(1) + b"{", header(1) + b'{"a": 2}', None, b"", header(1)]
    table, bad = record_reader(format_).read_leniently(duck, binary(values))
    assert table.to_pydict() == {"a": [2], "b": [None], "__record": [2]}
    assert [one.index for one in bad] == [0, 1, 4, 5]
    assert "the id of a schema" in bad[0].reason
    with pytest.raises(DataError):
        record_reader(format_).read(duck, binary(values))


def test_a_sink_registers_its_schema(duck: DuckSession, schema_registry: SchemaRegistry) -> None:
    types = {
        "a": "BIGINT!",
        "b": "VARCHAR",
        "l": "DOUBLE[]",
        "r": 'STRUCT("x" BOOLEAN)',
        "m": "MAP(VARCHAR, INTEGER)",
    }
    format_ = record_format("json-registry", types, {"url": schema_registry.url})
    row = {"a": 1, "b": None, "l": [0.5], "r": {"x": True}, "m": [("k", 1)]}
    from sqlstream_operators.codec.arrow_types import to_arrow

    rows = pa.Table.from_pylist(
        [row], pa.schema([pa.field(c.name, to_arrow(c.type)) for c in format_.columns])
    )
    records = record_writer(format_).write(duck, rows)
    assert records[0].as_py().startswith(header(1) + b"{")
    assert schema_registry.schemas[0]["schemaType"] == "JSON"
    schema = json.loads(schema_registry.schemas[0]["schema"])
    assert schema["required"] == ["a"]
    assert schema["properties"]["b"] == {"oneOf": [{"type": "null"}, {"type": "string"}], "connect.index": 1}
    assert record_reader(format_).read(duck, records).drop_columns("__record").to_pylist() == [row]
