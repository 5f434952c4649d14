"""The options of a table on Kafka, read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from sqlstream.connectors.kafka.descriptor import DESCRIPTOR as KAFKA
from sqlstream.connectors.kafka.offsets import read_offsets
from sqlstream.connectors.kafka.validation import key_fields
from sqlstream.connectors.options import bad_option
from sqlstream_planner.catalog.descriptor import ConnectorDescriptor
from sqlstream_planner.catalog.options import find_option
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

_PROPERTY = "properties."
#: The properties that are options of ours; we set them for the clients.
_OURS = frozenset({"group.id", "auto.offset.reset", "isolation.level"})


class Where(StrEnum):
    """Where reading begins or ends."""

    EARLIEST = "earliest-offset"
    LATEST = "latest-offset"
    GROUP = "group-offsets"
    TIMESTAMP = "timestamp"
    SPECIFIC = "specific-offsets"
    UNBOUNDED = "unbounded"


@dataclass(frozen=True, slots=True)
class Bound:
    """Where reading begins or ends: `timestamp_ms` belongs to TIMESTAMP, `offsets` by partition to SPECIFIC."""

    where: Where
    timestamp_ms: int | None = None
    offsets: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class RecordPart:
    """The format of keys or of values: its name, and its options without the prefix."""

    format: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """The options of a table on `kafka` or `upsert-kafka`, with their defaults.

    `properties` are the clients' without their prefix, as written (those that are options here are left out; the brokers
    are in it). `discovery_us`: how often new partitions are looked for, 0: once per run. `key_fields` are columns of the
    table, with the prefix; of `upsert-kafka` there are none, as the PRIMARY KEY says it.
    """

    topics: tuple[str, ...]
    topic_pattern: str | None
    brokers: str
    properties: Mapping[str, str]
    group_id: str | None
    offset_reset: str
    isolation: str
    value: RecordPart
    key: RecordPart | None
    key_fields: tuple[str, ...]
    key_prefix: str
    values_have_keys: bool
    startup: Bound
    bounded: Bound
    discovery_us: int
    scan_parallelism: int | None
    partitioner: str
    delivery: str
    transactional_id_prefix: str
    sink_parallelism: int | None

    @property
    def committed_only(self) -> bool:
        """Whether only records of committed transactions are read, and none behind one that is open."""
        return self.isolation == "read_committed"

    @property
    def patience_s(self) -> float:
        """How long brokers may be away before that is an error, s: `default.api.timeout.ms` of Java's clients."""
        text = self.properties.get("default.api.timeout.ms", "60000").strip()
        if not text.isdigit():
            raise bad_option("properties.default.api.timeout.ms", text, "milliseconds such as '60000'")
        return int(text) / 1000

    @property
    def named(self) -> str:
        """The topics, for messages."""
        return f"topics like '{self.topic_pattern}'" if self.topic_pattern else ", ".join(self.topics)

    @staticmethod
    def read(options: Mapping[str, str], *, descriptor: ConnectorDescriptor = KAFKA) -> KafkaOptions:
        """Options as a plan has them, with secrets. Raises DiagnosticError (OPT003, OPT004) for wrong ones."""
        values = _values(options, descriptor)
        startup, bounded = _bound("scan.startup", values), _bound("scan.bounded", values)
        if descriptor.name != KAFKA.name:
            startup = Bound(Where.EARLIEST)
        value = _part(options, "value.") or _part(options, "")
        if value is None:
            raise _missing("format")
        topics = key_fields(str(values.get("topic", "")))
        if not topics and "topic-pattern" not in values:
            raise _missing("topic")
        properties = {
            key.removeprefix(_PROPERTY): text
            for key, text in options.items()
            if key.startswith(_PROPERTY) and key.removeprefix(_PROPERTY) not in _OURS
        }
        return KafkaOptions(
            topics=topics,
            topic_pattern=values.get("topic-pattern"),
            brokers=str(values["properties.bootstrap.servers"]),
            properties=MappingProxyType(properties),
            group_id=values.get("properties.group.id"),
            offset_reset=values.get("properties.auto.offset.reset", "none"),
            isolation=values["properties.isolation.level"],
            value=value,
            key=_part(options, "key."),
            key_fields=key_fields(str(values.get("key.fields", ""))),
            key_prefix=values.get("key.fields-prefix", ""),
            values_have_keys=values["value.fields-include"] == "ALL",
            startup=startup,
            bounded=bounded,
            discovery_us=values["scan.topic-partition-discovery.interval"],
            scan_parallelism=values.get("scan.parallelism"),
            partitioner=str(values.get("sink.partitioner", "default")).strip().lower(),
            delivery=values["sink.delivery-guarantee"],
            transactional_id_prefix=values.get("sink.transactional-id-prefix", ""),
            sink_parallelism=values.get("sink.parallelism"),
        )


def _values(options: Mapping[str, str], descriptor: ConnectorDescriptor) -> dict[str, Any]:
    """The connector's options as read, and the defaults of those that are not set."""
    values: dict[str, Any] = {o.name: o.read(o.default) for o in descriptor.options if o.default is not None}
    for name, text in options.items():
        option = find_option(descriptor.options, name)
        if option is not None:
            try:
                values[name] = option.read(text)
            except ValueError as error:
                raise bad_option(name, "***" if option.hides(name) else text, str(error)) from None
    for option in descriptor.options:
        if option.required and option.name not in values:
            raise _missing(option.name)
    return values


def _part(options: Mapping[str, str], prefix: str) -> RecordPart | None:
    name = options.get(f"{prefix}format")
    if name is None:
        return None
    name = name.strip().lower()
    own = f"{prefix}{name}."
    return RecordPart(name, {k.removeprefix(prefix): v for k, v in options.items() if k.startswith(own)})


def _bound(what: str, values: Mapping[str, Any]) -> Bound:
    where = Where(values.get(f"{what}.mode", Where.EARLIEST))
    timestamp, offsets = values.get(f"{what}.timestamp-millis"), values.get(f"{what}.specific-offsets")
    if where is Where.TIMESTAMP and timestamp is None:
        raise _missing(f"{what}.timestamp-millis")
    if where is not Where.SPECIFIC:
        return Bound(where, timestamp if where is Where.TIMESTAMP else None)
    if offsets is None:
        raise _missing(f"{what}.specific-offsets")
    try:
        return Bound(where, offsets=MappingProxyType(read_offsets(offsets)))
    except ValueError as error:
        raise bad_option(f"{what}.specific-offsets", offsets, str(error)) from None


def _missing(option: str) -> DiagnosticError:
    return DiagnosticError(
        Diagnostic("OPT004", f"the option `{option}` is missing", help=f"add '{option}' = '…'")
    )
