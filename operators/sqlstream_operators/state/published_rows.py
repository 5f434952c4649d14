"""All rows of a published version in a range of keys, put together from its files without RocksDB, a piece at a time.

The snapshot's tables and the deltas behind it are runs of sorted rows. A piece is the rows of all runs between two keys:
they are sorted as bytes, and of each key the latest row counts, if it is not a deletion, and no later deleted range has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream_operators.codec.binary import (
    BYTES,
    I64,
    U8,
    from_matrix,
    from_offsets,
    parts,
    replaced,
    slices,
)
from sqlstream_operators.codec.byte_order import U64, key_words
from sqlstream_operators.errors import StateCorruptionError

from .cache import check_chain, fetch, local_name, mapped
from .checkpoint_store import CheckpointStore
from .delta import DeltaRows
from .packed_rows import PackedRows
from .rocks import MARKER
from .segments import Segments
from .sst import BLOB, DELETION, VALUE, DeletedRange, Entries, TableFile, UnreadableTableError, blob_places
from .version import ShardVersion

#: About how many rows a piece has; it takes some 200 bytes of memory for each, and what it gives.
PIECE_ROWS = 100_000
_SAMPLES = 16  # of them in a piece
_AFTER_SNAPSHOT = 1 << 56  # RocksDB's sequence numbers are lower


@dataclass(frozen=True, slots=True)
class _Run:
    """Rows with their keys as words, and their values in `data`, from `starts` up to `ends`, in ascending order.

    `sequence` says which of two rows with one key is the later one.
    """

    words: list[U64]
    lengths: I64
    sequence: I64
    deleted: npt.NDArray[np.bool_]
    data: U8
    starts: I64
    ends: I64

    def __len__(self) -> int:
        return len(self.lengths)

    def cut(self, low: int, high: int) -> _Run:
        """Rows `low` to `high` (not included), at least one."""
        part = slice(low, high)
        begin, end = int(self.starts[low]), int(self.ends[high - 1])
        return _Run(
            [word[part] for word in self.words],
            self.lengths[part],
            self.sequence[part],
            self.deleted[part],
            self.data[begin:end],
            self.starts[part] - begin,
            self.ends[part] - begin,
        )


class PublishedRows:
    """The rows of a shard at a published version.

    `nearer` are folders of this machine in which files of the snapshot may be too, `copies` one in which segments may be.
    Raises StateCorruptionError for a file that is damaged or missing, UnreadableTableError for one that only RocksDB
    can read.
    """

    def __init__(
        self,
        checkpoint: CheckpointStore,
        version: ShardVersion,
        nearer: Sequence[Path] = (),
        copies: Path | None = None,
    ) -> None:
        check_chain(version)
        self._tables: list[TableFile] = []
        self._blobs: dict[int, pa.Buffer] = {}
        self._deleted_ranges: list[DeletedRange] = []
        for file in version.snapshot:
            name = local_name(file)
            if name.endswith(".sst"):
                table = TableFile(mapped(checkpoint, file, nearer))
                self._tables.append(table)
                self._deleted_ranges += table.deleted_ranges
            elif name.endswith(".blob"):
                self._blobs[int(name.removesuffix(".blob"))] = mapped(checkpoint, file, nearer)
            elif name.endswith(".log"):
                raise UnreadableTableError("rows in a log")
        self._deltas: list[tuple[int, DeltaRows]] = []
        for number, delta in enumerate(version.deltas):
            sequence = _AFTER_SNAPSHOT + 2 * number
            for first, last in delta.deleted_ranges:
                self._deleted_ranges.append(DeletedRange(bytes.fromhex(first), bytes.fromhex(last), sequence))
            if delta.file is not None:
                try:
                    rows = DeltaRows.of(fetch(checkpoint, delta.file))
                except ValueError as error:
                    raise StateCorruptionError(checkpoint.path(delta.file.name), str(error)) from error
                self._deltas.append((sequence + 1, rows))
        self._segments = Segments(checkpoint, version.segments, copies)
        if version.snapshot:
            behind = MARKER[:-1] + bytes([MARKER[-1] + 1])
            marker = self._merged([self._of_table(table, MARKER, behind) for table in self._tables])
            if marker.values.to_pylist() != [version.base_chain.encode()]:
                where = checkpoint.path(version.snapshot[0].name)
                raise StateCorruptionError(where, "the snapshot has another version than the manifest says")

    def between(self, first: bytes, last: bytes) -> Iterator[PackedRows]:
        """The rows with first <= key < last, in order, a piece at a time."""
        cuts = [first, *self._cuts(first, last), last]
        for low, high in pairwise(cuts):
            runs = [self._of_table(table, low, high) for table in self._tables]
            runs += [self._of_delta(sequence, rows, low, high) for sequence, rows in self._deltas]
            yield self._merged(runs)

    def _cuts(self, first: bytes, last: bytes) -> list[bytes]:
        """Where the pieces between the first key and the last one begin."""
        step = PIECE_ROWS // _SAMPLES
        found: list[bytes] = []
        for table in self._tables:
            every = max(step * len(table.bounds) // max(table.rows, 1), 1)
            found += [key for key in table.bounds[every::every] if first < key < last]
        for _, rows in self._deltas:
            found += [key for key in map(rows.key, range(step, len(rows), step)) if first < key < last]
        return sorted(set(sorted(found)[_SAMPLES::_SAMPLES]))

    def _of_table(self, table: TableFile, first: bytes, last: bytes) -> _Run | None:
        entries = table.entries(first, last)
        if entries is None:
            return None
        kinds = entries.kinds
        if not np.isin(kinds, [DELETION, VALUE, BLOB]).all():
            raise UnreadableTableError(f"entries of kinds {np.unique(kinds).tolist()}")
        if not len(kinds):
            return None
        data, starts, ends = entries.data, entries.starts, entries.ends
        blobs = np.flatnonzero(kinds == BLOB)
        if len(blobs):
            offsets, data = parts(
                replaced(slices(data, starts, ends), blobs, self._blob_values(entries, blobs))
            )
            starts, ends = offsets[:-1], offsets[1:]
        run = _Run(entries.words, entries.lengths, entries.sequence, kinds == DELETION, data, starts, ends)
        low, high = (int(np.count_nonzero(~_at_least(run, key))) for key in (first, last))
        return run.cut(low, high) if low < high else None

    def _blob_values(self, entries: Entries, rows: I64) -> pa.Array:
        numbers, firsts, lengths = blob_places(entries, rows)
        found, places = [], []
        for number in np.unique(numbers).tolist():
            if number not in self._blobs:
                raise UnreadableTableError(f"no blob file {number}")
            content = np.frombuffer(self._blobs[number], np.uint8)
            at = np.flatnonzero(numbers == number)
            at = at[np.argsort(firsts[at], kind="stable")]
            if (firsts[at] + lengths[at] > len(content)).any():
                raise UnreadableTableError("a blob behind the end")
            found.append(slices(content, firsts[at], firsts[at] + lengths[at]))
            places.append(at)
        order = np.empty(len(rows), np.int64)
        order[np.concatenate(places)] = np.arange(len(rows))
        return pa.concat_arrays(found).take(pa.array(order))

    @staticmethod
    def _of_delta(sequence: int, rows: DeltaRows, first: bytes, last: bytes) -> _Run | None:
        low, high = rows.place(first), rows.place(last)
        if low == high:
            return None
        lengths = rows.key_lengths[low:high].astype(np.int64)
        ends = rows.value_ends[low:high]
        starts = ends - rows.value_lengths[low:high]
        begin, end = int(starts[0]), int(ends[-1])
        data = np.frombuffer(rows.body, np.uint8, end - begin, begin)
        return _Run(
            key_words(rows.keys(low, high)),
            lengths,
            np.full(high - low, sequence),
            rows.deleted[low:high],
            data,
            starts - begin,
            ends - begin,
        )

    def _merged(self, found: Sequence[_Run | None]) -> PackedRows:
        runs = [run for run in found if run is not None]
        if not runs:
            return PackedRows(pa.array([], BYTES), pa.array([], BYTES))
        width = max(len(run.words) for run in runs)
        # Keys of no run are a prefix of others, so zeros behind them change no order.
        matrix = np.zeros((sum(map(len, runs)), width), ">u8")
        at = 0
        for run in runs:
            for i, word in enumerate(run.words):
                matrix[at : at + len(run), i] = word
            at += len(run)
        sequence = np.concatenate([run.sequence for run in runs])
        living = ~np.concatenate([self._gone(run) for run in runs])
        if len(runs) == 1:
            order = np.arange(at)
        else:
            order = np.argsort(matrix.view(f"S{8 * width}").ravel(), kind="stable")
            matrix, sequence, living = matrix[order], sequence[order], living[order]
        same = np.ones(at - 1, bool)
        for i in range(width):
            word = matrix[:, i]
            same &= word[1:] == word[:-1]
        if same.any():
            begins = np.flatnonzero(np.append(True, ~same))
            latest = np.maximum.reduceat(sequence, begins)
            counts = np.diff(np.append(begins, at))
            last = sequence == np.repeat(latest, counts)
            if np.count_nonzero(last) != len(begins):
                raise UnreadableTableError("two rows of one key with one sequence number")
            living &= last
        if not living.all():
            matrix, order = matrix[living], order[living]
        lengths = np.concatenate([run.lengths for run in runs])[order]
        keys = _keys(matrix.view(np.uint8).reshape(len(matrix), 8 * width), lengths)
        return PackedRows(keys, self._segments.packed_values(_values(runs, order)))

    def _gone(self, run: _Run) -> npt.NDArray[np.bool_]:
        """Which rows are deletions, or in a range that was deleted later."""
        gone = run.deleted
        for deleted in self._deleted_ranges:
            older = run.sequence < deleted.sequence
            if older.any():
                gone = gone | (_at_least(run, deleted.first) & ~_at_least(run, deleted.last) & older)
        return gone


def _keys(matrix: U8, lengths: I64) -> pa.Array:
    """The first bytes of each row, as many as its length says."""
    if not len(matrix):
        return pa.array([], BYTES)
    if (lengths == lengths[0]).all():
        return from_matrix(matrix[:, : lengths[0]])
    kept = np.arange(matrix.shape[1]) < lengths[:, None]
    return from_offsets(np.append(0, np.cumsum(lengths)), matrix[kept])


def _values(runs: Sequence[_Run], order: I64) -> pa.Array:
    """The values of all rows, one run after the other, in another order."""
    offsets = np.empty(2 * sum(map(len, runs)) + 1, np.int64)
    at = begin = 0
    for run in runs:
        offsets[at : at + 2 * len(run) : 2] = run.starts + begin
        offsets[at + 1 : at + 2 * len(run) : 2] = run.ends + begin
        at += 2 * len(run)
        begin += len(run.data)
    offsets[-1] = begin
    data = runs[0].data if len(runs) == 1 else np.concatenate([run.data for run in runs])
    return from_offsets(offsets, np.ascontiguousarray(data)).take(pa.array(2 * order))


def _at_least(run: _Run, key: bytes) -> npt.NDArray[np.bool_]:
    """Which keys are not before `key`; zeros are behind the shorter of the two."""
    size = 8 * max(len(run.words), -(-len(key) // 8))
    wanted = np.frombuffer(key.ljust(size, b"\0"), ">u8").astype(np.uint64)
    more = np.zeros(len(run), bool)
    same = np.ones(len(run), bool)
    for i, bound in enumerate(wanted):
        word = run.words[i] if i < len(run.words) else np.zeros(len(run), np.uint64)
        more |= same & (word > bound)
        same &= word == bound
    return more | same
