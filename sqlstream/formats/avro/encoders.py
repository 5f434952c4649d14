"""Columns as Avro's records, a large_binary value per row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.avro import pieces
from sqlstream.formats.avro.lanes import Longs
from sqlstream.formats.avro.schema import NO_DEFAULT, AvroField, AvroSchema, Form, SchemaError, to_json
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.schema import Schema
from sqlstream_operators.plan.types import INTEGERS, Kind, SqlType

#: Values of a column, none of them NULL, as bytes.
Encode = Callable[[pa.Array], pa.Array]
_UNITS = {"millis": 1000, "micros": 1}
_INT32 = (-(2**31), 2**31 - 1)


def record_encoder(columns: Schema, schema: AvroSchema) -> Callable[[Sequence[pa.Array]], pa.Array]:
    """What writes columns as records of a schema. Raises SchemaError if one can't be written by it."""
    if schema.form is not Form.RECORD:
        raise SchemaError(f"the schema is {schema}, not a record")
    return _fields([(c.name, c.type) for c in columns], schema, "")


def _fields(
    given: Sequence[tuple[str, SqlType]], schema: AvroSchema, where: str
) -> Callable[[Sequence[pa.Array]], pa.Array]:
    places = {name: place for place, (name, _) in enumerate(given)}
    unknown = [name for name in places if name not in {f.name for f in schema.fields}]
    if unknown:
        raise SchemaError(f"{where}{unknown[0]}: the schema has no such field")
    steps: list[tuple[Encode, int | None]] = []
    for field in schema.fields:
        place = places.get(field.name)
        if place is None:
            steps.append((_default(field, where), None))
        else:
            steps.append((_value(given[place][1], field.schema, where + field.name), place))

    def write(columns: Sequence[pa.Array]) -> pa.Array:
        parts = [encode(columns[0 if place is None else place]) for encode, place in steps]
        return pieces.join(*parts) if parts else pieces.constant(b"", len(columns[0]))

    return write


def _default(field: AvroField, where: str) -> Encode:
    """A field that the table has no column for: NULL, where that is its default."""
    schema = field.schema
    if field.default is NO_DEFAULT or field.default is not None or not schema.nullable:
        raise SchemaError(
            f"{where}{field.name}: the schema has this field, and the table no column of the name"
        )
    number = next(n for n, b in enumerate(schema.branches) if b.form is Form.NULL)
    return lambda column: pieces.constant(bytes([2 * number]), len(column))


def _value(type_: SqlType, schema: AvroSchema, where: str) -> Encode:
    """What writes values of a type, NULL among them."""
    if schema.form is not Form.UNION:
        return _required(_plain(type_, schema, where), where)
    null = next((n for n, b in enumerate(schema.branches) if b.form is Form.NULL), None)
    found: tuple[int, Encode] | None = None
    errors = []
    for number, branch in enumerate(schema.branches):
        try:
            if branch.form is not Form.NULL and found is None:
                found = (number, _plain(type_, branch, where))
        except SchemaError as error:
            errors.append(str(error))
    if found is None:
        raise SchemaError("; ".join(errors) or f"{where}: {type_} can't be written as null alone")
    number, encode = found
    if null is None:
        required = _required(encode, where)
        return lambda column: pieces.join(bytes([2 * number]), required(column))
    return _optional(encode, bytes([2 * number]), bytes([2 * null]))


def _required(encode: Encode, where: str) -> Encode:
    def write(column: pa.Array) -> pa.Array:
        if column.null_count:
            raise DataError(f"{where} is NULL, and the schema that it is written by has no null there")
        return encode(column)

    return write


def _optional(encode: Encode, some: bytes, none: bytes) -> Encode:
    def write(column: pa.Array) -> pa.Array:
        if not column.null_count:
            return pieces.join(some, encode(column))
        valid = column.is_valid()
        there = pieces.join(some, encode(column.filter(valid)))
        mask = valid.to_numpy(zero_copy_only=False)
        places = pa.array(np.cumsum(mask) - 1, mask=~mask)
        return pc.fill_null(there.take(places), pa.scalar(none, pa.large_binary()))

    return write


def _plain(type_: SqlType, schema: AvroSchema, where: str) -> Encode:
    """What writes values of a type as a schema that is no union. Raises SchemaError if they are not of it."""
    kind = type_.kind
    match schema.form:
        case Form.BOOLEAN if kind is Kind.BOOLEAN:
            return lambda column: pieces.fixed(column.cast(pa.uint8()).to_numpy().reshape(-1, 1))
        case Form.INT | Form.LONG if schema.logical:
            encode = _times(schema, kind, where)
            if encode is not None:
                return encode
        case Form.INT if kind in INTEGERS[:4] or kind in (Kind.UTINYINT, Kind.USMALLINT):
            return _numbers(where, _INT32 if kind is Kind.BIGINT else None)
        case Form.LONG if kind in INTEGERS and kind not in (Kind.HUGEINT, Kind.UBIGINT):
            return _numbers(where, None)
        case Form.FLOAT if kind is Kind.FLOAT:
            return lambda column: _words(column, np.float32, 4)
        case Form.DOUBLE if kind in (Kind.FLOAT, Kind.DOUBLE):
            return lambda column: _words(column, np.float64, 8)
        case Form.BYTES | Form.FIXED if schema.logical == "decimal" and kind is Kind.DECIMAL:
            return _decimals(type_, schema, where)
        case Form.STRING if kind in (Kind.VARCHAR, Kind.UUID):
            return _texts
        case Form.BYTES if kind is Kind.BLOB:
            return _texts
        case Form.FIXED if kind is Kind.BLOB:
            return _fixed(schema, where)
        case Form.ENUM if kind is Kind.VARCHAR:
            return _symbols(schema, where)
        case Form.ARRAY if kind is Kind.ARRAY:
            assert type_.element is not None
            assert schema.inside is not None
            return _array(_value(type_.element, schema.inside, f"{where}[]"))
        case Form.MAP if kind is Kind.MAP and type_.key is not None and type_.key.kind is Kind.VARCHAR:
            assert type_.value is not None
            assert schema.inside is not None
            return _map(_value(type_.value, schema.inside, f"{where}{{}}"))
        case Form.RECORD if kind is Kind.STRUCT:
            write = _fields(type_.fields, schema, f"{where}.")
            return lambda column: write(column.flatten())
    raise SchemaError(f"{where}: {type_} can't be written as {schema}")


