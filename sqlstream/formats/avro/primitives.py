"""Values without others inside, read off lanes as a column's type wants them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.avro.decoders import Simple
from sqlstream.formats.avro.lanes import Lanes, Longs
from sqlstream.formats.avro.schema import AvroSchema, Form, SchemaError
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.plan.types import Kind, SqlType

#: µs of a unit of Avro's times; of nanoseconds see TIMESTAMP_NS.
_UNITS = {"millis": 1000, "micros": 1}
_INT32 = (-(2**31), 2**31 - 1)
_DAY_US = 86_400_000_000
_RANGES = {
    Kind.TINYINT: (-(2**7), 2**7 - 1),
    Kind.SMALLINT: (-(2**15), 2**15 - 1),
    Kind.INTEGER: _INT32,
    Kind.UTINYINT: (0, 2**8 - 1),
    Kind.USMALLINT: (0, 2**16 - 1),
    Kind.UINTEGER: (0, 2**32 - 1),
}
_NUMBERS = (*_RANGES, Kind.BIGINT, Kind.FLOAT, Kind.DOUBLE)


def reads(schema: AvroSchema, type_: SqlType) -> Simple | None:
    """What reads values of a schema as a column's type; None if the type can't hold them."""
    kind, target = type_.kind, to_arrow(type_)
    match schema.form:
        case Form.BOOLEAN if kind is Kind.BOOLEAN:
            return Simple(target, lambda lanes: pa.array(_booleans(lanes)), _booleans)
        case Form.INT | Form.LONG if schema.logical:
            return _times(schema, kind, target)
        case Form.INT if kind in _NUMBERS:
            return Simple(target, _number(target, _RANGES.get(kind), _INT32), Lanes.varints)
        case Form.LONG if kind in (Kind.BIGINT, Kind.UINTEGER, Kind.FLOAT, Kind.DOUBLE):
            return Simple(target, _number(target, _RANGES.get(kind), None), Lanes.varints)
        case Form.FLOAT if kind in (Kind.FLOAT, Kind.DOUBLE):
            return Simple(target, lambda lanes: pa.array(lanes.floats()).cast(target), Lanes.floats, 4)
        case Form.DOUBLE if kind is Kind.DOUBLE:
            return Simple(target, lambda lanes: pa.array(lanes.doubles()), Lanes.doubles, 8)
        case Form.STRING | Form.BYTES | Form.FIXED if schema.logical == "decimal":
            return _decimals(schema, type_)
        case Form.FIXED if schema.logical == "uuid" and kind in (Kind.UUID, Kind.VARCHAR):
            return Simple(target, _uuids, lambda lanes: _sized(lanes, schema.size), 16)
        case Form.STRING | Form.BYTES if kind in (Kind.VARCHAR, Kind.BLOB):
            return Simple(target, _texts if kind is Kind.VARCHAR else _pieces, _skip_bytes)
        case Form.STRING if kind is Kind.UUID:
            return Simple(target, _uuid_texts, _skip_bytes)
        case Form.FIXED if kind is Kind.BLOB:
            return Simple(
                target,
                lambda lanes: lanes.pieces(_fits(lanes, schema.size)),
                lambda lanes: _sized(lanes, schema.size),
                schema.size,
            )
        case Form.ENUM if kind is Kind.VARCHAR:
            return Simple(target, _symbols(schema), Lanes.varints)
    return None


def passes(schema: AvroSchema) -> Simple:
    """What goes past values of a schema, whatever reads them."""
    match schema.form:
        case Form.NULL:
            return Simple(pa.null(), _nothing, lambda lanes: None, 0)
        case Form.BOOLEAN:
            return Simple(pa.null(), _nothing, _booleans)
        case Form.INT | Form.LONG | Form.ENUM:
            return Simple(pa.null(), _nothing, Lanes.varints)
        case Form.FLOAT:
            return Simple(pa.null(), _nothing, Lanes.floats, 4)
        case Form.DOUBLE:
            return Simple(pa.null(), _nothing, Lanes.doubles, 8)
        case Form.FIXED:
            return Simple(pa.null(), _nothing, lambda lanes: _sized(lanes, schema.size), schema.size)
        case Form.STRING | Form.BYTES:
            return Simple(pa.null(), _nothing, _skip_bytes)
    raise SchemaError(f"{schema} has others inside")


def _nothing(lanes: Lanes) -> pa.Array:
    return pa.nulls(len(lanes))


def _booleans(lanes: Lanes) -> Any:
    values = lanes.single_bytes()
    wrong = values > 1
    if wrong.any():
        lanes.fail(wrong, "a boolean that is neither 0 nor 1")
    return values == 1


def _number(
    target: pa.DataType, bounds: tuple[int, int] | None, written: tuple[int, int] | None
) -> Callable[[Lanes], pa.Array]:
    least, most = bounds or written or (0, 0)
    if bounds is not None and written is not None:
        least, most = max(least, written[0]), min(most, written[1])
    checked = bounds is not None or written is not None
    floating = pa.types.is_floating(target)
    dtype: Any = target.to_pandas_dtype()

    def read(lanes: Lanes) -> pa.Array:
        values = lanes.longs()
        if checked:
            wrong = (values < least) | (values > most)
            if wrong.any():
                lanes.fail(wrong, f"{values[wrong][0]} is not within {least} and {most}")
                values[wrong] = 0
        # Avro's promotion of a number to float and double rounds, as Java's does.
        return pa.array(values.astype(dtype) if floating or dtype != np.int64 else values)

    return read


def _times(schema: AvroSchema, kind: Kind, target: pa.DataType) -> Simple | None:
    """Dates and times; instants and local times are both read as either, since both count from 1970."""
    name, _, unit = schema.logical.rpartition("-")
    if schema.logical == "date" and kind is Kind.DATE:
        return Simple(target, lambda lanes: _dates(lanes, target), Lanes.varints)
    if name == "time" and kind is Kind.TIME:
        return Simple(target, lambda lanes: _day_times(lanes, _UNITS[unit], target), Lanes.varints)
    if not name.endswith("timestamp"):
        return None
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ) and unit in _UNITS:
        return Simple(target, lambda lanes: _scaled(lanes, _UNITS[unit], target), Lanes.varints)
    if kind is Kind.TIMESTAMP_NS:
        factor = _UNITS[unit] * 1000 if unit in _UNITS else 1
        return Simple(target, lambda lanes: _scaled(lanes, factor, target), Lanes.varints)
    return None


def _dates(lanes: Lanes, target: pa.DataType) -> pa.Array:
    days = lanes.longs()
    wrong = (days < _INT32[0]) | (days > _INT32[1])
    if wrong.any():
        lanes.fail(wrong, f"{days[wrong][0]} is no day")
        days[wrong] = 0
    return pa.array(days.astype(np.int32)).view(target)


def _day_times(lanes: Lanes, factor: int, target: pa.DataType) -> pa.Array:
    values = lanes.longs()
    wrong = (values < 0) | (values >= _DAY_US // factor)
    if wrong.any():
        lanes.fail(wrong, f"{values[wrong][0]} is no time of a day")
        values[wrong] = 0
    return pa.array(values * factor).view(target)


def _scaled(lanes: Lanes, factor: int, target: pa.DataType) -> pa.Array:
    values = lanes.longs()
    if factor > 1:
        # The largest and smallest numbers of a timestamp in DuckDB are infinity, not times.
        most = (2**63 - 2) // factor
        wrong = (values > most) | (values < -most)
        if wrong.any():
            lanes.fail(wrong, f"{values[wrong][0]} is no timestamp")
            values[wrong] = 0
        values = values * factor
    return pa.array(values).view(target)


def _skip_bytes(lanes: Lanes) -> None:
    sizes = lanes.sizes()
    lanes.at = lanes.at + sizes


def _sized(lanes: Lanes, size: int) -> None:
    lanes.at = lanes.at + _fits(lanes, size)


def _fits(lanes: Lanes, size: int) -> Longs:
    lanes.need(size)
    sizes: Longs = np.minimum(lanes.end - lanes.at, size)
    return sizes


def _pieces(lanes: Lanes) -> pa.Array:
    return lanes.pieces(lanes.sizes())


def _texts(lanes: Lanes) -> pa.Array:
    pieces = _pieces(lanes)
    try:
        return pieces.cast(pa.string())
    except pa.ArrowInvalid:
        wrong = np.fromiter((not _is_utf8(piece) for piece in pieces.to_pylist()), np.bool_, len(pieces))
        lanes.fail(wrong, "a text that is not UTF-8")
        return pc.if_else(pa.array(wrong), pa.scalar(b"", pa.binary()), pieces).cast(pa.string())


def _is_utf8(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True


def _uuids(lanes: Lanes) -> pa.Array:
    pieces = lanes.pieces(_fits(lanes, 16))
    hexes = [piece.hex() for piece in pieces.to_pylist()]
    return pa.array(
        [f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}" if len(h) == 32 else None for h in hexes],
        pa.string(),
    )


def _uuid_texts(lanes: Lanes) -> pa.Array:
    texts = _texts(lanes)
    plain = pc.match_substring_regex(texts, "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")
    wrong = ~plain.to_numpy(zero_copy_only=False)
    if wrong.any():
        lanes.fail(wrong, "a text that is no UUID")
        texts = pc.if_else(plain, texts, "00000000-0000-0000-0000-000000000000")
    return pc.utf8_lower(texts)


def _decimals(schema: AvroSchema, type_: SqlType) -> Simple | None:
    """Decimals of the scale of the column or a smaller one; digits that the column has not make a record bad."""
    if type_.kind is not Kind.DECIMAL or schema.precision > 38 or schema.scale > (type_.scale or 0):
        return None
    target, stored = to_arrow(type_), pa.decimal128(38, schema.scale)
    most = 10 ** (max(type_.precision or 1, 1) - (type_.scale or 0) + schema.scale) - 1

    def read(lanes: Lanes) -> pa.Array:
        sizes = lanes.sizes() if schema.form is not Form.FIXED else _fits(lanes, schema.size)
        if (sizes > 16).any():
            sizes = _without_sign_bytes(lanes, sizes)
        data = np.ascontiguousarray(lanes.digits(sizes))
        values = pa.Array.from_buffers(stored, len(lanes), [None, pa.py_buffer(data)])
        bound = pa.scalar(most, pa.decimal128(38, 0)).cast(pa.decimal256(76, 0))
        plain = pa.Array.from_buffers(pa.decimal128(38, 0), len(lanes), [None, pa.py_buffer(data)])
        wide = plain.cast(pa.decimal256(76, 0))
        wrong = pc.or_(pc.greater(wide, bound), pc.less(wide, pc.negate(bound)))
        if pc.any(wrong).as_py():
            lanes.fail(wrong.to_numpy(zero_copy_only=False), f"a decimal that is no {type_}")
            values = pc.if_else(wrong, pa.scalar(0, stored), values)
        return values.cast(target)

    skip = _skip_bytes if schema.form is not Form.FIXED else lambda lanes: _sized(lanes, schema.size)
    return Simple(target, read, skip, 1 if schema.form is not Form.FIXED else schema.size)


def _without_sign_bytes(lanes: Lanes, sizes: Longs) -> Longs:
    """The sizes without leading bytes that only repeat the sign, past which the lanes go; 16 at most."""
    sizes = sizes.copy()
    for lane in np.flatnonzero(sizes > 16).tolist():
        begin, end = int(lanes.at[lane]), int(lanes.at[lane] + sizes[lane])
        value = int.from_bytes(lanes.bytes.data[begin:end].tobytes(), "big", signed=True)
        if not -(2**127) <= value < 2**127:
            wrong = np.zeros(len(lanes), np.bool_)
            wrong[lane] = True
            lanes.fail(wrong, "a decimal of more than 38 digits")
            sizes[lane] = 0
        else:
            lanes.at[lane] = end - 16
            sizes[lane] = 16
    return sizes


def _symbols(schema: AvroSchema) -> Callable[[Lanes], pa.Array]:
    names = pa.array(list(schema.symbols), pa.string())

    def read(lanes: Lanes) -> pa.Array:
        numbers = lanes.longs()
        wrong = (numbers < 0) | (numbers >= len(names))
        if wrong.any():
            lanes.fail(wrong, f"enum {schema.name} has no symbol of that number")
            numbers[wrong] = 0
        return names.take(pa.array(numbers)) if len(names) else pa.nulls(len(lanes), pa.string())

    return read
