"""Segments: files that hold the large values of an epoch's rows, which deltas and RocksDB only point to.

A large value is written once, where it stays: not into RocksDB too, nor from there into the files of a snapshot (WiscKey, Lu
et al., FAST 2016, with the log in the checkpoint store). A segment has the values of rows of one table, in blocks::

    magic                the blocks, LZ4, each of whole values and at least BLOCK_BYTES before the last
    where each block ends, 8 bytes, and its size unpacked, 4 bytes
    the keys of the rows, zstd: the length of each, 4 bytes, and all keys
    footer               the number of blocks, of rows, the bytes of the keys packed and unpacked, 8 bytes each; magic

A pointer stands where a value would: `TAG`, the first 8 bytes of the file's digest, the block, where in it the value begins,
how long it is, and its CRC, so that what is read is what was written. No value begins as `TAG` does: it would be of
the 2,097,151st fields.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from itertools import pairwise
from typing import TypeGuard

import numpy as np
import pyarrow as pa

from sqlstream_operators.codec.binary import from_matrix, from_offsets, parts
from sqlstream_operators.codec.key_bytes import to_bytes

from .packed_rows import PackedRows
from .version import StateFile, file_digest

MAGIC = b"sqlsseg1"
TAG = b"\xff\xff\x7f"
#: A pointer is read with its whole block: 7 µs for 16 KiB of LZ4, 35 µs of zstd.
BLOCK_BYTES = 16 << 10
#: Values that are as long on average are worth a pointer, as they are a place in a blob file.
MEAN_VALUE_BYTES = 128
MIN_BYTES = 1 << 20
MAX_BYTES = 64 << 20
#: A segment has at least such a part of all, so that there are never more than some thousands of them.
SHARE = 500
_FIELDS = np.dtype(
    [("tag", "V3"), ("file", "V8"), ("block", "<u4"), ("at", "<u4"), ("size", "<u4"), ("crc", "<u4")]
)
_POINTER = struct.Struct("<3s8sIIII")
POINTER_BYTES = _POINTER.size
_FOOTER = struct.Struct("<QQQQ8s")
_BLOCKS, _KEYS = pa.Codec("lz4_raw"), pa.Codec("zstd", compression_level=1)


def is_pointer(value: bytes | None) -> TypeGuard[bytes]:
    """Whether a value is a pointer into a segment."""
    return value is not None and len(value) == POINTER_BYTES and value[:3] == TAG


def place_of(pointer: bytes) -> tuple[int, int, int, int]:
    """The block, where in it the value begins, its size and its CRC."""
    _, _, block, start, size, crc = _POINTER.unpack(pointer)
    return block, start, size, crc


def value_size(value: bytes) -> int:
    """How many bytes a value has, or the one that it points to."""
    return place_of(value)[2] if is_pointer(value) else len(value)


def file_of(pointer: bytes) -> bytes:
    """Which segment a pointer is into: the first 8 bytes of its digest."""
    return pointer[3:11]


def prefix_of(file: StateFile) -> bytes:
    """What pointers call a segment."""
    return bytes.fromhex(file.digest[:16])


def worth_segments(rows: PackedRows, kept: int) -> bool:
    """Whether the values of some rows go to segments, where `kept` bytes are in segments already."""
    offsets, _ = parts(rows.values)
    size = int(offsets[-1] - offsets[0])
    return size >= max(MIN_BYTES, kept // SHARE) and size >= MEAN_VALUE_BYTES * len(rows)


def cut_up(rows: PackedRows) -> Iterator[PackedRows]:
    """The rows, so many at a time as a segment has."""
    offsets, _ = parts(rows.values)
    number = (offsets[:-1] - offsets[0]) // MAX_BYTES
    for start, end in pairwise([0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), len(rows)]):
        yield PackedRows(rows.keys.slice(start, end - start), rows.values.slice(start, end - start))


def encode_segment(rows: PackedRows) -> tuple[bytes, pa.Array]:
    """The file of the values of some rows, at least one, and a pointer into it for each."""
    offsets, data = parts(rows.values)
    content = memoryview(data.data)
    number = (offsets[:-1] - offsets[0]) // BLOCK_BYTES
    firsts = np.append(0, np.flatnonzero(np.diff(number)) + 1)
    bounds = np.append(offsets[firsts], offsets[-1])
    blocks = [_BLOCKS.compress(content[start:end], asbytes=True) for start, end in pairwise(bounds.tolist())]
    ends = len(MAGIC) + np.cumsum(np.fromiter(map(len, blocks), np.int64, len(blocks)))
    key_offsets, key_data = parts(rows.keys)
    keys = np.diff(key_offsets).astype("<u4").tobytes() + key_data[key_offsets[0] : key_offsets[-1]].tobytes()
    packed = _KEYS.compress(keys, asbytes=True)
    file = b"".join(
        [
            MAGIC,
            *blocks,
            ends.astype("<u8").tobytes(),
            np.diff(bounds).astype("<u4").tobytes(),
            packed,
            _FOOTER.pack(len(blocks), len(rows), len(packed), len(keys), MAGIC),
        ]
    )
    pointers = np.zeros(len(rows), _FIELDS)
    pointers["tag"] = np.void(TAG)
    pointers["file"] = np.void(bytes.fromhex(file_digest(file)[:16]))
    block = np.repeat(np.arange(len(blocks)), np.diff(np.append(firsts, len(rows))))
    pointers["block"] = block
    pointers["at"] = offsets[:-1] - bounds[block]
    pointers["size"] = np.diff(offsets)
    pointers["crc"] = [zlib.crc32(content[start:end]) for start, end in pairwise(offsets.tolist())]
    return file, from_matrix(pointers.view(np.uint8).reshape(len(rows), POINTER_BYTES))


class SegmentReader:
    """The bytes of a segment, at hand; raises ValueError if they are none."""

    def __init__(self, content: pa.Buffer) -> None:
        self._bytes = memoryview(content).cast("B")
        if len(self._bytes) < len(MAGIC) + _FOOTER.size or self._bytes[: len(MAGIC)] != MAGIC:
            raise ValueError("is not a segment")
        blocks, self._rows, packed, self._key_bytes, magic = _FOOTER.unpack(self._bytes[-_FOOTER.size :])
        self._keys_at = len(self._bytes) - _FOOTER.size - packed
        index = self._keys_at - 12 * blocks
        if magic != MAGIC or index < len(MAGIC):
            raise ValueError("is not a segment of this version")
        self._ends = np.frombuffer(self._bytes, "<u8", blocks, index)
        self._sizes = np.frombuffer(self._bytes, "<u4", blocks, index + 8 * blocks)
        self._last: tuple[int, bytes] = (-1, b"")

    def value(self, block: int, start: int, size: int, crc: int) -> bytes:
        """What a pointer points to. The block that was read last is kept: rows are read in order."""
        number, content = self._last
        if number != block:
            begin = int(self._ends[block - 1]) if block else len(MAGIC)
            packed = self._bytes[begin : int(self._ends[block])]
            content = _BLOCKS.decompress(packed, int(self._sizes[block]), asbytes=True)
            self._last = block, content
        value = content[start : start + size]
        if len(value) != size or zlib.crc32(value) != crc:
            raise ValueError("has another value than was written (checksum differs)")
        return value

    def keys(self) -> list[bytes]:
        """The keys of all rows."""
        packed = self._bytes[self._keys_at : len(self._bytes) - _FOOTER.size]
        content = _KEYS.decompress(packed, self._key_bytes, asbytes=True)
        lengths = np.frombuffer(content, "<u4", self._rows)
        offsets = np.append(0, np.cumsum(lengths, dtype=np.int64))
        return to_bytes(from_offsets(offsets, content[4 * self._rows :]))