def _int64(column: pa.Array) -> Longs:
    found: Longs = column.cast(pa.int64()).to_numpy()
    return found


def _numbers(where: str, bounds: tuple[int, int] | None) -> Encode:
    def write(column: pa.Array) -> pa.Array:
        values = _int64(column)
        if bounds is not None and len(values) and (values.min() < bounds[0] or values.max() > bounds[1]):
            raise DataError(f"{where}: a number that Avro's int has not, which the schema says it is")
        return pieces.zigzag(values)

    return write


def _words(column: pa.Array, dtype: Any, size: int) -> pa.Array:
    values = column.to_numpy(zero_copy_only=False).astype(dtype)
    return pieces.fixed(np.ascontiguousarray(values).view(np.uint8).reshape(-1, size))


def _times(schema: AvroSchema, kind: Kind, where: str) -> Encode | None:
    name, _, unit = schema.logical.rpartition("-")
    if schema.logical == "date" and kind is Kind.DATE:
        return lambda column: pieces.zigzag(_int64(column.view(pa.int32())))
    fits = (name == "time" and kind is Kind.TIME) or (
        name.endswith("timestamp") and kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
    )
    if not fits or unit not in _UNITS:
        return None
    factor = _UNITS[unit]

    def write(column: pa.Array) -> pa.Array:
        values = _int64(column.view(pa.int64()))
        if factor > 1:
            rest = values % factor
            if rest.any():
                shown = column[int(np.flatnonzero(rest)[0])].as_py()
                raise DataError(
                    f"{where}: {shown} has more digits than {schema.logical} keeps, by which it is written; "
                    f"round it to milliseconds in the query, or set the format's option timestamp-precision to 6"
                )
            values = values // factor
        return pieces.zigzag(values)

    return write


def _decimals(type_: SqlType, schema: AvroSchema, where: str) -> Encode:
    scale, precision = type_.scale or 0, max(type_.precision or 1, 1)
    if schema.scale < scale or schema.precision - schema.scale < precision - scale:
        raise SchemaError(f"{where}: {type_} has more digits than {schema}")
    if schema.precision > 38:
        raise SchemaError(f"{where}: {schema} has more than 38 digits")

    def write(column: pa.Array) -> pa.Array:
        digits = pieces.decimal_bytes(column.cast(pa.decimal128(schema.precision, schema.scale)))
        if schema.form is Form.BYTES:
            return _sized(pieces.shortest(digits))
        if schema.size >= 16:
            fill = np.where(digits[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
            return pieces.fixed(np.hstack([np.repeat(fill, schema.size - 16, axis=1), digits]))
        if len(digits) and pieces.lengths(pieces.shortest(digits)).max() > schema.size:
            raise DataError(f"{where}: a number that has no room in {schema.size} bytes")
        return pieces.fixed(digits[:, 16 - schema.size :])

    return write


def _sized(values: pa.Array) -> pa.Array:
    return pieces.join(pieces.zigzag(pieces.lengths(values)), values)


def _texts(column: pa.Array) -> pa.Array:
    return _sized(column.cast(pa.large_binary()))


def _fixed(schema: AvroSchema, where: str) -> Encode:
    def write(column: pa.Array) -> pa.Array:
        values = column.cast(pa.large_binary())
        if len(values) and (pieces.lengths(values) != schema.size).any():
            raise DataError(
                f"{where}: {schema} has values of {schema.size} bytes, and this is another length"
            )
        return values

    return write


def _symbols(schema: AvroSchema, where: str) -> Encode:
    names = pa.array(list(schema.symbols), pa.string())

    def write(column: pa.Array) -> pa.Array:
        numbers = pc.index_in(column, names)
        if numbers.null_count:
            shown = column.filter(numbers.is_null())[0].as_py()
            raise DataError(f"{where}: {shown!r} is no symbol of {to_json(schema)}")
        return pieces.zigzag(_int64(numbers))

    return write


def _blocks(items: pa.Array, offsets: Longs) -> pa.Array:
    """One block of items for each row, and the empty one that ends them."""
    counts = np.diff(offsets)
    there = pieces.join(pieces.zigzag(counts), pieces.grouped(items, offsets - offsets[0]), b"\0")
    return pc.if_else(pa.array(counts == 0), pa.scalar(b"\0", pa.large_binary()), there)


def _array(item: Encode) -> Encode:
    def write(column: pa.Array) -> pa.Array:
        offsets = column.offsets.to_numpy().astype(np.int64)
        return _blocks(item(column.flatten()), offsets)

    return write


def _map(value: Encode) -> Encode:
    def write(column: pa.Array) -> pa.Array:
        offsets = column.offsets.to_numpy().astype(np.int64)
        begin, size = int(offsets[0]), int(offsets[-1] - offsets[0])
        keys, values = column.keys.slice(begin, size), column.items.slice(begin, size)
        return _blocks(pieces.join(_texts(keys), value(values)), offsets)

    return write
