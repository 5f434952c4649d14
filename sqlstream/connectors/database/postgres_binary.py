"""Rows in the binary format of PostgreSQL's COPY, a batch of Arrow columns at a time.

A row is the number of its fields as an int16, and each field its length as an int32 (-1 for NULL) and its bytes, all
big-endian; source: https://www.postgresql.org/docs/current/sql-copy.html and the `…recv` functions of the types. Fields
are made a column at a time with numpy, put together by Arrow; no Python per row. The server reads this in half the
time that text takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.connectors.database.postgres_types import AS_TEXT, as_json, postgres_type
from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.spec import Column
from sqlstream_operators.plan.types import Kind, SqlType, quote_identifier

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"

#: Days and µs from 1970 to 2000, where PostgreSQL counts from.
_DAYS = 10_957
_MICROSECONDS = _DAYS * 86_400_000_000
_Bytes = npt.NDArray[np.uint8]
_Valid = npt.NDArray[np.bool_] | None
#: Makes the fields of a column, each with its length before it, as a binary array without NULLs.
_Encode = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True, slots=True)
class Field:
    """A column on its way into COPY: its name, the SQL that DuckDB computes for it, and how its fields are made."""

    name: str
    sql: str
    encode: _Encode


def field_of(column: Column, there: str) -> Field:
    """How to write `column` to one of the PostgreSQL type `there`, as `format_type` gives it."""
    value = quote_identifier(column.name)
    if there == "jsonb":
        return Field(column.name, as_json(value, column.type), _json)
    return Field(column.name, _sql(value, column.type), _encoder(column.type, there))


def encoded(batch: pa.RecordBatch, fields: Sequence[Field]) -> memoryview:
    """The rows of a batch, whose columns are those of `fields`, as COPY reads them."""
    columns = [field.encode(column) for field, column in zip(fields, batch.columns, strict=True)]
    count = pa.array([len(fields).to_bytes(2, "big")] * batch.num_rows, pa.binary())
    rows = pc.binary_join_element_wise(count, *columns, b"")
    return _data(rows)


def _sql(value: str, type_: SqlType) -> str:
    """DuckDB SQL of what the encoder of a type takes."""
    if type_.kind is Kind.UUID:
        return f"unhex(replace(CAST({value} AS VARCHAR), '-', ''))"
    if type_.element is not None:
        inside = _sql("e", type_.element)
        return value if inside == "e" else f"list_transform({value}, lambda e: {inside})"
    if type_.kind in (Kind.NULL, *AS_TEXT):
        return f"CAST({value} AS VARCHAR)"
    return value


def _encoder(type_: SqlType, there: str) -> _Encode:
    if type_.element is not None:
        inner = postgres_type(type_.element)
        return _array(_encoder(type_.element, inner), _OIDS[inner.partition("(")[0]])
    base = there.partition("(")[0]
    if base == "numeric":
        return _numeric
    found = _ENCODERS.get(base)
    if found is None:
        raise InternalError(f"no binary form of the PostgreSQL type {there} for {type_}")
    return found


# ---------------------------------------------------------------------------------------------------- fields


def _valid(column: pa.Array) -> _Valid:
    if not column.null_count:
        return None
    return np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False))


def _values(column: pa.Array, type_: str) -> npt.NDArray[Any]:
    """The values of a column of fixed width; whatever stands there for NULLs."""
    width = np.dtype(type_)
    return np.frombuffer(column.buffers()[1], width, count=column.offset + len(column))[column.offset :]


def _binary(lengths: npt.NDArray[np.int32], data: npt.NDArray[Any]) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.Array.from_buffers(
        pa.binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    )


def _data(column: pa.Array) -> memoryview:
    """The bytes of all values of a binary array, one after the other: Arrow holds them like that."""
    if not len(column):
        return memoryview(b"")
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32)
    return memoryview(data)[ends[column.offset] : ends[column.offset + len(column)]]


def _fields(values: npt.NDArray[Any], valid: _Valid) -> pa.Array:
    """Fields of fixed width: `values` has one item for each, in PostgreSQL's byte order."""
    size = values.dtype.itemsize
    rows = np.empty(len(values), [("length", ">i4"), ("value", values.dtype)])
    rows["length"] = size
    rows["value"] = values
    raw: _Bytes = rows.view(np.uint8).reshape(len(values), 4 + size)
    if valid is None:
        return _binary(np.full(len(values), 4 + size, np.int32), raw)
    raw[~valid, :4] = 0xFF
    keep = np.ones(raw.shape, bool)
    keep[~valid, 4:] = False
    return _binary(np.where(valid, 4 + size, 4).astype(np.int32), raw[keep])


