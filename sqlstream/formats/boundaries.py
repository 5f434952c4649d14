"""Record boundaries: where a file can be divided between two records, without parsing it.

JSON lines end at every newline. In CSV a newline inside quotes does not end a record; quotes are paired by
counting them, which is right only while they stand where a well-formed file has them. `csv_range_end` checks that
and gives up on the file if they don't: then the rest of it is one range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from sqlstream.formats.csv.shape import CsvShape

_BLOCK = 1 << 18
_NEWLINE, _RETURN, _HASH = 10, 13, 35

#: The byte that stands for the `#` of a comment line in what DuckDB reads.
COMMENT_MARK = 3

#: Finds the end of a range: (file, start, end of the file, most records, bytes wanted) -> (end, records or
#: None).
RangeEnd = Callable[[BinaryIO, int, int, int | None, int | None], tuple[int, int | None]]


def json_range_end(
    file: BinaryIO, start: int, size: int, records: int | None, wanted: int | None
) -> tuple[int, int | None]:
    """Where a range that starts at byte `start` ends: after `records` lines, or at the first line end at or
    after start + `wanted` bytes if that comes first; the end of the file (`size`) if neither does.

    Also returns how many lines that is, if `records` is given.
    """
    if records is None:
        if wanted is None:
            return size, None
        position = start + max(wanted, 1) - 1
        while position < size:
            block = _read(file, position, size)
            ends = np.flatnonzero(block == _NEWLINE)
            if len(ends):
                return position + int(ends[0]) + 1, None
            position += len(block)
        return size, None
    position, left, last = start, records, _NEWLINE
    while position < size:
        block = _read(file, position, size)
        ends = block == _NEWLINE
        found = int(np.count_nonzero(ends))
        goal = None if wanted is None else start + wanted - position
        if found >= left or (goal is not None and goal <= len(block)):
            boundaries = np.flatnonzero(ends) + 1
            chosen = _pick(boundaries, left, goal)
            if chosen is not None:
                return position + int(boundaries[chosen]), records - left + chosen + 1
        left -= found
        last = int(block[-1])
        position += len(block)
    return size, records - left + (last != _NEWLINE)


def csv_range_end(
    shape: CsvShape,
    file: BinaryIO,
    start: int,
    size: int,
    records: int | None,
    wanted: int | None,
    *,
    stray_returns: bool = False,
) -> tuple[int, int | None]:
    """As `json_range_end`, for CSV records from a record's start on.

    (`size`, None) if what is looked at is not well-formed, so that there is no telling where records end. A
    CR without LF is not, because DuckDB may end a record there; unless `stray_returns` says that it does not.
    """
    if records is None and wanted is None:
        return size, None
    quote, delimiter = ord(shape.quote) if shape.quote else None, shape.delimiter.encode()
    escape = None if shape.escape in (None, shape.quote) else ord(str(shape.escape))
    if len(delimiter) != 1 or (quote or 0) > 127 or (escape or 0) > 127:
        return size, None
    position, seen, inside, before = start, 0, False, _NEWLINE
    while position < size:
        block = _read(file, position, size)
        while block[-1] in (quote, _RETURN) and position + len(block) < size:
            block = np.concatenate([block, _read(file, position + len(block), size, 1 << 10)])
        if (escape is not None and np.any(block == escape)) or (not stray_returns and _lone_return(block)):
            return size, None
        ends = np.flatnonzero(block == _NEWLINE)
        quotes = ends[:0] if quote is None else np.flatnonzero(block == quote)
        if len(quotes):
            assert quote is not None
            if shape.comments or not _well_formed(block, quotes, inside, before, delimiter[0], quote):
                return size, None
            ends = ends[(np.searchsorted(quotes, ends) + inside) % 2 == 0]
        elif inside:
            ends = ends[:0]
        goal = None if wanted is None else start + wanted - position
        chosen = _pick(ends + 1, None if records is None else records - seen, goal)
        if chosen is not None:
            return position + int(ends[chosen]) + 1, seen + chosen + 1
        seen += len(ends)
        inside = (inside + len(quotes)) % 2 == 1
        before = int(block[-1])
        position += len(block)
    return size, seen + (before != _NEWLINE or inside)


def line_ends_unified(shape: CsvShape, data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The bytes of a CSV file without the CR of each CR LF outside quotes (quotes are taken to be paired)."""
    pairs = np.flatnonzero((data[:-1] == _RETURN) & (data[1:] == _NEWLINE))
    if shape.quote is not None:
        quotes = np.flatnonzero(data == ord(shape.quote))
        pairs = pairs[np.searchsorted(quotes, pairs) % 2 == 0]
    return np.delete(data, pairs)


