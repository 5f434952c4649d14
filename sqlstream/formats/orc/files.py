"""ORC, read by Arrow; files are read whole."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyarrow import orc

from sqlstream.formats.file_parts import BadText, FilePart, FileShape, FileTable, match_names
from sqlstream.formats.scratch import Scratch
from sqlstream.formats.values import cast_from
from sqlstream_operators.codec.arrow_types import from_arrow
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError, InputFileError
from sqlstream_operators.plan.types import SqlType, quote_identifier

_FILE = "orc_file"


class OrcFileReader:
    """Columns are found by name, ignoring case."""

    def __init__(self, table: FileTable) -> None:
        self._table = table

    @property
    def parses(self) -> bool:
        """See `FileReader`."""
        return False

    def strict(self, duck: DuckSession, parts: Sequence[FilePart], work: Scratch) -> str | pa.Table:
        """See `FileReader`."""
        return pa.concat_tables([_read(duck, self._table, part) for part in parts])

    def lenient(self, duck: DuckSession, part: FilePart, work: Scratch) -> tuple[pa.Table, list[BadText]]:
        """See `FileReader`; a value that can't be cast is an error."""
        return _read(duck, self._table, part), []


def shape(part: FilePart) -> FileShape:
    """How many rows a file has. Raises DataError if it is not the ORC file that was listed."""
    with part.open() as file:
        try:
            return FileShape(int(orc.ORCFile(file).nrows))
        except (OSError, pa.ArrowException) as error:
            raise broken(part, error) from error


def broken(part: FilePart, error: Exception) -> InputFileError:
    """The error for a file that is not ORC, or damaged."""
    return part.damaged(f"not a readable ORC file: {str(error).splitlines()[0]}")


def _read(duck: DuckSession, wanted: FileTable, part: FilePart) -> pa.Table:
    declared = [column.name for column in wanted.columns]
    try:
        file = orc.ORCFile(part.local())
        names = match_names(declared, file.schema.names, part)
        present = [name for name in names.values() if name is not None]
        # A column is needed to know how many rows there are.
        table = file.read(columns=present or [file.schema.names[0]])
    except (pa.ArrowException, OSError, UnicodeDecodeError, IndexError) as error:
        raise broken(part, error) from error
    items = []
    for column in wanted.columns:
        name = names[column.name]
        if name is None:
            value = f"CAST(NULL AS {column.type})"
        else:
            value = cast_from(_type(table.schema.field(name).type), quote_identifier(name), column.type)
        items.append(f"{value} AS {quote_identifier(column.name)}")
    items += wanted.beside([part]).items
    try:
        return duck.query(f"SELECT {', '.join(items) or '1 AS one'} FROM {_FILE}", {_FILE: table})
    except DataError as error:
        raise DataError(f"{part.path}: {error.message}", error.sql) from error


def _type(type_: pa.DataType) -> SqlType | None:
    if pa.types.is_timestamp(type_) and type_.unit != "us":
        return None  # DuckDB knows it as TIMESTAMP_NS and the like
    try:
        return from_arrow(type_)
    except ValueError:
        return None
