"""CSV records whose quotes are closed in the wrong place, or nowhere: which lines are bad, so that the others are read.

A quote that is not closed on its line takes all lines with it up to the next quote of the file, which belongs to a record
of its own. What stands between are records if they can all be read as such.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from sqlstream.formats.csv.shape import Layout
from sqlstream.formats.file_parts import BadText
from sqlstream.formats.scratch import Scratch


@dataclass(frozen=True, slots=True)
class RefusedRecord(BadText):
    """A record that DuckDB refuses, and over how many `lines` it goes."""

    lines: int = 1


@dataclass(frozen=True, slots=True)
class BadlyQuoted:
    """The rows before a line with a quote that is not closed there, what was refused, that line, where the next begins."""

    rows: pa.Table
    refused: Sequence[BadText]
    own_line: BadText
    rest: int


#: Reads a file whose first line has a number.
Read = Callable[[Path, Layout, int], tuple[pa.Table, list[BadText]]]


def badly_quoted(
    path: Path,
    layout: Layout,
    first: int,
    rows: pa.Table,
    refused: Sequence[BadText],
    read: Read,
    work: Scratch,
) -> BadlyQuoted | None:
    """The first line with a quote that took others with it, if the file is better read without that line alone.

    `rows` and `refused` are what was read of the file, whose first line has the number `first`.
    """
    wrong = [bad for bad in refused if "unterminated quote" in bad.reason]
    if not wrong:
        return None
    newlines = np.flatnonzero(np.memmap(path, np.uint8, "r") == 10)
    size = path.stat().st_size

    def begins(line: int) -> int:
        at = line - first
        return 0 if at <= 0 else int(newlines[at - 1]) + 1 if at <= len(newlines) else size

    for bad in wrong:
        lines = bad.lines if isinstance(bad, RefusedRecord) else 1
        if lines < 2 or bad.line is None or len(layout.names) < 2:
            continue
        start, rest, end = begins(bad.line), begins(bad.line + 1), begins(bad.line + lines)
        if end >= size:
            break  # to the end of the file: what is behind its line need not be all right
        # All lines between must be records; the last one has a quote of its own, and may be as bad.
        inside, worse = read(file_part(path, rest, end, work), replace(layout, header=False), bad.line + 1)
        if inside.num_rows and all(one.line == bad.line + lines - 1 for one in worse):
            return _without(path, layout, first, bad, start, rest, read, work)
    last = wrong[-1]
    if last is not refused[-1] or last.line is None:
        return None
    start, rest = begins(last.line), begins(last.line + 1)
    if rest >= size:
        return None
    found = _without(path, layout, first, last, start, rest, read, work)
    if found.rows.num_rows < rows.num_rows:
        return None
    # Nothing was read behind it: the quote swallows the rest of the file. Its own line is what is bad.
    return replace(found, own_line=replace(found.own_line, reason=f"{last.reason} Nothing closes it."))


def _without(
    path: Path, layout: Layout, first: int, bad: BadText, start: int, rest: int, read: Read, work: Scratch
) -> BadlyQuoted:
    rows, before = read(file_part(path, 0, start, work), layout, first)
    return BadlyQuoted(rows, before, replace(bad, raw=bad.raw.splitlines()[0]), rest)


def file_part(path: Path, start: int, end: int, work: Scratch) -> Path:
    """The bytes of a file from one to another, as a file."""
    target = work.new_file()
    with path.open("rb") as file:
        file.seek(start)
        target.write_bytes(file.read(end - start))
    return target
