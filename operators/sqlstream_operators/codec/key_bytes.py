"""Keys as bytes whose order (memcmp) is the order of SQL, NULLS FIRST.

Each value is one byte, 0 for NULL and 1 otherwise, and then:

- integers, DATE, TIME, TIMESTAMP, DECIMAL, HUGEINT: big-endian, sign bit flipped (DECIMAL up to 18 digits
  in 8 bytes,
  else 16); BOOLEAN one byte; FLOAT and DOUBLE: the bits, flipped so that they sort, -0.0 as 0.0, one NaN,
  the greatest; INTERVAL: its length in µs, a month as 30 days (which come back as days). A NULL has as
  many zero bytes.
- TIME WITH TIME ZONE and ENUM: the number that they are ordered by (`numbered_text`), in 8 and 4 bytes.
- VARCHAR, BLOB, UUID, JSON, BIT: the bytes with 00 written as 00 FF, then 00 00. NULL has none.
- STRUCT: its fields one after the other (all NULL under a NULL). ARRAY, MAP: each element behind a byte 1,
  then a 0.

Every encoding is a prefix of no other, so keys can be followed by sub-keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.plan.types import ROWS, Kind, SqlType

from .arrow_types import conform, to_arrow
from .binary import (
    BYTES,
    I64,
    U8,
    as_list,
    bitmap,
    fixed,
    from_list,
    from_matrix,
    from_offsets,
    gather,
    interval_micros,
    join,
    list_lengths,
    parts,
    slices,
    valid,
)
from .numbered_text import is_numbered, numbers_of, texts_of

_NUL, _ESCAPED, _END = b"\x00", b"\x00\xff", b"\x00\x00"
_DAY = 86_400_000_000

_INTEGER_WIDTHS: dict[Kind, tuple[int, bool]] = {
    Kind.TINYINT: (1, True),
    Kind.SMALLINT: (2, True),
    Kind.INTEGER: (4, True),
    Kind.BIGINT: (8, True),
    Kind.UTINYINT: (1, False),
    Kind.USMALLINT: (2, False),
    Kind.UINTEGER: (4, False),
    Kind.UBIGINT: (8, False),
    Kind.DATE: (4, True),
    Kind.TIME: (8, True),
    Kind.TIMESTAMP: (8, True),
    Kind.TIMESTAMPTZ: (8, True),
    Kind.TIMESTAMP_NS: (8, True),
    Kind.TIMETZ: (8, False),
    Kind.ENUM: (4, False),
}
_STRINGS = (Kind.VARCHAR, Kind.BLOB, Kind.UUID, Kind.JSON, Kind.BIT)
_PAIR = np.dtype([("low", "<u8"), ("high", "<u8")])
_INTERVAL = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])
_TOP = np.uint64(1 << 63)


def encode_keys(columns: Sequence[pa.Array | pa.ChunkedArray], types: Sequence[SqlType]) -> list[bytes]:
    """The key bytes of each row of at least one column; raises ArrowInvalid if a value does not fit its type.

    >>> from sqlstream_operators.plan.types import INTEGER
    >>> [key.hex() for key in encode_keys([pa.array([None, -1, 1], pa.int32())], [INTEGER])]
    ['0000000000', '017fffffff', '0180000001']
    """
    arrays = [conform(column, to_arrow(type_)) for column, type_ in zip(columns, types, strict=True)]
    return to_bytes(join_pieces(encode_pieces(arrays, types)))


def decode_keys(keys: Sequence[bytes], types: Sequence[SqlType]) -> list[pa.Array]:
    """The columns that `encode_keys` was given, up to SQL's equality; raises ValueError on other bytes."""
    joined = from_list(keys)
    offsets, data = parts(joined)
    columns, ends = decode_columns(data, offsets[:-1], offsets[1:], types)
    if not np.array_equal(ends, offsets[1:]):
        raise ValueError("key bytes are longer than their types")
    return columns


Piece: TypeAlias = U8 | pa.Array | pa.Scalar


def to_bytes(keys: U8 | pa.Array) -> list[bytes]:
    """A matrix or binary array as a list of bytes."""
    if isinstance(keys, np.ndarray):
        n, width = keys.shape
        if width == 0:
            return [b""] * n
        listed: list[bytes] = np.ascontiguousarray(keys).view(f"V{width}").ravel().tolist()
        return listed
    values: list[bytes] = keys.to_pylist()
    return values


