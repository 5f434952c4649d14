"""Values of state as bytes: vectorised, compact, and readable after the schema has changed.

A value is the id of the fields it was written with (varint), then a row. A row of fields is::

    null bitmap (bit i of byte i // 8 is set if field i is NULL)
    the fixed-width fields, little-endian, in order; a NULL as zeros (DECIMAL up to 18 digits in 8 bytes)
    for each other field the length of its bytes, 4 bytes
    the bytes of the other fields: VARCHAR, BLOB, UUID, JSON as they are; a STRUCT as a row of its fields;
    an ARRAY or MAP as its count (4 bytes), the length of each element (4 bytes each), and each element as a
    row of one field

So the offsets of a whole column are found by adding columns of lengths, and no value is looked at on its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream_operators.errors import StateError
from sqlstream_operators.plan.state_schema import StateField
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
    join,
    list_lengths,
    parts,
    ragged,
    slices,
    valid,
)
from .key_bytes import build_lists, element_type, to_bytes

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


def encode_rows(table: pa.Table, fields: Sequence[StateField], version: int = 0) -> list[bytes]:
    """The value bytes of each row of `table` (it has the columns of `fields`), marked with id `version`."""
    return to_bytes(packed_rows(table, fields, version))


def packed_rows(table: pa.Table, fields: Sequence[StateField], version: int = 0) -> U8 | pa.Array:
    """What `encode_rows` gives as a matrix or binary array."""
    columns = [conform(table.column(field.name), to_arrow(field.type)) for field in fields]
    head = np.frombuffer(_varint(version), np.uint8)
    heads = np.broadcast_to(head, (table.num_rows, len(head)))
    return _encode(columns, [field.type for field in fields], heads)


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
    ids, starts = _read_varints(data, starts, limits)
    return _decode_versions(data, ids, starts, limits, fields, versions)


def encode_lists(table: pa.Table, sizes: I64, fields: Sequence[StateField], version: int = 0) -> list[bytes]:
    """Values that hold a list of rows each: of `table` the first sizes[0] rows, the next sizes[1], and so on.

    Behind the id stand the number of rows (4 bytes), the length of each (4 bytes), and the rows.
    """
    columns = [conform(table.column(field.name), to_arrow(field.type)) for field in fields]
    nothing = np.zeros((table.num_rows, 0), np.uint8)
    inner, data = parts(_as_array(_encode(columns, [field.type for field in fields], nothing)))
    outer = np.concatenate([[0], np.cumsum(sizes)])
    id_ = np.frombuffer(_varint(version), np.uint8)
    heads = np.concatenate(
        [np.broadcast_to(id_, (len(sizes), len(id_))), _lengths_bytes(np.asarray(sizes, np.int64))], axis=1
    )
    lengths = from_offsets(outer * 4, _lengths_bytes(np.diff(inner)).ravel())
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
    ids, starts = _read_varints(data, offsets[:-1], offsets[1:])
    limits = offsets[1:]
    if bool((starts + 4 > limits).any()):
        raise _bad()
    sizes = np.ascontiguousarray(gather(data, starts, 4)).view("<u4").ravel().astype(np.int64)
    first = starts + 4
    if bool((first + 4 * sizes > limits).any()):
        raise _bad()
    owners = np.repeat(np.arange(len(sizes)), sizes)
    cells = first[owners] + 4 * ragged(np.zeros(len(sizes), np.int64), sizes)
    lengths = np.ascontiguousarray(gather(data, cells, 4)).view("<u4").ravel()
    lengths = lengths.astype(np.int64)
    before = np.concatenate([[0], np.cumsum(lengths)])
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    bodies = first + 4 * sizes
    if not np.array_equal(bodies + before[bounds[1:]] - before[bounds[:-1]], limits):
        raise _bad()
    begin = bodies[owners] + before[:-1] - before[bounds[:-1]][owners]
    rows = _decode_versions(data, ids[owners], begin, begin + lengths, fields, versions)
    return rows, sizes


def _schema_of(fields: Sequence[StateField]) -> pa.Schema:
    return pa.schema([pa.field(field.name, to_arrow(field.type)) for field in fields])


def _decode_versions(
    data: U8,
    ids: I64,
    starts: I64,
    limits: I64,
    fields: Sequence[StateField],
    versions: Mapping[int, Sequence[StateField]],
) -> pa.Table:
    """The rows between `starts` and `limits`, each of the version in `ids`, as a table of `fields`."""
    schema = _schema_of(fields)
    if not len(ids):
        return schema.empty_table()
    if ids[0] == ids[-1] and bool((ids == ids[0]).all()):
        return _project(data, starts, limits, _fields_of(versions, int(ids[0])), fields, schema)
    tables, rows = [], []
    for id_ in np.unique(ids).tolist():
        at = np.flatnonzero(ids == id_)
        rows.append(at)
        tables.append(_project(data, starts[at], limits[at], _fields_of(versions, id_), fields, schema))
    order = np.argsort(np.concatenate(rows), kind="stable")
    return pa.concat_tables(tables).take(pa.array(order)).combine_chunks()


def missing_fields(written: Sequence[StateField], wanted: Sequence[StateField]) -> tuple[str, ...]:
    """The names of the wanted fields that values of other fields do not have: they read as NULL."""
    have = {(field.fingerprint, field.type) for field in written}
    return tuple(field.name for field in wanted if (field.fingerprint, field.type) not in have)


def _fields_of(versions: Mapping[int, Sequence[StateField]], id_: int) -> Sequence[StateField]:
    if id_ not in versions:
        raise StateError(
            f"a value of state was written with schema {id_}, which the checkpoint does not list"
        )
    return versions[id_]


def _project(
    data: U8,
    starts: I64,
    limits: I64,
    written: Sequence[StateField],
    wanted: Sequence[StateField],
    schema: pa.Schema,
) -> pa.Table:
    at = {(field.fingerprint, field.type): i for i, field in enumerate(written)}
    columns = _decode(data, starts, limits, [field.type for field in written])
    n = len(starts)
    arrays = []
    for field in wanted:
        found = at.get((field.fingerprint, field.type))
        arrays.append(pa.nulls(n, to_arrow(field.type)) if found is None else columns[found])
    if not arrays:  # pa.Table can't have rows without columns, except this way
        return pa.table({"x": pa.nulls(n)}).select([])
    return pa.Table.from_arrays(arrays, schema=schema)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varints(data: U8, starts: I64, limits: I64) -> tuple[I64, I64]:
    if bool((starts >= limits).any()):
        raise _bad()
    first = data[starts].astype(np.int64)
    if bool((first < 0x80).all()):
        return first, starts + 1
    ids, position, shift = np.zeros(len(starts), np.int64), starts.copy(), 0
    going = np.arange(len(starts))
    while len(going):
        if shift > 28 or bool((position[going] >= limits[going]).any()):
            raise _bad()
        byte = data[position[going]].astype(np.int64)
        ids[going] |= (byte & 0x7F) << shift
        position[going] += 1
        shift += 7
        going = going[byte >= 0x80]
    return ids, position


def _bad() -> StateError:
    return StateError("a value of state is not well formed")


def _width(type_: SqlType) -> int | None:
    if type_.kind is Kind.DECIMAL:
        return 8 if type_.precision is not None and type_.precision <= 18 else 16
    return _WIDTHS.get(type_.kind)


def _lengths_bytes(lengths: npt.NDArray[np.int64]) -> U8:
    if len(lengths) and int(lengths.max()) > 0xFFFFFFFF:
        raise ValueError("a value of state is longer than 4 GiB")
    return lengths.astype("<u4").view(np.uint8).reshape(len(lengths), 4)


def _encode(columns: Sequence[pa.Array], types: Sequence[SqlType], head: U8 | None = None) -> U8 | pa.Array:
    n = len(columns[0]) if columns else len(head) if head is not None else 0
    nulls = np.zeros((n, (len(columns) + 7) // 8), np.uint8)
    pieces: list[U8] = [nulls] if head is None else [head, nulls]
    tail: list[pa.Array] = []
    lengths: list[U8] = []
    for i, (column, type_) in enumerate(zip(columns, types, strict=True)):
        present = valid(column) if type_.kind is not Kind.NULL else np.zeros(n, bool)
        if present is not None:
            nulls[:, i // 8] |= (~present).astype(np.uint8) << np.uint8(i % 8)
        if _width(type_) is not None:
            body = _fixed_bytes(column, type_)
            if present is not None:
                body = body * present[:, None].astype(np.uint8)
            pieces.append(body)
            continue
        bytes_ = _variable_bytes(column, type_)
        offsets, _ = parts(bytes_)
        sizes = np.diff(offsets)
        if present is not None:
            sizes[~present] = 0
            bytes_ = (
                pa.LargeBinaryArray.from_buffers(
                    BYTES, n, [bitmap(present), *bytes_.buffers()[1:]], offset=bytes_.offset
                )
                if bytes_.offset == 0
                else pa.concat_arrays([bytes_])
            )
        lengths.append(_lengths_bytes(sizes))
        tail.append(bytes_)
    matrix = np.concatenate([*pieces, *lengths], axis=1)
    return join([from_matrix(matrix), *tail]) if tail else matrix


def _fixed_bytes(column: pa.Array, type_: SqlType) -> U8:
    width = _width(type_)
    assert width is not None
    if width == 0:
        return np.zeros((len(column), 0), np.uint8)
    if type_.kind is Kind.BOOLEAN:
        column = column.cast(pa.uint8())
    if type_.kind is Kind.DECIMAL and width == 8:
        low = np.ascontiguousarray(fixed(column, _PAIR)["low"])
        return low.view(np.uint8).reshape(-1, 8)
    return fixed(column, f"V{width}").view(np.uint8).reshape(-1, width)


def _variable_bytes(column: pa.Array, type_: SqlType) -> pa.Array:
    if type_.kind in ROWS:
        return _as_array(_encode(column.flatten(), [field for _, field in type_.fields]))
    if type_.kind in (Kind.ARRAY, Kind.MAP):
        lists = as_list(column)
        counts = list_lengths(lists)
        values, element = lists.flatten(), element_type(type_)
        arrow = to_arrow(element)
        encoded = _as_array(_encode([values if values.type == arrow else values.cast(arrow)], [element]))
        inner, data = parts(encoded)
        outer = np.concatenate([[0], np.cumsum(counts)])
        sizes = from_offsets(outer * 4, _lengths_bytes(np.diff(inner)).ravel())
        return join([from_matrix(_lengths_bytes(counts)), sizes, from_offsets(inner[outer], data)])
    return column.cast(BYTES)


def _as_array(encoded: U8 | pa.Array) -> pa.Array:
    return from_matrix(encoded) if isinstance(encoded, np.ndarray) else encoded


def _decode(data: U8, starts: I64, limits: I64, types: Sequence[SqlType]) -> list[pa.Array]:
    widths = [_width(type_) for type_ in types]
    bitmap_width = (len(types) + 7) // 8
    variable = [i for i, width in enumerate(widths) if width is None]
    body = bitmap_width + sum(width for width in widths if width is not None)
    total = body + 4 * len(variable)
    if bool((starts + total > limits).any()):
        raise _bad()
    matrix = gather(data, starts, total)
    sizes = np.ascontiguousarray(matrix[:, body:]).view("<u4").astype(np.int64)
    columns: list[pa.Array] = []
    at, end = bitmap_width, starts + total
    for i, (type_, width) in enumerate(zip(types, widths, strict=True)):
        present = (matrix[:, i // 8] >> np.uint8(i % 8)) & np.uint8(1) == 0
        if width is not None:
            columns.append(_fixed_array(matrix[:, at : at + width], present, type_))
            at += width
            continue
        begin, end = end, end + sizes[:, variable.index(i)]
        if bool((end > limits).any()):
            raise _bad()
        columns.append(_variable_array(data, begin, end, present, type_))
    if not np.array_equal(end, limits):
        raise _bad()
    return columns


def _fixed_array(matrix: U8, present: npt.NDArray[np.bool_], type_: SqlType) -> pa.Array:
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


def _variable_array(
    data: U8, starts: I64, ends: I64, present: npt.NDArray[np.bool_], type_: SqlType
) -> pa.Array:
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
    data: U8, starts: I64, ends: I64, present: npt.NDArray[np.bool_], types: Sequence[SqlType]
) -> list[pa.Array]:
    if present.all():
        return _decode(data, starts, ends, types)
    rows = np.flatnonzero(present)
    dense = _decode(data, starts[rows], ends[rows], types)
    index = np.where(present, np.cumsum(present) - 1, 0)
    spread = pa.array(index, pa.int64(), mask=~present)
    return [column.take(spread) for column in dense]


def _list_array(data: U8, starts: I64, ends: I64, present: npt.NDArray[np.bool_], type_: SqlType) -> pa.Array:
    counts = np.zeros(len(starts), np.int64)
    rows = np.flatnonzero(present)
    if len(rows):
        if bool((starts[rows] + 4 > ends[rows]).any()):
            raise _bad()
        heads = np.ascontiguousarray(gather(data, starts[rows], 4))
        counts[rows] = heads.view("<u4").ravel()
    if bool((starts + 4 * (present + counts) > ends).any()):
        raise _bad()
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
        raise _bad()
    flat = _decode(data, begin, begin + sizes, [element_type(type_)])[0] if len(begin) else None
    if flat is None:
        flat = pa.array([], to_arrow(element_type(type_)))
    return build_lists(to_arrow(type_), counts, flat, present)
