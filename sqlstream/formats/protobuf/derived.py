"""The message that a table's columns are where no other is named: proto3, a field per column in their order."""

from __future__ import annotations

from typing import Any

from sqlstream.formats.protobuf.messages import DescriptorError, library
from sqlstream_operators.plan.schema import Schema
from sqlstream_operators.plan.types import Kind, SqlType

#: FieldDescriptorProto.TYPE_… by the kind of a column.
_TYPES = {
    Kind.DOUBLE: 1,
    Kind.FLOAT: 2,
    Kind.BIGINT: 3,
    Kind.INTEGER: 5,
    Kind.SMALLINT: 5,
    Kind.TINYINT: 5,
    Kind.BOOLEAN: 8,
    Kind.VARCHAR: 9,
    Kind.BLOB: 12,
}
_MESSAGE, _OPTIONAL, _REPEATED = 11, 1, 3
#: Types that no message is derived of.
NOT_PROTOBUF = (
    frozenset(Kind)
    - frozenset(_TYPES)
    - {
        Kind.TIMESTAMP,
        Kind.TIMESTAMPTZ,
        Kind.ARRAY,
        Kind.MAP,
        Kind.STRUCT,
    }
)
MESSAGE_NAME = "Row"


def derive(columns: Schema) -> bytes:
    """A serialised FileDescriptorProto with one message of these columns. Raises DescriptorError for other types."""
    file = library().descriptor_pb2.FileDescriptorProto(name="table.proto", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    message = file.message_type.add(name=MESSAGE_NAME)
    _fields(message, [(column.name, column.type) for column in columns], f".{MESSAGE_NAME}")
    return bytes(file.SerializeToString(deterministic=True))


def _fields(message: Any, fields: list[tuple[str, SqlType]], path: str) -> None:
    for number, (name, type_) in enumerate(fields, 1):
        field = message.field.add(name=name, number=number, label=_OPTIONAL)
        if type_.kind is Kind.ARRAY and type_.element is not None:
            field.label = _REPEATED
            _type(message, field, type_.element, path)
        elif type_.kind is Kind.MAP and type_.key is not None and type_.value is not None:
            field.label, field.type = _REPEATED, _MESSAGE
            camel = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
            entry = message.nested_type.add(name=f"{camel}Entry")
            entry.options.map_entry = True
            field.type_name = f"{path}.{entry.name}"
            for place, (part, inner) in enumerate((("key", type_.key), ("value", type_.value)), 1):
                _type(
                    entry, entry.field.add(name=part, number=place, label=_OPTIONAL), inner, field.type_name
                )
        else:
            _type(message, field, type_, path)
            if field.type != _MESSAGE:  # `optional`, so that NULL is no 0
                field.proto3_optional = True
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{name}")


def _type(message: Any, field: Any, type_: SqlType, path: str) -> None:
    simple = _TYPES.get(type_.kind)
    if simple is not None:
        field.type = simple
    elif type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        field.type, field.type_name = _MESSAGE, ".google.protobuf.Timestamp"
    elif type_.kind is Kind.STRUCT:
        inner = message.nested_type.add(name=f"{field.name}_Row")
        field.type, field.type_name = _MESSAGE, f"{path}.{inner.name}"
        _fields(inner, list(type_.fields), field.type_name)
    else:
        raise DescriptorError(f"{field.name}: {type_} has no type in Protocol Buffers")
