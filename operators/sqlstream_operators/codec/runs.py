"""Values of state that hold many rows as columns: what is written once, and read whole.

A run is the id of the fields it was written with, plus `RUNS` (varint), the number of rows (4 bytes), and then of all rows
one after the other, field by field as in a value of one row (see `rows`)::

    the null bitmaps
    each fixed-width field
    the lengths of each other field, 4 bytes per row
    the bytes of each other field

Where the columns of a run lie follows from its number of rows and its lengths, so runs are cut out of columns and put
together to columns without a look at a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from sqlstream_operators.plan.state_schema import StateField
from sqlstream_operators.plan.types import SqlType

from .arrow_types import conform, to_arrow
from .binary import I64, U8, from_matrix, from_offsets, gather, join, parts, ragged, slices
from .fields import (
    bad_value,
    fixed_array,
    fixed_bytes,
    fixed_width,
    is_null,
    lengths_bytes,
    null_bitmaps,
    present_in,
    variable_array,
    variable_bytes,
)
from .rows import decode_rows_at, fields_of, projected, read_ids, varint

#: Ids from here on say that a value is a run; no state has known so many schemas.
RUNS = 1 << 14


def encode_runs(table: pa.Table, sizes: I64, fields: Sequence[StateField], version: int = 0) -> pa.Array:
    """Runs of the first sizes[0] rows of `table`, the next sizes[1], and so on; at least one, each of at least one row."""
    columns = [conform(table.column(field.name), to_arrow(field.type)) for field in fields]
    ends = np.concatenate([[0], np.cumsum(sizes)])
    head = np.frombuffer(varint(version + RUNS), np.uint8)
    heads = np.broadcast_to(head, (len(sizes), len(head)))
    pieces = [from_matrix(np.concatenate([heads, lengths_bytes(np.asarray(sizes, np.int64))], axis=1))]

    def add(matrix: U8) -> None:
        pieces.append(from_offsets(ends * matrix.shape[1], np.ascontiguousarray(matrix).ravel()))

    presents = [present_in(column, field.type) for column, field in zip(columns, fields, strict=True)]
    add(null_bitmaps(presents, table.num_rows))
    tail = []
    for column, present, field in zip(columns, presents, fields, strict=True):
        if fixed_width(field.type) is not None:
            add(fixed_bytes(column, field.type, present))
        else:
            tail.append(parts(variable_bytes(column, field.type, present)))
    for offsets, _ in tail:
        add(lengths_bytes(np.diff(offsets)))
    pieces += [from_offsets(offsets[ends], data) for offsets, data in tail]
    return join(pieces)


def decode_stored(
    values: pa.Array, fields: Sequence[StateField], versions: Mapping[int, Sequence[StateField]]
) -> tuple[pa.Table, I64 | None]:
    """The rows of values in a binary array, and how many each has; None if each is one row and no run.

    Raises StateError as `decode_rows`.
    """
    offsets, data = parts(values)
    ids, starts = read_ids(data, offsets[:-1], offsets[1:])
    limits = offsets[1:]
    runs = ids >= RUNS
    if not runs.any():
        return decode_rows_at(data, ids, starts, limits, fields, versions), None
    tables, rows, sizes = [], [], np.ones(len(ids), np.int64)
    sizes[runs] = _counts(data, starts[runs], limits[runs])
    first = np.cumsum(sizes) - sizes
    single = np.flatnonzero(~runs)
    if len(single):
        tables.append(decode_rows_at(data, ids[single], starts[single], limits[single], fields, versions))
        rows.append(first[single])
    for id_ in np.unique(ids[runs]).tolist():
        at = np.flatnonzero(ids == id_)
        written = fields_of(versions, id_ - RUNS)
        columns = _columns(data, starts[at] + 4, limits[at], sizes[at], [field.type for field in written])
        tables.append(projected(columns, written, fields, int(sizes[at].sum())))
        rows.append(ragged(first[at], sizes[at]))
    if len(tables) == 1:
        return tables[0], sizes
    order = np.argsort(np.concatenate(rows), kind="stable")
    return pa.concat_tables(tables).take(pa.array(order)).combine_chunks(), sizes


def row_count(values: pa.Array) -> int:
    """How many rows values in a binary array have, runs and others."""
    offsets, data = parts(values)
    ids, starts = read_ids(data, offsets[:-1], offsets[1:])
    runs = ids >= RUNS
    return int(np.count_nonzero(~runs) + _counts(data, starts[runs], offsets[1:][runs]).sum())


def _counts(data: U8, starts: I64, limits: I64) -> I64:
    if bool((starts + 4 > limits).any()):
        raise bad_value()
    return _numbers(gather(data, starts, 4))


def _numbers(matrix: U8) -> I64:
    found: I64 = np.ascontiguousarray(matrix).view("<u4").ravel().astype(np.int64)
    return found


def _columns(data: U8, starts: I64, limits: I64, sizes: I64, types: Sequence[SqlType]) -> list[pa.Array]:
    """The columns of runs whose bitmaps begin at `starts`, one run after the other."""
    n, at = int(sizes.sum()), starts

    def taken(width: int) -> U8:
        nonlocal at
        begin, at = at, at + width * sizes
        if bool((at > limits).any()):
            raise bad_value()
        if not width:
            return np.zeros((n, 0), np.uint8)
        return _bytes(slices(data, begin, at)).reshape(n, width)

    nulls = taken((len(types) + 7) // 8)
    fixed = {i: taken(width) for i, type_ in enumerate(types) if (width := fixed_width(type_)) is not None}
    lengths = {i: _numbers(taken(4)) for i in range(len(types)) if i not in fixed}
    columns: list[pa.Array] = []
    for i, type_ in enumerate(types):
        present = ~is_null(nulls, i)
        if i in fixed:
            columns.append(fixed_array(fixed[i], present, type_))
            continue
        ends = np.concatenate([[0], np.cumsum(lengths[i])])
        bounds = np.concatenate([[0], np.cumsum(sizes)])
        begin, at = at, at + np.diff(ends[bounds])
        if bool((at > limits).any()):
            raise bad_value()
        body = _bytes(slices(data, begin, at))
        columns.append(variable_array(body, ends[:-1], ends[1:], present, type_))
    if not np.array_equal(at, limits):
        raise bad_value()
    return columns


def _bytes(cut: pa.Array) -> U8:
    """What values have, one after the other."""
    offsets, data = parts(cut)
    return data[offsets[0] : offsets[-1]]
