"""What `kafka` and `upsert-kafka` have in common, to the planner: options, metadata columns and formats."""

from __future__ import annotations

from types import MappingProxyType

from sqlstream.formats.registry import REGISTERED
from sqlstream_operators.plan.types import BIGINT, BLOB, INTEGER, TIMESTAMPTZ, VARCHAR, Kind, SqlType
from sqlstream_planner.catalog.descriptor import FormatDescriptor
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind

_SOURCE = (Role.SOURCE,)
_SINK = (Role.SINK,)
_S, _D, _E, _I = ValueKind.STRING, ValueKind.DURATION, ValueKind.ENUM, ValueKind.INTEGER

#: Formats whose rows are records of their own; Parquet and ORC are files.
FORMATS: tuple[FormatDescriptor, ...] = REGISTERED.of_records
#: Formats that a key can have, and a value beside one: what has no changes in it.
PLAIN_FORMATS: tuple[FormatDescriptor, ...] = tuple(f for f in FORMATS if not f.changelog)

METADATA = MappingProxyType(
    {
        "topic": VARCHAR,
        "partition": INTEGER,
        "headers": SqlType(Kind.MAP, key=VARCHAR, value=BLOB),
        "leader-epoch": INTEGER,
        "offset": BIGINT,
        "timestamp": TIMESTAMPTZ,
        "timestamp-type": VARCHAR,
    }
)

#: The prefix of metadata of the values' format.
OF_VALUE = "value."
BROKERS = "properties.bootstrap.servers"
_OF_CLIENT = "a property of Kafka's clients"
#: Secrets that their names don't show, or that are only whole together with them.
_SECRET = (
    "sasl.jaas.config",
    "sasl.password",
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.truststore.password",
)


def chosen_format(prefix: str, formats: tuple[FormatDescriptor, ...], *, required: bool = False) -> OptionDef:
    """The option that chooses the format of keys or of values."""
    what = {"": "the messages' format", "key.": "the format of keys"}.get(prefix, "the format of values")
    names = tuple(f.name for f in formats)
    return OptionDef(f"{prefix}format", _E, what, required=required, choices=names)


#: Where the topics are and who reads them. Nothing of how a broker is talked to changes the rows, but where it is and
#: which records it shows.
CONNECTION = (
    OptionDef("topic", _S, "the topic; several are separated by ; and only read"),
    OptionDef(
        "topic-pattern",
        _S,
        "a regular expression: all topics whose whole names match are read",
        roles=_SOURCE,
    ),
    OptionDef(BROKERS, _S, "host:port of the brokers, separated by ,", required=True, changes_output=False),
    OptionDef(
        "properties.group.id",
        _S,
        "the group whose offsets are committed after each epoch, and with 'group-offsets' begun at",
        roles=_SOURCE,
    ),
    OptionDef(
        "properties.auto.offset.reset",
        _E,
        "where 'group-offsets' begins if the group has none: without it that is an error",
        choices=("earliest", "latest", "none"),
        roles=_SOURCE,
    ),
    OptionDef(
        "properties.isolation.level",
        _E,
        "whether records of open and aborted transactions are read, too",
        default="read_committed",
        choices=("read_committed", "read_uncommitted"),
        roles=_SOURCE,
    ),
    *(
        OptionDef(f"properties.{name}", _S, _OF_CLIENT, secret=True, changes_rows=False, changes_output=False)
        for name in _SECRET
    ),
    OptionDef("properties.*", _S, _OF_CLIENT, changes_rows=False, changes_output=False),
)

KEYS = (
    OptionDef(
        "key.fields-prefix", _S, "what the names of key columns begin with, and the key's fields do not"
    ),
    OptionDef(
        "value.fields-include",
        _E,
        "whether values have the columns of the key, too",
        default="ALL",
        choices=("ALL", "EXCEPT_KEY"),
    ),
)

STARTUP = (
    OptionDef(
        "scan.startup.mode",
        _E,
        "where reading begins; decided once, when the pipeline first runs",
        default="group-offsets",
        choices=("earliest-offset", "latest-offset", "group-offsets", "timestamp", "specific-offsets"),
        roles=_SOURCE,
    ),
    OptionDef(
        "scan.startup.specific-offsets",
        _S,
        "of 'specific-offsets': partition:0,offset:42;partition:1,offset:300",
        roles=_SOURCE,
    ),
    OptionDef(
        "scan.startup.timestamp-millis",
        _I,
        "of 'timestamp': milliseconds since 1970",
        roles=_SOURCE,
        minimum=0,
    ),
)

BOUNDED = (
    OptionDef(
        "scan.bounded.mode",
        _E,
        "where reading ends; decided once, when the pipeline first runs",
        default="unbounded",
        choices=("unbounded", "latest-offset", "group-offsets", "timestamp", "specific-offsets"),
        roles=_SOURCE,
        ends=True,
    ),
    OptionDef(
        "scan.bounded.specific-offsets",
        _S,
        "of 'specific-offsets': partition:0,offset:42;partition:1,offset:300, the first that are not read",
        roles=_SOURCE,
    ),
    OptionDef(
        "scan.bounded.timestamp-millis",
        _I,
        "of 'timestamp': milliseconds since 1970; records from then on are not read",
        roles=_SOURCE,
        minimum=0,
    ),
)

SCAN = (
    OptionDef(
        "scan.topic-partition-discovery.interval",
        _D,
        "how often new partitions and topics are looked for; 0: only when a run begins",
        default="5 min",
        roles=_SOURCE,
        minimum=0,
        changes_rows=False,
    ),
    OptionDef("scan.parallelism", _I, "how many tasks read", roles=_SOURCE, minimum=1, changes_rows=False),
)

SINK = (
    OptionDef(
        "sink.parallelism",
        _I,
        "in how many transactions at once a large epoch may be written",
        roles=_SINK,
        minimum=1,
        changes_output=False,
    ),
    OptionDef(
        "sink.delivery-guarantee",
        _E,
        "how often a record is there after a failure: once, or at least once; 'none' may lose some",
        default="exactly-once",
        choices=("exactly-once", "at-least-once", "none"),
        roles=_SINK,
        changes_output=False,
    ),
    OptionDef(
        "sink.transactional-id-prefix",
        _S,
        "what the names of transactions begin with",
        roles=_SINK,
        changes_output=False,
    ),
)
