"""CSV (RFC 4180, Flink's options), read by DuckDB; the rows that it refuses are what it calls rejects."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from sqlstream.connectors.api import BadRow
from sqlstream.connectors.filesystem.columns import ReadColumns
from sqlstream.connectors.filesystem.csv_quotes import RefusedRecord, badly_quoted, file_part
from sqlstream.connectors.filesystem.file_ranges import (
    FileRange,
    Workspace,
    compression,
    decompressed,
    open_entry,
)
from sqlstream.connectors.filesystem.file_version import other_shape
from sqlstream.connectors.filesystem.options import FileOptions
from sqlstream.connectors.filesystem.paths import FileEntry
from sqlstream.formats.beside import of_files
from sqlstream.formats.boundaries import (
    COMMENT_MARK,
    comments_marked,
    count_lines,
    csv_range_end,
    line_ends_unified,
)
from sqlstream.formats.csv.shape import CsvShape, Layout
from sqlstream.formats.csv.text import CsvText
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError, InputFileError

RAW_BYTES = 64 << 10
_HEAD = 64 << 10
#: How many records of a file may have a quote that is not closed: behind each the rest is read once more.
_MOST_UNCLOSED = 100
_BOM = b"\xef\xbb\xbf"


def strict_sql(
    wanted: ReadColumns, options: FileOptions, ranges: Sequence[FileRange], work: Workspace
) -> str:
    """A SELECT over the ranges in order; it fails when it is run if any record can't be read."""
    made = [(_layout(wanted, options, file_range), file_range) for file_range in ranges]
    parts = []
    for layout, group in itertools.groupby(made, key=lambda item: item[0]):
        members = [file_range for _, file_range in group]
        paths = [_text(work, options, file_range) for file_range in members]
        parts.append(_select(wanted, options, layout, paths, [file_range.entry for file_range in members]))
    return " UNION ALL ".join(parts)


def _text(work: Workspace, options: FileOptions, file_range: FileRange) -> str:
    """A local path with the range's text for DuckDB; comment lines begin with a mark of ours.

    To DuckDB a comment also begins in the middle of a line, where it is text.
    """
    if not options.csv.comments:
        return work.text(file_range)
    data = np.fromfile(work.text(file_range), np.uint8)
    if np.any(data == COMMENT_MARK):
        raise InputFileError(
            f"{file_range.entry.path}: has the character U+{COMMENT_MARK:04X}, which can't be read with csv.allow-comments",
            other_shape(file_range.entry.path),
        )
    target = work.new_file()
    comments_marked(options.csv, data).tofile(target)
    return str(target)


def _select(
    wanted: ReadColumns,
    options: FileOptions,
    layout: Layout,
    paths: Sequence[str],
    entries: Sequence[FileEntry],
) -> str:
    return _csv(wanted, options).select(layout, paths, of_files(wanted.constants(entries)))


def _csv(wanted: ReadColumns, options: FileOptions) -> CsvText:
    return CsvText(wanted.columns, options.csv, options.csv_null)


def lenient(
    duck: DuckSession, wanted: ReadColumns, options: FileOptions, file_range: FileRange, work: Workspace
) -> tuple[pa.Table, list[BadRow]]:
    """The readable rows of a range, and the records that are not.

    DuckDB gives up on text with line ends of several kinds. They are made one kind; if that does not help,
    the range is halved between two records until the part that DuckDB can't read is alone: that is one bad
    row.
    """
    layout = _layout(wanted, options, file_range)
    path = Path(_text(work, options, file_range))
    line = 1
    if file_range.start:
        with open_entry(file_range.entry) as file:
            line += count_lines(file, 0, file_range.start)
    size = path.stat().st_size
    with path.open("rb") as file:
        _, records = csv_range_end(options.csv, file, 0, size, size, None, stray_returns=True)
    if records is not None:  # well-formed, so it is known which line ends are inside quotes
        unified = work.new_file()
        line_ends_unified(options.csv, np.fromfile(path, np.uint8)).tofile(unified)
        path, layout = unified, Layout(layout.names, layout.header)

    def read(text: Path, shape: Layout, first: int) -> tuple[pa.Table, list[BadRow]]:
        try:
            return _read(duck, wanted, options, shape, file_range.entry, text, first)
        except DataError:
            return _isolate(duck, wanted, options, shape, file_range.entry, text, first, work)

    tables: list[pa.Table] = []
    bad: list[BadRow] = []
    for _ in range(_MOST_UNCLOSED):
        table, refused = read(path, layout, line)
        wrong = badly_quoted(path, layout, line, table, refused, read, work)
        if wrong is None:
            break
        tables.append(wrong.rows)
        bad += [*wrong.refused, wrong.own_line]
        path, layout = file_part(path, wrong.rest, path.stat().st_size, work), replace(layout, header=False)
        line = (wrong.own_line.line or 0) + 1
    else:
        table, refused = read(path, layout, line)
    tables.append(table)
    bad += refused
    return pa.concat_tables(tables), bad


