"""Rows of fields as bytes, and their columns: what values of state are made of.

A row of fields is::

    null bitmap (bit i of byte i // 8 is set if field i is NULL)
    the fixed-width fields, little-endian, in order; a NULL as zeros (DECIMAL up to 18 digits in 8 bytes)
    for each other field the length of its bytes, 4 bytes
    the bytes of the other fields: VARCHAR, BLOB, UUID, JSON as they are; a STRUCT as a row of its fields;
    an ARRAY or MAP as its count (4 bytes), the length of each element (4 bytes each), and each element as a
    row of one field

So the offsets of a whole column are found by adding columns of lengths, and no value is looked at on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.errors import StateError
from sqlstream_operators.plan.types import ROWS, Kind, SqlType

from .arrow_types import to_arrow
from .binary import (
    BYTES,
    I64,
    U8,
    as_list,
    bitmap,
    fixed,
    from_matrix,
    from_offsets,
    gather,
    join,
    list_lengths,
    parts,
    ragged,
    slices,
    valid,
)
from .key_bytes import build_lists, element_type

Bools: TypeAlias = npt.NDArray[np.bool_]

_WIDTHS: dict[Kind, int] = {
    Kind.BOOLEAN: 1,
    Kind.TINYINT: 1,
    Kind.SMALLINT: 2,
    Kind.INTEGER: 4,
    Kind.BIGINT: 8,
    Kind.HUGEINT: 16,
    Kind.UTINYINT: 1,
    Kind.USMALLINT: 2,
    Kind.UINTEGER: 4,
    Kind.UBIGINT: 8,
    Kind.FLOAT: 4,
    Kind.DOUBLE: 8,
    Kind.DATE: 4,
    Kind.TIME: 8,
    Kind.TIMESTAMP: 8,
    Kind.TIMESTAMPTZ: 8,
    Kind.TIMESTAMP_NS: 8,
    Kind.INTERVAL: 16,
    Kind.NULL: 0,
}
_PAIR = np.dtype([("low", "<u8"), ("high", "<i8")])


def bad_value() -> StateError:
    """What is raised for bytes that no value has."""
    return StateError("a value of state is not well formed")


def fixed_width(type_: SqlType) -> int | None:
    """How many bytes a value of the type has; None if that differs."""
    if type_.kind is Kind.DECIMAL:
        return 8 if type_.precision is not None and type_.precision <= 18 else 16
    return _WIDTHS.get(type_.kind)


def lengths_bytes(lengths: I64) -> U8:
    """Lengths as 4 bytes each, a row of a matrix; raises ValueError for one of 4 GiB or more."""
    if len(lengths) and int(lengths.max()) > 0xFFFFFFFF:
        raise ValueError("a value of state is longer than 4 GiB")
    return lengths.astype("<u4").view(np.uint8).reshape(len(lengths), 4)


def encode_fields(
    columns: Sequence[pa.Array], types: Sequence[SqlType], head: U8 | None = None
) -> U8 | pa.Array:
    """The rows of some columns, each behind its row of `head`, as a matrix or binary array."""
    n = len(columns[0]) if columns else len(head) if head is not None else 0
    presents = [present_in(column, type_) for column, type_ in zip(columns, types, strict=True)]
    nulls = null_bitmaps(presents, n)
    pieces: list[U8] = [nulls] if head is None else [head, nulls]
    tail: list[pa.Array] = []
    for column, type_, present in zip(columns, types, presents, strict=True):
        if fixed_width(type_) is not None:
            pieces.append(fixed_bytes(column, type_, present))
        else:
            tail.append(variable_bytes(column, type_, present))
    lengths = [lengths_bytes(np.diff(parts(bytes_)[0])) for bytes_ in tail]
    matrix = np.concatenate([*pieces, *lengths], axis=1)
    return join([from_matrix(matrix), *tail]) if tail else matrix


def present_in(column: pa.Array, type_: SqlType) -> Bools | None:
    """Which values are not NULL; None if all are."""
    return valid(column) if type_.kind is not Kind.NULL else np.zeros(len(column), bool)


def null_bitmaps(presents: Sequence[Bools | None], n: int) -> U8:
    """The null bitmaps of n rows, given which values of each field are not NULL (None: all)."""
    nulls = np.zeros((n, (len(presents) + 7) // 8), np.uint8)
    for i, present in enumerate(presents):
        if present is not None:
            nulls[:, i // 8] |= (~present).astype(np.uint8) << np.uint8(i % 8)
    return nulls


def is_null(bitmaps: U8, field: int) -> Bools:
    """Which rows are NULL in a field, as `null_bitmaps` has it."""
    found: Bools = (bitmaps[:, field // 8] >> np.uint8(field % 8)) & np.uint8(1) != 0
    return found


def fixed_bytes(column: pa.Array, type_: SqlType, present: Bools | None) -> U8:
    """The bytes of a column of fixed width, zeros where it is not `present`."""
    body = _fixed_bytes(column, type_)
    return body if present is None else body * present[:, None].astype(np.uint8)


def _fixed_bytes(column: pa.Array, type_: SqlType) -> U8:
    width = fixed_width(type_)
    assert width is not None
    if width == 0:
        return np.zeros((len(column), 0), np.uint8)
    if type_.kind is Kind.BOOLEAN:
        column = column.cast(pa.uint8())
    if type_.kind is Kind.DECIMAL and width == 8:
        low = np.ascontiguousarray(fixed(column, _PAIR)["low"])
        return low.view(np.uint8).reshape(-1, 8)
    return fixed(column, f"V{width}").view(np.uint8).reshape(-1, width)


def variable_bytes(column: pa.Array, type_: SqlType, present: Bools | None) -> pa.Array:
    """The bytes of a column of any other type, none where it is not `present`."""
    bytes_ = _variable_bytes(column, type_)
    if present is None:
        return bytes_
    return pc.if_else(pa.array(present), bytes_, pa.scalar(b"", BYTES))


def _variable_bytes(column: pa.Array, type_: SqlType) -> pa.Array:
    if type_.kind in ROWS:
        return as_array(encode_fields(column.flatten(), [field for _, field in type_.fields]))
    if type_.kind in (Kind.ARRAY, Kind.MAP):
        lists = as_list(column)
        counts = list_lengths(lists)
        values, element = lists.flatten(), element_type(type_)
        arrow = to_arrow(element)
        encoded = as_array(encode_fields([values if values.type == arrow else values.cast(arrow)], [element]))
        inner, data = parts(encoded)
        outer = np.concatenate([[0], np.cumsum(counts)])
        sizes = from_offsets(outer * 4, lengths_bytes(np.diff(inner)).ravel())
        return join([from_matrix(lengths_bytes(counts)), sizes, from_offsets(inner[outer], data)])
    return column.cast(BYTES)


def as_array(encoded: U8 | pa.Array) -> pa.Array:
    """A matrix or binary array as a binary array."""
    return from_matrix(encoded) if isinstance(encoded, np.ndarray) else encoded


def decode_fields(data: U8, starts: I64, limits: I64, types: Sequence[SqlType]) -> list[pa.Array]:
    """The columns of rows between `starts` and `limits`; raises StateError if they are not well formed."""
    widths = [fixed_width(type_) for type_ in types]
    bitmap_width = (len(types) + 7) // 8
    variable = [i for i, width in enumerate(widths) if width is None]
    body = bitmap_width + sum(width for width in widths if width is not None)
    total = body + 4 * len(variable)
    if bool((starts + total > limits).any()):
        raise bad_value()
    matrix = gather(data, starts, total)
    sizes = np.ascontiguousarray(matrix[:, body:]).view("<u4").astype(np.int64)
    columns: list[pa.Array] = []
    at, end = bitmap_width, starts + total
    for i, (type_, width) in enumerate(zip(types, widths, strict=True)):
        present = ~is_null(matrix, i)
        if width is not None:
            columns.append(fixed_array(matrix[:, at : at + width], present, type_))
            at += width
            continue
        begin, end = end, end + sizes[:, variable.index(i)]
        if bool((end > limits).any()):
            raise bad_value()
        columns.append(variable_array(data, begin, end, present, type_))
    if not np.array_equal(end, limits):
        raise bad_value()
    return columns


def fixed_array(matrix: U8, present: Bools, type_: SqlType) -> pa.Array:
    """The column of what `fixed_bytes` gave."""
    n, arrow = len(matrix), to_arrow(type_)
    if type_.kind is Kind.NULL:
        return pa.nulls(n)
    if type_.kind is Kind.BOOLEAN:
        return pa.array(matrix[:, 0] != 0, arrow, mask=None if present.all() else ~present)
    buffer: npt.NDArray[np.generic] = np.ascontiguousarray(matrix)
    if type_.kind is Kind.DECIMAL and matrix.shape[1] == 8:
        low = buffer.view("<i8").ravel()
        pairs = np.zeros(n, _PAIR)
        pairs["low"], pairs["high"] = low.view(np.uint64), low >> 63
        buffer = pairs
    return pa.Array.from_buffers(arrow, n, [bitmap(None if present.all() else present), pa.py_buffer(buffer)])


def variable_array(data: U8, starts: I64, ends: I64, present: Bools, type_: SqlType) -> pa.Array:
    """The column whose bytes lie between `starts` and `ends`, in ascending order."""
    arrow = to_arrow(type_)
    if type_.kind in ROWS:
        children = _decode_present(data, starts, ends, present, [field for _, field in type_.fields])
        return pa.StructArray.from_arrays(children, fields=list(arrow), mask=pa.array(~present))
    if type_.kind in (Kind.ARRAY, Kind.MAP):
        return _list_array(data, starts, ends, present, type_)
    values = slices(data, starts, ends)
    if not present.all():
        offsets, content = parts(values)
        buffers = [bitmap(present), pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(content)]
        values = pa.LargeBinaryArray.from_buffers(BYTES, len(starts), buffers)
    return values.cast(arrow)


def _decode_present(
    data: U8, starts: I64, ends: I64, present: Bools, types: Sequence[SqlType]
) -> list[pa.Array]:
    if present.all():
        return decode_fields(data, starts, ends, types)
    rows = np.flatnonzero(present)
    dense = decode_fields(data, starts[rows], ends[rows], types)
    index = np.where(present, np.cumsum(present) - 1, 0)
    spread = pa.array(index, pa.int64(), mask=~present)
    return [column.take(spread) for column in dense]


def _list_array(data: U8, starts: I64, ends: I64, present: Bools, type_: SqlType) -> pa.Array:
    counts = np.zeros(len(starts), np.int64)
    rows = np.flatnonzero(present)
    if len(rows):
        if bool((starts[rows] + 4 > ends[rows]).any()):
            raise bad_value()
        heads = np.ascontiguousarray(gather(data, starts[rows], 4))
        counts[rows] = heads.view("<u4").ravel()
    if bool((starts + 4 * (present + counts) > ends).any()):
        raise bad_value()
    cells = ragged(np.zeros(len(counts), np.int64), counts)
    owners = np.repeat(np.arange(len(counts)), counts)
    sizes = np.ascontiguousarray(gather(data, starts[owners] + 4 + 4 * cells, 4)).view("<u4").ravel()
    sizes = sizes.astype(np.int64)
    before = np.cumsum(sizes) - sizes
    # Where the elements of each row begin, counted in bytes of all elements before it.
    first = np.concatenate([[0], np.cumsum(counts)])[:-1]
    base = np.append(before, sizes.sum())[first]
    begin = starts[owners] + 4 + 4 * counts[owners] + before - base[owners]
    used = np.bincount(owners, weights=sizes, minlength=len(counts)).astype(np.int64)
    if not np.array_equal(starts + 4 * (present + counts) + used, ends):
        raise bad_value()
    flat = decode_fields(data, begin, begin + sizes, [element_type(type_)])[0] if len(begin) else None
    if flat is None:
        flat = pa.array([], to_arrow(element_type(type_)))
    return build_lists(to_arrow(type_), counts, flat, present)
