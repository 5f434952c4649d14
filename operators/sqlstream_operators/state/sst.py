"""Reading the rows of RocksDB's table files by the block, with numpy: RocksDB's own iterator costs four calls per row.

Only what `rocks` writes is read: block-based tables with a plain index, of format 3 to 5, their blocks in LZ4 or plain;
rows that are put or deleted, and deleted ranges. `UnreadableTableError` says of anything else that RocksDB must read it.
Checksums of blocks are not looked at: a file's digest is, before.
https://github.com/facebook/rocksdb/wiki/Rocksdb-BlockBasedTable-Format
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream_operators.codec.binary import I64, U8, ragged
from sqlstream_operators.codec.byte_order import U64, first_bytes, unaligned

_MAGIC = 0x88E241B785F4CFF7
_FOOTER = 53
_TRAILER = 5
_PLAIN, _LZ4 = 0, 4
_SEQUENCE = 8  # bytes behind each key: its sequence number and its kind
DELETION, VALUE, _RANGE_DELETION, BLOB = 0, 1, 15, 17


class UnreadableTableError(Exception):
    """A table file has something that is not read here."""


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries of a table file in its order; `data` has their values from `starts` up to `ends`.

    words: the keys, as `byte_order.key_words` has them; lengths: of the keys, in bytes. sequence: higher is later.
    """

    words: list[U64]
    lengths: I64
    sequence: I64
    kinds: U8
    data: U8
    starts: I64
    ends: I64


@dataclass(frozen=True, slots=True)
class DeletedRange:
    """Rows with first <= key < last that are older than `sequence` are gone."""

    first: bytes
    last: bytes
    sequence: int