def join_pieces(pieces: Sequence[Piece]) -> U8 | pa.Array:
    """Neighbouring pieces joined row by row: one matrix if all are fixed-width, else a binary array."""
    merged: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, np.ndarray) and merged and isinstance(merged[-1], np.ndarray):
            merged[-1] = np.concatenate([merged[-1], piece], axis=1)
        else:
            merged.append(piece)
    if len(merged) == 1 and isinstance(merged[0], np.ndarray):
        return merged[0]
    return join([from_matrix(piece) if isinstance(piece, np.ndarray) else piece for piece in merged])


def encode_pieces(arrays: Sequence[pa.Array], types: Sequence[SqlType]) -> list[Piece]:
    """The encodings of columns of the right Arrow type, each as matrices and binary arrays to be joined."""
    pieces: list[Piece] = []
    for array, type_ in zip(arrays, types, strict=True):
        pieces.extend(_encode(array, type_))
    return pieces


def _flags(array: pa.Array) -> tuple[U8, npt.NDArray[np.bool_] | None]:
    present = valid(array)
    flags = np.ones((len(array), 1), np.uint8)
    if present is not None:
        flags[:, 0] = present
    return flags, present


def _encode(array: pa.Array, type_: SqlType) -> list[Piece]:
    flags, present = _flags(array)
    if type_.kind is Kind.NULL:
        return [np.zeros((len(array), 1), np.uint8)]
    if type_.kind in _STRINGS:
        return [flags, *_encode_strings(array, present)]
    if type_.kind in ROWS:
        fields = [field for _, field in type_.fields]
        return [flags, *encode_pieces(array.flatten(), fields)]
    if type_.kind in (Kind.ARRAY, Kind.MAP):
        return [flags, *_encode_lists(array, type_, present)]
    body = _encode_fixed(array, type_)
    if present is not None:
        body[~present] = 0
    return [flags, body]


def _encode_strings(array: pa.Array, present: npt.NDArray[np.bool_] | None) -> list[Piece]:
    plain = array.cast(BYTES)
    offsets, data = parts(plain)
    if len(data) and bool((data[offsets[0] : offsets[-1]] == 0).any()):
        plain = pc.replace_substring(plain, _NUL, _ESCAPED)
    if present is None:
        return [plain, pa.scalar(_END, BYTES)]
    ends = pa.array([b"", _END], BYTES).take(pa.array(present.astype(np.int8)))
    return [plain, ends]


def element_type(type_: SqlType) -> SqlType:
    """The type of the elements of an ARRAY, or of the entries of a MAP."""
    if type_.element is not None:
        return type_.element
    assert type_.key is not None
    assert type_.value is not None
    return SqlType(Kind.STRUCT, fields=(("key", type_.key), ("value", type_.value)))


def _encode_lists(array: pa.Array, type_: SqlType, present: npt.NDArray[np.bool_] | None) -> list[Piece]:
    lists = as_list(array)
    lengths = list_lengths(lists)
    values = lists.flatten()
    marker = np.ones((len(values), 1), np.uint8)
    element = element_type(type_)
    arrow = to_arrow(element)
    encoded = join_pieces([marker, *_encode(values if values.type == arrow else values.cast(arrow), element)])
    if isinstance(encoded, np.ndarray):
        encoded = from_matrix(encoded)
    inner, data = parts(encoded)
    outer = np.concatenate([[0], np.cumsum(lengths)])
    ends = np.zeros((len(array), 1), np.uint8)
    pieces: list[Piece] = [from_offsets(inner[outer], data)]
    if present is None:
        return [*pieces, ends]
    return [*pieces, pa.array([b"", b"\x00"], BYTES).take(pa.array(present.astype(np.int8)))]


def _big_endian(values: npt.NDArray[np.uint64], width: int) -> U8:
    swapped = values.astype(f">u{width}")
    return swapped.view(np.uint8).reshape(len(values), width)


