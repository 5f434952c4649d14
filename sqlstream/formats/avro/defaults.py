"""Defaults of a reader's schema: JSON as the specification writes it, as the value of a column."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Mapping
from typing import Any

from sqlstream.formats.avro.schema import NO_DEFAULT, AvroSchema, Form, SchemaError
from sqlstream_operators.plan.types import Kind, SqlType

_UNIT_US = {"millis": 1000, "micros": 1}


def default_value(schema: AvroSchema, given: Any, type_: SqlType, where: str) -> Any:
    """The Python value that Arrow takes for a column of this type. Raises SchemaError if the default is not the schema's."""
    try:
        return _value(schema, given, type_)
    except (TypeError, ValueError, KeyError, ArithmeticError) as error:
        raise SchemaError(f"{where}: the default {given!r} is no {schema} for {type_}: {error}") from None


def _value(schema: AvroSchema, given: Any, type_: SqlType) -> Any:
    match schema.form:
        case Form.UNION:
            # Its first type by the specification, any since Avro 1.12.
            if given is None and schema.nullable:
                return None
            errors = []
            for branch in schema.branches:
                try:
                    if branch.form is not Form.NULL:
                        return _value(branch, given, type_)
                except (TypeError, ValueError, KeyError) as error:
                    errors.append(str(error))
            raise ValueError("; ".join(errors) or "no type of the union")
        case Form.ARRAY:
            assert schema.inside is not None
            element = _part(type_.element)
            return [_value(schema.inside, item, element) for item in _checked(given, list)]
        case Form.MAP:
            assert schema.inside is not None
            value = _part(type_.value)
            return [(k, _value(schema.inside, v, value)) for k, v in _checked(given, dict).items()]
        case Form.RECORD:
            fields = {f.name: f for f in schema.fields}
            values: Mapping[str, Any] = _checked(given, dict)
            made = {}
            for name, inner in type_.fields:
                default = values.get(name, fields[name].default)
                if default is NO_DEFAULT:
                    raise ValueError(f"{name} has no value")
                made[name] = _value(fields[name].schema, default, inner)
            return made
        case Form.STRING if schema.logical == "uuid":
            return str(uuid.UUID(given))
        case Form.STRING | Form.ENUM:
            text = _checked(given, str)
            return text.encode() if type_.kind is Kind.BLOB else text
        case Form.BYTES | Form.FIXED:
            return _of_bytes(schema, _checked(given, str).encode("latin-1"), type_)
        case Form.INT | Form.LONG if schema.logical:
            return _time(schema.logical, _checked(given, int), type_)
        case Form.INT | Form.LONG:
            return _checked(given, int)
        case Form.FLOAT | Form.DOUBLE:
            return float(_checked(given, (int, float)))
        case Form.BOOLEAN:
            return _checked(given, bool)
        case _:
            return _checked(given, type(None))


def _part(type_: SqlType | None) -> SqlType:
    if type_ is None:
        raise ValueError("it has nothing inside")
    return type_


def _checked(given: Any, kinds: Any) -> Any:
    if not isinstance(given, kinds) or (isinstance(given, bool) and kinds is not bool):
        raise ValueError("another kind of value")
    return given


def _of_bytes(schema: AvroSchema, given: bytes, type_: SqlType) -> Any:
    if schema.logical == "decimal":
        number = int.from_bytes(given, "big", signed=True)
        return decimal.Decimal(number).scaleb(-schema.scale, decimal.Context(prec=80))
    if schema.logical == "uuid":
        return str(uuid.UUID(bytes=given))
    return given.decode() if type_.kind is Kind.VARCHAR else given


def _time(logical: str, given: int, type_: SqlType) -> Any:
    if logical == "date":
        return datetime.date(1970, 1, 1) + datetime.timedelta(days=given)
    unit = _UNIT_US[logical.rpartition("-")[2]]
    span = datetime.timedelta(microseconds=given * unit)
    if logical.startswith("time-"):
        return (datetime.datetime(1970, 1, 1) + span).time()
    zone = datetime.UTC if type_.kind is Kind.TIMESTAMPTZ else None
    return datetime.datetime(1970, 1, 1, tzinfo=zone) + span