class TableFile:
    """A table file whose bytes are at hand. Raises UnreadableTableError."""

    def __init__(self, content: pa.Buffer) -> None:
        self._bytes = memoryview(content).cast("B")
        index, meta = self._footer()
        places = dict(self._pairs(self._block(*meta)))
        if b"rocksdb.properties" not in places:
            raise UnreadableTableError("no properties")
        properties = dict(self._pairs(self._block(*_handle(places[b"rocksdb.properties"], 0)[:2])))
        self._check(properties)
        self.rows = _number(properties, b"rocksdb.num.entries")
        self.deleted_ranges = self._deleted_ranges(places)
        if _number(properties, b"rocksdb.num.range-deletions") != len(self.deleted_ranges):
            raise UnreadableTableError("deleted ranges are missing")
        by_user_key = bool(_number(properties, b"rocksdb.index.key.is.user.key"))
        short = bool(_number(properties, b"rocksdb.index.value.is.delta.encoded"))
        keys, self._starts, self.block_ends = self._index(self._block(*index), short)
        #: At least the last key of each block, and less than the first one of the next.
        self.bounds = keys if by_user_key else [key[:-_SEQUENCE] for key in keys]
        if len(self.bounds) != _number(properties, b"rocksdb.num.data.blocks"):
            raise UnreadableTableError("the index does not have all blocks")
        if (self._starts > self.block_ends).any() or (self.block_ends + _TRAILER > len(self._bytes)).any():
            raise UnreadableTableError("a block behind the end")

    def entries(self, first: bytes, last: bytes) -> Entries | None:
        """The entries of the blocks that may have keys in [first, last), and so some others; None: no block may."""
        blocks = slice(bisect.bisect_left(self.bounds, first), bisect.bisect_left(self.bounds, last) + 1)
        return self._read(self._starts[blocks], self.block_ends[blocks]) if self.bounds[blocks] else None

    def _read(self, starts: I64, ends: I64) -> Entries:
        """The entries of some blocks, in order."""
        content = np.frombuffer(self._bytes, np.uint8)
        kinds = content[ends]
        if (kinds == _PLAIN).all():
            return _entries(content[starts[0] : ends[-1]], starts - starts[0], ends - starts[0])
        if (kinds != _LZ4).any():
            return self._joined(
                [self._block(*place) for place in zip(starts.tolist(), (ends - starts).tolist(), strict=True)]
            )
        sizes, begins = varints(content, starts)
        unpack, packed = _LZ4_CODEC.decompress, self._bytes
        places = zip(begins.tolist(), ends.tolist(), sizes.tolist(), strict=True)
        try:
            return self._joined(
                [unpack(packed[begin:end], size, asbytes=True) for begin, end, size in places]
            )
        except (OSError, pa.ArrowException) as error:
            raise UnreadableTableError(f"a block that can't be unpacked: {error}") from error

    @staticmethod
    def _joined(blocks: list[bytes | memoryview]) -> Entries:
        ends = np.cumsum(np.fromiter(map(len, blocks), np.int64, len(blocks)))
        return _entries(np.frombuffer(b"".join(blocks), np.uint8), np.append(0, ends[:-1]), ends)

    def _footer(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Where the index and the metaindex are."""
        footer = bytes(self._bytes[-_FOOTER:])
        version = int.from_bytes(footer[41:45], "little")
        if (
            len(footer) < _FOOTER
            or int.from_bytes(footer[45:], "little") != _MAGIC
            or version not in (3, 4, 5)
        ):
            raise UnreadableTableError(f"not a table file of a format that is known ({version})")
        *meta, at = _handle(footer, 1)
        *index, _ = _handle(footer, at)
        return (index[0], index[1]), (meta[0], meta[1])

    @staticmethod
    def _check(properties: dict[bytes, bytes]) -> None:
        wanted = {
            b"rocksdb.comparator": b"leveldb.BytewiseComparator",
            b"rocksdb.block.based.table.index.type": bytes(4),
        }
        for name, value in wanted.items():
            if properties.get(name) != value:
                raise UnreadableTableError(f"{name!r} is {properties.get(name)!r}")
        if _number(properties, b"rocksdb.merge.operands") or _number(properties, b"rocksdb.num.wide.columns"):
            raise UnreadableTableError("values that must be merged")
        for name in properties:
            if name.startswith(b"rocksdb.external_sst_file"):
                raise UnreadableTableError("a file that was ingested")

    def _block(self, offset: int, size: int) -> bytes | memoryview:
        """A block, unpacked."""
        if offset + size + _TRAILER > len(self._bytes):
            raise UnreadableTableError("a block behind the end")
        packed = self._bytes[offset : offset + size]
        kind = self._bytes[offset + size]
        if kind == _PLAIN:
            return packed
        if kind != _LZ4:
            raise UnreadableTableError(f"a block packed by method {kind}")
        length, at = _varint(packed, 0)
        try:
            unpacked: bytes = _LZ4_CODEC.decompress(packed[at:], decompressed_size=length, asbytes=True)
        except (OSError, pa.ArrowException) as error:
            raise UnreadableTableError(f"a block that can't be unpacked: {error}") from error
        return unpacked

    @staticmethod
    def _pairs(block: bytes | memoryview) -> Iterator[tuple[bytes, bytes]]:
        """The entries of a small block, in order."""
        end = _entries_end(block)
        key, at = b"", 0
        while at < end:
            shared, at = _varint(block, at)
            more, at = _varint(block, at)
            length, at = _varint(block, at)
            key = key[:shared] + bytes(block[at : at + more])
            at += more
            yield key, bytes(block[at : at + length])
            at += length

    @staticmethod
    def _index(block: bytes | memoryview, short: bool) -> tuple[list[bytes], I64, I64]:
        """The keys of an index, and where their blocks begin and end; `short`: values have no length."""
        count = _restarts(block)
        end = _entries_end(block)
        data = np.frombuffer(bytes(block) + bytes(16), np.uint8)
        at = data[end : end + 4 * count].view("<u4").astype(np.int64)
        stops = np.append(at[1:], end)
        if not end:
            return [], at[:0], at[:0]
        shared, at = varints(data, at)
        more, at = varints(data, at)
        if shared.any():
            raise UnreadableTableError("keys of the index share bytes")
        if not short:
            _, at = varints(data, at)
        starts, ends = at.tolist(), (at + more).tolist()
        keys = [bytes(block[start:end]) for start, end in zip(starts, ends, strict=True)]
        firsts, at = varints(data, at + more)
        sizes, at = varints(data, at)
        if (at != stops).any():
            raise UnreadableTableError("entries of the index that do not end where the next one begins")
        return keys, firsts, firsts + sizes

    def _deleted_ranges(self, places: dict[bytes, bytes]) -> tuple[DeletedRange, ...]:
        if b"rocksdb.range_del" not in places:
            return ()
        ranges = []
        for key, last in self._pairs(self._block(*_handle(places[b"rocksdb.range_del"], 0)[:2])):
            if key[-_SEQUENCE] != _RANGE_DELETION:
                raise UnreadableTableError("a deleted range of another kind")
            sequence = int.from_bytes(key[1 - _SEQUENCE :], "little")
            ranges.append(DeletedRange(key[:-_SEQUENCE], last, sequence))
        return tuple(ranges)


_LZ4_CODEC = pa.Codec("lz4_raw")
_BYTE = np.uint64(0xFF)
#: In the first word of an entry, the bits that say that one of its three numbers is longer than a byte.
_LONG = np.uint64(0x808080 << 40)


def blob_places(entries: Entries, rows: I64) -> tuple[I64, I64, I64]:
    """Where the values of some entries of kind BLOB are: the number of the blob file, the first byte, the length."""
    at = entries.starts[rows]
    if (entries.data[at] != 1).any():
        raise UnreadableTableError("a blob of another kind")
    numbers, at = varints(entries.data, at + 1)
    firsts, at = varints(entries.data, at)
    lengths, at = varints(entries.data, at)
    if (entries.data[at] != _PLAIN).any() or (at + 1 != entries.ends[rows]).any():
        raise UnreadableTableError("a blob that is packed")
    return numbers, firsts, lengths


def varints(data: U8, at: I64) -> tuple[I64, I64]:
    """Numbers of up to five bytes, and where they end."""
    found = data[at].astype(np.int64)
    at = at + 1
    going = np.flatnonzero(found >= 0x80)
    found[going] &= 0x7F
    shift = 7
    while len(going):
        if shift > 28:
            raise UnreadableTableError("a number of more than five bytes")
        byte = data[at[going]].astype(np.int64)
        found[going] |= (byte & 0x7F) << shift
        at[going] += 1
        shift += 7
        going = going[byte >= 0x80]
    return found, at


def _varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    found = shift = 0
    while True:
        byte = data[at]
        found |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return found, at


def _handle(data: bytes | memoryview, at: int) -> tuple[int, int, int]:
    """The place and size of a block, and where they end."""
    offset, at = _varint(data, at)
    size, at = _varint(data, at)
    return offset, size, at


def _number(properties: dict[bytes, bytes], name: bytes) -> int:
    return _varint(properties[name], 0)[0] if name in properties else 0


def _restarts(block: bytes | memoryview) -> int:
    """How often keys begin anew. The highest bit says that a hash index follows."""
    count = int.from_bytes(block[-4:], "little")
    if count >> 31 or 4 * count + 4 > len(block):
        raise UnreadableTableError("a block without plain restarts")
    return count


def _entries_end(block: bytes | memoryview) -> int:
    return len(block) - 4 * _restarts(block) - 4


def _entries(data: U8, begins: I64, ends: I64) -> Entries:
    """The entries of the blocks that lie in `data`: the first of all runs that begin anew at once, then the second …"""
    data = np.concatenate([data, np.zeros(16, np.uint8)])
    words = unaligned(data)
    if (ends - begins < 4).any():
        raise UnreadableTableError("a block without restarts")
    counts = _little(words, ends - 4, 4)
    stops_of_blocks = ends - 4 - 4 * counts
    if (counts >> 31).any() or (counts == 0).any() or (stops_of_blocks < begins).any():
        raise UnreadableTableError("a block without plain restarts")
    offsets = _little(
        words, ragged(np.zeros(len(counts), np.int64), counts) * 4 + np.repeat(stops_of_blocks, counts), 4
    )
    last = np.cumsum(counts) - 1
    starts = np.repeat(begins, counts) + offsets
    stops = np.append(starts[1:], 0)
    stops[last] = stops_of_blocks
    if (offsets[last + 1 - counts] != 0).any() or (starts > stops).any():
        raise UnreadableTableError("restarts that are not in order")
    return _Runs(data, words, starts, stops).read()


def _little(words: npt.NDArray[np.void], at: I64, size: int) -> I64:
    """The little-endian numbers of `size` bytes at some places."""
    swapped = words[at].astype(np.uint64).byteswap()
    return (swapped & np.uint64((1 << 8 * size) - 1)).astype(np.int64)


class _Runs:
    """Runs of entries, each from its start to its stop; all are read side by side."""

    def __init__(self, data: U8, big: npt.NDArray[np.void], starts: I64, stops: I64) -> None:
        self._data, self._big = data, big
        self._at, self._stops = starts.copy(), stops
        self._words: list[U64] = []
        self._before = np.zeros(
            len(starts), np.int64
        )  # the length of the key before, without the sequence number

    def read(self) -> Entries:
        """All entries, run by run."""
        steps: list[tuple[I64, list[U64], I64, I64, I64, I64]] = []
        going = np.flatnonzero(self._at < self._stops)
        while len(going):
            steps.append((going, *self._step(going)))
            going = going[self._at[going] < self._stops[going]]
        if (self._at != self._stops).any():
            raise UnreadableTableError("entries that do not end where their run does")
        if not steps:
            raise UnreadableTableError("a block without entries")
        runs = np.concatenate([step[0] for step in steps])
        order = np.argsort(runs, kind="stable")
        width = len(self._words)

        def joined(parts: list[npt.NDArray[np.int64]]) -> I64:
            return np.concatenate(parts)[order]

        words = [
            np.concatenate(
                [step[1][i] if i < len(step[1]) else np.zeros(len(step[0]), np.uint64) for step in steps]
            )[order]
            for i in range(width)
        ]
        tags = joined([step[3] for step in steps])
        starts = joined([step[4] for step in steps])
        return Entries(
            words,
            joined([step[2] for step in steps]),
            tags >> 8,
            (tags & 0xFF).astype(np.uint8),
            self._data,
            starts,
            joined([step[5] for step in steps]),
        )

    def _step(self, going: I64) -> tuple[list[U64], I64, I64, I64, I64]:
        """The next entry of some runs: words and length of the key, sequence and kind, where its value is."""
        at = self._at[going]
        heads = self._big[at].astype(np.uint64)
        if (heads & _LONG).any():
            shared, at = varints(self._data, at)
            more, at = varints(self._data, at)
            length, at = varints(self._data, at)
        else:  # a byte each, nearly always
            shared, more, length = (
                (heads >> np.uint64(shift) & _BYTE).astype(np.int64) for shift in (56, 48, 40)
            )
            at = at + 3
        before = self._before[going]
        ends = at + more
        if (ends + length > self._stops[going]).any() or (more < _SEQUENCE).any() or (shared > before).any():
            raise UnreadableTableError("an entry that is not well formed")
        size = shared + more - _SEQUENCE
        every = len(going) == len(self._at)
        longest = -(-int(size.max(initial=0)) // 8)
        while len(self._words) < longest:
            self._words.append(np.zeros(len(self._at), np.uint64))
        words = []
        for i in range(longest):
            old = self._words[i] if every else self._words[i][going]
            kept = first_bytes(shared - 8 * i)
            wanted = first_bytes(size - 8 * i)
            # A word that begins before the new bytes has others in front, which are not wanted, nor is one behind them.
            new = self._big[np.minimum(at + 8 * i - shared, ends)].astype(np.uint64)
            word = (old & kept) | (new & ~kept & wanted)
            if every:
                self._words[i] = word.copy()
            else:
                self._words[i][going] = word
            words.append(word)
        tags = _little(self._big, ends - _SEQUENCE, 8)
        self._before[going] = size
        self._at[going] = ends + length
        return words, size, tags, ends, ends + length