def _encode_fixed(array: pa.Array, type_: SqlType) -> U8:
    kind = type_.kind
    if kind is Kind.BOOLEAN:
        return fixed(array.cast(pa.uint8()), np.uint8).reshape(-1, 1).copy()
    if kind in _INTEGER_WIDTHS:
        width, signed = _INTEGER_WIDTHS[kind]
        values = fixed(numbers_of(array, type_) if is_numbered(type_) else array, f"<u{width}")
        return _big_endian(values ^ values.dtype.type(1 << (8 * width - 1)) if signed else values, width)
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        width = 4 if kind is Kind.FLOAT else 8
        floats = fixed(array, f"<f{width}") + np.dtype(f"f{width}").type(0)
        floats[np.isnan(floats)] = np.nan
        bits = floats.view(f"<u{width}")
        top = bits.dtype.type(1 << (8 * width - 1))
        return _big_endian(np.where(bits & top, ~bits, bits | top), width)
    if kind is Kind.INTERVAL:
        return _big_endian(interval_micros(array).view(np.uint64) ^ _TOP, 8)
    pairs = fixed(array, _PAIR)
    low, high = pairs["low"], pairs["high"]
    if _is_short_decimal(type_):
        return _big_endian(low ^ _TOP, 8)
    return np.concatenate([_big_endian(high ^ _TOP, 8), _big_endian(low, 8)], axis=1)


def _is_short_decimal(type_: SqlType) -> bool:
    return type_.kind is Kind.DECIMAL and type_.precision is not None and type_.precision <= 18


def _fixed_width(type_: SqlType) -> int:
    kind = type_.kind
    if kind in _INTEGER_WIDTHS:
        return _INTEGER_WIDTHS[kind][0]
    widths = {
        Kind.BOOLEAN: 1,
        Kind.FLOAT: 4,
        Kind.DOUBLE: 8,
        Kind.INTERVAL: 8,
        Kind.HUGEINT: 16,
        Kind.NULL: 0,
    }
    return widths[kind] if kind in widths else 8 if _is_short_decimal(type_) else 16


def decode_columns(
    data: U8, starts: I64, limits: I64, types: Sequence[SqlType]
) -> tuple[list[pa.Array], I64]:
    """Decode one value of each type from `starts` on, reading no further than `limits`; and where each row
    ended.

    The rows must lie in ascending order in `data`.
    """
    columns = []
    for type_ in types:
        column, starts = _decode(data, starts, limits, type_)
        columns.append(column)
    return columns, starts


def _bad() -> ValueError:
    return ValueError("key bytes do not have their types")


def _decode(data: U8, starts: I64, limits: I64, type_: SqlType) -> tuple[pa.Array, I64]:
    n = len(starts)
    if n == 0:
        return pa.array([], to_arrow(type_)), starts
    if bool((starts >= limits).any()):
        raise _bad()
    flags = data[starts]
    if bool((flags > 1).any()):
        raise _bad()
    present = flags.astype(bool)
    starts = starts + 1
    if type_.kind in _STRINGS:
        return _decode_strings(data, starts, limits, present, type_)
    if type_.kind in ROWS:
        children, ends = decode_columns(data, starts, limits, [field for _, field in type_.fields])
        fields = list(to_arrow(type_))
        return pa.StructArray.from_arrays(children, fields=fields, mask=pa.array(~present)), ends
    if type_.kind in (Kind.ARRAY, Kind.MAP):
        return _decode_lists(data, starts, limits, present, type_)
    width = _fixed_width(type_)
    ends = starts + width
    if bool((ends > limits).any()):
        raise _bad()
    return _decode_fixed(gather(data, starts, width), present, type_), ends


