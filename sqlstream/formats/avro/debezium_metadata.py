"""The metadata of Debezium's messages in Avro: from which table they come, and when. Keys are those of its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sqlstream_operators.plan.types import TIMESTAMPTZ, VARCHAR, SqlType

#: By key: the fields of the message on the way to it, and its type; times are numbers of ms there. What `source` has
#: beside these differs by database, so that it can't be one column of all schemas.
DEBEZIUM_METADATA: Mapping[str, tuple[tuple[str, ...], SqlType]] = MappingProxyType(
    {
        "ingestion-timestamp": (("ts_ms",), TIMESTAMPTZ),
        "source.timestamp": (("source", "ts_ms"), TIMESTAMPTZ),
        "source.database": (("source", "db"), VARCHAR),
        "source.schema": (("source", "schema"), VARCHAR),
        "source.table": (("source", "table"), VARCHAR),
    }
)
