"""What messages of changes say beside the rows, as Flink's keys name it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from sqlstream.connectors.kafka.descriptor import DESCRIPTOR
from sqlstream.formats.api import RECORD_COLUMN, RecordFormat
from sqlstream.formats.avro.debezium import DebeziumAvroReader
from sqlstream.formats.registry import REGISTERED, record_reader
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.schema import KIND_COLUMN, Column
from sqlstream_operators.plan.types import parse_type
from tests.connectors.kafka.schema_registry import SchemaRegistry
from tests.formats import avro_rows
from tests.formats.records import array, record_format

AT = datetime(2020, 8, 6, 3, 34, 43, tzinfo=UTC)
MS = 1596684883000
DEBEZIUM = b"""{"before": null, "after": {"a": 1}, "op": "c", "ts_ms": 1596684883000,
    "source": {"ts_ms": 1596684883000, "db": "shop", "schema": "public", "table": "t", "lsn": 7, "snap": null}}"""
FROM_DEBEZIUM = {
    "schema": None,
    "ingestion-timestamp": AT,
    "source.timestamp": AT,
    "source.database": "shop",
    "source.schema": "public",
    "source.table": "t",
    "source.properties": [
        ("ts_ms", str(MS)),
        ("db", "shop"),
        ("schema", "public"),
        ("table", "t"),
        ("lsn", "7"),
        ("snap", None),
    ],
}
CANAL = b"""{"data": [{"a": 1}, {"a": 2}], "type": "INSERT", "database": "shop", "table": "t",
    "sqlType": {"a": 4}, "pkNames": ["a"], "ts": 1596684883000, "es": 1596684883000}"""
FROM_CANAL = {
    "database": "shop",
    "table": "t",
    "sql-type": [("a", 4)],
    "pk-names": ["a"],
    "ingestion-timestamp": AT,
    "event-timestamp": AT,
}
MAXWELL = b"""{"data": {"a": 1}, "type": "insert", "database": "shop", "table": "t",
    "primary_key_columns": ["a"], "ts": 1596684883}"""
FROM_MAXWELL = {"database": "shop", "table": "t", "primary-key-columns": ["a"], "ingestion-timestamp": AT}


def wanting(name: str, options: dict[str, str] | None = None, keys: list[str] | None = None) -> RecordFormat:
    """A format of one column that gives all its metadata, or these keys."""
    reported = REGISTERED[name].descriptor.metadata
    metadata = tuple((key, Column(f"m {key}", reported[key])) for key in (reported if keys is None else keys))
    return replace(record_format(name, {"a": "INTEGER"}, options), metadata=metadata)


def rows(duck: DuckSession, format_: RecordFormat, records: list[bytes]) -> list[dict[str, Any]]:
    """Strictly and leniently, which are the same."""
    reader = record_reader(format_)
    strict = reader.read(duck, array(records))
    names = [column.name for _, column in format_.metadata]
    assert strict.column_names == ["a", *names, KIND_COLUMN, RECORD_COLUMN]
    table, bad = reader.read_leniently(duck, array([*records, b"{"]))
    assert [one.index for one in bad] == [len(records)]
    assert table.to_pylist() == strict.to_pylist()
    return [{n.removeprefix("m "): v for n, v in row.items() if n in names} for row in strict.to_pylist()]


@pytest.mark.parametrize(
    ("name", "message", "expected", "count"),
    [
        ("debezium-json", DEBEZIUM, FROM_DEBEZIUM, 1),
        ("canal-json", CANAL, FROM_CANAL, 2),
        ("maxwell-json", MAXWELL, FROM_MAXWELL, 1),
    ],
)
def test_each_key(duck: DuckSession, name: str, message: bytes, expected: dict[str, Any], count: int) -> None:
    assert list(REGISTERED[name].descriptor.metadata) == list(expected)
    assert rows(duck, wanting(name), [message]) == [expected] * count
    for key in expected:
        assert rows(duck, wanting(name, keys=[key]), [message]) == [{key: expected[key]}] * count


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("debezium-json", b'{"after": {"a": 1}, "op": "c"}'),
        ("debezium-json", b'{"after": {"a": 1}, "op": "c", "ts_ms": "x", "source": [1]}'),
        ("debezium-json", b'{"after": {"a": 1}, "op": "c", "ts_ms": 9e18, "source": null}'),
        ("canal-json", b'{"data": [{"a": 1}], "type": "INSERT"}'),
        (
            "canal-json",
            b'{"data": [{"a": 1}], "type": "INSERT", "sqlType": {"a": "x"}, "pkNames": "a", "ts": {}}',
        ),
        ("maxwell-json", b'{"data": {"a": 1}, "type": "insert", "ts": 1e300}'),
    ],
)
def test_what_is_missing_or_of_another_type_is_null(duck: DuckSession, name: str, message: bytes) -> None:
    """And makes no message malformed: its row is as good as ever."""
    (row,) = rows(duck, wanting(name), [message])
    assert all(value in (None, [], [("a", None)]) for value in row.values()), row


def test_wrapped_messages(duck: DuckSession) -> None:
    wrapped = b'{"schema": {"type": "struct"}, "payload": ' + DEBEZIUM + b"}"
    format_ = wanting("debezium-json", {"debezium-json.schema-include": "true"})
    assert rows(duck, format_, [wrapped]) == [{**FROM_DEBEZIUM, "schema": '{"type":"struct"}'}]


def test_a_key_that_is_matched_and_told(duck: DuckSession) -> None:
    format_ = wanting("canal-json", {"canal-json.table.include": "t"})
    assert rows(duck, format_, [CANAL]) == [FROM_CANAL] * 2


def test_both_halves_of_an_update_have_what_their_message_says(duck: DuckSession) -> None:
    update = b'{"op": "u", "before": {"a": 1}, "after": {"a": 2}, "ts_ms": 1596684883000}'
    assert (
        rows(duck, wanting("debezium-json", keys=["ingestion-timestamp"]), [update])
        == [{"ingestion-timestamp": AT}] * 2
    )


def test_a_key_that_is_there_twice_makes_a_message_malformed(duck: DuckSession) -> None:
    reader = record_reader(wanting("maxwell-json"))
    given = array([b'{"data": {"a": 1}, "type": "insert", "ts": 1, "ts": 2}', MAXWELL])
    table, bad = reader.read_leniently(duck, given)
    assert (table.num_rows, bad[0].reason) == (1, "key ts twice")
    with pytest.raises(DataError):
        reader.read(duck, given)


def test_debezium_in_avro(duck: DuckSession, schema_registry: SchemaRegistry) -> None:
    row = avro_rows.record(("a", "int"), name="row")
    source = avro_rows.record(("db", "string"), ("ts_ms", "long"), ("lsn", ["null", "long"]), name="source")
    envelope = avro_rows.record(
        ("before", ["null", row]),
        ("after", ["null", "row"]),
        ("source", source),
        ("op", "string"),
        ("ts_ms", ["null", "long"]),
        name="envelope",
    )
    id_ = schema_registry.register("t-value", envelope)
    messages = [
        {
            "before": None,
            "after": {"a": 1},
            "op": "c",
            "ts_ms": MS,
            "source": {"db": "s", "ts_ms": MS, "lsn": 1},
        },
        {
            "before": {"a": 1},
            "after": {"a": 2},
            "op": "u",
            "ts_ms": None,
            "source": {"db": "x", "ts_ms": 2**62, "lsn": 1},
        },
    ]
    from sqlstream.formats.schema_registry.framing import header

    format_ = wanting("debezium-avro-confluent", {"debezium-avro-confluent.url": schema_registry.url})
    records = [header(id_) + data for data in avro_rows.written(envelope, messages)]
    table = DebeziumAvroReader(format_).read(duck, avro_rows.binary(records))
    assert [tuple(r.values()) for r in table.to_pylist()] == [
        (1, AT, AT, "s", None, None, "+I", 0),
        (1, None, None, "x", None, None, "-U", 1),
        (2, None, None, "x", None, None, "+U", 1),
    ]


def test_keys_of_the_format_are_behind_those_of_kafka() -> None:
    of = DESCRIPTOR.metadata_with({"format": "maxwell-json"})
    assert list(of)[-4:] == [f"value.{key}" for key in FROM_MAXWELL]
    assert of["value.ingestion-timestamp"] == parse_type("TIMESTAMP WITH TIME ZONE")
    assert DESCRIPTOR.metadata_with({"value.format": "debezium-json"})["value.source.table"] == parse_type(
        "VARCHAR"
    )
    assert not any(key.startswith("value.") for key in DESCRIPTOR.metadata_with({"format": "json"}))
