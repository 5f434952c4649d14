"""Where in its files a row of a split is, found by trying halves: for a row that no expression can be computed of."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import BinaryIO

from sqlstream.connectors.api import Split
from sqlstream.connectors.filesystem.file_ranges import (
    FileRange,
    Workspace,
    compression,
    decompressed,
    open_entry,
)
from sqlstream.connectors.filesystem.options import FileOptions
from sqlstream.connectors.filesystem.parts import Part
from sqlstream.formats.boundaries import count_lines as lines_in
from sqlstream.formats.files import Unit

#: The text of a compressed file is looked through if it has at most so many bytes.
_UNPACKED = 64 << 20


def halves(split: Split, ranges: Sequence[FileRange], options: FileOptions) -> list[Split]:
    """The split's `ranges` in two parts; none if it can't be divided.

    One row (of Parquet, Avro) or one line can't be, nor can ORC, compressed CSV and large compressed files.
    """
    if len(ranges) > 1:
        half = len(ranges) // 2
        return [_part(split, ranges[:half]), _part(split, ranges[half:])]
    if not ranges:
        return []
    whole = ranges[0]
    end = whole.end if whole.end is not None else _end(whole, options)
    middle = None if end is None else _middle(whole, end, options)
    if middle is None or end is None or not whole.start < middle < end:
        return []
    return [_part(split, [replace(whole, end=middle)]), _part(split, [replace(whole, start=middle, end=end)])]


def place(ranges: Sequence[FileRange], options: FileOptions) -> str:
    """Where a split is, in words.

    >>> from sqlstream.connectors.filesystem.paths import FileEntry
    >>> place([FileRange(FileEntry("/d/x.parquet", 9, 0), 4, 5)], FileOptions("d", "parquet"))
    '/d/x.parquet, row 5'
    """
    if not ranges:
        return ""
    if len(ranges) > 1:
        return f"{ranges[0].entry.path} … {ranges[-1].entry.path}"
    one = ranges[0]
    if one.end is None or not _is_divided(one, options):
        return one.entry.path
    if options.files.unit is Unit.ROWS:
        return f"{one.entry.path}, {_numbers('row', one.start + 1, one.end)}"
    with _opened(one) as file:
        if file is None:
            return one.entry.path
        before = lines_in(file, 0, one.start)
        file.seek(one.end - 1)
        ends = file.read(1) == b"\n"
        last = before + lines_in(file, one.start, one.end) + (not ends)
    return f"{one.entry.path}, {_numbers('line', before + 1, last)}"


@contextmanager
def _opened(one: FileRange) -> Iterator[BinaryIO | None]:
    """The text of a file, seekable; None if it is compressed and large."""
    packed = compression(one.entry.path)
    with open_entry(one.entry) as file:
        if packed is None:
            yield file
            return
        with decompressed(one.entry, file, packed) as stream:
            text = stream.read(_UNPACKED + 1)
    yield io.BytesIO(text) if len(text) <= _UNPACKED else None


def _numbers(what: str, first: int, last: int) -> str:
    return f"{what} {first:,}" if first >= last else f"{what}s {first:,} to {last:,}"


def _part(split: Split, ranges: Sequence[FileRange]) -> Split:
    listed = [one.to_json() for one in ranges]
    return replace(split, payload={**split.payload, "ranges": listed}, rows=None, bytes=None)


def _is_divided(one: FileRange, options: FileOptions) -> bool:
    files = options.files
    return files.halved or (files.unit is Unit.TEXT and compression(one.entry.path) is None)


def _end(one: FileRange, options: FileOptions) -> int | None:
    if not _is_divided(one, options):
        return None
    if options.files.unit is not Unit.ROWS:
        with _opened(one) as file:
            return None if file is None else file.seek(0, io.SEEK_END)
    return options.files.shape_of(Part(FileRange(one.entry), Workspace())).rows


def _middle(one: FileRange, end: int, options: FileOptions) -> int | None:
    """Where the second half begins; None where records can't be distinguished."""
    wanted = (end - one.start) // 2
    if options.files.unit is Unit.ROWS:
        return one.start + wanted
    assert options.files.range_end is not None
    range_end = options.files.range_end(options.given)
    with _opened(one) as file:
        if file is None:
            return None
        found, _ = range_end(file, one.start, end, None, max(wanted, 1))
        if found >= end:  # the record in the middle is the last one: before it, then
            found, _ = range_end(file, one.start, end, None, 1)
    return found if found < end else None
