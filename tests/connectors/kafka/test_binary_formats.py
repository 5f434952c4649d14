"""Binary formats through a real broker: what a sink writes a source reads, and malformed records are kept as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.types import BIGINT, VARCHAR
from tests.connectors.kafka.schema_registry import SchemaRegistry, running
from tests.connectors.kafka.sink_job import new_job
from tests.connectors.kafka.sources import Reading, table
from tests.connectors.kafka.topics import Topics
from tests.connectors.sink_job import SinkJob
from tests.connectors.staged_parts import come, go

COLUMNS = (Column("k", BIGINT), Column("v", VARCHAR))
#: Of formats with a registry: what is too short for an id, of an unknown schema, and what is in no such format at all.
MALFORMED = (b"\x00\x00", b"\x00\x00\x00\x03\xe7x", b"\xff\xfe{")
APPENDING = ["avro", "avro-confluent", "json-registry", "proto-registry", "protobuf"]


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with running() as one:
        yield one


@pytest.fixture
def formats(registry: SchemaRegistry, tmp_path: Path) -> Mapping[str, Mapping[str, str]]:
    """The options of each format."""
    file = FileDescriptorProto(name="row.proto", package="rows", syntax="proto3")
    row = file.message_type.add(name="Row")
    row.oneof_decl.add(name="_k")
    row.oneof_decl.add(name="_v")
    for number, (name, type_) in enumerate((("k", 3), ("v", 9))):
        row.field.add(
            name=name, number=number + 1, label=1, type=type_, proto3_optional=True, oneof_index=number
        )
    descriptors = tmp_path / "row.desc"
    descriptors.write_bytes(FileDescriptorSet(file=[file]).SerializeToString())
    registered = ("avro-confluent", "debezium-avro-confluent", "json-registry", "proto-registry")
    return {
        "avro": {"format": "avro"},
        "protobuf": {
            "format": "protobuf",
            "protobuf.message-class-name": "rows.Row",
            "protobuf.descriptor-set": str(descriptors),
        },
        **{name: {"format": name, f"{name}.url": registry.url} for name in registered},
    }


def _options(format_: Mapping[str, str]) -> dict[str, Any]:
    """As `new_job` takes them."""
    return {name.replace("-", "__").replace(".", "_"): value for name, value in format_.items()}


def _check_malformed(reading: Reading, topic: str, records: tuple[bytes, ...], first: int) -> None:
    found = {bad.raw: (bad.origin, bad.position, bad.key) for bad in reading.bad}
    assert found == {
        raw: (f"topic {topic}", {"partition": 1, "offset": first + n}, f"key {n}".encode())
        for n, raw in enumerate(records)
    }
    assert all(bad.reason for bad in reading.bad)


@pytest.mark.parametrize("name", APPENDING)
def test_rows_go_there_and_back(
    made: list[SinkJob],
    topics: Topics,
    duck: DuckSession,
    tmp_path: Path,
    formats: Mapping[str, Mapping[str, str]],
    name: str,
) -> None:
    topic = topics.create(2)
    job = new_job(made, tmp_path, topics, topic, **_options(formats[name]))
    rows = [(1, "a"), (2, None), (-(2**62), "ü"), (None, "x" * 1000)]
    job.epoch(come(*rows[:2]), come(*rows[2:]))
    malformed = (b"\xff\xfe{", b"\x02") if name in ("avro", "protobuf") else MALFORMED
    keys = [f"key {n}" for n in range(len(malformed))]
    topics.produce(topic, malformed, partition=1, keys=keys)
    first = next(r.offset for r in topics.records(topic) if r.key == b"key 0")
    topics.produce(topic, [None], partition=0)
    job.epoch(come((5, "z")))
    reading = Reading(table(topics.bootstrap, {"topic": topic, **formats[name]}, COLUMNS), tmp_path, duck)
    assert Counter(reading.rows()) == Counter([*rows, (5, "z")])
    _check_malformed(reading, topic, malformed, first)


def test_changes_go_there_and_back(
    made: list[SinkJob],
    topics: Topics,
    duck: DuckSession,
    tmp_path: Path,
    formats: Mapping[str, Mapping[str, str]],
) -> None:
    topic = topics.create(2)
    format_ = formats["debezium-avro-confluent"]
    job = new_job(made, tmp_path, topics, topic, changelog="retract", unique=("k",), **_options(format_))
    job.epoch(come((1, "a"), (2, "b"), (3, None)))
    job.epoch(go((1, "a")), come((1, "A")), go((2, "b")))
    topics.produce(topic, MALFORMED, partition=1, keys=[f"key {n}" for n in range(3)])
    first = next(r.offset for r in topics.records(topic) if r.key == b"key 0")
    reading = Reading(table(topics.bootstrap, {"topic": topic, **format_}, COLUMNS), tmp_path, duck)
    held: Counter[tuple[object, ...]] = Counter()
    for *row, kind in reading.rows():
        held[tuple(row)] += 1 if kind[0] == "+" else -1
    assert +held == Counter([(1, "A"), (3, None)])
    assert not -held
    _check_malformed(reading, topic, MALFORMED, first)
