"""Fields in the binary formats of PostgreSQL's types, a column of Arrow at a time: what `postgres_binary` makes, read.

A column's fields lie anywhere in one block of bytes (rows of COPY, messages of `pgoutput`). All that is the same for each
row is done by numpy over all rows; there is no Python per row, but for numbers of more than 18 digits. Sources: the
`…send` functions of the types in PostgreSQL, and https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.errors import DataError, InternalError
from sqlstream_operators.plan.types import Kind, SqlType

#: Days and µs from 1970 to 2000, where PostgreSQL counts from.
_DAYS = 10_957
_MICROSECONDS = _DAYS * 86_400_000_000
#: Bytes behind a block, so that a field of fixed width that is NULL can be looked at, too.
PADDING = bytes(16)
Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]
_Bytes = npt.NDArray[np.uint8]
_HEX = np.frombuffer("".join(f"{n:02x}" for n in range(256)).encode(), np.uint8).reshape(256, 2)
#: The most digits that fit into an int64.
_INT64_DIGITS = 18


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a column: where each begins in `data` (ascending, also for NULL), how long it is, and whether it is one.

    `data` has PADDING at its end.
    """

    data: _Bytes
    starts: Ints
    lengths: Ints
    valid: _Bools

    def take(self, which: npt.NDArray[Any]) -> Fields:
        """Some of them, in their order."""
        return Fields(self.data, self.starts[which], self.lengths[which], self.valid[which])


def integers(data: _Bytes, starts: Ints, width: int) -> Ints:
    """The big-endian integers of 2, 4 or 8 bytes that begin there."""
    raw = data[starts[:, None] + np.arange(width)]
    return np.ascontiguousarray(raw).view(f">i{width}").reshape(len(starts)).astype(np.int64)


def decoded(fields: Fields, type_: SqlType, *, version_byte: bool = False) -> pa.Array:
    """A column of the Arrow type of `type_`; of `jsonb` each field begins with the format's version.

    Raises DataError for a value that the type can't have, such as NaN as DECIMAL.
    """
    if version_byte:
        fields = Fields(
            fields.data,
            fields.starts + fields.valid,
            np.where(fields.valid, fields.lengths - 1, 0),
            fields.valid,
        )
    found = _DECODERS.get(type_.kind)
    if found is None:
        raise InternalError(f"no PostgreSQL field is read as {type_}")
    return found(fields, type_)


def _mask(fields: Fields) -> pa.Buffer | None:
    return None if fields.valid.all() else pa.py_buffer(np.packbits(fields.valid, bitorder="little"))


def _raw(fields: Fields, width: int) -> _Bytes:
    """The bytes of fields of fixed width, a row each; whatever stands there for NULL."""
    if not bool(np.all(fields.lengths[fields.valid] == width)):
        raise InternalError(f"a field of PostgreSQL is not {width} bytes long")
    starts = np.where(fields.valid, fields.starts, 0)
    return np.ascontiguousarray(fields.data[starts[:, None] + np.arange(width)])


def _numbers(fields: Fields, stored: str) -> npt.NDArray[Any]:
    width = int(stored[-1])
    found = _raw(fields, width).view(stored).reshape(len(fields.starts))
    return found.astype(found.dtype.newbyteorder("="))


