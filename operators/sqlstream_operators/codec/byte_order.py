"""Sorting byte strings as numbers: eight bytes are compared at once, and bytes that all keys share not at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .binary import I64, U8, from_matrix, parts

U64 = npt.NDArray[np.uint64]

_FIRST_BYTES: U64 = np.array([(1 << 64) - (1 << 8 * (8 - i)) for i in range(9)], np.uint64)


def first_bytes(counts: I64) -> U64:
    """The bits of the first so many bytes of a word, which is a big-endian number; all from eight on, none up to zero.

    >>> [hex(bits) for bits in first_bytes(np.array([-1, 1, 9])).tolist()]
    ['0x0', '0xff00000000000000', '0xffffffffffffffff']
    """
    return _FIRST_BYTES[np.minimum(np.maximum(counts, 0), 8)]


def unaligned(data: U8, before: int = 0, behind: int = 8) -> npt.NDArray[Any]:
    """The big-endian word at every byte of `data`, with `before` and `behind` zeros around: one read of each, unaligned.

    The word that begins at byte i is number `before + i`.
    """
    padded = np.concatenate([np.zeros(before, np.uint8), data, np.zeros(behind, np.uint8)])
    return np.ndarray(shape=(len(padded) - 7,), dtype=">u8", buffer=padded.data, strides=(1,))


def key_words(keys: U8 | pa.Array) -> list[U64]:
    """The rows of a matrix or binary array as words, zeros behind their ends: word by word, as long as the longest."""
    array = from_matrix(keys) if isinstance(keys, np.ndarray) else keys
    if not len(array):
        return []
    offsets, data = parts(array)
    lengths = np.diff(offsets)
    longest, shortest = int(lengths.max()), int(lengths.min())
    starts = offsets[:-1] - offsets[0]
    windows = unaligned(data[offsets[0] : offsets[-1]], behind=longest + 8)
    words = []
    for at in range(0, longest, 8):
        word: U64 = windows[starts + at].astype(np.uint64)
        if at + 8 > shortest:
            word &= first_bytes(lengths - at)
        words.append(word)
    return words


def words_order(words: Sequence[U64]) -> I64:
    """The places of rows in the order of their words; equal ones stay in theirs."""
    packed = _without_shared(words)
    if not packed:
        return np.arange(len(words[0]) if words else 0)
    if len(packed) > 1:
        return np.lexsort(packed[::-1])
    # The sort that may swap equal ones is several times as fast, and keys are distinct nearly always.
    order = np.argsort(packed[0])
    found = packed[0][order]
    return order if not (found[1:] == found[:-1]).any() else np.argsort(packed[0], kind="stable")


def bytes_order(keys: U8 | pa.Array) -> I64:
    """The places of the rows of a matrix or binary array in their order; none may be a prefix of another."""
    return words_order(key_words(keys))


def sorted_distinct(keys: U8 | pa.Array) -> U8 | pa.Array:
    """The distinct rows of a matrix or binary array in their order; none may be a prefix of another."""
    words = key_words(keys)
    order = words_order(words)
    new = np.zeros(len(order), bool)
    new[:1] = True
    for word in words:
        found = word[order]
        new[1:] |= found[1:] != found[:-1]
    order = order[new]
    return keys[order] if isinstance(keys, np.ndarray) else keys.take(pa.array(order))


def _without_shared(words: Sequence[U64]) -> list[U64]:
    """Words with the same order, without the bytes that are the same in all rows: key groups and small numbers need one."""
    packed: list[U64] = []
    free = 0
    for word in words:
        varying = int(np.bitwise_or.reduce(word ^ word[0]))
        end = 8
        spans: list[tuple[int, int]] = []  # bytes from, up to; counted from the last one
        for byte in range(7, -2, -1):
            varies = byte >= 0 and varying >> 8 * byte & 0xFF
            if not varies:
                if byte + 1 < end:
                    spans.append((byte + 1, end))
                end = byte
        for low, high in spans:
            size = 8 * (high - low)
            piece = (word >> np.uint64(8 * low)) & np.uint64((1 << size) - 1)
            if free < size:
                packed.append(piece)
                free = 64 - size
            else:
                packed[-1] = (packed[-1] << np.uint64(size)) | piece
                free -= size
    return packed