def comments_marked(shape: CsvShape, data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The bytes of a CSV file with COMMENT_MARK for the `#` that begins a line outside quotes.

    >>> bytes(comments_marked(CsvShape(), np.frombuffer(b'#it"s\\n1,"a\\n#b"\\n2,#c\\n', np.uint8)))
    b'\\x03it"s\\n1,"a\\n#b"\\n2,#c\\n'
    """
    bom = 3 if data[:3].tobytes() == b"\xef\xbb\xbf" else 0
    hashes = np.flatnonzero(data == _HASH)
    starts = hashes[(hashes == bom) | np.isin(data[hashes - 1], (_NEWLINE, _RETURN))]
    quotes = starts[:0] if shape.quote is None else np.flatnonzero(data == ord(shape.quote))
    if shape.escape not in (None, shape.quote) and len(quotes):
        quotes = quotes[data[quotes - 1] != ord(str(shape.escape))]
    ends = np.flatnonzero(data == _NEWLINE)
    marked = data.copy()
    in_comments = 0
    for start in starts:
        before = int(np.searchsorted(quotes, start))
        if (before - in_comments) % 2 == 0:
            marked[start] = COMMENT_MARK
            line = int(np.searchsorted(ends, start))
            end = ends[line] if line < len(ends) else len(data)
            in_comments += int(np.searchsorted(quotes, end)) - before
    return marked


def count_lines(file: BinaryIO, start: int, end: int) -> int:
    """How many newlines there are in a range of bytes."""
    total, position = 0, start
    while position < end:
        block = _read(file, position, end)
        total += int(np.count_nonzero(block == _NEWLINE))
        position += len(block)
    return total


def _read(file: BinaryIO, position: int, size: int, length: int = _BLOCK) -> npt.NDArray[np.uint8]:
    file.seek(position)
    data = file.read(min(length, size - position))
    if not data:
        raise EOFError("the file became shorter while it was read")
    return np.frombuffer(data, dtype=np.uint8)


def _pick(ends: npt.NDArray[np.int64], left: int | None, goal: int | None) -> int | None:
    """Which of these ends is the first at or after `goal`, or the `left`-th, whichever comes first; None:
    none is.
    """
    chosen = len(ends)
    if left is not None and left <= len(ends):
        chosen = left - 1
    if goal is not None:
        chosen = min(chosen, int(np.searchsorted(ends, goal)))
    return chosen if chosen < len(ends) else None


def _lone_return(block: npt.NDArray[np.uint8]) -> bool:
    """Whether a CR stands without its LF, which DuckDB takes for a line end."""
    returns = np.flatnonzero(block == _RETURN)
    if not len(returns):
        return False
    return bool(returns[-1] == len(block) - 1 or np.any(block[returns + 1] != _NEWLINE))


def _well_formed(
    block: npt.NDArray[np.uint8],
    quotes: npt.NDArray[np.int64],
    inside: bool,
    before: int,
    delimiter: int,
    quote: int,
) -> bool:
    """Whether every quote opens a field at its start, closes it at its end, or is one of a doubled pair."""
    opening = quotes[1 if inside else 0 :: 2]
    closing = quotes[0 if inside else 1 :: 2]
    left = np.where(opening > 0, block[opening - 1], np.uint8(before))
    right = block[np.minimum(closing + 1, len(block) - 1)]
    at_end = closing == len(block) - 1  # only at the end of the file
    starts = (left == delimiter) | (left == _NEWLINE) | (left == quote)
    stops = (right == delimiter) | (right == _NEWLINE) | (right == _RETURN) | (right == quote) | at_end
    return bool(np.all(starts) and np.all(stops))