def _isolate(
    duck: DuckSession,
    wanted: ReadColumns,
    options: FileOptions,
    layout: Layout,
    entry: FileEntry,
    path: Path,
    line: int,
    work: Workspace,
) -> tuple[pa.Table, list[BadRow]]:
    """Read a file whose first line has the number `line` in ever smaller parts, as far as DuckDB gives up."""
    size = path.stat().st_size
    empty = work.new_file()
    empty.touch()
    tables = [duck.query(_select(wanted, options, Layout(layout.names, False), [str(empty)], [entry]))]
    bad: list[BadRow] = []
    waiting = [(0, size)]
    while waiting:
        start, end = waiting.pop()
        part = path if (start, end) == (0, size) else file_part(path, start, end, work)
        here = Layout(layout.names, layout.header and start == 0, layout.newline)
        with path.open("rb") as file:
            first = line + count_lines(file, 0, start)
            try:
                table, refused = _read(duck, wanted, options, here, entry, part, first)
                tables.append(table)
                bad += refused
            except DataError as error:
                half = max(1, (end - start) // 2)
                middle, _ = csv_range_end(options.csv, file, start, end, None, half, stray_returns=True)
                if middle >= end:
                    middle, _ = csv_range_end(options.csv, file, start, end, 1, None, stray_returns=True)
                if middle < end:
                    waiting += [(middle, end), (start, middle)]
                    continue
                file.seek(start)
                text = file.read(min(end - start, RAW_BYTES)).decode("utf-8", "replace").strip("\r\n")
                bad.append(BadRow(entry.path, first, text, error.message.split("\n")[0]))
    return pa.concat_tables(tables), bad


def _read(
    duck: DuckSession,
    wanted: ReadColumns,
    options: FileOptions,
    layout: Layout,
    entry: FileEntry,
    path: Path,
    first: int,
) -> tuple[pa.Table, list[BadRow]]:
    """Read a plain file whose first line has the number `first`. Raises DataError if DuckDB gives up."""
    beside = of_files(wanted.constants([entry]))
    table, found = _csv(wanted, options).read(duck, layout, str(path), beside)
    if not found:
        return table, []
    newlines = np.flatnonzero(np.memmap(path, np.uint8, "r") == 10)
    bad: list[BadRow] = []
    for place, raw, reason in found:
        # DuckDB's position is 1-based, and of the LF before the record where lines end with CR LF.
        start = place - 1 + (len(raw) - len(raw.lstrip("\r\n")))
        line = first + int(np.searchsorted(newlines, start))
        text = raw.strip("\r\n")
        bad.append(
            RefusedRecord(entry.path, line, text[:RAW_BYTES], reason.split("\n")[0], 1 + text.count("\n"))
        )
    return table, bad


def _layout(wanted: ReadColumns, options: FileOptions, file_range: FileRange) -> Layout:
    """How the range is laid out. Raises DataError if a header must be there and does not fit."""
    declared = wanted.declared
    if file_range.entry.size == 0:
        return Layout(declared, False)
    fields, newline = first_record(_head(file_range.entry, 0), options.csv)
    if file_range.start:
        _, newline = first_record(_head(file_range.entry, file_range.start), options.csv)
    if options.csv_header is False:
        return Layout(declared, False, newline)
    positions = {name.strip().lower(): index for index, name in reversed(list(enumerate(fields)))}
    found = [positions.get(name.lower()) for name in declared]
    if all(index is not None for index in found):
        seen = Counter(name.strip().lower() for name in fields)
        twice = [name for name in declared if seen[name.lower()] > 1]
        if twice:
            raise InputFileError(
                f"{file_range.entry.path}: the header has the column {twice[0]} {seen[twice[0].lower()]} times",
                f"keep one of them, or go on without this file: run with --skip-file '{file_range.entry.path}'",
            )
        by_position = {index: name for index, name in zip(found, declared, strict=True) if index is not None}
        names = tuple(by_position.get(i, f"\x01{i}") for i in range(len(fields)))
        return Layout(names, file_range.start == 0, newline)
    if options.csv_header is None:
        return Layout(declared, False, newline)
    in_place = all(index is None or index == place for place, index in enumerate(found))
    if len(fields) == len(declared) and in_place:
        return Layout(declared, file_range.start == 0, newline)
    missing = [name for name, index in zip(declared, found, strict=True) if index is None]
    raise InputFileError(
        f"{file_range.entry.path}: the header has no column {', '.join(missing)}; it has {', '.join(fields)}",
        other_shape(file_range.entry.path),
    )


def _head(entry: FileEntry, start: int) -> bytes:
    packed = compression(entry.path)
    with open_entry(entry) as file:
        if packed is None:
            file.seek(start)
            return file.read(_HEAD)
        with decompressed(entry, file, packed) as stream:
            head: bytes = stream.read(_HEAD)
            return head


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
