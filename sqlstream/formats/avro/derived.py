"""The schema that a table's columns have where no other is named: as Flink derives it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlstream.formats.avro.schema import NO_DEFAULT, AvroField, AvroSchema, Form, SchemaError
from sqlstream_operators.plan.schema import Schema
from sqlstream_operators.plan.types import Kind, SqlType

#: Flink's name of a table's record; Avro compares names only within unions.
RECORD_NAME = "org.apache.flink.avro.generated.record"

_SIMPLE = {
    Kind.BOOLEAN: Form.BOOLEAN,
    Kind.TINYINT: Form.INT,
    Kind.SMALLINT: Form.INT,
    Kind.INTEGER: Form.INT,
    Kind.UTINYINT: Form.INT,
    Kind.USMALLINT: Form.INT,
    Kind.UINTEGER: Form.LONG,
    Kind.BIGINT: Form.LONG,
    Kind.FLOAT: Form.FLOAT,
    Kind.DOUBLE: Form.DOUBLE,
    Kind.VARCHAR: Form.STRING,
    Kind.BLOB: Form.BYTES,
}
#: Types that no Avro schema is derived of.
NOT_AVRO = (
    frozenset(Kind)
    - frozenset(_SIMPLE)
    - {
        Kind.DECIMAL,
        Kind.DATE,
        Kind.TIME,
        Kind.TIMESTAMP,
        Kind.TIMESTAMPTZ,
        Kind.UUID,
        Kind.ARRAY,
        Kind.MAP,
        Kind.STRUCT,
    }
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Timestamps:
    """How timestamps are written: `legacy` is Flink's default, where TIMESTAMP is an instant (`timestamp-…`).

    Else TIMESTAMP is `local-timestamp-…`, and TIMESTAMP_LTZ an instant. `digits` of a second are 3 or 6.
    """

    legacy: bool = True
    digits: int = 3

    def logical(self, kind: Kind) -> str:
        """The logical type of a kind of timestamp."""
        local = "local-" if kind is Kind.TIMESTAMP and not self.legacy else ""
        return f"{local}timestamp-{'millis' if self.digits == 3 else 'micros'}"


def derive(columns: Schema, timestamps: Timestamps, name: str = RECORD_NAME) -> AvroSchema:
    """The record of these columns. Raises SchemaError for a name or a type that Avro has not.

    >>> from sqlstream.formats.avro.schema import to_json
    >>> from sqlstream_operators.plan.schema import Column
    >>> from sqlstream_operators.plan.types import BIGINT
    >>> to_json(derive((Column("a", BIGINT, nullable=False),), Timestamps(), "r"))
    '{"type":"record","name":"r","fields":[{"name":"a","type":"long"}]}'
    """
    fields = [(column.name, column.type, column.nullable) for column in columns]
    return _record(fields, timestamps, name)


def _record(fields: list[tuple[str, SqlType, bool]], timestamps: Timestamps, name: str) -> AvroSchema:
    made = []
    for field, type_, nullable in fields:
        if not _NAME.fullmatch(field):
            raise SchemaError(f"column {field}: names in Avro have letters, digits and _ only")
        schema = _derive(type_, timestamps, f"{name}_{field}", field)
        made.append(
            AvroField(field, _optional(schema) if nullable else schema, None if nullable else NO_DEFAULT)
        )
    return AvroSchema(Form.RECORD, name, fields=tuple(made))


def _derive(type_: SqlType, timestamps: Timestamps, name: str, column: str) -> AvroSchema:
    simple = _SIMPLE.get(type_.kind)
    if simple is not None:
        return AvroSchema(simple)
    match type_.kind:
        case Kind.DECIMAL:
            assert type_.precision is not None
            assert type_.scale is not None
            precision = max(type_.precision, 1)
            return AvroSchema(Form.BYTES, logical="decimal", precision=precision, scale=type_.scale)
        case Kind.DATE:
            return AvroSchema(Form.INT, logical="date")
        case Kind.TIME:
            if timestamps.digits == 3:
                return AvroSchema(Form.INT, logical="time-millis")
            return AvroSchema(Form.LONG, logical="time-micros")
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return AvroSchema(Form.LONG, logical=timestamps.logical(type_.kind))
        case Kind.UUID:
            return AvroSchema(Form.STRING, logical="uuid")
        case Kind.ARRAY:
            assert type_.element is not None
            inside = _derive(type_.element, timestamps, name, column)
            return AvroSchema(Form.ARRAY, inside=_optional(inside))
        case Kind.MAP:
            assert type_.key is not None
            assert type_.value is not None
            if type_.key.kind is not Kind.VARCHAR:
                raise SchemaError(f"column {column}: keys of a map in Avro are STRING, not {type_.key}")
            return AvroSchema(Form.MAP, inside=_optional(_derive(type_.value, timestamps, name, column)))
        case Kind.STRUCT:
            return _record([(n, t, True) for n, t in type_.fields], timestamps, name)
        case _:
            raise SchemaError(f"column {column}: {type_} has no type in Avro")


def _optional(schema: AvroSchema) -> AvroSchema:
    return AvroSchema(Form.UNION, branches=(AvroSchema(Form.NULL), schema))
