"""The metadata of messages of changes: from which table they come, and when. Keys and types are Flink's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sqlstream_operators.plan.types import (
    BIGINT,
    INTEGER,
    TIMESTAMPTZ,
    VARCHAR,
    Kind,
    SqlType,
    array,
    quote_literal,
)

_TEXTS = SqlType(Kind.MAP, key=VARCHAR, value=VARCHAR)
_NUMBERS = SqlType(Kind.MAP, key=VARCHAR, value=INTEGER)


@dataclass(frozen=True, slots=True)
class MetadataField:
    """One of them: where it is in a message (`key`, and in its object `inside`), and what `type` it has.

    `unit_us`: of a TIMESTAMP_LTZ, which is a number there, a unit of it in µs. `around`: it is beside the `payload` of a
    message that is wrapped, and nowhere in one that is not.
    """

    key: str
    type: SqlType
    inside: str = ""
    unit_us: int = 1000
    around: bool = False

    def of(self, value: str) -> str:
        """SQL of it, given that of the JSON at `key`; NULL where that is something else. It never fails.

        >>> MetadataField("source", VARCHAR, "db").of("source")
        "json_extract_string(source, '/db')"
        """
        text = f"json_extract_string({value}, {quote_literal(f'/{self.inside}' if self.inside else '')})"
        if self.type == VARCHAR:
            return text
        if self.type == TIMESTAMPTZ:
            return f"TRY(make_timestamptz(TRY_CAST({text} AS {BIGINT}) * {self.unit_us}))"
        shape = quote_literal(json.dumps(str(self.type)))
        return f"TRY(json_transform({value}, {shape}))"


_FROM_DEBEZIUM = {
    "schema": MetadataField("schema", VARCHAR, around=True),
    "ingestion-timestamp": MetadataField("ts_ms", TIMESTAMPTZ),
    "source.timestamp": MetadataField("source", TIMESTAMPTZ, "ts_ms"),
    "source.database": MetadataField("source", VARCHAR, "db"),
    "source.schema": MetadataField("source", VARCHAR, "schema"),
    "source.table": MetadataField("source", VARCHAR, "table"),
    "source.properties": MetadataField("source", _TEXTS),
}
_FROM_CANAL = {
    "database": MetadataField("database", VARCHAR),
    "table": MetadataField("table", VARCHAR),
    "sql-type": MetadataField("sqlType", _NUMBERS),
    "pk-names": MetadataField("pkNames", array(VARCHAR)),
    "ingestion-timestamp": MetadataField("ts", TIMESTAMPTZ),
    "event-timestamp": MetadataField("es", TIMESTAMPTZ),
}
_FROM_MAXWELL = {
    "database": MetadataField("database", VARCHAR),
    "table": MetadataField("table", VARCHAR),
    "primary-key-columns": MetadataField("primary_key_columns", array(VARCHAR)),
    "ingestion-timestamp": MetadataField("ts", TIMESTAMPTZ, unit_us=1_000_000),
}
#: By format and key.
METADATA_OF: Mapping[str, Mapping[str, MetadataField]] = MappingProxyType(
    {"debezium-json": _FROM_DEBEZIUM, "canal-json": _FROM_CANAL, "maxwell-json": _FROM_MAXWELL}
)


def types_of(format_: str) -> Mapping[str, SqlType]:
    """The types of a format's metadata, by key."""
    return MappingProxyType({key: field.type for key, field in METADATA_OF.get(format_, {}).items()})
