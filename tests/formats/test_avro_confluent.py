"""Avro whose schemas are in a registry: the header, evolution over many ids, what a sink registers."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.formats.avro.confluent import ConfluentAvroReader, ConfluentAvroWriter
from sqlstream.formats.avro.debezium import DebeziumAvroReader, DebeziumAvroWriter
from sqlstream.formats.schema_registry.framing import header
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.kafka.schema_registry import SchemaRegistry, running
from tests.formats.avro_rows import binary, read_back, record, record_format, written

V1 = record(("id", "int"), ("name", "string"))
V2 = record(
    ("name", ["null", "string"]), ("id", "long"), {"name": "age", "type": ["null", "int"], "default": None}
)
TYPES = {"id": "BIGINT", "name": "VARCHAR", "age": "INTEGER"}


def framed(id_: int, schema: Any, rows: list[Any]) -> list[bytes]:
    return [header(id_) + r for r in written(schema, rows)]


def test_schemas_that_change_along_the_way(duck: DuckSession, schema_registry: SchemaRegistry) -> None:
    one, two = (schema_registry.register("t-value", schema) for schema in (V1, V2))
    old = framed(one, V1, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    new = framed(two, V2, [{"id": 2**40, "name": None, "age": 3}])
    reader = ConfluentAvroReader(record_format("avro-confluent", TYPES, {"url": schema_registry.url}))
    for _ in range(2):
        table = reader.read(duck, binary([old[0], None, new[0], old[1]]))
        assert table.to_pylist() == [
            {"id": 1, "name": "a", "age": None, "__record": 0},
            {"id": 2**40, "name": None, "age": 3, "__record": 2},
            {"id": 2, "name": "b", "age": None, "__record": 3},
        ]
    assert [requested for requested in schema_registry.asked if requested.startswith("GET")] == [
        "GET /schemas/ids/1",
        "GET /schemas/ids/2",
    ]
    assert reader.read(duck, binary([])).column_names == ["id", "name", "age", "__record"]


def test_bad_records(duck: DuckSession, schema_registry: SchemaRegistry) -> None:
    one = schema_registry.register("t-value", V1)
    other = schema_registry.register("u-value", record(("id", "string")))
    json_ = schema_registry.register("v-value", {"type": "object"}, "JSON")
    (good,) = framed(one, V1, [{"id": 1, "name": "a"}])
    values = [
        good,
        b"",
        b"\x00\x00\x00",
        b'{"id": 1}',
        header(99) + b"\x00",
        header(other) + b"\x02a",
        header(json_) + b"{}",
        good[:-1],
        good,
    ]
    reader = ConfluentAvroReader(record_format("avro-confluent", TYPES, {"url": schema_registry.url}))
    table, bad = reader.read_leniently(duck, binary(values))
    assert table.column("__record").to_pylist() == [0, 8]
    assert [b.index for b in bad] == list(range(1, 8))
    reasons = [b.reason for b in bad]
    assert all("the id of a schema" in reason for reason in reasons[:3])
    assert "no schema of id 99" in reasons[3]
    assert "id: string can't be read as BIGINT" in reasons[4]
    assert "JSON, not AVRO" in reasons[5]
    with pytest.raises(DataError, match="and 6 more"):
        reader.read(duck, binary(values))


def test_a_schema_that_comes_later_is_found(duck: DuckSession, schema_registry: SchemaRegistry) -> None:
    reader = ConfluentAvroReader(record_format("avro-confluent", TYPES, {"url": schema_registry.url}))
    values = binary(framed(1, V1, [{"id": 1, "name": "a"}]))
    assert len(reader.read_leniently(duck, values)[1]) == 1
    schema_registry.register("t-value", V1)
    assert reader.read(duck, values).num_rows == 1


def test_a_readers_schema_has_defaults_and_aliases(
    duck: DuckSession, schema_registry: SchemaRegistry
) -> None:
    one = schema_registry.register("t-value", V1)
    reader_schema = record(
        ("id", "long"),
        {"name": "called", "type": "string", "aliases": ["name"]},
        {"name": "age", "type": "int", "default": 18},
    )
    types = {"id": "BIGINT", "called": "VARCHAR", "age": "INTEGER"}
    options = {"url": schema_registry.url, "schema": json.dumps(reader_schema)}
    reader = ConfluentAvroReader(record_format("avro-confluent", types, options))
    table = reader.read(duck, binary(framed(one, V1, [{"id": 1, "name": "a"}])))
    assert table.to_pylist() == [{"id": 1, "called": "a", "age": 18, "__record": 0}]


def test_a_sink_registers_its_schema(duck: DuckSession, schema_registry: SchemaRegistry) -> None:
    options = {"url": schema_registry.url}
    format_ = record_format("avro-confluent", {"id": "BIGINT!", "name": "VARCHAR"}, options)
    writer = ConfluentAvroWriter(format_)
    rows = pa.table({"id": pa.array([1, 2]), "name": pa.array(["a", None])})
    assert len(writer.write(duck, rows.slice(0, 0))) == 0
    assert schema_registry.asked == []
    records = writer.write(duck, rows)
    assert records.equals(writer.write(duck, rows))
    assert schema_registry.asked == ["POST /subjects/t-value/versions"]
    schema = json.loads(schema_registry.schemas[0]["schema"])
    assert schema["name"] == "record"
    assert schema["namespace"] == "org.apache.flink.avro.generated"
    assert schema["fields"] == [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
    ]
    assert all(record_.startswith(header(1)) for record_ in records.to_pylist())
    assert read_back(schema, [r[5:] for r in records.to_pylist()]) == rows.to_pylist()
    assert ConfluentAvroReader(format_).read(duck, records).drop_columns("__record").equals(rows)
    named = record_format("avro-confluent", {"id": "BIGINT!"}, {**options, "subject": "mine"})
    ConfluentAvroWriter(named).write(duck, rows.select(["id"]))
    assert list(schema_registry.subjects) == ["t-value", "mine"]


def test_a_sink_that_is_not_compatible(duck: DuckSession, schema_registry: SchemaRegistry) -> None:
    schema_registry.register("t-value", record(("id", "string")))
    format_ = record_format("avro-confluent", {"id": "BIGINT!"}, {"url": schema_registry.url})
    with pytest.raises(DiagnosticError, match=r"ENV020.*not compatible.*t-value"):
        ConfluentAvroWriter(format_).write(duck, pa.table({"id": [1]}))


def test_a_registry_that_is_away(duck: DuckSession) -> None:
    with running() as registry:
        pass
    format_ = record_format("avro-confluent", TYPES, {"url": registry.url})
    with pytest.raises(DiagnosticError, match="ENV025"):
        ConfluentAvroReader(format_).read_leniently(duck, binary([header(1) + b"\x00"]))


def test_options_that_can_not_be_used(schema_registry: SchemaRegistry) -> None:
    options = {"url": schema_registry.url}
    with pytest.raises(DiagnosticError, match="OPT003"):
        ConfluentAvroReader(record_format("avro-confluent", TYPES, {**options, "schema": "{"}))
    with pytest.raises(DiagnosticError, match=r"OPT004.*subject"):
        ConfluentAvroWriter(record_format("avro-confluent", TYPES, options, subject=""))
    with pytest.raises(DiagnosticError, match=r"SQL053.*INTERVAL"):
        ConfluentAvroWriter(record_format("avro-confluent", {"i": "INTERVAL"}, options))


ROW = record(("id", "long"), ("name", ["null", "string"]), name="Value")
ENVELOPE = record(
    {"name": "before", "type": ["null", ROW], "default": None},
    {"name": "after", "type": ["null", "Value"], "default": None},
    ("source", record(("ts_ms", "long"), ("db", "string"), name="Source")),
    ("op", "string"),
    name="Envelope",
)
SOURCE = {"ts_ms": 1, "db": "d"}
CHANGES = {"id": "BIGINT", "name": "VARCHAR"}


def change(op: str, before: Any = None, after: Any = None) -> dict[str, Any]:
    return {"before": before, "after": after, "source": SOURCE, "op": op}


def test_debeziums_changes(duck: DuckSession, schema_registry: SchemaRegistry) -> None:
    id_ = schema_registry.register("t-value", ENVELOPE)
    a, b = {"id": 1, "name": "a"}, {"id": 1, "name": None}
    messages = framed(
        id_, ENVELOPE, [change("r", None, a), change("u", a, b), change("d", b, None), change("c", None, a)]
    )
    options = {"url": schema_registry.url}
    reader = DebeziumAvroReader(record_format("debezium-avro-confluent", CHANGES, options))
    table = reader.read(duck, binary([*messages[:3], None, messages[3]]))
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        (1, "a", "+I", 0),
        (1, "a", "-U", 1),
        (1, None, "+U", 1),
        (1, None, "-D", 2),
        (1, "a", "+I", 4),
    ]
    none = DebeziumAvroReader(record_format("debezium-avro-confluent", CHANGES, options, wanted=[]))
    assert none.read(duck, binary(messages)).column("__kind").to_pylist() == ["+I", "-U", "+U", "-D", "+I"]


def test_debeziums_changes_that_are_none(duck: DuckSession, schema_registry: SchemaRegistry) -> None:
    id_ = schema_registry.register("t-value", ENVELOPE)
    a = {"id": 1, "name": "a"}
    messages = framed(id_, ENVELOPE, [change("u", None, a), change("x", a, a), change("d"), change("c", a)])
    options = {"url": schema_registry.url}
    reader = DebeziumAvroReader(record_format("debezium-avro-confluent", CHANGES, options))
    table, bad = reader.read_leniently(duck, binary(messages))
    assert table.num_rows == 0
    assert [b.index for b in bad] == [0, 1, 2, 3]
    assert "REPLICA IDENTITY FULL" in bad[0].reason
    keyed = record_format("debezium-avro-confluent", CHANGES, options, primary_key=("id",))
    table, bad = DebeziumAvroReader(keyed).read_leniently(duck, binary(messages))
    assert table.column("__kind").to_pylist() == ["+U"]
    assert len(bad) == 3


def test_changes_are_written_as_flink_does(duck: DuckSession, schema_registry: SchemaRegistry) -> None:
    format_ = record_format(
        "debezium-avro-confluent", {"id": "BIGINT!", "name": "VARCHAR"}, {"url": schema_registry.url}
    )
    rows = pa.table({"id": [1, 1, 1, 1], "name": ["a", "a", None, None], "__kind": ["+I", "-U", "+U", "-D"]})
    records = DebeziumAvroWriter(format_).write(duck, rows)
    schema = json.loads(schema_registry.schemas[0]["schema"])
    assert [f["name"] for f in schema["fields"]] == ["before", "after", "op"]
    a, b = {"id": 1, "name": "a"}, {"id": 1, "name": None}
    assert read_back(schema, [r[5:] for r in records.to_pylist()]) == [
        {"before": None, "after": a, "op": "c"},
        {"before": a, "after": None, "op": "d"},
        {"before": None, "after": b, "op": "c"},
        {"before": b, "after": None, "op": "d"},
    ]
    kinds = DebeziumAvroReader(format_).read(duck, records).column("__kind").to_pylist()
    assert kinds == ["+I", "-D", "+I", "-D"]