def _fixed(source: str, target: str) -> _Encode:
    def encode(column: pa.Array) -> pa.Array:
        return _fields(_values(column, source).astype(target), _valid(column))

    return encode


def _number(target: str) -> _Encode:
    def encode(column: pa.Array) -> pa.Array:
        return _fields(_values(column, _NUMPY[column.type]).astype(target), _valid(column))

    return encode


def _boolean(column: pa.Array) -> pa.Array:
    return _fields(_values(column.cast(pa.uint8()), "u1"), _valid(column))


def _since_2000(source: str, target: str, shift: int) -> _Encode:
    """Times since 1970; DuckDB's infinities are PostgreSQL's, and what it can't count to is out of range there too."""
    most = np.iinfo(source).max
    least = np.iinfo(source).min

    def encode(column: pa.Array) -> pa.Array:
        values = _values(column, source)
        with np.errstate(over="ignore"):
            shifted = np.where(values < least + shift, least + 1, values - values.dtype.type(shift))
        shifted[values == most] = most
        shifted[values == -most] = least
        return _fields(shifted.astype(target), _valid(column))

    return encode


def _interval(column: pa.Array) -> pa.Array:
    parts = _values(column, "V16").view([("months", "<i4"), ("days", "<i4"), ("ns", "<i8")])
    made = np.empty(len(parts), [("us", ">i8"), ("days", ">i4"), ("months", ">i4")])
    made["us"], made["days"], made["months"] = parts["ns"] // 1000, parts["days"], parts["months"]
    return _fields(made.view("V16"), _valid(column))


def _bytes(column: pa.Array) -> pa.Array:
    return _prefixed(column.cast(pa.binary()), b"")


def _json(column: pa.Array) -> pa.Array:
    return _prefixed(column.cast(pa.binary()), b"\x01")  # the version of the format


def _prefixed(column: pa.Array, before: bytes) -> pa.Array:
    """Fields of any length; each value that is not NULL has `before` in front."""
    valid = _valid(column)
    lengths = pc.fill_null(pc.binary_length(column), -1 - len(before)).to_numpy() + len(before)
    heads = _binary(np.full(len(column), 4, np.int32), lengths.astype(">i4"))
    values = pc.fill_null(column, b"")
    if not before:
        return pc.binary_join_element_wise(heads, values, b"")
    sizes = np.full(len(column), len(before), np.int32) if valid is None else valid * np.int32(len(before))
    marks = _binary(sizes.astype(np.int32), np.frombuffer(before * int(np.count_nonzero(sizes)), np.uint8))
    return pc.binary_join_element_wise(heads, marks, values, b"")


