"""CSV (RFC 4180, Flink's options), read by DuckDB; the rows that it refuses are what it calls rejects."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import fs

from sqlstream.formats.boundaries import (
    COMMENT_MARK,
    comments_marked,
    count_lines,
    csv_range_end,
    line_ends_unified,
)
from sqlstream.formats.csv.quotes import RefusedRecord, badly_quoted, file_part
from sqlstream.formats.csv.shape import CsvShape, Layout
from sqlstream.formats.csv.text import CsvText
from sqlstream.formats.csv.writing import copy_settings, items_of
from sqlstream.formats.file_parts import RAW_BYTES, BadText, FilePart, FileTable
from sqlstream.formats.file_writing import copy_rows
from sqlstream.formats.options import flag
from sqlstream.formats.scratch import Scratch
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError, InputFileError
from sqlstream_operators.plan.spec import Column

_HEAD = 64 << 10
#: How many records of a file may have a quote that is not closed: behind each the rest is read once more.
_MOST_UNCLOSED = 100
_BOM = b"\xef\xbb\xbf"


class CsvFileReader:
    """A record is a row; where a first line has the names of columns, they are found by them."""

    def __init__(self, table: FileTable) -> None:
        self._table = table
        self._shape = CsvShape.of(table.options)
        self._header = flag(table.options, "csv.header") if "csv.header" in table.options else None
        self._csv = CsvText(table.columns, self._shape, table.options.get("csv.null-literal"))

    @property
    def parses(self) -> bool:
        """See `FileReader`."""
        return True

    def strict(self, duck: DuckSession, parts: Sequence[FilePart], work: Scratch) -> str | pa.Table:
        """See `FileReader`."""
        made = [(self._layout(part), part) for part in parts]
        selects = []
        for layout, group in itertools.groupby(made, key=lambda item: item[0]):
            members = [part for _, part in group]
            paths = [self._text(work, part) for part in members]
            selects.append(self._csv.select(layout, paths, self._table.beside(members)))
        return " UNION ALL ".join(selects)

    def _text(self, work: Scratch, part: FilePart) -> str:
        """A local path with the range's text for DuckDB; comment lines begin with a mark of ours.

        To DuckDB a comment also begins in the middle of a line, where it is text.
        """
        if not self._shape.comments:
            return part.text()
        data = np.fromfile(part.text(), np.uint8)
        if np.any(data == COMMENT_MARK):
            raise part.unlike(
                f"has the character U+{COMMENT_MARK:04X}, which can't be read with csv.allow-comments"
            )
        target = work.new_file()
        comments_marked(self._shape, data).tofile(target)
        return str(target)

    def lenient(self, duck: DuckSession, part: FilePart, work: Scratch) -> tuple[pa.Table, list[BadText]]:
        """See `FileReader`.

        DuckDB gives up on text with line ends of several kinds. They are made one kind; if that does not help,
        the range is halved between two records until the part that DuckDB can't read is alone: that is one bad
        row.
        """
        layout = self._layout(part)
        path = Path(self._text(work, part))
        line = 1 + part.lines_before()
        size = path.stat().st_size
        with path.open("rb") as file:
            _, records = csv_range_end(self._shape, file, 0, size, size, None, stray_returns=True)
        if records is not None:  # well-formed, so it is known which line ends are inside quotes
            unified = work.new_file()
            line_ends_unified(self._shape, np.fromfile(path, np.uint8)).tofile(unified)
            path, layout = unified, Layout(layout.names, layout.header)

        def read(text: Path, shape: Layout, first: int) -> tuple[pa.Table, list[BadText]]:
            try:
                return self._read(duck, shape, part, text, first)
            except DataError:
                return self._isolate(duck, shape, part, text, first, work)

        tables: list[pa.Table] = []
        bad: list[BadText] = []
        for _ in range(_MOST_UNCLOSED):
            table, refused = read(path, layout, line)
            wrong = badly_quoted(path, layout, line, table, refused, read, work)
            if wrong is None:
                break
            tables.append(wrong.rows)
            bad += [*wrong.refused, wrong.own_line]
            path, layout = (
                file_part(path, wrong.rest, path.stat().st_size, work),
                replace(layout, header=False),
            )
            line = (wrong.own_line.line or 0) + 1
        else:
            table, refused = read(path, layout, line)
        tables.append(table)
        bad += refused
        return pa.concat_tables(tables), bad

    def _isolate(
        self, duck: DuckSession, layout: Layout, part: FilePart, path: Path, line: int, work: Scratch
    ) -> tuple[pa.Table, list[BadText]]:
        """Read a file whose first line has the number `line` in ever smaller parts, as far as DuckDB gives up."""
        size = path.stat().st_size
        empty = work.new_file()
        empty.touch()
        beside = self._table.beside([part])
        tables = [duck.query(self._csv.select(Layout(layout.names, False), [str(empty)], beside))]
        bad: list[BadText] = []
        waiting = [(0, size)]
        while waiting:
            start, end = waiting.pop()
            piece = path if (start, end) == (0, size) else file_part(path, start, end, work)
            here = Layout(layout.names, layout.header and start == 0, layout.newline)
            with path.open("rb") as file:
                first = line + count_lines(file, 0, start)
                try:
                    table, refused = self._read(duck, here, part, piece, first)
                    tables.append(table)
                    bad += refused
                except DataError as error:
                    half = max(1, (end - start) // 2)
                    middle, _ = csv_range_end(self._shape, file, start, end, None, half, stray_returns=True)
                    if middle >= end:
                        middle, _ = csv_range_end(self._shape, file, start, end, 1, None, stray_returns=True)
                    if middle < end:
                        waiting += [(middle, end), (start, middle)]
                        continue
                    file.seek(start)
                    text = file.read(min(end - start, RAW_BYTES)).decode("utf-8", "replace").strip("\r\n")
                    bad.append(BadText(first, text, error.message.split("\n")[0]))
        return pa.concat_tables(tables), bad

    def _read(
        self, duck: DuckSession, layout: Layout, part: FilePart, path: Path, first: int
    ) -> tuple[pa.Table, list[BadText]]:
        """Read a plain file whose first line has the number `first`. Raises DataError if DuckDB gives up."""
        table, found = self._csv.read(duck, layout, str(path), self._table.beside([part]))
        if not found:
            return table, []
        newlines = np.flatnonzero(np.memmap(path, np.uint8, "r") == 10)
        bad: list[BadText] = []
        for place, raw, reason in found:
            # DuckDB's position is 1-based, and of the LF before the record where lines end with CR LF.
            start = place - 1 + (len(raw) - len(raw.lstrip("\r\n")))
            line = first + int(np.searchsorted(newlines, start))
            text = raw.strip("\r\n")
            bad.append(RefusedRecord(line, text[:RAW_BYTES], reason.split("\n")[0], 1 + text.count("\n")))
        return table, bad

    def _layout(self, part: FilePart) -> Layout:
        """How the range is laid out. Raises DataError if a header must be there and does not fit."""
        declared = self._table.declared
        if part.size == 0:
            return Layout(declared, False)
        fields, newline = first_record(part.head(0, _HEAD), self._shape)
        if part.start:
            _, newline = first_record(part.head(part.start, _HEAD), self._shape)
        if self._header is False:
            return Layout(declared, False, newline)
        positions = {name.strip().lower(): index for index, name in reversed(list(enumerate(fields)))}
        found = [positions.get(name.lower()) for name in declared]
        if all(index is not None for index in found):
            seen = Counter(name.strip().lower() for name in fields)
            twice = [name for name in declared if seen[name.lower()] > 1]
            if twice:
                raise InputFileError(
                    f"{part.path}: the header has the column {twice[0]} {seen[twice[0].lower()]} times",
                    f"keep one of them, or go on without this file: run with --skip-file '{part.path}'",
                )
            by_position = {
                index: name for index, name in zip(found, declared, strict=True) if index is not None
            }
            names = tuple(by_position.get(i, f"\x01{i}") for i in range(len(fields)))
            return Layout(names, part.start == 0, newline)
        if self._header is None:
            return Layout(declared, False, newline)
        in_place = all(index is None or index == place for place, index in enumerate(found))
        if len(fields) == len(declared) and in_place:
            return Layout(declared, part.start == 0, newline)
        missing = [name for name, index in zip(declared, found, strict=True) if index is None]
        raise part.unlike(f"the header has no column {', '.join(missing)}; it has {', '.join(fields)}")


def first_record(head: bytes, shape: CsvShape) -> tuple[list[str], str]:
    r"""The fields of the first record that is neither empty nor a comment, and the line end after it.

    >>> first_record(b'\xef\xbb\xbf"a ""x",b\r\n1,2\r\n', CsvShape())
    (['a "x', 'b'], '\r\n')
    """
    text = head.removeprefix(_BOM).decode("utf-8", "replace").lstrip("\r\n")
    while shape.comments and text.startswith("#"):
        text = text.partition("\n")[2].lstrip("\r\n")
    fields: list[str] = []
    field, position = "", 0
    quoted = False
    while position < len(text):
        char = text[position]
        position += 1
        if quoted:
            after = text[position : position + 1]
            if char == (shape.escape or shape.quote) and after and after in (shape.quote, shape.escape):
                field += after
                position += 1
            elif char == shape.quote:
                quoted = False
            else:
                field += char
        elif char == shape.quote and not field:
            quoted = True
        elif char == shape.delimiter:
            fields.append(field)
            field = ""
        elif char in "\r\n":
            return [*fields, field], "\r\n" if text.startswith("\r\n", position - 1) else char
        else:
            field += char
    return [*fields, field], "\n"


def write(
    filesystem: fs.FileSystem,
    path: str,
    table: pa.Table,
    columns: Sequence[Column],
    options: Mapping[str, str],
) -> None:
    """A record a row, below a header if `csv.header` says so."""
    settings = copy_settings(
        CsvShape.of(options), options.get("csv.null-literal"), header=flag(options, "csv.header")
    )
    copy_rows(filesystem, path, table, columns, items_of(columns), settings)
