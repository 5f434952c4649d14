"""The bytes that rows are kept by in ranked state: their place in an ORDER BY, and a digest of the whole row.

The `sort` bytes of a row are those of each order column, one after the other: a byte for NULL (0 where NULLs
come first, 2 where they come last) or not (1), and then the value as in `key_bytes`, every bit inverted where
the order is descending. Like key bytes no `sort` is a prefix of another, so their order is that of the rows.
Inside a nested value NULLs come first, unlike in DuckDB: do not rely on the order of such columns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from sqlstream_operators.plan.equal_values import distinguishing, has_equals
from sqlstream_operators.plan.schema import Schema, column_of
from sqlstream_operators.plan.top_n_spec import Ordering
from sqlstream_operators.plan.types import Kind, SqlType, quote_identifier

from .arrow_types import conform, to_arrow
from .binary import U8, from_list, from_matrix, from_offsets, parts
from .fields import encode_fields
from .key_bytes import Piece, decode_keys, encode_keys, encode_pieces, join_pieces, to_bytes

#: Bytes of a row's digest: among 2**48 rows of one partition and place two collide once in 2**33 times.
DIGEST_BYTES = 16

_FIRST, _VALUE, _LAST = 0, 1, 2


def sort_keys(rows: pa.Table, order: Sequence[Ordering], columns: Schema) -> pa.Array:
    """The `sort` bytes of each row (Arrow binary); empty ones where there is no order.

    Raises ArrowInvalid if a value does not fit its column's type, KeyError for an unknown column.

    >>> from sqlstream_operators.plan.schema import Column
    >>> from sqlstream_operators.plan.types import VARCHAR
    >>> rows = pa.table({"a": ["x", None]})
    >>> [key.as_py().hex() for key in sort_keys(rows, [Ordering("a", True)], (Column("a", VARCHAR),))]
    ['0187ffff', '02']
    """
    if not rows.num_rows:
        return pa.array([], pa.binary())
    pieces: list[Piece] = [np.zeros((rows.num_rows, 0), np.uint8)]
    for term in order:
        column = column_of(columns, term.column)
        array = conform(rows.column(term.column), to_arrow(column.type))
        flags, *body = encode_pieces([array], [column.type])
        null = _FIRST if term.nulls_first else _LAST
        pieces.append(np.where(np.asarray(flags) == 0, np.uint8(null), np.uint8(_VALUE)))
        if body:
            pieces += [_inverted(join_pieces(body))] if term.descending else body
    keys = join_pieces(pieces)
    return (from_matrix(keys) if isinstance(keys, np.ndarray) else keys).cast(pa.binary())


def _inverted(piece: U8 | pa.Array) -> Piece:
    if isinstance(piece, np.ndarray):
        return ~piece
    offsets, data = parts(piece)  # what was joined has no NULLs
    return from_offsets(offsets, ~data)


def row_digests(rows: pa.Table, columns: Schema) -> list[bytes]:
    """A digest (`DIGEST_BYTES`) of each row over at least one column, equal for rows that are the same.

    Rows that SQL calls equal are distinguished if they are not: 0.0 and -0.0, a month and 30 days. It depends on the
    order of `columns`, not on their names. Raises ArrowInvalid if a value does not fit its type.
    """
    if not rows.num_rows:
        return []
    encoded = encode_keys([rows.column(c.name) for c in columns], [c.type for c in columns])
    for number, column in enumerate(columns):
        if has_equals(column.type):
            array = conform(rows.column(column.name), to_arrow(column.type))
            for at, exactly in _unlike_keys(array, column.type):
                encoded[at] += number.to_bytes(4, "big") + exactly
    blake2b = hashlib.blake2b
    return [blake2b(row, digest_size=DIGEST_BYTES).digest() for row in encoded]


def _unlike_keys(array: pa.Array, type_: SqlType) -> Iterator[tuple[int, bytes]]:
    """The rows whose values keys have in another form (0.0 for -0.0), each with bytes of exactly the value."""
    if type_.kind in (Kind.FLOAT, Kind.DOUBLE):
        values = array.to_numpy(zero_copy_only=False)
        for at in np.flatnonzero((values == 0) & np.signbit(values)).tolist():
            yield at, b"-0"
        return
    [canonical] = decode_keys(encode_keys([array], [type_]), [type_])
    ours, theirs = (to_bytes(encode_fields([values], [type_])) for values in (array, canonical))
    for at, (exactly, as_key) in enumerate(zip(ours, theirs, strict=True)):
        if exactly != as_key:
            yield at, exactly


def digest_array(digests: Sequence[bytes]) -> pa.Array:
    """Digests as an Arrow binary array."""
    return from_list(digests).cast(pa.binary())


def order_sql(order: Sequence[Ordering], names: dict[str, str] | None = None) -> list[str]:
    """The terms of an ORDER BY as DuckDB SQL; `names` gives SQL for columns that are not called as in `order`."""
    return [
        f"{_sql(term.column, names)} {'DESC' if term.descending else 'ASC'} "
        f"NULLS {'FIRST' if term.nulls_first else 'LAST'}"
        for term in order
    ]


def tie_sql(
    order: Sequence[Ordering],
    columns: Schema,
    partition: Sequence[str] = (),
    names: dict[str, str] | None = None,
) -> list[str]:
    """The further ORDER BY terms that decide between rows of a partition that are equal in `order`."""
    decided = {term.column for term in order} | set(partition)
    terms = [f"{_sql(c.name, names)} ASC NULLS FIRST" for c in columns if c.name not in decided]
    equal = [c for c in columns if has_equals(c.type) and c.name not in partition]
    return [*terms, *(f"{distinguishing(_sql(c.name, names), c.type)} DESC" for c in equal)]


def _sql(name: str, names: dict[str, str] | None) -> str:
    return quote_identifier(name) if names is None else names[name]
