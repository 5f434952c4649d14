"""The bytes of many records, read at once: one lane per record, and in each a position.

Records of one schema have their fields in one order, so the n-th field of all records is read together by a handful
of numpy's operations. Whatever is wrong in a lane makes that lane bad, and leaves the others as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: Bytes behind the last record, so that a word may be read at each position.
PADDING = 16
#: The longest variable-length integer, in bytes.
_LONGEST = 10
_STOPS = np.uint64(0x8080808080808080)
_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True)
class Bytes:
    """A block of bytes, and the word of eight of them that begins at each."""

    data: npt.NDArray[np.uint8]
    arrow: pa.Buffer
    words: npt.NDArray[np.uint64]
    halves: npt.NDArray[np.uint32]

    @classmethod
    def of(cls, data: npt.NDArray[np.uint8]) -> Bytes:
        """Copies the bytes, and pads them."""
        padded = np.zeros(len(data) + PADDING, np.uint8)
        padded[: len(data)] = data
        words: npt.NDArray[np.uint64] = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
        halves: npt.NDArray[np.uint32] = np.ndarray((len(padded) - 3,), "<u4", padded, strides=(1,))
        return cls(padded, pa.py_buffer(padded), words, halves)


@dataclass(slots=True)
class Lanes:
    """Positions in records: `at` and `end` are byte numbers in `bytes`, `ids` the records' numbers.

    `reasons` says of records by number what is wrong with them; all lanes over one block share it. A bad lane stands at
    its end, reads as zeros and moves no further.
    """

    bytes: Bytes
    at: Longs
    end: Longs
    ids: Longs
    reasons: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.at)

    def part(self, chosen: Bools) -> Lanes:
        """Some of the lanes, to be given back by `advance`."""
        return Lanes(self.bytes, self.at[chosen], self.end[chosen], self.ids[chosen], self.reasons)

    def advance(self, chosen: Bools, part: Lanes) -> None:
        """Go on where a part of the lanes stands."""
        self.at[chosen] = part.at

    def fail(self, wrong: Bools, reason: str) -> None:
        """Make lanes bad; of a record the first reason stays."""
        for id_ in self.ids[wrong].tolist():
            self.reasons.setdefault(id_, reason)
        self.at[wrong] = self.end[wrong]

    @property
    def good(self) -> Bools:
        """Lanes that nothing is wrong with."""
        if not self.reasons:
            return np.ones(len(self), np.bool_)
        return ~np.isin(self.ids, np.fromiter(self.reasons, np.int64, len(self.reasons)))

    def need(self, sizes: Any) -> None:
        """Make lanes bad that have fewer bytes than these."""
        short = self.at + sizes > self.end
        if short.any():
            self.fail(short, "the record ends in the middle of a value")

    def varints(self) -> npt.NDArray[np.uint64]:
        """The next variable-length integer of each lane (7 bits a byte, the lowest first), at most 64 bits."""
        if not len(self):
            return np.zeros(0, np.uint64)
        first = self.bytes.data[self.at]
        if (first < 0x80).all():  # lengths of short texts, the branches of unions
            return self._short_varints(first)
        words = self.bytes.words[self.at]
        stops = ~words & _STOPS
        long_ones = stops == 0
        has_long = bool(long_ones.any())
        # All bits up to the first byte without its high bit: that byte is the number's last.
        mask = stops ^ (stops - _ONE)
        lengths = (np.bitwise_count(mask) >> 3).astype(np.int64)
        values = _packed(words & mask)
        if has_long:
            where = np.flatnonzero(long_ones)
            values[where], lengths[where] = self._long_varints(where)
        at = self.at + lengths
        wrong = at > self.end
        if has_long:
            wrong |= lengths > _LONGEST
        if wrong.any():
            self.at = np.where(wrong, self.at, at)
            self.fail(wrong, "the record ends in the middle of a number")
            values[wrong] = 0
        else:
            self.at = at
        return values

    def _short_varints(self, first: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
        """Numbers of one byte."""
        values = first.astype(np.uint64)
        wrong = self.at >= self.end
        if wrong.any():
            values[wrong] = 0
            self.at = np.where(wrong, self.at, self.at + 1)
            self.fail(wrong, "the record ends in the middle of a number")
        else:
            self.at = self.at + 1
        return values

    def _long_varints(self, where: npt.NDArray[np.intp]) -> tuple[npt.NDArray[np.uint64], Longs]:
        """Numbers of nine or ten bytes; a length of more than ten is no number."""
        at = self.at[where]
        values = _packed(self.bytes.words[at])
        ninth, tenth = self.bytes.data[at + 8], self.bytes.data[at + 9]
        values |= (ninth & np.uint8(0x7F)).astype(np.uint64) << np.uint64(56)
        nine = ninth < 0x80
        values |= np.where(nine, 0, tenth.astype(np.uint64) << np.uint64(63)).astype(np.uint64)
        lengths = np.where(nine, 9, np.where(tenth <= 1, 10, _LONGEST + 1))
        return values, lengths.astype(np.int64)

    def longs(self) -> Longs:
        """The next number of each lane, zigzag as in Avro."""
        raw = self.varints()
        return ((raw >> _ONE) ^ (np.uint64(0) - (raw & _ONE))).view(np.int64)

    def sizes(self) -> Longs:
        """The next number of each lane as a length of what follows and is in the record."""
        sizes = self.longs()
        wrong = (sizes < 0) | (sizes > self.end - self.at)
        if wrong.any():
            self.fail(wrong & self.good, "a length that is more than what is left of the record")
            sizes[wrong] = 0
        return sizes

    def doubles(self) -> npt.NDArray[np.float64]:
        """The next eight bytes."""
        self.need(8)
        values = self.bytes.words[self.at].view(np.float64)
        self.at = np.minimum(self.at + 8, self.end)
        return values

    def floats(self) -> npt.NDArray[np.float32]:
        """The next four bytes."""
        self.need(4)
        values = self.bytes.halves[self.at].view(np.float32)
        self.at = np.minimum(self.at + 4, self.end)
        return values

    def single_bytes(self) -> npt.NDArray[np.uint8]:
        """The next byte; 0 in bad lanes."""
        self.need(1)
        values = np.where(self.at < self.end, self.bytes.data[self.at], 0).astype(np.uint8)
        self.at = np.minimum(self.at + 1, self.end)
        return values

    def pieces(self, sizes: Longs) -> pa.Array:
        """So many of the next bytes of each lane, as binary: lanes are in the order of their bytes."""
        starts = self.at
        self.at = starts + sizes
        if not len(self):
            return pa.array([], pa.binary())
        # Pieces and the gaps between them, over the bytes as they are; Arrow copies every other one out.
        offsets = np.empty(2 * len(starts), np.int32)
        offsets[0::2] = starts
        offsets[1::2] = self.at
        both = pa.Array.from_buffers(
            pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), self.bytes.arrow]
        )
        return both.take(pa.array(np.arange(0, len(offsets), 2)))

    def digits(self, sizes: Longs) -> npt.NDArray[np.uint8]:
        """The next bytes as numbers of 16 bytes, lowest byte first, of numbers in two's complement, highest first."""
        back = np.arange(16)
        last = self.at + sizes - 1
        where = np.maximum(last[:, None] - back[None, :], 0)
        inside = back[None, :] < sizes[:, None]
        found = self.bytes.data[where]
        first = self.bytes.data[self.at]
        fill = np.where((first >= 0x80) & (sizes > 0), 0xFF, 0).astype(np.uint8)
        self.at = self.at + sizes
        return np.where(inside, found, fill[:, None]).astype(np.uint8)


def _packed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The low 7 bits of each of eight bytes, next to each other."""
    x = words & np.uint64(0x7F7F7F7F7F7F7F7F)
    x = (x & np.uint64(0x007F007F007F007F)) | ((x & np.uint64(0x7F007F007F007F00)) >> _ONE)
    x = (x & np.uint64(0x00003FFF00003FFF)) | ((x & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2))
    return (x & np.uint64(0x000000000FFFFFFF)) | ((x & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4))
