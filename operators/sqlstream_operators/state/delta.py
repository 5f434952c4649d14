"""The file of a delta: sorted keys, each with its value or a tombstone; the same content is always the same
bytes.

An SST by `SstFileWriter` was tried and can't be used: it holds a random session id and the time, so a retry
has other bytes (measured: 2 of 4096 bytes in every block of properties differ), and a name could not stand
for a content. This format also writes and reads several times faster, since nothing is done per row but the
cutting of bytes.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream_operators.codec.binary import from_offsets, parts

from .packed_rows import PackedRows

Buffer: TypeAlias = bytes | memoryview

MAGIC = b"sqlsdlt1"
_TOMBSTONE = 0xFFFFFFFF


def encode_delta(rows: Mapping[bytes, bytes | None], packed: Sequence[PackedRows] = ()) -> bytes:
    """The file for these rows, None being a deletion: magic, length of the body (8 bytes), the body in zstd.

    `packed` are the rows of tables that `rows` has none of, one table each. The body is the number of rows (8 bytes), the
    key lengths (4 bytes each), the value lengths (4 bytes each, FFFFFFFF a tombstone), all keys in order, all values.
    Raises ValueError for a row of 4 GiB or more.
    """
    pieces: list[tuple[float, _Piece]] = [(part.table, _packed_piece(part)) for part in packed]
    keys, start = sorted(rows), 0
    for table in sorted(part.table for part in packed):
        end = bisect.bisect_left(keys, bytes([table]))
        pieces.append((table - 0.5, _piece(keys[start:end], rows)))
        start = end
    pieces.append((256, _piece(keys[start:], rows)))
    ordered = [piece for _, piece in sorted(pieces, key=itemgetter(0))]
    nothing = np.zeros(0, "<u4")
    return _file(
        np.concatenate([nothing, *(piece.key_lengths for piece in ordered)]),
        np.concatenate([nothing, *(piece.value_lengths for piece in ordered)]),
        [*(piece.keys for piece in ordered), *(piece.values for piece in ordered)],
    )


@dataclass(frozen=True, slots=True)
class _Piece:
    """The rows of a table as they stand in a file."""

    key_lengths: npt.NDArray[np.uint32]
    value_lengths: npt.NDArray[np.uint32]
    keys: Buffer
    values: Buffer


def _piece(keys: Sequence[bytes], rows: Mapping[bytes, bytes | None]) -> _Piece:
    values = list(map(rows.__getitem__, keys))
    n = len(keys)
    present = [value for value in values if value is not None]
    if len(present) == n:
        value_lengths = np.fromiter(map(len, present), "<u4", n)
    else:
        value_lengths = np.fromiter((_TOMBSTONE if v is None else len(v) for v in values), "<u4", n)
    return _Piece(np.fromiter(map(len, keys), "<u4", n), value_lengths, b"".join(keys), b"".join(present))


def _packed_piece(rows: PackedRows) -> _Piece:
    (key_lengths, keys), (value_lengths, values) = _cut_out(rows.keys), _cut_out(rows.values)
    return _Piece(key_lengths, value_lengths, keys, values)


def _cut_out(rows: pa.Array) -> tuple[npt.NDArray[np.uint32], Buffer]:
    offsets, data = parts(rows)
    lengths = np.diff(offsets)
    if int(lengths.max()) >= _TOMBSTONE:
        raise ValueError("a row of state is longer than 4 GiB")
    return lengths.astype("<u4"), data[offsets[0] : offsets[-1]].data


def _file(
    key_lengths: npt.NDArray[np.uint32],
    value_lengths: npt.NDArray[np.uint32],
    bodies: Iterable[Buffer],
) -> bytes:
    count = len(key_lengths).to_bytes(8, "little")
    body = b"".join((count, key_lengths.tobytes(), value_lengths.tobytes(), *bodies))
    packed: bytes = pa.Codec("zstd", compression_level=1).compress(body, asbytes=True)
    return MAGIC + len(body).to_bytes(8, "little") + packed


def decode_delta(content: bytes) -> tuple[list[bytes], list[bytes | None]]:
    """The sorted keys and their values; raises ValueError if this is not the file of a delta."""
    rows = DeltaRows.of(content)
    return rows.cut(0, len(rows))


@dataclass(frozen=True, slots=True)
class DeltaRows:
    """The rows of a delta, sorted by key, each cut out of the file's body only when it is read."""

    body: bytes
    key_lengths: npt.NDArray[np.uint32]
    key_ends: npt.NDArray[np.int64]
    value_lengths: npt.NDArray[np.int64]
    value_ends: npt.NDArray[np.int64]
    deleted: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, content: bytes) -> DeltaRows:
        """Read what `encode_delta` wrote; raises ValueError if this is not the file of a delta."""
        if content[: len(MAGIC)] != MAGIC or len(content) < 16:
            raise ValueError("not a delta file of this version")
        size = int.from_bytes(content[8:16], "little")
        try:
            body: bytes = pa.Codec("zstd").decompress(
                memoryview(content)[16:], decompressed_size=size, asbytes=True
            )
        except (OSError, pa.ArrowException) as error:
            raise ValueError(f"a delta file that can't be decompressed: {error}") from error
        n = int.from_bytes(body[:8], "little")
        key_lengths = np.frombuffer(body, "<u4", n, 8)
        value_lengths = np.frombuffer(body, "<u4", n, 8 + 4 * n)
        deleted = value_lengths == _TOMBSTONE
        lengths = np.where(deleted, 0, value_lengths).astype(np.int64)
        key_ends = 8 + 8 * n + np.cumsum(key_lengths, dtype=np.int64)
        value_ends = int(key_ends[-1] if n else 8) + np.cumsum(lengths, dtype=np.int64)
        return cls(body, key_lengths, key_ends, lengths, value_ends, deleted)

    def __len__(self) -> int:
        return len(self.key_ends)

    def between(self, first: bytes, last: bytes) -> tuple[list[bytes], list[bytes | None]]:
        """The keys in [first, last) and their values, found by halves: no other row is looked at."""
        return self.cut(self.place(first), self.place(last))

    def cut(self, low: int, high: int) -> tuple[list[bytes], list[bytes | None]]:
        """The keys of rows `low` to `high` (not included), and their values; None: deleted."""
        part = slice(low, high)
        keys = _cut(self.body, self.key_ends[part], self.key_lengths[part])
        values: list[bytes | None] = list(_cut(self.body, self.value_ends[part], self.value_lengths[part]))
        for i in np.flatnonzero(self.deleted[part]).tolist():
            values[i] = None
        return keys, values

    def keys(self, low: int, high: int) -> pa.Array:
        """The keys of rows `low` to `high` (not included), at least one, as a binary array."""
        first = self.key_ends[low] - self.key_lengths[low]
        return from_offsets(np.append(first, self.key_ends[low:high]), self.body)

    def place(self, key: bytes) -> int:
        """How many rows have a lower key."""
        return bisect.bisect_left(range(len(self)), key, key=self.key)

    def key(self, row: int) -> bytes:
        """The key of a row."""
        end = int(self.key_ends[row])
        return self.body[end - int(self.key_lengths[row]) : end]


def _cut(body: bytes, ends: np.ndarray, lengths: np.ndarray) -> list[bytes]:
    if len(ends) and lengths[0] and (lengths == lengths[0]).all():
        first = int(ends[0] - lengths[0])
        listed: list[bytes] = np.frombuffer(body, f"V{lengths[0]}", len(ends), first).tolist()
        return listed
    ends_list = ends.tolist()
    starts = (ends - lengths).tolist()
    return [body[start:end] for start, end in zip(starts, ends_list, strict=True)]
