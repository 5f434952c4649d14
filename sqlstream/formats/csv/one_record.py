"""Whether bytes are one record of CSV whose quotes stand where a well-formed one has them.

That is decided for all records at once with NumPy; for those where it can't, one by one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sqlstream.formats.csv.shape import CsvShape
from sqlstream.formats.text_records import NEWLINE, RETURN, TextRecords


def suspects(records: TextRecords, shape: CsvShape) -> npt.NDArray[np.int64]:
    """Which records may not be one: quotes that don't pair as they should, or line ends outside of them."""
    content, starts = records.content, records.starts
    ends = np.flatnonzero((content == NEWLINE) | (content == RETURN))
    wrong = np.zeros(len(records), bool)
    if shape.quote is None:
        wrong[_owners(starts, ends)] = True
        return np.flatnonzero(wrong)
    delimiter = shape.delimiter.encode()
    if len(delimiter) != 1 or ord(shape.quote) > 127:
        return np.arange(len(records))
    quotes = np.flatnonzero(content == ord(shape.quote))
    owners = _owners(starts, quotes)
    if shape.escape not in (None, shape.quote):
        if ord(str(shape.escape)) > 127:
            return np.arange(len(records))
        escaped = _owners(starts, np.flatnonzero(content == ord(str(shape.escape))))
        wrong[np.intersect1d(escaped, owners)] = True
    before = np.searchsorted(quotes, starts)  # how many quotes stand before a record
    wrong[np.diff(before) % 2 == 1] = True
    opening = (np.arange(len(quotes)) - before[owners]) % 2 == 0
    fence = (delimiter[0], ord(shape.quote))
    left = content[np.maximum(quotes - 1, 0)]
    right = content[np.minimum(quotes + 1, len(content) - 1)] if len(content) else content
    begins = (quotes == starts[owners]) | np.isin(left, fence)
    stops = (quotes == starts[owners + 1] - 1) | np.isin(right, fence)
    wrong[owners[np.where(opening, ~begins, ~stops)]] = True
    lines = _owners(starts, ends)
    inside = (np.searchsorted(quotes, ends) - before[lines]) % 2 == 1
    wrong[lines[~inside]] = True
    return np.flatnonzero(wrong)


def _owners(starts: npt.NDArray[np.int64], places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The records in which these places are."""
    found: npt.NDArray[np.int64] = np.searchsorted(starts, places, "right") - 1
    return found


def is_one_record(raw: bytes, shape: CsvShape) -> bool:
    r"""Whether every quote opens a field, closes it, or is meant as it is, and no line ends outside of them.

    >>> [is_one_record(raw, CsvShape()) for raw in (b'a,"b\n,""c"', b'a"b', b'a\nb', b'"a', b'"a"b')]
    [True, False, False, False, False]
    >>> is_one_record(b'"a\\"b",c', CsvShape(escape="\\"))
    True
    """
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return False
    if shape.quote is None:
        return "\n" not in text and "\r" not in text
    escape = shape.escape or shape.quote
    at, begins = 0, True
    while at < len(text):
        char = text[at]
        if char != shape.quote:
            if char in "\r\n":
                return False
            begins = char == shape.delimiter
            at += 1
            continue
        if not begins:
            return False
        at = _closed(text, at + 1, shape.quote, escape)
        if at < 0 or text[at : at + 1] not in ("", shape.delimiter):
            return False
        begins = False
    return True


def _closed(text: str, at: int, quote: str, escape: str) -> int:
    """What follows the quote that closes a field, whose text begins at `at`; -1: nothing closes it."""
    while at < len(text):
        if text[at] == escape and text[at + 1 : at + 2] in (quote, escape) and at + 1 < len(text):
            at += 2
        elif text[at] == quote:
            return at + 1
        else:
            at += 1
    return -1
