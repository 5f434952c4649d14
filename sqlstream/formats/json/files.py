"""Files of one JSON value a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from sqlstream.formats.file_parts import RAW_BYTES, BadText, FilePart, FileTable
from sqlstream.formats.file_writing import copy_rows, write_lines
from sqlstream.formats.json.lenient import LineFormat, blocks_of, lenient
from sqlstream.formats.json.lines import JsonLines
from sqlstream.formats.json.writing import json_value, object_text
from sqlstream.formats.options import flag, iso_timestamps
from sqlstream.formats.scratch import Scratch
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import Column
from sqlstream_operators.plan.types import quote_identifier


class LineFileReader:
    """Reads files whose lines are what a `LineFormat` calls one."""

    def __init__(self, lines: LineFormat, table: FileTable) -> None:
        self._lines = lines
        self._table = table

    @property
    def parses(self) -> bool:
        """See `FileReader`."""
        return True

    def strict(self, duck: DuckSession, parts: Sequence[FilePart], work: Scratch) -> str | pa.Table:
        """See `FileReader`."""
        if self._lines.asks_each_line:
            raise DataError("each line must be looked at")
        return self._lines.select([part.text() for part in parts], self._table.beside(parts))

    def lenient(self, duck: DuckSession, part: FilePart, work: Scratch) -> tuple[pa.Table, list[BadText]]:
        """See `FileReader`."""
        blocks = blocks_of(Path(part.text()), first=part.start == 0)
        table, bad = lenient(duck, self._lines, blocks, self._table.beside([part]), work)
        if not bad:
            return table, []
        first = 1 + part.lines_before()
        rows = []
        for line in bad:
            text = line.raw[:RAW_BYTES].decode("utf-8", "replace").rstrip("\r\n")
            rows.append(BadText(first + line.number, text, line.reason))
        return table, rows


class JsonFileReader(LineFileReader):
    """A line is an object: a row."""

    def __init__(self, table: FileTable) -> None:
        lines = JsonLines(table.columns, flag(table.options, "json.fail-on-missing-field"))
        super().__init__(lines, table)


def write(
    filesystem: fs.FileSystem,
    path: str,
    table: pa.Table,
    columns: Sequence[Column],
    options: Mapping[str, str],
) -> None:
    """An object a line."""
    iso = iso_timestamps(options, "json")
    if flag(options, "json.encode.ignore-null-fields"):
        text = object_text(columns, iso=iso, without_nulls=True)
        write_lines(filesystem, path, table, columns, f"{text} || '\n'")
        return
    items = []
    for column in columns:
        name = quote_identifier(column.name)
        items.append(f"{json_value(name, column.type, iso=iso)} AS {name}")
    copy_rows(filesystem, path, table, columns, items, "FORMAT json")
