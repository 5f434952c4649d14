"""What a format is where its rows are in files: plain data that a connector of files goes by."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sqlstream_operators.errors import InternalError

if TYPE_CHECKING:
    from sqlstream.formats.boundaries import RangeEnd
    from sqlstream.formats.file_parts import FilePart, FileReader, FileShape, FileTable


class Unit(StrEnum):
    """What a range of a file counts: bytes of text, which may be compressed; rows; or nothing, as it is read whole."""

    TEXT = "text"
    ROWS = "rows"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format in files.

    `reader` makes a FileReader of a FileTable, `shape` a FileShape of a FilePart where ranges are no bytes: `module:name` in
    this package, or as they are. `ending` is that of the names of files that are written; `written`: whether there are any.
    `tails` are what a whole file of no text ends with. `appendable`: what comes behind a file leaves the rows before it as
    they were. `smallest_range`: a smaller one is not worth a task of its own, bytes; None: files are not cut. `range_end`
    (of text) makes, of a table's options, what finds where a record ends. `halved`: a compressed file is divided, too, to
    find a row in it.
    """

    unit: Unit
    reader: str | Callable[[FileTable], FileReader]
    ending: str = ".json"
    written: bool = True
    tails: tuple[bytes, ...] | None = None
    appendable: bool = False
    smallest_range: int | None = None
    range_end: Callable[[Mapping[str, str]], RangeEnd] | None = None
    halved: bool = False
    shape: str | Callable[[FilePart], FileShape] | None = None

    def read(self, table: FileTable) -> FileReader:
        """What reads files as a table."""
        make: Callable[[FileTable], FileReader] = loaded(self.reader)
        return make(table)

    def shape_of(self, part: FilePart) -> FileShape:
        """The rows of a file. Raises DataError if it is not one of the format, or not what was listed."""
        if self.shape is None:
            raise InternalError("a format of text does not know its rows")
        find: Callable[[FilePart], FileShape] = loaded(self.shape)
        return find(part)


def loaded(part: Any) -> Any:
    """What `module:name` in this package is, or what is given as it is."""
    return pkgutil.resolve_name(f"sqlstream.formats.{part}") if isinstance(part, str) else part


def line_ends(options: Mapping[str, str]) -> RangeEnd:
    """Every line is a record."""
    from sqlstream.formats.boundaries import json_range_end

    return json_range_end


def csv_ends(options: Mapping[str, str]) -> RangeEnd:
    """A record may go over several lines."""
    import functools

    from sqlstream.formats.boundaries import csv_range_end
    from sqlstream.formats.csv.shape import CsvShape

    return functools.partial(csv_range_end, CsvShape.of(options))


#: A line is a record of JSON.
JSON_LINES = FileFormat(
    Unit.TEXT,
    "json.files:JsonFileReader",
    appendable=True,
    smallest_range=8 << 20,
    range_end=line_ends,
    halved=True,
)
