"""What a format is where its rows are in files: plain data that a connector of files goes by."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlstream_operators.errors import InternalError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs

    from sqlstream.formats.boundaries import RangeEnd
    from sqlstream.formats.file_parts import FilePart, FileReader, FileShape, FileTable
    from sqlstream.formats.file_writing import Write
    from sqlstream.formats.referee import Referee
    from sqlstream_operators.plan.schema import Column
    from sqlstream_planner.catalog.descriptor import ColumnLookup, Settings


class Unit(StrEnum):
    """What a range of a file counts: bytes of text, which may be compressed; rows; or nothing, as it is read whole."""

    TEXT = "text"
    ROWS = "rows"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format in files.

    `reader` makes a FileReader of a FileTable, `referee` is a Referee, `writer` a Write (None: files are only read), `shape`
    makes a FileShape of a FilePart where ranges are no bytes: each `module:name` in this package, or as it is. `ending` is
    that of the names of files that are written. `whole` says of a local file that is no text whether it ends as one that
    nobody writes any more. `lookup` is how columns are found in files, if not as in records. `appendable`: what comes
    behind a file leaves the rows before it as they were. `smallest_range`: a smaller one is not worth a task of its own,
    bytes; None: files are not cut. `range_end` (of text) makes, of a table's options, what finds where a record ends.
    `halved`: a compressed file is divided, too, to find a row in it.
    """

    unit: Unit
    reader: str | Callable[[FileTable], FileReader]
    referee: str | Referee
    writer: str | Write | None = None
    ending: str = ".json"
    whole: str | Callable[[Path], bool] | None = None
    lookup: Callable[[Settings], ColumnLookup] | None = None
    appendable: bool = False
    smallest_range: int | None = None
    range_end: Callable[[Mapping[str, str]], RangeEnd] | None = None
    halved: bool = False
    shape: str | Callable[[FilePart], FileShape] | None = None

    def read(self, table: FileTable) -> FileReader:
        """What reads files as a table."""
        make: Callable[[FileTable], FileReader] = loaded(self.reader)
        return make(table)

    @property
    def judged(self) -> Referee:
        """How the referee reads files."""
        found: Referee = loaded(self.referee)
        return found

    @property
    def written(self) -> bool:
        """Whether files can be written."""
        return self.writer is not None

    def write(
        self,
        filesystem: fs.FileSystem,
        path: str,
        rows: pa.Table,
        columns: Sequence[Column],
        options: Mapping[str, str],
    ) -> None:
        """Write rows with these columns (and KIND_COLUMN, of changes) to a new file. Raises DataError if it can't."""
        if self.writer is None:
            raise InternalError("files of this format are only read")
        write: Write = loaded(self.writer)
        write(filesystem, path, rows, columns, options)

    def is_whole(self, path: Path) -> bool:
        """Whether a local file that is no text ends as one of the format that nobody writes any more."""
        if self.whole is None:
            raise InternalError("a format of text has no end of its own")
        ends: Callable[[Path], bool] = loaded(self.whole)
        return ends(path)

    def shape_of(self, part: FilePart) -> FileShape:
        """The rows of a file. Raises DataError if it is not one of the format, or not what was listed."""
        if self.shape is None:
            raise InternalError("a format of text does not know its rows")
        find: Callable[[FilePart], FileShape] = loaded(self.shape)
        return find(part)


def ends_with(*tails: bytes) -> Callable[[Path], bool]:
    """Whether a file's last four bytes begin with one of these."""

    def ends(path: Path) -> bool:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - 4, 0))
            return file.read(4).startswith(tails)

    return ends


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
    "json.batch:REFEREE",
    "json.files:write",
    appendable=True,
    smallest_range=8 << 20,
    range_end=line_ends,
    halved=True,
)