def _decode_fixed(matrix: U8, present: npt.NDArray[np.bool_], type_: SqlType) -> pa.Array:
    kind, n = type_.kind, len(matrix)
    if kind is Kind.NULL:
        return pa.nulls(n)
    matrix = np.ascontiguousarray(matrix)
    arrow = to_arrow(type_)
    values: npt.NDArray[np.generic]
    if kind is Kind.BOOLEAN:
        return pa.array(matrix[:, 0].astype(bool), arrow, mask=~present)
    if kind in _INTEGER_WIDTHS:
        width, signed = _INTEGER_WIDTHS[kind]
        unsigned = matrix.view(f">u{width}").ravel().astype(f"<u{width}")
        values = unsigned ^ unsigned.dtype.type(1 << (8 * width - 1)) if signed else unsigned
    elif kind in (Kind.FLOAT, Kind.DOUBLE):
        width = matrix.shape[1]
        bits = matrix.view(f">u{width}").ravel().astype(f"<u{width}")
        top = bits.dtype.type(1 << (8 * width - 1))
        values = np.where(bits & top, bits ^ top, ~bits)
    elif kind is Kind.INTERVAL:
        micros = (matrix.view(">u8").ravel().astype(np.uint64) ^ _TOP).view(np.int64)
        intervals = np.zeros(n, _INTERVAL)
        # Days and no months, as the difference of two times has them. Towards zero: -1 second is that, and not
        # -1 day, 23:59:59.
        rest = np.fmod(micros, _DAY)
        intervals["days"] = (micros - rest) // _DAY
        intervals["nanos"] = rest * 1000
        values = intervals
    else:
        pairs = np.zeros(n, _PAIR)
        words = matrix.view(">u8").astype(np.uint64)
        pairs["low"] = words[:, -1] ^ _TOP if words.shape[1] == 1 else words[:, 1]
        first = (words[:, 0] ^ _TOP).view(np.int64)
        pairs["high"] = (first >> 63 if words.shape[1] == 1 else first).view(np.uint64)
        values = pairs
    if is_numbered(type_):
        return texts_of(values, present, type_)
    mask = bitmap(None if present.all() else present)
    return pa.Array.from_buffers(arrow, n, [mask, pa.py_buffer(values)])


def _decode_strings(
    data: U8, starts: I64, limits: I64, present: npt.NDArray[np.bool_], type_: SqlType
) -> tuple[pa.Array, I64]:
    zeros = np.flatnonzero(data == 0)
    zeros = np.append(zeros, len(data) + 2)
    stops = starts.copy()
    looking = np.flatnonzero(present)
    cursor = starts[looking]
    escaped = False
    while len(looking):
        at = zeros[np.searchsorted(zeros, cursor)]
        if bool((at + 1 >= limits[looking]).any()):
            raise _bad()
        follows = data[at + 1]
        if bool(((follows != 0) & (follows != 0xFF)).any()):
            raise _bad()
        ended = follows == 0
        stops[looking[ended]] = at[ended]
        looking, cursor = looking[~ended], at[~ended] + 2
        escaped = escaped or len(looking) > 0
    values = slices(data, starts, stops)
    if escaped:
        values = pc.replace_substring(values, _ESCAPED, _NUL)
    ends = np.where(present, stops + 2, starts)
    if not present.all():
        values = pc.if_else(pa.array(present), values, pa.scalar(None, BYTES))
    return values.cast(to_arrow(type_)), ends


def _decode_lists(
    data: U8, starts: I64, limits: I64, present: npt.NDArray[np.bool_], type_: SqlType
) -> tuple[pa.Array, I64]:
    element = element_type(type_)
    cursor, rows = starts.copy(), np.flatnonzero(present)
    found: list[pa.Array] = []
    owners: list[npt.NDArray[np.int64]] = []
    while len(rows):
        if bool((cursor[rows] >= limits[rows]).any()):
            raise _bad()
        markers = data[cursor[rows]]
        if bool((markers > 1).any()):
            raise _bad()
        cursor[rows] += 1
        rows = rows[markers == 1]
        if len(rows):
            values, cursor[rows] = _decode(data, cursor[rows], limits[rows], element)
            found.append(values)
            owners.append(rows)
    arrow = to_arrow(type_)
    flat = pa.concat_arrays(found) if found else pa.array([], to_arrow(element))
    owner = np.concatenate(owners) if owners else np.zeros(0, np.int64)
    flat = flat.take(pa.array(np.argsort(owner, kind="stable")))
    lengths = np.bincount(owner, minlength=len(starts))
    return build_lists(arrow, lengths, flat, present), cursor


def build_lists(
    arrow: pa.DataType, lengths: I64, flat: pa.Array, present: npt.NDArray[np.bool_] | None
) -> pa.Array:
    """A list or map array from the length of each and the values (a map's: key-value structs) of all."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if len(offsets) and offsets[-1] > np.iinfo(np.int32).max:
        raise ValueError("more than 2**31 list elements in one table")
    mask = bitmap(None if present is None or present.all() else present)
    if pa.types.is_map(arrow):
        entries = pa.struct([arrow.key_field, arrow.item_field])
        flat = pa.StructArray.from_arrays(flat.flatten(), fields=list(entries))
    return pa.Array.from_buffers(
        arrow, len(lengths), [mask, pa.py_buffer(offsets.astype(np.int32))], children=[flat]
    )
