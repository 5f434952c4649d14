"""Values of state as bytes: vectorised, compact, and readable after the schema has changed.

A value is the id of the fields it was written with (varint), then a row of them (`fields`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from sqlstream_operators.errors import StateError
from sqlstream_operators.plan.state_schema import StateField

from .arrow_types import conform, to_arrow
from .binary import (
    I64,
    U8,
    from_list,
    from_matrix,
    from_offsets,
    gather,
    join,
    parts,
    ragged,
)
from .fields import as_array, bad_value, decode_fields, encode_fields, lengths_bytes
from .key_bytes import to_bytes


def encode_rows(table: pa.Table, fields: Sequence[StateField], version: int = 0) -> list[bytes]:
    """The value bytes of each row of `table` (it has the columns of `fields`), marked with id `version`."""
    return to_bytes(packed_rows(table, fields, version))


def packed_rows(table: pa.Table, fields: Sequence[StateField], version: int = 0) -> U8 | pa.Array:
    """What `encode_rows` gives as a matrix or binary array."""
    columns = [conform(table.column(field.name), to_arrow(field.type)) for field in fields]
    head = np.frombuffer(varint(version), np.uint8)
    heads = np.broadcast_to(head, (table.num_rows, len(head)))
    return encode_fields(columns, [field.type for field in fields], heads)


def decode_rows(
    values: Sequence[bytes],
    fields: Sequence[StateField],
    versions: Mapping[int, Sequence[StateField]] | None = None,
) -> pa.Table:
    """The rows of values as a table of `fields`; a value of another version is projected by fingerprint.

    `versions` are the fields that each id stands for (default: all values have id 0 and `fields`). A field
    that a version lacks, or has with another type, is NULL (`missing_fields` lists them). Raises StateError
    if a value has an unknown id or is not well formed.
    """
    versions = {0: fields} if versions is None else versions
    return decode_packed(from_list(values), fields, versions)


def decode_packed(
    values: pa.Array, fields: Sequence[StateField], versions: Mapping[int, Sequence[StateField]]
) -> pa.Table:
    """See `decode_rows`, of values in a binary array."""
    if not len(values):
        return _schema_of(fields).empty_table()
    offsets, data = parts(values)
    starts, limits = offsets[:-1], offsets[1:]
    ids, starts = read_ids(data, starts, limits)
    return decode_rows_at(data, ids, starts, limits, fields, versions)


def encode_lists(table: pa.Table, sizes: I64, fields: Sequence[StateField], version: int = 0) -> list[bytes]:
    """Values that hold a list of rows each: of `table` the first sizes[0] rows, the next sizes[1], and so on.

    Behind the id stand the number of rows (4 bytes), the length of each (4 bytes), and the rows.
    """
    columns = [conform(table.column(field.name), to_arrow(field.type)) for field in fields]
    nothing = np.zeros((table.num_rows, 0), np.uint8)
    inner, data = parts(as_array(encode_fields(columns, [field.type for field in fields], nothing)))
    outer = np.concatenate([[0], np.cumsum(sizes)])
    id_ = np.frombuffer(varint(version), np.uint8)
    heads = np.concatenate(
        [np.broadcast_to(id_, (len(sizes), len(id_))), lengths_bytes(np.asarray(sizes, np.int64))], axis=1
    )
    lengths = from_offsets(outer * 4, lengths_bytes(np.diff(inner)).ravel())
    return to_bytes(join([from_matrix(heads), lengths, from_offsets(inner[outer], data)]))


def decode_lists(
    values: Sequence[bytes],
    fields: Sequence[StateField],
    versions: Mapping[int, Sequence[StateField]] | None = None,
) -> tuple[pa.Table, I64]:
    """The rows of all lists, one list after the other, and the number of rows of each; see `decode_rows`."""
    return decode_packed_lists(from_list(values), fields, {0: fields} if versions is None else versions)


def decode_packed_lists(
    values: pa.Array, fields: Sequence[StateField], versions: Mapping[int, Sequence[StateField]]
) -> tuple[pa.Table, I64]:
    """See `decode_lists`, of values in a binary array."""
    if not len(values):
        return decode_packed(values, fields, versions), np.zeros(0, np.int64)
    offsets, data = parts(values)
    ids, starts = read_ids(data, offsets[:-1], offsets[1:])
    limits = offsets[1:]
    if bool((starts + 4 > limits).any()):
        raise bad_value()
    sizes = np.ascontiguousarray(gather(data, starts, 4)).view("<u4").ravel().astype(np.int64)
    first = starts + 4
    if bool((first + 4 * sizes > limits).any()):
        raise bad_value()
    owners = np.repeat(np.arange(len(sizes)), sizes)
    cells = first[owners] + 4 * ragged(np.zeros(len(sizes), np.int64), sizes)
    lengths = np.ascontiguousarray(gather(data, cells, 4)).view("<u4").ravel()
    lengths = lengths.astype(np.int64)
    before = np.concatenate([[0], np.cumsum(lengths)])
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    bodies = first + 4 * sizes
    if not np.array_equal(bodies + before[bounds[1:]] - before[bounds[:-1]], limits):
        raise bad_value()
    begin = bodies[owners] + before[:-1] - before[bounds[:-1]][owners]
    rows = decode_rows_at(data, ids[owners], begin, begin + lengths, fields, versions)
    return rows, sizes


def _schema_of(fields: Sequence[StateField]) -> pa.Schema:
    return pa.schema([pa.field(field.name, to_arrow(field.type)) for field in fields])


def decode_rows_at(
    data: U8,
    ids: I64,
    starts: I64,
    limits: I64,
    fields: Sequence[StateField],
    versions: Mapping[int, Sequence[StateField]],
) -> pa.Table:
    """The rows between `starts` and `limits`, each of the version in `ids`, as a table of `fields`."""
    if not len(ids):
        return _schema_of(fields).empty_table()
    if ids[0] == ids[-1] and bool((ids == ids[0]).all()):
        return _decode_version(data, starts, limits, fields_of(versions, int(ids[0])), fields)
    tables, rows = [], []
    for id_ in np.unique(ids).tolist():
        at = np.flatnonzero(ids == id_)
        rows.append(at)
        tables.append(_decode_version(data, starts[at], limits[at], fields_of(versions, id_), fields))
    order = np.argsort(np.concatenate(rows), kind="stable")
    return pa.concat_tables(tables).take(pa.array(order)).combine_chunks()


def _decode_version(
    data: U8, starts: I64, limits: I64, written: Sequence[StateField], wanted: Sequence[StateField]
) -> pa.Table:
    columns = decode_fields(data, starts, limits, [field.type for field in written])
    return projected(columns, written, wanted, len(starts))


def missing_fields(written: Sequence[StateField], wanted: Sequence[StateField]) -> tuple[str, ...]:
    """The names of the wanted fields that values of other fields do not have: they read as NULL."""
    have = {(field.fingerprint, field.type) for field in written}
    return tuple(field.name for field in wanted if (field.fingerprint, field.type) not in have)


def fields_of(versions: Mapping[int, Sequence[StateField]], id_: int) -> Sequence[StateField]:
    """The fields that an id stands for; raises StateError if it is not known."""
    if id_ not in versions:
        raise StateError(
            f"a value of state was written with schema {id_}, which the checkpoint does not list"
        )
    return versions[id_]


def projected(
    columns: Sequence[pa.Array], written: Sequence[StateField], wanted: Sequence[StateField], n: int
) -> pa.Table:
    """The columns of `n` rows that were written as a table of the wanted fields."""
    at = {(field.fingerprint, field.type): i for i, field in enumerate(written)}
    arrays = []
    for field in wanted:
        found = at.get((field.fingerprint, field.type))
        arrays.append(pa.nulls(n, to_arrow(field.type)) if found is None else columns[found])
    if not arrays:  # pa.Table can't have rows without columns, except this way
        return pa.table({"x": pa.nulls(n)}).select([])
    return pa.Table.from_arrays(arrays, schema=_schema_of(wanted))


def varint(number: int) -> bytes:
    """A number as bytes of 7 bits, the low ones first; all but the last have their eighth bit set."""
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_ids(data: U8, starts: I64, limits: I64) -> tuple[I64, I64]:
    """The number at each start (see `varint`), and where it ends; raises StateError if that is behind `limits`."""
    if bool((starts >= limits).any()):
        raise bad_value()
    first = data[starts].astype(np.int64)
    if bool((first < 0x80).all()):
        return first, starts + 1
    ids, position, shift = np.zeros(len(starts), np.int64), starts.copy(), 0
    going = np.arange(len(starts))
    while len(going):
        if shift > 28 or bool((position[going] >= limits[going]).any()):
            raise bad_value()
        byte = data[position[going]].astype(np.int64)
        ids[going] |= (byte & 0x7F) << shift
        position[going] += 1
        shift += 7
        going = going[byte >= 0x80]
    return ids, position