def _array(values: npt.NDArray[Any], fields: Fields, type_: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(
        type_, len(values), [_mask(fields), pa.py_buffer(np.ascontiguousarray(values))]
    )


def _fixed(stored: str, type_: pa.DataType) -> Callable[[Fields, SqlType], pa.Array]:
    def decode(fields: Fields, _: SqlType) -> pa.Array:
        return _array(_numbers(fields, stored), fields, type_)

    return decode


def _boolean(fields: Fields, _: SqlType) -> pa.Array:
    bits = pa.py_buffer(np.packbits(_raw(fields, 1).reshape(-1) != 0, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(fields.starts), [_mask(fields), bits])


def _variable(fields: Fields, type_: pa.DataType) -> pa.Array:
    """Values as they are: a binary array over the whole block, of which each other element is a gap."""
    count = len(fields.starts)
    if not count:
        return pa.array([], type_)
    offsets = np.empty(2 * count, np.int64)
    offsets[0::2] = fields.starts
    offsets[1::2] = fields.starts + np.where(fields.valid, fields.lengths, 0)
    if offsets[-1] > np.iinfo(np.int32).max:
        raise InternalError("a block of rows has more than 2 GiB")
    whole = pa.Array.from_buffers(
        pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(fields.data)]
    )
    places = pa.array(np.arange(0, 2 * count, 2), mask=~fields.valid)
    return whole.take(places).cast(type_)


def _text(fields: Fields, _: SqlType) -> pa.Array:
    return _variable(fields, pa.string())


def _bytes(fields: Fields, _: SqlType) -> pa.Array:
    return _variable(fields, pa.binary())


def _uuid(fields: Fields, _: SqlType) -> pa.Array:
    digits = _HEX[_raw(fields, 16)].reshape(len(fields.starts), 32)
    text = np.full((len(fields.starts), 36), ord("-"), np.uint8)
    text[:, 0:8], text[:, 9:13], text[:, 14:18] = digits[:, 0:8], digits[:, 8:12], digits[:, 12:16]
    text[:, 19:23], text[:, 24:36] = digits[:, 16:20], digits[:, 20:32]
    offsets = np.arange(len(text) + 1, dtype=np.int32) * 36
    buffers = [_mask(fields), pa.py_buffer(offsets), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.string(), len(text), buffers)


def _since_1970(stored: str, shift: int, type_: pa.DataType) -> Callable[[Fields, SqlType], pa.Array]:
    """Times since 2000; PostgreSQL's infinities are DuckDB's."""

    def decode(fields: Fields, _: SqlType) -> pa.Array:
        values = _numbers(fields, stored)
        most, least = np.iinfo(values.dtype).max, np.iinfo(values.dtype).min
        endless = (values == most) | (values == least)
        if np.any(fields.valid & ~endless & (values > most - shift)):
            raise DataError("a time of PostgreSQL is after the year 294246, which a TIMESTAMP can't be")
        with np.errstate(over="ignore"):
            shifted = values + values.dtype.type(shift)
        shifted = np.where(values == most, most, np.where(values == least, -most, shifted))
        return _array(shifted.astype(values.dtype), fields, type_)

    return decode


def _interval(fields: Fields, _: SqlType) -> pa.Array:
    parts = _raw(fields, 16).view([("us", ">i8"), ("days", ">i4"), ("months", ">i4")]).reshape(-1)
    us = parts["us"].astype(np.int64)
    if np.any(fields.valid & (np.abs(us) > np.iinfo(np.int64).max // 1000)):
        raise DataError(
            "an interval of PostgreSQL has more than 292 years of hours, which can't be read here"
        )
    made = np.empty(len(parts), [("months", "<i4"), ("days", "<i4"), ("ns", "<i8")])
    made["months"], made["days"], made["ns"] = parts["months"], parts["days"], us * 1000
    return _array(made.view("V16"), fields, pa.month_day_nano_interval())


def _decimal(fields: Fields, type_: SqlType) -> pa.Array:
    """Digits in base 10000 with the weight of the first, a sign and the digits after the point, as a whole number."""
    precision, scale = max(type_.precision or 0, 1), type_.scale or 0
    starts = np.where(fields.valid, fields.starts, 0)
    head = [integers(fields.data, starts + at, 2) for at in (0, 2, 4)]
    count, weight, sign = (np.where(fields.valid, one, 0) for one in head)
    if np.any((sign & 0xFFFF) >= 0xC000):
        raise DataError(f"a numeric of PostgreSQL is NaN or infinite, which a {type_} can't be")
    wide = precision > _INT64_DIGITS
    values: npt.NDArray[Any] = np.zeros(len(starts), object if wide else np.int64)
    for place in range(int(count.max(initial=0))):
        there = np.flatnonzero(count > place)
        digits = integers(fields.data, starts[there] + 8 + 2 * place, 2)
        exponents = 4 * (weight[there] - place) + scale
        for exponent in np.unique(exponents):
            of = exponents == exponent
            some: npt.NDArray[Any] = digits[of].astype(object) if wide else digits[of]
            power = int(exponent)
            values[there[of]] += some * 10**power if power >= 0 else some // 10**-power
    values = np.where(sign & 0x4000, -values, values)
    type_made = pa.decimal128(precision, scale)
    if wide:
        made = b"".join(int(one).to_bytes(16, "little", signed=True) for one in values)
        return pa.Array.from_buffers(type_made, len(values), [_mask(fields), pa.py_buffer(made)])
    limbs = np.empty((len(values), 2), np.int64)
    limbs[:, 0] = values
    limbs[:, 1] = limbs[:, 0] >> 63
    return pa.Array.from_buffers(type_made, len(values), [_mask(fields), pa.py_buffer(limbs)])


def cast_to(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """A column as a wider type."""
    return column if column.type == type_ else pc.cast(column, type_)


_DECODERS: dict[Kind, Callable[[Fields, SqlType], pa.Array]] = {
    Kind.BOOLEAN: _boolean,
    Kind.SMALLINT: _fixed(">i2", pa.int16()),
    Kind.INTEGER: _fixed(">i4", pa.int32()),
    Kind.BIGINT: _fixed(">i8", pa.int64()),
    Kind.FLOAT: _fixed(">f4", pa.float32()),
    Kind.DOUBLE: _fixed(">f8", pa.float64()),
    Kind.DECIMAL: _decimal,
    Kind.VARCHAR: _text,
    Kind.JSON: _text,
    Kind.BLOB: _bytes,
    Kind.UUID: _uuid,
    Kind.DATE: _since_1970(">i4", _DAYS, pa.date32()),
    Kind.TIME: _fixed(">i8", pa.time64("us")),
    Kind.TIMESTAMP: _since_1970(">i8", _MICROSECONDS, pa.timestamp("us")),
    Kind.TIMESTAMPTZ: _since_1970(">i8", _MICROSECONDS, pa.timestamp("us", tz="UTC")),
    Kind.INTERVAL: _interval,
}