def _numeric(column: pa.Array) -> pa.Array:
    """Numbers as digits in base 10000 with the weight of the first, a sign and the digits after the point."""
    scale = column.type.scale if pa.types.is_decimal(column.type) else 0
    values, valid = _unscaled(column), _valid(column)
    if valid is not None:
        values = np.where(valid, values, 0)
    negative = values < 0
    rest = np.abs(values)
    if rest.dtype == np.int64:
        rest = rest.view(np.uint64)  # also of the least, whose absolute value is no int64
    after = -(-scale // 4)
    digits: list[npt.NDArray[Any]] = []
    for group in range(after):
        missing = 4 * after - scale if group == 0 else 0
        unit = 10 ** (4 - missing)
        digits.append(rest % unit * 10**missing)
        rest = rest // unit
    while len(digits) == after or np.any(rest != 0):
        digits.append(rest % 10_000)
        rest = rest // 10_000
    made = np.empty((len(values), 4 + len(digits)), ">i2")
    made[:, 0] = len(digits)
    made[:, 1] = len(digits) - after - 1
    made[:, 2] = np.where(negative, 0x4000, 0)
    made[:, 3] = scale
    for position, digit in enumerate(reversed(digits)):
        made[:, 4 + position] = digit.astype(np.int16)
    return _fields(made.view(f"V{made.itemsize * made.shape[1]}").reshape(len(values)), valid)


def _unscaled(column: pa.Array) -> npt.NDArray[Any]:
    """Numbers without their point: as int64 or uint64 where all fit, else as Python's."""
    if not pa.types.is_decimal(column.type):
        values = _values(column, _NUMPY[column.type])
        return values if values.dtype == np.uint64 else values.astype(np.int64)
    limbs = _values(column, "V16").view([("low", "<i8"), ("high", "<i8")])
    low, high = limbs["low"], limbs["high"]
    fits = high == low >> 63
    valid = _valid(column)
    if np.all(fits if valid is None else fits | ~valid):
        return low.astype(np.int64)
    return np.asarray((high.astype(object) << 64) + low.view(np.uint64).astype(object))


def _array(element: _Encode, oid: int) -> _Encode:
    """One-dimensional arrays: dimensions, flags, type of the elements, their number, the first index, the elements."""

    def encode(column: pa.Array) -> pa.Array:
        valid = _valid(column)
        counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
        fields = element(pc.list_flatten(column))
        ends = np.zeros(len(column) + 1, np.int64)
        np.cumsum(counts, out=ends[1:])
        offsets = np.frombuffer(fields.buffers()[1], np.int32)[fields.offset :]
        starts = offsets[ends] if len(fields) else np.zeros(len(column) + 1, np.int32)
        sizes = np.diff(starts).astype(np.int32)
        heads = np.empty((len(column), 6), ">i4")
        heads[:, 0] = np.where(counts > 0, 20, 12) + sizes
        heads[:, 1], heads[:, 2], heads[:, 3] = counts > 0, 0, oid
        heads[:, 4], heads[:, 5] = counts, 1
        lengths = np.where(counts > 0, 24, 16)
        if valid is not None:
            heads[~valid, 0] = -1
            lengths[~valid] = 4
        raw = heads.view(np.uint8).reshape(len(column), 24)
        kept = raw[np.arange(24)[None, :] < lengths[:, None]]
        return pc.binary_join_element_wise(
            _binary(lengths.astype(np.int32), kept),
            _binary(sizes, np.frombuffer(_data(fields), np.uint8)),
            b"",
        )

    return encode


_NUMPY = {
    pa.int8(): "i1",
    pa.int16(): "<i2",
    pa.int32(): "<i4",
    pa.int64(): "<i8",
    pa.uint8(): "u1",
    pa.uint16(): "<u2",
    pa.uint32(): "<u4",
    pa.uint64(): "<u8",
    pa.float32(): "<f4",
    pa.float64(): "<f8",
}
_ENCODERS: dict[str, _Encode] = {
    "boolean": _boolean,
    "smallint": _number(">i2"),
    "integer": _number(">i4"),
    "bigint": _number(">i8"),
    "real": _number(">f4"),
    "double precision": _number(">f8"),
    "text": _bytes,
    "character varying": _bytes,
    "bytea": _bytes,
    "date": _since_2000("<i4", ">i4", _DAYS),
    "time without time zone": _fixed("<i8", ">i8"),
    "timestamp without time zone": _since_2000("<i8", ">i8", _MICROSECONDS),
    "timestamp with time zone": _since_2000("<i8", ">i8", _MICROSECONDS),
    "interval": _interval,
    "uuid": _bytes,
}
_OIDS = {
    "boolean": 16,
    "bytea": 17,
    "bigint": 20,
    "smallint": 21,
    "integer": 23,
    "text": 25,
    "real": 700,
    "double precision": 701,
    "date": 1082,
    "time without time zone": 1083,
    "timestamp without time zone": 1114,
    "timestamp with time zone": 1184,
    "interval": 1186,
    "numeric": 1700,
    "uuid": 2950,
}
