"""ORC, read by Arrow; files are read whole."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyarrow import orc

from sqlstream.connectors.filesystem.columns import ReadColumns, match_names
from sqlstream.connectors.filesystem.file_ranges import FileRange, Workspace
from sqlstream.connectors.filesystem.file_version import repair
from sqlstream.connectors.filesystem.paths import FileEntry
from sqlstream.formats.values import cast_from
from sqlstream_operators.codec.arrow_types import from_arrow
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError, InputFileError
from sqlstream_operators.plan.types import SqlType, quote_identifier

_FILE = "orc_file"


def strict_table(
    duck: DuckSession, wanted: ReadColumns, ranges: Sequence[FileRange], work: Workspace
) -> pa.Table:
    """The rows of the ranges in order. Raises DataError for a file that is not ORC, or a value that can't be
    cast.
    """
    return pa.concat_tables([_read(duck, wanted, file_range, work) for file_range in ranges])


def broken(entry: FileEntry, error: Exception) -> InputFileError:
    """The error for a file that is not ORC, or damaged."""
    return InputFileError(
        f"{entry.path}: not a readable ORC file: {str(error).splitlines()[0]}", repair(entry)
    )


def _read(duck: DuckSession, wanted: ReadColumns, file_range: FileRange, work: Workspace) -> pa.Table:
    path = file_range.entry.path
    declared = [column.name for column in wanted.columns]
    try:
        file = orc.ORCFile(work.local(file_range.entry))
        names = match_names(declared, file.schema.names, path)
        present = [name for name in names.values() if name is not None]
        # A column is needed to know how many rows there are.
        table = file.read(columns=present or [file.schema.names[0]])
    except (pa.ArrowException, OSError, UnicodeDecodeError, IndexError) as error:
        raise broken(file_range.entry, error) from error
    items = []
    for column in wanted.columns:
        name = names[column.name]
        if name is None:
            value = f"CAST(NULL AS {column.type})"
        else:
            value = cast_from(_type(table.schema.field(name).type), quote_identifier(name), column.type)
        items.append(f"{value} AS {quote_identifier(column.name)}")
    items += wanted.constants([file_range.entry])
    try:
        return duck.query(f"SELECT {', '.join(items) or '1 AS one'} FROM {_FILE}", {_FILE: table})
    except DataError as error:
        raise DataError(f"{path}: {error.message}", error.sql) from error


def _type(type_: pa.DataType) -> SqlType | None:
    if pa.types.is_timestamp(type_) and type_.unit != "us":
        return None  # DuckDB knows it as TIMESTAMP_NS and the like
    try:
        return from_arrow(type_)
    except ValueError:
        return None
