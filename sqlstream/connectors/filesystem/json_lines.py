"""Reading files of one JSON value a line although some lines can't be read: these are found a block at a time."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream.connectors.api import BadRow
from sqlstream.connectors.filesystem.columns import EXACT_DIGITS
from sqlstream.connectors.filesystem.file_ranges import FileRange, Workspace, compression, open_entry
from sqlstream.connectors.filesystem.paths import FileEntry
from sqlstream.connectors.filesystem.record_boundaries import count_lines
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.types import Kind, SqlType

#: At most this much of a bad row's text is kept.
RAW_BYTES = 64 << 10
#: The reason of a line that is no row and no bad row either.
SKIPPED = ""
_BLOCK = 2 << 20
_NEWLINE = 10
# A string (nothing in it is a number), or a number with a point.
_LONG_NUMBER = re.compile(rb'"(?:[^"\\]|\\.)*"|(-?\d+\.\d+(?:[eE][+-]?\d+)?)')
_BOM = b"\xef\xbb\xbf"


class LineFormat(Protocol):
    """What is in a line, as SQL."""

    @property
    def types(self) -> Sequence[SqlType]:
        """The types of the columns that are read."""
        ...

    def select(self, paths: Sequence[str], entries: Sequence[FileEntry]) -> str:
        """A SELECT over the files in order; it fails when it is run if any line can't be read.

        `entries` are the source's files that `paths` hold the text of.
        """
        ...

    @property
    def asks_each_line(self) -> bool:
        """Whether `cases` refuses lines that `select` would read."""
        ...

    def cases(self) -> Sequence[str]:
        """The WHEN branches of a CASE that gives the reason why a line can't be read, or SKIPPED, or NULL.

        The line's text, valid JSON, is the column `t`.
        """
        ...


def lenient(
    duck: DuckSession, format_: LineFormat, file_range: FileRange, work: Workspace
) -> tuple[pa.Table, list[BadRow]]:
    """The readable rows of a range, and the lines that are not."""
    path = Path(work.text(file_range))
    line = 1
    if file_range.start and compression(file_range.entry.path) is None:  # else nobody asks for line numbers
        with open_entry(file_range.entry) as file:
            line += count_lines(file, 0, file_range.start)
    good = work.new_file()
    numbers: list[npt.NDArray[np.int64]] = []
    bad: list[BadRow] = []
    with good.open("wb") as out:
        for block in _blocks(path, first=file_range.start == 0):
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE) + 1
            if not len(ends) or ends[-1] < len(block):
                ends = np.append(ends, len(block))
            starts = np.concatenate([[0], ends[:-1]])
            # To ask every line takes 20 times as long as to read it.
            readable = not format_.asks_each_line and _readable(duck, format_, block, file_range, work)
            refused = [] if readable else _refused(duck, format_, block, starts, ends)
            repaired = _repaired(duck, format_, block, starts, ends, refused)
            kept = 0
            for index, reason in refused:
                out.write(block[kept : starts[index]])
                kept = int(ends[index])
                text = repaired.get(index)
                if text is not None:
                    out.write(text)
                    continue
                if reason != SKIPPED:
                    bad.append(_bad(file_range, line + index, block[starts[index] : ends[index]], reason))
            out.write(block[kept:])
            numbers.append(
                line + np.delete(np.arange(len(ends)), [i for i, _ in refused if i not in repaired])
            )
            line += len(ends)
    try:
        return duck.query(format_.select([str(good)], [file_range.entry])), bad
    except DataError:
        lines = io.BytesIO(good.read_bytes()).readlines()
        table, more = _isolate(duck, format_, file_range, lines, np.concatenate(numbers).tolist(), work)
        return table, sorted([*bad, *more], key=lambda row: row.line or 0)


def _bad(file_range: FileRange, line: int, raw: bytes, reason: str) -> BadRow:
    text = raw[:RAW_BYTES].decode("utf-8", "replace").rstrip("\r\n")
    return BadRow(file_range.entry.path, line, text, reason)


def _blocks(path: Path, *, first: bool) -> Iterator[bytes]:
    """The file in blocks of whole lines, without a byte order mark at its beginning."""
    with path.open("rb") as file:
        rest = file.read(len(_BOM)) if first else b""
        rest = b"" if rest == _BOM else rest
        while chunk := file.read(_BLOCK):
            block = rest + chunk
            end = block.rfind(b"\n") + 1
            rest = block[end:]
            if end:
                yield block[:end]
        if rest:
            yield rest


def _readable(
    duck: DuckSession, format_: LineFormat, block: bytes, file_range: FileRange, work: Workspace
) -> bool:
    """Whether all lines of a block can be read."""
    path = work.new_file()
    path.write_bytes(block)
    try:
        duck.query(format_.select([str(path)], [file_range.entry]))
    except DataError:
        return False
    finally:
        path.unlink()
    return True


def _refused(
    duck: DuckSession,
    format_: LineFormat,
    block: bytes,
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
) -> list[tuple[int, str]]:
    """(line in the block, reason) of every line that `select` would refuse or should not see, in order."""
    offsets = pa.py_buffer(np.append(starts, ends[-1]).astype(np.int64))
    lines = pa.Array.from_buffers(pa.large_binary(), len(ends), [None, offsets, pa.py_buffer(block)])
    table = pa.table({"i": pa.array(np.arange(len(ends))), "line": lines})
    cases = ["WHEN t IS NULL THEN 'not UTF-8'", "WHEN trim(t, e' \\t\\r\\n') = '' THEN NULL"]
    cases.append("WHEN NOT json_valid(t) THEN 'not valid JSON'")
    found = duck.query(
        f"SELECT i, reason FROM (SELECT i, CASE {' '.join([*cases, *format_.cases()])} END AS reason "
        f"FROM (SELECT i, TRY(decode(line)) AS t FROM lines)) WHERE reason IS NOT NULL ORDER BY i",
        {"lines": table},
    )
    return list(zip(found["i"].to_pylist(), found["reason"].to_pylist(), strict=True))


def _repaired(
    duck: DuckSession,
    format_: LineFormat,
    block: bytes,
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    refused: Sequence[tuple[int, str]],
) -> dict[int, bytes]:
    """Refused lines that can be read once their long numbers are strings, which DuckDB reads exactly."""
    changed = {}
    for index, reason in refused:
        if reason == SKIPPED:
            continue
        line = block[starts[index] : ends[index]]
        quoted = _LONG_NUMBER.sub(_quote_number, line)
        if quoted != line:
            changed[index] = quoted if quoted.endswith(b"\n") else quoted + b"\n"
    if not changed or not any(map(_has_long_decimal, format_.types)):
        return {}
    last = np.cumsum([len(text) for text in changed.values()])
    again = _refused(duck, format_, b"".join(changed.values()), np.concatenate([[0], last[:-1]]), last)
    still = {position for position, _ in again}
    return {index: text for n, (index, text) in enumerate(changed.items()) if n not in still}


def _quote_number(found: re.Match[bytes]) -> bytes:
    number = found.group(1)
    if number is None or sum(48 <= byte <= 57 for byte in number) <= EXACT_DIGITS:
        return found.group()
    return b'"' + number + b'"'


def _has_long_decimal(type_: SqlType) -> bool:
    inner = [t for t in (type_.element, type_.key, type_.value) if t is not None]
    inner += [field for _, field in type_.fields]
    if type_.kind is Kind.DECIMAL:
        return (type_.precision or 0) > EXACT_DIGITS
    return any(map(_has_long_decimal, inner))


def _isolate(
    duck: DuckSession,
    format_: LineFormat,
    file_range: FileRange,
    lines: Sequence[bytes],
    numbers: Sequence[int],
    work: Workspace,
) -> tuple[pa.Table, list[BadRow]]:
    """The rows of `lines` (with these line numbers) and those that fail, found by reading ever smaller
    halves.

    Only reached if `cases` calls a line readable that DuckDB does not read.
    """
    tables: list[pa.Table] = []
    bad: list[BadRow] = []
    waiting = [(0, 0), (0, len(lines))]  # the empty range gives the schema
    while waiting:
        start, end = waiting.pop()
        part = work.new_file()
        part.write_bytes(b"".join(lines[start:end]))
        try:
            tables.append(duck.query(format_.select([str(part)], [file_range.entry])))
        except DataError as error:
            if start == end:
                raise  # not because of any line
            if end - start == 1:
                reason = error.message.split("\n")[0].replace(f'"{part}"', "").strip()
                bad.append(_bad(file_range, numbers[start], lines[start], reason))
            else:
                middle = (start + end) // 2
                waiting += [(middle, end), (start, middle)]
        part.unlink()
    return pa.concat_tables(tables), bad
