"""Reading text of one JSON value a line although some lines can't be read: these are found a block at a time."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream.formats.api import RECORD_COLUMN
from sqlstream.formats.beside import Beside
from sqlstream.formats.scratch import Scratch
from sqlstream.formats.values import EXACT_DIGITS
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.types import Kind, SqlType

#: The reason of a line that is no row and no bad row either.
SKIPPED = ""
_BLOCK = 2 << 20
_NEWLINE = 10
# A string (nothing in it is a number), or a number with a point.
_LONG_NUMBER = re.compile(rb'"(?:[^"\\]|\\.)*"|(-?\d+\.\d+(?:[eE][+-]?\d+)?)')
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that can't be read: its number (from 0), its bytes, and why."""

    number: int
    raw: bytes
    reason: str


class LineFormat(Protocol):
    """What is in a line, as SQL."""

    @property
    def types(self) -> Sequence[SqlType]:
        """The types of the columns that are read."""
        ...

    def select(self, paths: Sequence[str], beside: Beside) -> str:
        """A SELECT over the files in order; it fails when it is run if any line can't be read."""
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
    duck: DuckSession, format_: LineFormat, blocks: Iterable[bytes], beside: Beside, work: Scratch
) -> tuple[pa.Table, list[BadLine]]:
    """The rows of the readable lines in blocks of whole lines, and the other lines in order.

    A blank line gives nothing. A RECORD_COLUMN that is beside is the number of a row's line, if no line is blank.
    """
    line = 0
    good = work.new_file()
    numbers: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
    bad: list[BadLine] = []
    with good.open("wb") as out:
        for block in blocks:
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE) + 1
            if not len(ends) or ends[-1] < len(block):
                ends = np.append(ends, len(block))
            starts = np.concatenate([[0], ends[:-1]])
            # To ask every line takes 20 times as long as to read it.
            readable = not format_.asks_each_line and _readable(duck, format_, block, beside, work)
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
                    bad.append(BadLine(line + index, block[starts[index] : ends[index]], reason))
            out.write(block[kept:])
            numbers.append(
                line + np.delete(np.arange(len(ends)), [i for i, _ in refused if i not in repaired])
            )
            line += len(ends)
    known = np.concatenate(numbers)
    try:
        return _numbered(duck.query(format_.select([str(good)], beside)), known), bad
    except DataError:
        lines = io.BytesIO(good.read_bytes()).readlines()
        table, more = _isolate(duck, format_, beside, lines, known, work)
        return table, sorted([*bad, *more], key=lambda one: one.number)


def _numbered(table: pa.Table, lines: npt.NDArray[np.int64]) -> pa.Table:
    """The table with the numbers that `lines` has for those of its RECORD_COLUMN, if it has one."""
    if RECORD_COLUMN not in table.column_names:
        return table
    found = lines[table.column(RECORD_COLUMN).to_numpy()]
    return table.set_column(
        table.column_names.index(RECORD_COLUMN), RECORD_COLUMN, pa.array(found, pa.int64())
    )


def blocks_of(path: Path, *, first: bool) -> Iterator[bytes]:
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


def _readable(duck: DuckSession, format_: LineFormat, block: bytes, beside: Beside, work: Scratch) -> bool:
    """Whether all lines of a block can be read."""
    path = work.new_file()
    path.write_bytes(block)
    try:
        duck.query(format_.select([str(path)], beside))
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
    beside: Beside,
    lines: Sequence[bytes],
    numbers: npt.NDArray[np.int64],
    work: Scratch,
) -> tuple[pa.Table, list[BadLine]]:
    """The rows of `lines` (with these line numbers) and those that fail, found by reading ever smaller
    halves.

    Only reached if `cases` calls a line readable that DuckDB does not read.
    """
    tables: list[pa.Table] = []
    bad: list[BadLine] = []
    waiting = [(0, 0), (0, len(lines))]  # the empty range gives the schema
    while waiting:
        start, end = waiting.pop()
        part = work.new_file()
        part.write_bytes(b"".join(lines[start:end]))
        try:
            tables.append(_numbered(duck.query(format_.select([str(part)], beside)), numbers[start:end]))
        except DataError as error:
            if start == end:
                raise  # not because of any line
            if end - start == 1:
                reason = error.message.split("\n")[0].replace(f'"{part}"', "").strip()
                bad.append(BadLine(int(numbers[start]), lines[start], reason))
            else:
                middle = (start + end) // 2
                waiting += [(middle, end), (start, middle)]
        part.unlink()
    return pa.concat_tables(tables), bad
