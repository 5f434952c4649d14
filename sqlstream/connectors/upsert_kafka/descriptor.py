"""What the `upsert-kafka` connector is, to the planner."""

from __future__ import annotations

from sqlstream.connectors.kafka.shared_options import (
    BOUNDED,
    CONNECTION,
    KEYS,
    METADATA,
    PLAIN_FORMATS,
    SCAN,
    SINK,
    chosen_format,
)
from sqlstream.connectors.kafka.validation import wrong_sink, wrong_upsert_table
from sqlstream_planner.catalog.descriptor import ConnectorDescriptor, SinkAbilities
from sqlstream_planner.catalog.options import BOTH, OptionDef, Role, ValueKind

_SINK = (Role.SINK,)

DESCRIPTOR = ConnectorDescriptor(
    "upsert-kafka",
    "topics in Kafka, of which the last record of each key is a row",
    BOTH,
    (
        *CONNECTION,
        chosen_format("key.", PLAIN_FORMATS, required=True),
        chosen_format("value.", PLAIN_FORMATS, required=True),
        *KEYS,
        *BOUNDED,
        *SCAN,
        *SINK,
        OptionDef(
            "sink.buffer-flush.max-rows",
            ValueKind.INTEGER,
            "accepted: an epoch writes the last change of each key",
            default="0",
            roles=_SINK,
            minimum=0,
            changes_output=False,
        ),
        OptionDef(
            "sink.buffer-flush.interval",
            ValueKind.DURATION,
            "accepted: an epoch writes the last change of each key",
            default="0",
            roles=_SINK,
            minimum=0,
            changes_output=False,
        ),
    ),
    PLAIN_FORMATS,
    format_prefixes=("value.", "key."),
    metadata=METADATA,
    bounded=lambda settings: settings.get("scan.bounded.mode", "unbounded") != "unbounded",
    changelog=True,
    sink=SinkAbilities(changes=True, keyed=True, place=("topic",)),
    validate=wrong_upsert_table,
    validate_sink=wrong_sink,
)
