"""Rows as messages. A NULL is a field that is not set."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlstream.formats.protobuf.messages import DescriptorError
from sqlstream.formats.protobuf.reading import (
    BOOL,
    DOUBLE,
    ENUM,
    FLOAT,
    INT32,
    INT64,
    MESSAGE,
    STRING,
    TIMESTAMP_MESSAGE,
    UINT32,
    UINT64,
    fitting,
    is_map,
    named,
)
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.schema import Schema
from sqlstream_operators.plan.types import INTEGERS, Kind, SqlType

#: Puts a value that is not NULL into a message.
Put = Callable[[Any, Any], None]
Convert = Callable[[Any], Any]
_MICROSECOND = timedelta(microseconds=1)
_BOUNDS = {
    INT32: (-(2**31), 2**31 - 1),
    INT64: (-(2**63), 2**63 - 1),
    UINT32: (0, 2**32 - 1),
    UINT64: (0, 2**64 - 1),
}
_SIGNED_BITS = {UINT32: 32, UINT64: 64}


def writers(columns: Schema, descriptor: Any, null_text: str) -> list[Put]:
    """What puts each column's value into a message; `null_text` stands for NULL in arrays and maps.

    Raises DescriptorError for a column that the message has no such field for.
    """
    return [_field(column.name, column.type, descriptor, null_text, "") for column in columns]


def _field(name: str, type_: SqlType, descriptor: Any, null_text: str, where: str) -> Put:
    field = descriptor.fields_by_name.get(name)
    if field is None:
        raise DescriptorError(f"{where}{name}: {descriptor.full_name} has no such field")
    if is_map(field):
        return _map(field, type_, null_text, where)
    if field.is_repeated:
        return _repeated(field, type_, null_text, where)
    if field.cpp_type == MESSAGE:
        fill = _message(field, type_, null_text, where)
        return lambda message, value: fill(getattr(message, name), value)
    convert = _value(field, type_, where)
    return lambda message, value: setattr(message, name, convert(value))


def _repeated(field: Any, type_: SqlType, null_text: str, where: str) -> Put:
    if type_.kind is not Kind.ARRAY or type_.element is None:
        raise DescriptorError(f"{where}{field.name}: a repeated field is an ARRAY, not {type_}")
    name = field.name
    if field.cpp_type == MESSAGE:
        fill = _message(field, type_.element, null_text, where)

        def add(message: Any, values: Any) -> None:
            into = getattr(message, name)
            for value in values:
                made = into.add()
                if value is not None:
                    fill(made, value)

        return add
    convert, nothing = _value(field, type_.element, where), _nothing(field, null_text)
    return lambda message, values: getattr(message, name).extend(
        nothing if value is None else convert(value) for value in values
    )


def _map(field: Any, type_: SqlType, null_text: str, where: str) -> Put:
    if type_.kind is not Kind.MAP or type_.key is None or type_.value is None:
        raise DescriptorError(f"{where}{field.name}: a map field is a MAP, not {type_}")
    entry, name = field.message_type.fields_by_name, field.name
    key, value_field = _value(entry["key"], type_.key, where), entry["value"]
    if value_field.cpp_type == MESSAGE:
        fill = _message(value_field, type_.value, null_text, where)

        def put(message: Any, pairs: Any) -> None:
            into = getattr(message, name)
            for k, v in pairs:
                made = into[key(k)]
                if v is not None:
                    fill(made, v)

        return put
    convert, nothing = _value(value_field, type_.value, where), _nothing(value_field, null_text)
    return lambda message, pairs: getattr(message, name).update(
        {key(k): nothing if v is None else convert(v) for k, v in pairs}
    )


def _nothing(field: Any, null_text: str) -> Any:
    """What stands for NULL among a field's values, which can't be missing."""
    if field.cpp_type == STRING:
        return null_text.encode() if field.type == field.TYPE_BYTES else null_text
    return False if field.cpp_type == BOOL else 0


def _message(field: Any, type_: SqlType, null_text: str, where: str) -> Put:
    descriptor = field.message_type
    if descriptor.full_name == TIMESTAMP_MESSAGE and type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        return _put_timestamp
    if type_.kind is not Kind.STRUCT:
        raise DescriptorError(f"{where}{field.name}: {type_} can't be written as {named(field)}")
    puts = [(n, _field(n, t, descriptor, null_text, f"{where}{field.name}.")) for n, t in type_.fields]

    def fill(message: Any, value: Any) -> None:
        message.SetInParent()
        for name, put in puts:
            if value[name] is not None:
                put(message, value[name])

    return fill


def _put_timestamp(message: Any, value: datetime) -> None:
    moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    micros = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // _MICROSECOND
    message.SetInParent()
    message.seconds, message.nanos = micros // 1_000_000, micros % 1_000_000 * 1000


def _value(field: Any, type_: SqlType, where: str) -> Convert:
    kind, cpp, name = type_.kind, field.cpp_type, f"{where}{field.name}"
    if cpp in _BOUNDS and kind in INTEGERS:
        return _number(name, named(field), *_BOUNDS[cpp], signed_bits=_SIGNED_BITS.get(cpp, 0))
    if (cpp == BOOL and kind is Kind.BOOLEAN) or (cpp in (DOUBLE, FLOAT) and kind is Kind.FLOAT):
        return _same
    if cpp == DOUBLE and kind is Kind.DOUBLE:
        return _same
    if cpp == STRING and kind is (Kind.BLOB if field.type == field.TYPE_BYTES else Kind.VARCHAR):
        return _same
    if cpp == ENUM and kind in (Kind.VARCHAR, Kind.INTEGER):
        return _symbol(name, field.enum_type) if kind is Kind.VARCHAR else _same
    raise DescriptorError(
        f"{name}: {type_} can't be written as {named(field)}; declare it as {fitting(field)}"
    )


def _same(value: Any) -> Any:
    return value


def _number(name: str, proto: str, least: int, most: int, signed_bits: int) -> Convert:
    lowest = -(1 << (signed_bits - 1)) if signed_bits else least

    def convert(value: int) -> int:
        if not lowest <= value <= most:
            raise DataError(f"{name}: {value} is no {proto}")
        return value + (1 << signed_bits) if value < least else value

    return convert


def _symbol(name: str, enum: Any) -> Convert:
    numbers: dict[str, int] = {value.name: value.number for value in enum.values}

    def convert(value: str) -> int:
        number = numbers.get(value)
        if number is None:
            raise DataError(f"{name}: {value!r} is no value of enum {enum.full_name}")
        return number

    return convert
