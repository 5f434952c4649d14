"""The random and sequence generators of single columns, one function a family of types.

Each returns a `Column`, whose values are a function of its key and of the rows' counters, and of nothing
else.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream.connectors.generators import arrays
from sqlstream.connectors.generators.randomness import (
    I64,
    U64,
    Bool,
    big_ints,
    characters,
    happens,
    stream_key,
    uniform_doubles,
    uniform_ints,
    words,
)

_HEX = b"0123456789abcdef"
_DAY_MS = 86_400_000
_INTERVAL = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanoseconds", "<i8")])


@dataclass(frozen=True, slots=True)
class Rows:
    """What values are made of: a counter for each row (or element), and the row's time in ms since 1970."""

    counters: U64
    now_ms: I64


#: Makes the values of some rows; the mask is true where the value is not null (None: everywhere).
Maker = Callable[[Rows, Bool | None], pa.Array]


@dataclass(frozen=True, slots=True)
class Column:
    """One generator: its Arrow type, about how many bytes a value takes, and how values are made."""

    key: int
    type: pa.DataType
    bytes: int
    make: Maker
    null_rate: float = 0.0

    def values(self, rows: Rows) -> pa.Array:
        """One value for each row, null with probability `null_rate`."""
        present = None
        if self.null_rate > 0:
            present = ~happens(stream_key(self.key, "null"), rows.counters, self.null_rate)
        return self.make(rows, present)


def booleans(key: int, null_rate: float) -> Column:
    """True or false, equally likely."""

    def make(rows: Rows, present: Bool | None) -> pa.Array:
        bits = (words(key, rows.counters) >> np.uint64(63)).astype(np.bool_)
        return pa.array(bits, mask=None if present is None else ~present)

    return Column(key, pa.bool_(), 1, make, null_rate)


def integers(key: int, null_rate: float, type_: pa.DataType, low: int, high: int) -> Column:
    """Integers uniform in [low, high] of a type of up to 64 bits."""
    dtype = type_.to_pandas_dtype()

    def make(rows: Rows, present: Bool | None) -> pa.Array:
        # Unsigned values above 2^63 come as negative ones with the same bits; the cast restores them.
        return arrays.fixed(uniform_ints(key, rows.counters, low, high).astype(dtype), type_, present)

    return Column(key, type_, 8, make, null_rate)


def decimals(key: int, null_rate: float, type_: pa.DataType, low: int, high: int) -> Column:
    """Decimals whose unscaled values are uniform in [low, high]."""

    def make(rows: Rows, present: Bool | None) -> pa.Array:
        if low >= -(1 << 63) and high < 1 << 63:
            return decimal_array(uniform_ints(key, rows.counters, low, high), type_, present)
        raw = b"".join(
            value.to_bytes(16, "little", signed=True) for value in big_ints(key, rows.counters, low, high)
        )
        return arrays.fixed(np.frombuffer(raw, dtype="V16"), type_, present)

    return Column(key, type_, 16, make, null_rate)


def floats(key: int, null_rate: float, type_: pa.DataType, low: float, high: float) -> Column:
    """Floating point numbers uniform in [low, high)."""
    dtype = type_.to_pandas_dtype()

    def make(rows: Rows, present: Bool | None) -> pa.Array:
        part = uniform_doubles(key, rows.counters)
        # high - low may overflow, so the bounds are weighed; rounding may leave them by a bit, so clip.
        values = np.clip(low * (1.0 - part) + high * part, low, high)
        return arrays.fixed(values.astype(dtype), type_, present)

    return Column(key, type_, 8, make, null_rate)


def texts(
    key: int, null_rate: float, type_: pa.DataType, length: int, varies: bool, quote: bool = False
) -> Column:
    """Hexadecimal strings (or bytes) of `length` characters, or 1 to `length`; in JSON's quotes if `quote`."""
    as_text = pa.types.is_string(type_)

    def make(rows: Rows, present: Bool | None) -> pa.Array:
        lengths = np.full(len(rows.counters), length, dtype=np.int64)
        if varies:
            lengths = uniform_ints(stream_key(key, "length"), rows.counters, 1, length)
        if present is not None:
            lengths = np.where(present, lengths, 0)
        data = characters(key, rows.counters, lengths, _HEX if as_text else bytes(range(256)))
        made = arrays.variable(data, lengths, type_, present)
        if quote:
            return pa.array([None if value is None else f'"{value}"' for value in made.to_pylist()], type_)
        return made

    return Column(key, type_, max(length, 4), make, null_rate)


