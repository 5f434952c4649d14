"""Columns as numbers whose order is the order of SQL, so that numpy sorts and groups rows by them.

The *words* of a column are one or two arrays of numbers, the first the most significant: rows are equal in SQL
if all their words are, and less if the first words that differ are. `np.lexsort` takes them (least first).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.plan.changelog_spec import Ordering, column_of
from sqlstream_operators.plan.schema import Schema
from sqlstream_operators.plan.types import Kind, SqlType

from .arrow_types import conform, to_arrow
from .binary import BYTES, fixed, from_matrix, valid
from .key_bytes import encode_pieces, join_pieces

Word = npt.NDArray[Any]
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
}
_TEXT = frozenset({Kind.VARCHAR, Kind.BLOB})
_FLOATS = {Kind.FLOAT: "4", Kind.DOUBLE: "8"}


def order_words(rows: pa.Table, order: Sequence[Ordering], columns: Schema) -> list[Word] | None:
    """The words of an ORDER BY, or None where a column's type has none (nested, INTERVAL, wide numbers).

    >>> from sqlstream_operators.plan.schema import Column
    >>> from sqlstream_operators.plan.types import BIGINT
    >>> [word] = order_words(pa.table({"a": [5, 7]}), [Ordering("a", True)], [Column("a", BIGINT)])
    >>> bool(word[1] < word[0])
    True
    """
    words: list[Word] = []
    for term in order:
        type_ = column_of(columns, term.column).type
        array = conform(rows.column(term.column), to_arrow(type_))
        present = valid(array)
        values = _ordered(array, type_)
        if values is None:
            return None
        values = ~values if term.descending else values
        if present is not None:
            words.append(present if term.nulls_first else ~present)
            values = np.where(present, values, values.dtype.type(0))
        words.append(values)
    return words


def key_words(rows: pa.Table, columns: Schema) -> list[Word]:
    """The words of a GROUP BY: equal for rows that are equal in all columns, in some order."""
    words: list[Word] = []
    for column in columns:
        array = conform(rows.column(column.name), to_arrow(column.type))
        if column.type.kind in _NUMBERS:
            present = valid(array)
            values = fixed(array, _NUMBERS[column.type.kind])
            if present is not None:
                words.append(present)
                values = np.where(present, values, values.dtype.type(0))
            words.append(values)
            continue
        if column.type.kind not in _TEXT:
            joined = join_pieces(encode_pieces([array], [column.type]))
            array = from_matrix(joined) if isinstance(joined, np.ndarray) else joined
        codes = pc.dictionary_encode(array, null_encoding="encode").indices
        words.append(fixed(codes, "<i4"))
    return words


def sorted_by(words: Sequence[Word], rows: int) -> npt.NDArray[np.int64]:
    """The places of `rows` rows in the order of their words, equal rows as they stand."""
    if not words:
        return np.arange(rows)
    return np.lexsort(tuple(reversed(words)))


def changes(words: Sequence[Word], order: npt.NDArray[np.int64]) -> Mask:
    """For rows in an order, whether each differs from the one before; the first does."""
    differs = np.zeros(len(order), bool)
    differs[:1] = True
    for word in words:
        there = word[order]
        differs[1:] |= there[1:] != there[:-1]
    return differs


def _ordered(array: pa.Array, type_: SqlType) -> Word | None:
    """Numbers in the order of the values; what stands at NULLs is arbitrary."""
    kind = type_.kind
    if kind in _NUMBERS:
        return fixed(array, _NUMBERS[kind])
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
        flipped: Word = np.where(bits & top, ~bits, bits | top)
        return flipped
    if kind in _TEXT:
        encoded = pc.dictionary_encode(array.cast(BYTES), null_encoding="encode")
        # A few texts that come again, or all different: the dictionary is sorted, the rows are not.
        ranks = np.empty(len(encoded.dictionary), np.int64)
        ranks[pc.array_sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(ranks))
        found: Word = ranks[fixed(encoded.indices, "<i4")]
        return found
    return None
