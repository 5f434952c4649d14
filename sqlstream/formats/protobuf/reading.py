"""Fields of messages as columns: per field one list of values, which Arrow takes.

Messages have their fields in any order and any number, so that nothing is read of all records at once, as Avro is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from sqlstream.formats.protobuf.messages import DescriptorError
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.plan.schema import Schema
from sqlstream_operators.plan.types import Kind, SqlType

Get = Callable[[Any], Any]
TIMESTAMP_MESSAGE = "google.protobuf.Timestamp"
#: Kinds of fields by number (FieldDescriptor.CPPTYPE_…), and the columns that hold all their values.
INT32, INT64, UINT32, UINT64, DOUBLE, FLOAT, BOOL, ENUM, STRING, MESSAGE = range(1, 11)
TYPES = {
    INT32: (Kind.INTEGER, Kind.BIGINT),
    INT64: (Kind.BIGINT,),
    UINT32: (Kind.UINTEGER, Kind.BIGINT),
    UINT64: (Kind.UBIGINT,),
    DOUBLE: (Kind.DOUBLE,),
    FLOAT: (Kind.FLOAT, Kind.DOUBLE),
    BOOL: (Kind.BOOLEAN,),
    ENUM: (Kind.VARCHAR, Kind.INTEGER),
}
#: Of uint32 and uint64, as Flink reads them: the same bits with a sign.
_SIGNED = {(UINT32, Kind.INTEGER): 32, (UINT64, Kind.BIGINT): 64}
_BYTES = 12  # FieldDescriptor.TYPE_BYTES


def is_map(field: Any) -> bool:
    """Whether a field is a map."""
    return bool(
        field.is_repeated and field.message_type is not None and field.message_type.GetOptions().map_entry
    )


def readers(columns: Schema, descriptor: Any, defaults: bool) -> list[Get]:
    """What gives each column's value of a message; `defaults`: of a field that is not set, its default, not NULL.

    Raises DescriptorError for a column that the message has no such field for.
    """
    return [_field(column.name, column.type, descriptor, defaults, "") for column in columns]


def _field(name: str, type_: SqlType, descriptor: Any, defaults: bool, where: str) -> Get:
    field = descriptor.fields_by_name.get(name)
    if field is None:
        raise DescriptorError(f"{where}{name}: {descriptor.full_name} has no such field")
    if is_map(field):
        return _map(field, type_, defaults, where)
    if field.is_repeated:
        if type_.kind is not Kind.ARRAY or type_.element is None:
            raise DescriptorError(f"{where}{name}: a repeated field is an ARRAY, not {type_}")
        convert = _value(field, type_.element, defaults, where)
        if convert is None:
            return lambda message: list(getattr(message, name))
        one = convert
        return lambda message: [one(value) for value in getattr(message, name)]
    convert = _value(field, type_, defaults, where)
    if field.has_presence and not (defaults and field.message_type is None):
        if convert is None:
            return lambda message: getattr(message, name) if message.HasField(name) else None
        made = convert
        return lambda message: made(getattr(message, name)) if message.HasField(name) else None
    if convert is None:
        return lambda message: getattr(message, name)
    always = convert
    return lambda message: always(getattr(message, name))


def _map(field: Any, type_: SqlType, defaults: bool, where: str) -> Get:
    if type_.kind is not Kind.MAP or type_.key is None or type_.value is None:
        raise DescriptorError(f"{where}{field.name}: a map field is a MAP, not {type_}")
    entry, name = field.message_type.fields_by_name, field.name
    key = _value(entry["key"], type_.key, defaults, where) or _same
    value = _value(entry["value"], type_.value, defaults, where) or _same
    return lambda message: [(key(k), value(v)) for k, v in getattr(message, name).items()]


def _same(value: Any) -> Any:
    return value


def _value(field: Any, type_: SqlType, defaults: bool, where: str) -> Get | None:
    """What makes a column's value of a field's; None: it is the same."""
    kind, cpp = type_.kind, field.cpp_type
    if cpp == MESSAGE:
        return _message(field, type_, defaults, where)
    if cpp == STRING:
        if kind is (Kind.BLOB if field.type == _BYTES else Kind.VARCHAR):
            return None
    elif cpp == ENUM and kind is Kind.VARCHAR:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, str(number))
    elif kind in TYPES[cpp]:
        return None
    elif (cpp, kind) in _SIGNED:
        bits = _SIGNED[cpp, kind]
        return lambda number: number - (1 << bits) if number >> (bits - 1) else number
    raise DescriptorError(
        f"{where}{field.name}: {named(field)} can't be read as {type_}; declare it as {fitting(field)}"
    )


def _message(field: Any, type_: SqlType, defaults: bool, where: str) -> Get:
    descriptor = field.message_type
    if descriptor.full_name == TIMESTAMP_MESSAGE and type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return lambda value: value.seconds * 1_000_000 + value.nanos // 1000
    if type_.kind is not Kind.STRUCT:
        raise DescriptorError(
            f"{where}{field.name}: {named(field)} can't be read as {type_}; declare it as ROW<…>"
        )
    inside = f"{where}{field.name}."
    gets = [(name, _field(name, t, descriptor, defaults, inside)) for name, t in type_.fields]
    return lambda value: {name: get(value) for name, get in gets}


def named(field: Any) -> str:
    """A field's type as a .proto file has it."""
    if field.message_type is not None:
        return str(field.message_type.full_name)
    if field.enum_type is not None:
        return f"enum {field.enum_type.full_name}"
    names = (
        "double float int64 uint64 int32 fixed64 fixed32 bool string group message bytes uint32 enum sfixed32"
    )
    return str([*names.split(), "sfixed64", "sint32", "sint64"][field.type - 1])


def fitting(field: Any) -> str:
    """A type that a column of a field's values can have."""
    if field.cpp_type == STRING:
        return "BYTES" if field.type == _BYTES else "STRING"
    flink = {Kind.INTEGER: "INT", Kind.VARCHAR: "STRING", Kind.UBIGINT: "BIGINT", Kind.UINTEGER: "BIGINT"}
    kind = TYPES[field.cpp_type][0]
    return flink.get(kind, kind.value)


def as_columns(columns: Schema, gets: Sequence[Get], messages: Sequence[Any]) -> list[pa.Array]:
    """The columns of messages."""
    return [
        pa.array([get(message) for message in messages], to_arrow(column.type))
        for column, get in zip(columns, gets, strict=True)
    ]
