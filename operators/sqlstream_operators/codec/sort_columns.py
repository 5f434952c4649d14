"""Sort columns: columns as numbers whose order is the order of SQL, so that numpy sorts and groups rows by them.

A column has one or two sort columns (which of its values are NULL, and the values), the first the most significant:
rows are equal in SQL if all their sort columns are, and less if the first that differ are. `np.lexsort` takes them
(least first).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.plan.schema import Schema, column_of
from sqlstream_operators.plan.top_n_spec import Ordering
from sqlstream_operators.plan.types import Kind, SqlType

from .arrow_types import conform, to_arrow
from .binary import BYTES, fixed, from_matrix, valid
from .key_bytes import encode_pieces, join_pieces
from .numbered_text import is_numbered, numbers_of

SortColumn = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

_NUMBERS: dict[Kind, str] = {
    Kind.TINYINT: "<i1",
    Kind.SMALLINT: "<i2",
    Kind.INTEGER: "<i4",
    Kind.BIGINT: "<i8",
    Kind.UTINYINT: "<u1",
    Kind.USMALLINT: "<u2",
    Kind.UINTEGER: "<u4",
    Kind.UBIGINT: "<u8",
    Kind.DATE: "<i4",
    Kind.TIME: "<i8",
    Kind.TIMESTAMP: "<i8",
    Kind.TIMESTAMPTZ: "<i8",
    Kind.TIMESTAMP_NS: "<i8",
}
_TEXT = frozenset({Kind.VARCHAR, Kind.BLOB, Kind.BIT})
_FLOATS = {Kind.FLOAT: "4", Kind.DOUBLE: "8"}


def order_columns(rows: pa.Table, order: Sequence[Ordering], columns: Schema) -> list[SortColumn] | None:
    """The sort columns of an ORDER BY, or None where a column's type has none (nested, INTERVAL, wide numbers).

    >>> from sqlstream_operators.plan.schema import Column
    >>> from sqlstream_operators.plan.types import BIGINT
    >>> [column] = order_columns(pa.table({"a": [5, 7]}), [Ordering("a", True)], [Column("a", BIGINT)])
    >>> bool(column[1] < column[0])
    True
    """
    sort_columns: list[SortColumn] = []
    for term in order:
        type_ = column_of(columns, term.column).type
        array = conform(rows.column(term.column), to_arrow(type_))
        present = valid(array)
        values = _ordered(array, type_)
        if values is None:
            return None
        values = ~values if term.descending else values
        if present is not None:
            sort_columns.append(present if term.nulls_first else ~present)
            values = np.where(present, values, values.dtype.type(0))
        sort_columns.append(values)
    return sort_columns


def group_columns(rows: pa.Table, columns: Schema) -> list[SortColumn]:
    """The sort columns of a GROUP BY: equal for rows that are equal in all columns, in some order."""
    sort_columns: list[SortColumn] = []
    for column in columns:
        array = conform(rows.column(column.name), to_arrow(column.type))
        if column.type.kind in _NUMBERS:
            present = valid(array)
            values = fixed(array, _NUMBERS[column.type.kind])
            if present is not None:
                sort_columns.append(present)
                values = np.where(present, values, values.dtype.type(0))
            sort_columns.append(values)
            continue
        if column.type.kind not in _TEXT:
            joined = join_pieces(encode_pieces([array], [column.type]))
            array = from_matrix(joined) if isinstance(joined, np.ndarray) else joined
        codes = pc.dictionary_encode(array, null_encoding="encode").indices
        sort_columns.append(fixed(codes, "<i4"))
    return sort_columns


def sort_order(sort_columns: Sequence[SortColumn], rows: int) -> npt.NDArray[np.int64]:
    """The numbers of `rows` rows in the order of their sort columns, equal rows as they stand."""
    if not sort_columns:
        return np.arange(rows)
    return np.lexsort(tuple(reversed(sort_columns)))


def run_starts(sort_columns: Sequence[SortColumn], order: npt.NDArray[np.int64]) -> Mask:
    """For rows in an order, whether a run of equal rows starts at each: it differs from the one before, or is the first."""
    differs = np.zeros(len(order), bool)
    differs[:1] = True
    for column in sort_columns:
        there = column[order]
        differs[1:] |= there[1:] != there[:-1]
    return differs


def _ordered(array: pa.Array, type_: SqlType) -> SortColumn | None:
    """Numbers in the order of the values; what stands at NULLs is arbitrary."""
    kind = type_.kind
    if kind in _NUMBERS:
        return fixed(array, _NUMBERS[kind])
    if is_numbered(type_):
        return fixed(numbers_of(array, type_).cast(pa.uint64()), "<u8")
    if kind is Kind.BOOLEAN:
        return fixed(array.cast(pa.uint8()), np.uint8)
    if kind is Kind.DECIMAL and type_.precision is not None and type_.precision <= 18:
        return fixed(array, np.dtype([("low", "<i8"), ("high", "<i8")]))["low"]
    if kind in _FLOATS:
        width = _FLOATS[kind]
        floats = fixed(array, f"<f{width}") + np.dtype(f"f{width}").type(0)  # -0.0 + 0.0 is 0.0
        floats[np.isnan(floats)] = np.nan
        bits = floats.view(f"<u{width}")
        top = bits.dtype.type(1 << (8 * int(width) - 1))
        flipped: SortColumn = np.where(bits & top, ~bits, bits | top)
        return flipped
    if kind in _TEXT:
        encoded = pc.dictionary_encode(array.cast(BYTES), null_encoding="encode")
        # A few texts that come again, or all different: the dictionary is sorted, the rows are not.
        ranks = np.empty(len(encoded.dictionary), np.int64)
        ranks[pc.array_sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(ranks))
        found: SortColumn = ranks[fixed(encoded.indices, "<i4")]
        return found
    return None
