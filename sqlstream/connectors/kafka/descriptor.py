"""What the `kafka` connector is, to the planner."""

from __future__ import annotations

from sqlstream.connectors.kafka.shared_options import (
    BOUNDED,
    CONNECTION,
    FORMATS,
    KEYS,
    METADATA,
    OF_VALUE,
    PLAIN_FORMATS,
    SCAN,
    SINK,
    STARTUP,
    chosen_format,
)
from sqlstream.connectors.kafka.validation import wrong_sink, wrong_table
from sqlstream_planner.catalog.descriptor import ConnectorDescriptor, SinkAbilities
from sqlstream_planner.catalog.options import BOTH, OptionDef, Role, ValueKind

DESCRIPTOR = ConnectorDescriptor(
    "kafka",
    "topics in Kafka",
    BOTH,
    (
        *CONNECTION,
        chosen_format("", FORMATS),
        chosen_format("value.", FORMATS),
        chosen_format("key.", PLAIN_FORMATS),
        OptionDef("key.fields", ValueKind.STRING, "the columns that the key has, separated by ;"),
        *KEYS,
        *STARTUP,
        *BOUNDED,
        *SCAN,
        OptionDef(
            "sink.partitioner",
            ValueKind.STRING,
            "which partition a record goes to: 'default' (by its key), 'fixed' or 'round-robin'",
            default="default",
            roles=(Role.SINK,),
        ),
        *SINK,
    ),
    FORMATS,
    format_prefixes=("", "value.", "key."),
    metadata=METADATA,
    format_metadata=OF_VALUE,
    bounded=lambda settings: settings.get("scan.bounded.mode", "unbounded") != "unbounded",
    sink=SinkAbilities(place=("topic",)),
    validate=wrong_table,
    validate_sink=wrong_sink,
)
