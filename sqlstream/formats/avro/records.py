"""Records of Avro: their bytes as rows, and rows as their bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.formats.api import RECORD_COLUMN, BadRecord
from sqlstream.formats.avro.decoders import Record
from sqlstream.formats.avro.lanes import Bytes, Lanes, Longs
from sqlstream_operators.errors import DataError

#: Records that are read together: their positions and numbers should stay in a processor's cache.
_TOGETHER = 16_384
#: Bytes that are read together; Arrow's small offsets count to 2 GiB.
_MOST_BYTES = 1 << 28


@dataclass(slots=True)
class Decoded:
    """Rows of records: `rows` are structs, `ids` the number of each one's record. `bad`: why, by record."""

    rows: pa.ChunkedArray
    ids: Longs
    bad: dict[int, str] = field(default_factory=dict)


def decode(decoder: Record, values: pa.Array, ids: Longs, skip: int = 0) -> Decoded:
    """The records (large_binary, no NULL), each without its first `skip` bytes; `ids` are their numbers.

    Rows of bad records are left out.
    """
    rows: list[pa.Array] = []
    kept: list[Longs] = []
    bad: dict[int, str] = {}
    for lanes in _lanes(values, ids, skip):
        found = decoder.read(lanes)
        over = lanes.end - lanes.at
        if over.any():
            lanes.fail(
                over > 0, f"{over[over > 0][0]} bytes are left over: another schema than the record's?"
            )
        bad |= lanes.reasons
        if lanes.reasons:
            good = lanes.good
            found, here = found.filter(pa.array(good)), lanes.ids[good]
        else:
            here = lanes.ids
        rows.append(found)
        kept.append(here)
    return Decoded(
        pa.chunked_array(rows, decoder.type), np.concatenate(kept) if kept else np.zeros(0, np.int64), bad
    )


def _lanes(values: pa.Array, ids: Longs, skip: int) -> Iterator[Lanes]:
    if not len(values):
        return
    offsets, data = whole(values)
    first = 0
    while first < len(values):
        last = min(first + _TOGETHER, len(values))
        if offsets[last] - offsets[first] > _MOST_BYTES:
            last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + _MOST_BYTES, "right")) - 1)
        base = offsets[first]
        borders = offsets[first : last + 1] - base
        block = Bytes.of(data[base : offsets[last]])
        yield Lanes(block, borders[:-1] + skip, borders[1:], ids[first:last])
        first = last


def whole(values: pa.Array) -> tuple[Longs, Any]:
    """Offsets and bytes of large_binary values."""
    _, offsets, data = values.buffers()
    borders = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    return borders, np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)


def present(values: pa.Array) -> tuple[pa.Array, Longs]:
    """The records that are no NULL, and their numbers."""
    if values.type != pa.large_binary():
        values = values.cast(pa.large_binary())
    if not values.null_count:
        return values, np.arange(len(values))
    valid = values.is_valid()
    return values.filter(valid), np.flatnonzero(valid.to_numpy(zero_copy_only=False))


def table_of(decoded: Decoded, columns: Sequence[str]) -> pa.Table:
    """Rows as a table with RECORD_COLUMN."""
    arrays: list[Any] = []
    for place in range(len(columns)):
        chunks = [chunk.field(place) for chunk in decoded.rows.chunks]
        arrays.append(pa.chunked_array(chunks, decoded.rows.type.field(place).type))
    arrays.append(pa.array(decoded.ids, pa.int64()))
    return pa.table(arrays, names=[*columns, RECORD_COLUMN])


def bad_records(bad: dict[int, str]) -> list[BadRecord]:
    """Bad records in order."""
    return [BadRecord(index, bad[index]) for index in sorted(bad)]


def raise_first(bad: Sequence[BadRecord], format_: str) -> None:
    """Raises DataError if there is a bad record."""
    if bad:
        more = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
        raise DataError(f"a record that is not {format_}: {bad[0].reason}{more}")
