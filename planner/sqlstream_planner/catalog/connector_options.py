"""The connectors that exist and their options, as data. Names are Flink's; ours say so."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream_planner.catalog.options import BOTH, OptionDef, Role, ValueKind
from sqlstream_planner.functions.words import words

_SOURCE = (Role.SOURCE,)
_SINK = (Role.SINK,)
_B, _I, _S, _D = ValueKind.BOOLEAN, ValueKind.INTEGER, ValueKind.STRING, ValueKind.DURATION


@dataclass(frozen=True, slots=True)
class ConnectorDef:
    """A connector: what a table on it can be used for, and its options besides `connector`."""

    name: str
    roles: tuple[Role, ...]
    options: tuple[OptionDef, ...]
    description: str


CONNECTOR = OptionDef("connector", _S, "where the table's rows come from or go to", required=True)

CHANGELOG_FORMATS: dict[str, tuple[Role, ...]] = {
    "debezium-json": BOTH,
    "changelog-json": BOTH,
    "canal-json": _SOURCE,
    "maxwell-json": _SOURCE,
}
"""File formats whose messages are changes of rows, and what they can be used for."""

FORMATS: dict[str, tuple[Role, ...]] = {
    "json": BOTH,
    "csv": BOTH,
    "parquet": BOTH,
    "orc": _SOURCE,
    **CHANGELOG_FORMATS,
}
"""File formats and what they can be used for."""


def _changelog_options(format_: str) -> tuple[OptionDef, ...]:
    """What each of these formats has."""
    return (
        OptionDef(
            f"{format_}.ignore-parse-errors",
            _B,
            "accepted: malformed messages go to the dead-letter table",
            default="false",
        ),
        OptionDef(
            f"{format_}.timestamp-format.standard",
            ValueKind.ENUM,
            "how timestamps are written: '2024-01-01 12:00:00' or '2024-01-01T12:00:00'",
            default="SQL",
            choices=("SQL", "ISO-8601"),
        ),
    )


_FORMAT_OPTIONS = (
    OptionDef(
        "json.ignore-parse-errors",
        _B,
        "accepted: malformed rows go to the dead-letter table",
        default="false",
    ),
    OptionDef("json.fail-on-missing-field", _B, "a missing field makes the row malformed", default="false"),
    OptionDef(
        "json.timestamp-format.standard",
        ValueKind.ENUM,
        "how timestamps are written: '2024-01-01 12:00:00' or '2024-01-01T12:00:00'",
        default="SQL",
        choices=("SQL", "ISO-8601"),
    ),
    OptionDef(
        "json.encode.ignore-null-fields", _B, "leave out fields that are null", default="false", roles=_SINK
    ),
    *(option for format_ in CHANGELOG_FORMATS for option in _changelog_options(format_)),
    OptionDef(
        "debezium-json.schema-include",
        _B,
        "messages are wrapped in `schema` and `payload`",
        default="false",
        roles=_SOURCE,
    ),
    OptionDef(
        "debezium-json.encode.ignore-null-fields",
        _B,
        "leave out fields that are null",
        default="false",
        roles=_SINK,
    ),
    OptionDef(
        "canal-json.database.include", _S, "only changes of databases whose name matches", roles=_SOURCE
    ),
    OptionDef("canal-json.table.include", _S, "only changes of tables whose name matches", roles=_SOURCE),
    OptionDef("csv.field-delimiter", ValueKind.CHARACTER, "between two fields", default=","),
    OptionDef("csv.allow-comments", _B, "skip lines that start with #", default="false", roles=_SOURCE),
    OptionDef(
        "csv.ignore-parse-errors", _B, "accepted: malformed rows go to the dead-letter table", default="false"
    ),
    OptionDef("csv.quote-character", ValueKind.CHARACTER, "around a field", default='"'),
    OptionDef("csv.disable-quote-character", _B, "no character quotes fields", default="false"),
    OptionDef("csv.escape-character", ValueKind.CHARACTER, "before a character that is meant as it is"),
    OptionDef("csv.null-literal", _S, "what stands for NULL"),
    OptionDef("csv.array-element-delimiter", _S, "between two elements of an array", default=";"),
    OptionDef("csv.header", _B, "whether the first line has the columns' names; found out if not set (ours)"),
    OptionDef(
        "parquet.compression",
        ValueKind.ENUM,
        "how files are compressed",
        default="snappy",
        choices=("uncompressed", "snappy", "gzip", "zstd", "lz4", "brotli"),
        roles=_SINK,
    ),
    OptionDef(
        "parquet.utc-timezone", _B, "times are UTC; nothing else can be read or written", default="true"
    ),
)

FILESYSTEM = ConnectorDef(
    "filesystem",
    BOTH,
    (
        OptionDef("path", _S, "a directory, a file or a glob, local or a URI", required=True),
        OptionDef("format", ValueKind.ENUM, "the files' format", required=True, choices=tuple(FORMATS)),
        OptionDef(
            "source.monitor-interval",
            _D,
            "look for new files this often; without it the source is bounded",
            roles=_SOURCE,
            minimum=1,
        ),
        OptionDef("source.path.regex-pattern", _S, "only files whose whole path matches", roles=_SOURCE),
        OptionDef(
            "partition.default-name",
            _S,
            "the folder for NULL in a partition column",
            default="__HIVE_DEFAULT_PARTITION__",
        ),
        OptionDef(
            "sink.rolling-policy.file-size",
            ValueKind.BYTES,
            "start another file beyond this size",
            default="128 mb",
            roles=_SINK,
            minimum=1,
        ),
        OptionDef(
            "sink.rolling-policy.rollover-interval",
            _D,
            "accepted: files end with their epoch",
            default="30 min",
            roles=_SINK,
        ),
        OptionDef(
            "sink.rolling-policy.inactivity-interval",
            _D,
            "accepted: files end with their epoch",
            default="30 min",
            roles=_SINK,
        ),
        OptionDef(
            "sink.rolling-policy.check-interval",
            _D,
            "accepted: files end with their epoch",
            default="1 min",
            roles=_SINK,
        ),
        OptionDef("sink.parallelism", _I, "how many tasks write", roles=_SINK, minimum=1),
        OptionDef(
            "sink.partition-commit.policy.kind",
            ValueKind.ENUM,
            "accepted: only committed files are visible",
            choices=("success-file", "metastore"),
            roles=_SINK,
        ),
        OptionDef(
            "sink.partition-commit.trigger",
            ValueKind.ENUM,
            "accepted: only committed files are visible",
            choices=("process-time", "partition-time"),
            roles=_SINK,
        ),
        *(
            OptionDef(name, kind, "accepted: only committed files are visible", roles=_SINK)
            for name, kind in (
                ("sink.partition-commit.delay", _D),
                ("sink.partition-commit.watermark-time-zone", _S),
                ("partition.time-extractor.timestamp-pattern", _S),
                ("partition.time-extractor.timestamp-formatter", _S),
            )
        ),
        OptionDef("auto-compaction", _B, "accepted: files are written whole", default="false", roles=_SINK),
        *_FORMAT_OPTIONS,
    ),
    "files in a directory",
)

DATAGEN = ConnectorDef(
    "datagen",
    _SOURCE,
    (
        OptionDef("rows-per-second", _I, "how fast rows are made", default="10000", roles=_SOURCE, minimum=1),
        OptionDef(
            "number-of-rows",
            _I,
            "how many rows are made; without it the source never ends",
            roles=_SOURCE,
            minimum=0,
        ),
        OptionDef("seed", _I, "rows depend on it and on nothing else (ours)", default="0", roles=_SOURCE),
        OptionDef(
            "base-time",
            ValueKind.TIMESTAMP,
            "the time of the first row (ours)",
            default="2024-01-01 00:00:00",
            roles=_SOURCE,
        ),
        OptionDef(
            "fields.#.kind",
            ValueKind.ENUM,
            "how the column's values are made",
            default="random",
            choices=("random", "sequence"),
            roles=_SOURCE,
        ),
        OptionDef("fields.#.min", ValueKind.NUMBER, "the least random value", roles=_SOURCE),
        OptionDef("fields.#.max", ValueKind.NUMBER, "the greatest random value", roles=_SOURCE),
        OptionDef("fields.#.max-past", _D, "how far a random time lies back at most", roles=_SOURCE),
        OptionDef("fields.#.length", _I, "the length of text, arrays and maps", roles=_SOURCE, minimum=0),
        OptionDef("fields.#.var-len", _B, "lengths vary up to `length`", default="false", roles=_SOURCE),
        OptionDef(
            "fields.#.null-rate",
            ValueKind.NUMBER,
            "the share of NULLs",
            default="0",
            roles=_SOURCE,
            minimum=0,
            maximum=1,
        ),
        OptionDef("fields.#.start", _I, "the first value of a sequence", roles=_SOURCE),
        OptionDef("fields.#.end", _I, "the last value of a sequence; the source ends with it", roles=_SOURCE),
        OptionDef("scan.parallelism", _I, "how many tasks make rows", roles=_SOURCE, minimum=1),
    ),
    "made-up rows",
)

NEXMARK = ConnectorDef(
    "nexmark",
    _SOURCE,
    (
        OptionDef(
            "events",
            _I,
            "how many events are made; without it the source never ends",
            roles=_SOURCE,
            minimum=0,
        ),
        OptionDef("rate", _I, "events a second of event time", default="10000", roles=_SOURCE, minimum=1),
        OptionDef("rows-per-second", _I, "at most this many events a second", roles=_SOURCE, minimum=1),
        OptionDef(
            "out-of-order",
            _D,
            "how much later than its time an event may come",
            default="0 ms",
            roles=_SOURCE,
        ),
        OptionDef("seed", _I, "events depend on it and on nothing else", default="0", roles=_SOURCE),
        OptionDef(
            "base-time",
            ValueKind.TIMESTAMP,
            "the time of the first event",
            default="2024-01-01 00:00:00",
            roles=_SOURCE,
        ),
        OptionDef("first-event", _I, "the number of the first event", default="0", roles=_SOURCE, minimum=0),
    ),
    "the Nexmark auction: persons, auctions and bids (ours)",
)

PRINT = ConnectorDef(
    "print",
    _SINK,
    (
        OptionDef("print-identifier", _S, "stands before each row", roles=_SINK),
        OptionDef("standard-error", _B, "write to standard error", default="false", roles=_SINK),
        OptionDef("sink.parallelism", _I, "how many tasks write", roles=_SINK, minimum=1),
    ),
    "rows on the terminal",
)

BLACKHOLE = ConnectorDef("blackhole", _SINK, (), "rows are counted and dropped")

DUCKDB = ConnectorDef(
    "duckdb",
    _SINK,
    (
        OptionDef(
            "path", _S, "the DuckDB file; it is created if it is not there", required=True, roles=_SINK
        ),
        OptionDef("table-name", _S, "the table, or schema.table; without it the sink's name", roles=_SINK),
    ),
    "a table in a DuckDB file (ours)",
)

POSTGRES = ConnectorDef(
    "postgres",
    _SINK,
    (
        OptionDef(
            "url",
            _S,
            "postgresql://host:port/database, or the same with jdbc: before it",
            required=True,
            roles=_SINK,
        ),
        OptionDef("username", _S, "who connects; without it as in `url` or PGUSER", roles=_SINK),
        OptionDef("password", _S, "the password; without it as PGPASSWORD or ~/.pgpass say", roles=_SINK),
        OptionDef("table-name", _S, "the table, or schema.table; without it the sink's name", roles=_SINK),
    ),
    "a table in a PostgreSQL database (ours; options are those of Flink's jdbc)",
)

CONNECTORS: dict[str, ConnectorDef] = {
    c.name: c for c in (FILESYSTEM, DATAGEN, NEXMARK, PRINT, BLACKHOLE, DUCKDB, POSTGRES)
}

ELSEWHERE = frozenset(
    words(
        """
        kafka upsert-kafka jdbc hive elasticsearch-6 elasticsearch-7 elasticsearch-8 opensearch
        mongodb kinesis firehose dynamodb pulsar hbase-1.4 hbase-2.2 iceberg paimon delta hudi
        faker socket rabbitmq mysql-cdc postgres-cdc spark rest starrocks clickhouse redis
        prometheus
        """
    )
)
"""Connectors that Flink users know and that are not here."""
