"""Records of text as lines of one text, so that what reads files reads them.

No record is looked at in Python but those that begin as no record should: NumPy and Arrow put all of them together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

NEWLINE, RETURN = 10, 13
_TAB = 9
#: What DuckDB takes for white space between values of JSON.
WHITE_SPACE = b" \t\n\v\f\r"
_BOM = np.frombuffer(b"\xef\xbb\xbf", np.uint8)
EMPTY = "the message is empty"


@dataclass(frozen=True, slots=True)
class TextRecords:
    """The bytes of records: that of number `numbers[i]` is `content` from `starts[i]` to `starts[i + 1]`."""

    content: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.numbers)

    @classmethod
    def of(cls, values: pa.Array) -> TextRecords:
        """The records of an array of large_binary; a NULL is none. A byte order mark at the beginning is no part of it."""
        numbers = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        content, starts = buffers(values.drop_null() if values.null_count else values)
        records = cls(content, starts, numbers)
        long = np.flatnonzero(np.diff(starts) >= len(_BOM))
        begins = starts[long]
        begins = begins[content[begins] == _BOM[0]]
        marks = begins[(content[begins + 1] == _BOM[1]) & (content[begins + 2] == _BOM[2])]
        return records.without((marks[:, None] + np.arange(len(_BOM))).ravel()) if len(marks) else records

    def blank(self, white: bytes) -> npt.NDArray[np.int64]:
        """Which records have no bytes but these."""
        filled = np.diff(self.starts) > 0
        first = np.full(len(self), white[0], np.uint8)
        first[filled] = self.content[self.starts[:-1][filled]]
        doubtful = np.flatnonzero(np.isin(first, np.frombuffer(white, np.uint8))).tolist()
        return np.array([i for i in doubtful if not self[i].strip(white)], np.int64)

    def __getitem__(self, index: int) -> bytes:
        return self.content[self.starts[index] : self.starts[index + 1]].tobytes()

    def take(self, which: npt.NDArray[np.int64]) -> TextRecords:
        """Some of the records, in this order."""
        content, starts = buffers(_array(self.content, self.starts).take(pa.array(which, pa.int64())))
        return TextRecords(content, starts, self.numbers[which])

    def but(self, which: npt.NDArray[np.int64]) -> TextRecords:
        """The records but those."""
        return self.take(np.delete(np.arange(len(self)), which)) if len(which) else self

    def without(self, places: npt.NDArray[np.int64]) -> TextRecords:
        """The records without the bytes at these places, which are in order."""
        if not len(places):
            return self
        starts = self.starts - np.searchsorted(places, self.starts)
        return TextRecords(np.delete(self.content, places), starts, self.numbers)

    def lines(self) -> bytes | pa.Buffer:
        """The records, with a line end between two."""
        every = pa.LargeListArray.from_arrays(
            pa.array([0, len(self)], pa.int64()), _array(self.content, self.starts)
        )
        joined: pa.Buffer | None = pc.binary_join(every, pa.scalar(b"\n", pa.large_binary()))[0].as_buffer()
        return b"" if joined is None else joined

    def on_one_line(self) -> TextRecords:
        """Each with tabs for its line ends: between values both are white space, and no text of JSON has one as it is."""
        if not np.any(self.content == NEWLINE):
            return self
        content = np.where(self.content == NEWLINE, np.uint8(_TAB), self.content)
        return TextRecords(content, self.starts, self.numbers)

    def numbered(self, lines: pa.ChunkedArray) -> pa.ChunkedArray:
        """The numbers of the records that stand on these lines (from 0)."""
        if len(self) and self.numbers[-1] == len(self) - 1:
            return lines  # no number is missing
        return pc.take(pa.array(self.numbers, pa.int64()), lines)


def buffers(values: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The bytes of an array of large_binary without NULLs, and where each value starts in them, with the end of the last."""
    _, offsets, data = values.buffers()
    if offsets is None or not len(values):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    starts = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    content = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return content[starts[0] : starts[-1]], starts - starts[0]


def _array(content: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]) -> pa.Array:
    return pa.Array.from_buffers(
        pa.large_binary(), len(starts) - 1, [None, pa.py_buffer(starts), pa.py_buffer(content)]
    )