def uuids(key: int, null_rate: float) -> Column:
    """Random UUIDs (version 4) as text."""

    def make(rows: Rows, present: Bool | None) -> pa.Array:
        top = words(stream_key(key, "top"), rows.counters).tolist()
        bottom = words(stream_key(key, "bottom"), rows.counters).tolist()
        made = [str(uuid.UUID(int=(t << 64) | b, version=4)) for t, b in zip(top, bottom, strict=True)]
        return pa.array(made, pa.string(), mask=None if present is None else ~present)

    return Column(key, pa.string(), 36, make, null_rate)


def timestamps(key: int, null_rate: float, type_: pa.DataType, max_past_ms: int) -> Column:
    """The row's time, less a random time below `max_past_ms`; whole milliseconds."""

    def make(rows: Rows, present: Bool | None) -> pa.Array:
        times = rows.now_ms
        if max_past_ms > 0:
            times = times - uniform_ints(key, rows.counters, 0, max_past_ms - 1)
        return arrays.fixed(times * 1000, type_, present)

    return Column(key, type_, 8, make, null_rate)


def dates(key: int, null_rate: float) -> Column:
    """The date of the row's time."""

    def make(rows: Rows, present: Bool | None) -> pa.Array:
        return arrays.fixed((rows.now_ms // _DAY_MS).astype(np.int32), pa.date32(), present)

    return Column(key, pa.date32(), 4, make, null_rate)


def times(key: int, null_rate: float) -> Column:
    """The time of day of the row's time, in whole milliseconds."""

    def make(rows: Rows, present: Bool | None) -> pa.Array:
        return arrays.fixed(rows.now_ms % _DAY_MS * 1000, pa.time64("us"), present)

    return Column(key, pa.time64("us"), 8, make, null_rate)


def intervals(key: int, null_rate: float, low_ms: int, high_ms: int) -> Column:
    """Intervals of days and milliseconds, uniform in [low_ms, high_ms]."""

    def make(rows: Rows, present: Bool | None) -> pa.Array:
        length = uniform_ints(key, rows.counters, low_ms, high_ms)
        values = np.zeros(len(length), dtype=_INTERVAL)
        values["days"] = length // _DAY_MS
        values["nanoseconds"] = length % _DAY_MS * 1_000_000
        return arrays.fixed(values, pa.month_day_nano_interval(), present)

    return Column(key, pa.month_day_nano_interval(), 16, make, null_rate)


def rows_of(key: int, null_rate: float, names: Sequence[str], columns: Sequence[Column]) -> Column:
    """Structs of these fields."""
    type_ = pa.struct([pa.field(name, column.type) for name, column in zip(names, columns, strict=True)])

    def make(rows: Rows, present: Bool | None) -> pa.Array:
        children = [column.values(rows) for column in columns]
        if present is not None:
            # A field of a null struct is null too, so that no reader can see a value there.
            index = pa.array(np.arange(len(present)), mask=~present)
            children = [child.take(index) for child in children]
        return arrays.structs(list(names), children, present, len(rows.counters))

    return Column(key, type_, sum(column.bytes for column in columns), make, null_rate)


def lists(key: int, null_rate: float, element: Column, length: int) -> Column:
    """Arrays of `length` elements."""
    type_ = pa.list_(element.type)

    def make(rows: Rows, present: Bool | None) -> pa.Array:
        lengths = np.full(len(rows.counters), length, dtype=np.int64)
        if present is not None:
            lengths = np.where(present, lengths, 0)
        made = element.values(_elements(key, rows, present, length))
        buffers = [arrays.validity(present), pa.py_buffer(arrays.offsets(lengths))]
        return pa.Array.from_buffers(type_, len(lengths), buffers, children=[made])

    return Column(key, type_, 4 + length * element.bytes, make, null_rate)


def maps(key: int, null_rate: float, keys: Column, values: Column, length: int) -> Column:
    """Maps of `length` random entries; of equal keys the first stays, so a map may be smaller."""
    type_ = pa.map_(keys.type, values.type)

    def make(rows: Rows, present: Bool | None) -> pa.Array:
        elements = _elements(key, rows, present, length)
        made_keys, made_values = keys.values(elements), values.values(elements)
        owners = np.repeat(_present_rows(rows, present), length)
        keep = _first_of_equal(owners, made_keys)
        lengths = np.bincount(owners[keep], minlength=len(rows.counters)).astype(np.int64)
        children = [made_keys.take(pa.array(keep)), made_values.take(pa.array(keep))]
        # A map's keys must be declared non-nullable.
        entry = pa.struct([pa.field("key", keys.type, nullable=False), pa.field("value", values.type)])
        entries = pa.Array.from_buffers(entry, len(keep), [None], children=children)
        buffers = [arrays.validity(present), pa.py_buffer(arrays.offsets(lengths))]
        return pa.Array.from_buffers(type_, len(lengths), buffers, children=[entries])

    return Column(key, type_, 4 + length * (keys.bytes + values.bytes), make, null_rate)


def sequence_integers(key: int, type_: pa.DataType, start: int) -> Column:
    """start, start + 1, … by row number, as integers or floating point numbers."""
    dtype = type_.to_pandas_dtype()

    def make(rows: Rows, present: Bool | None) -> pa.Array:
        return arrays.fixed(_sequence(rows, start).astype(dtype), type_, present)

    return Column(key, type_, 8, make)


def sequence_decimals(key: int, type_: pa.DataType, start: int) -> Column:
    """start, start + 1, … by row number, as decimals."""
    unit = 10**type_.scale

    def make(rows: Rows, present: Bool | None) -> pa.Array:
        raw = b"".join(
            (v * unit).to_bytes(16, "little", signed=True) for v in _sequence(rows, start).tolist()
        )
        return arrays.fixed(np.frombuffer(raw, dtype="V16"), type_, present)

    return Column(key, type_, 16, make)


def sequence_texts(key: int, start: int) -> Column:
    """start, start + 1, … by row number, as decimal digits."""

    def make(rows: Rows, _: Bool | None) -> pa.Array:
        return pa.array(_sequence(rows, start)).cast(pa.string())

    return Column(key, pa.string(), 20, make)


def sequence_bytes(key: int, start: int) -> Column:
    """start, start + 1, … by row number, as 8 bytes each, the highest first (as Flink has them)."""

    def make(rows: Rows, present: Bool | None) -> pa.Array:
        values = _sequence(rows, start)
        lengths = np.full(len(values), 8, dtype=np.int64)
        return arrays.variable(values.astype(">i8").view(np.uint8), lengths, pa.binary(), present)

    return Column(key, pa.binary(), 8, make)


def decimal_array(unscaled: I64, type_: pa.DataType, present: Bool | None) -> pa.Array:
    """Decimals (128 bits) from unscaled values that fit 64 bits."""
    halves: npt.NDArray[np.int64] = np.empty((len(unscaled), 2), dtype="<i8")
    halves[:, 0] = unscaled
    halves[:, 1] = unscaled >> 63
    return arrays.fixed(halves.view("V16").reshape(-1), type_, present)


def _sequence(rows: Rows, start: int) -> I64:
    return rows.counters.astype(np.int64) + start


def _present_rows(rows: Rows, present: Bool | None) -> I64:
    """The positions of the rows that are not null."""
    return np.arange(len(rows.counters)) if present is None else np.flatnonzero(present)


def _elements(key: int, rows: Rows, present: Bool | None, length: int) -> Rows:
    """The elements of collections with `length` elements, as rows of their own; none for null collections."""
    owners = _present_rows(rows, present)
    roots = words(stream_key(key, "elements"), rows.counters[owners])
    steps: U64 = np.arange(length, dtype=np.uint64)
    counters: U64 = np.add.outer(roots, steps).reshape(-1)
    return Rows(counters, np.repeat(rows.now_ms[owners], length))


def _first_of_equal(owners: I64, keys: pa.Array) -> I64:
    """The positions, ascending, of each key's first occurrence within its owner."""
    if pa.types.is_nested(keys.type) or pa.types.is_interval(keys.type):
        # Arrow can't encode these; they are rare as keys.
        keys = pa.array([repr(value) for value in keys.to_pylist()], pa.string())
    encoded = keys.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    _, first = np.unique(owners * (len(encoded.dictionary) + 1) + codes, return_index=True)
    return np.sort(first)
