"""What the formats of Protocol Buffers are, to the planner."""

from __future__ import annotations

from sqlstream.formats.protobuf.derived import NOT_PROTOBUF
from sqlstream.formats.schema_registry.settings import registry_options
from sqlstream_planner.catalog.descriptor import ColumnLookup, FormatDescriptor, Settings
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind


def _by_name(settings: Settings) -> ColumnLookup:
    """Fields are found by their names, whatever else there is."""
    return ColumnLookup(by_position=False, alone=True)


def _reading(format_: str) -> tuple[OptionDef, ...]:
    return (
        OptionDef(
            f"{format_}.read-default-values",
            ValueKind.BOOLEAN,
            "a field that is not set is its default, not NULL",
            default="false",
            roles=(Role.SOURCE,),
        ),
        OptionDef(
            f"{format_}.write-null-string-literal",
            ValueKind.STRING,
            "what NULL is written as in an array or a map of texts",
            default="",
            roles=(Role.SINK,),
        ),
    )


PROTOBUF = FormatDescriptor(
    "protobuf",
    options=(
        OptionDef(
            "protobuf.message-class-name",
            ValueKind.STRING,
            "the message's full name: package.Message",
            required=True,
        ),
        OptionDef(
            "protobuf.descriptor-set",
            ValueKind.STRING,
            "the file that protoc --include_imports --descriptor_set_out wrote",
            required=True,
        ),
        OptionDef(
            "protobuf.ignore-parse-errors",
            ValueKind.BOOLEAN,
            "accepted: messages that can't be read go to the dead letters either way",
            default="false",
            roles=(Role.SOURCE,),
        ),
        *_reading("protobuf"),
    ),
    lookup=_by_name,
    not_written=NOT_PROTOBUF,
)
PROTO_REGISTRY = FormatDescriptor(
    "proto-registry",
    options=(
        *(o for o in registry_options("proto-registry") if o.name != "proto-registry.schema"),
        *_reading("proto-registry"),
    ),
    lookup=_by_name,
    not_written=NOT_PROTOBUF,
)
