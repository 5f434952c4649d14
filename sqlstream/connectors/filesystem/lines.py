"""Ranges of files of one JSON value a line, some of which can't be read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from sqlstream.connectors.api import BadRow
from sqlstream.connectors.filesystem.columns import ReadColumns
from sqlstream.connectors.filesystem.file_ranges import FileRange, Workspace, compression, open_entry
from sqlstream.formats.beside import of_files
from sqlstream.formats.boundaries import count_lines
from sqlstream.formats.json.lenient import LineFormat, blocks_of, lenient
from sqlstream_operators.duck.session import DuckSession

#: At most this much of a bad row's text is kept.
RAW_BYTES = 64 << 10


def lenient_lines(
    duck: DuckSession, format_: LineFormat, wanted: ReadColumns, file_range: FileRange, work: Workspace
) -> tuple[pa.Table, list[BadRow]]:
    """The readable rows of a range, and the lines that are not."""
    path = Path(work.text(file_range))
    first = 1
    if file_range.start and compression(file_range.entry.path) is None:  # else nobody asks for line numbers
        with open_entry(file_range.entry) as file:
            first += count_lines(file, 0, file_range.start)
    beside = of_files(wanted.constants([file_range.entry]))
    table, bad = lenient(duck, format_, blocks_of(path, first=file_range.start == 0), beside, work)
    rows = []
    for line in bad:
        text = line.raw[:RAW_BYTES].decode("utf-8", "replace").rstrip("\r\n")
        rows.append(BadRow(file_range.entry.path, first + line.number, text, line.reason))
    return table, rows
