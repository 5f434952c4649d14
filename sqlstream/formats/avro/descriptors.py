"""What the formats in Avro are, to the planner."""

from __future__ import annotations

from types import MappingProxyType

from sqlstream.formats.avro.debezium_metadata import DEBEZIUM_METADATA
from sqlstream.formats.avro.derived import NOT_AVRO
from sqlstream.formats.avro.options import time_options
from sqlstream.formats.schema_registry.settings import registry_options
from sqlstream_planner.catalog.descriptor import ColumnLookup, FormatDescriptor, Settings
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind


def fields_by_name(settings: Settings) -> ColumnLookup:
    """Fields are found by the names that their writer gave them, whatever else there is."""
    return ColumnLookup(by_position=False, alone=True)


AVRO = FormatDescriptor(
    "avro",
    options=(
        *time_options("avro"),
        OptionDef(
            "avro.schema",
            ValueKind.STRING,
            "the schema of the records as JSON, in place of the one that follows from the table's columns",
        ),
        OptionDef(
            "avro.encoding", ValueKind.ENUM, "how values are written", default="binary", choices=("binary",)
        ),
        OptionDef(
            "avro.codec",
            ValueKind.ENUM,
            "how blocks of files are compressed",
            default="snappy",
            choices=("null", "deflate", "snappy", "zstandard", "bzip2", "xz"),
            roles=(Role.SINK,),
            changes_output=False,
            only_files=True,
        ),
    ),
    not_written=NOT_AVRO,
)
AVRO_CONFLUENT = FormatDescriptor(
    "avro-confluent",
    options=(*registry_options("avro-confluent"), *time_options("avro-confluent")),
    lookup=fields_by_name,
    not_written=NOT_AVRO,
)
DEBEZIUM_AVRO_CONFLUENT = FormatDescriptor(
    "debezium-avro-confluent",
    options=(*registry_options("debezium-avro-confluent"), *time_options("debezium-avro-confluent")),
    changelog=True,
    metadata=MappingProxyType({key: type_ for key, (_, type_) in DEBEZIUM_METADATA.items()}),
    lookup=fields_by_name,
    not_written=NOT_AVRO,
)
