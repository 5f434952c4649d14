"""Writing rows to a file of a file system, with a connection of its own."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Mapping, Sequence

import duckdb
import pyarrow as pa
from pyarrow import fs

from sqlstream.storage.run_folder import RunFolder
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError, MachineError, machine_trouble
from sqlstream_operators.plan.spec import Column
from sqlstream_operators.plan.types import quote_literal

#: Writes rows with exactly these columns to a new file: (file system, path, rows, columns, options).
Write = Callable[[fs.FileSystem, str, pa.Table, Sequence[Column], Mapping[str, str]], None]


@functools.cache
def writer_session() -> DuckSession:
    """The connection of this process for writing; the fragments' own may be in use."""
    return DuckSession()


def as_declared(table: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """The rows with the Arrow types of a sink's columns. Raises DataError for a row that does not fit them."""
    try:
        return table.cast(pa.schema([pa.field(column.name, to_arrow(column.type)) for column in columns]))
    except pa.ArrowException as error:
        raise DataError(f"a row does not fit the sink's columns: {error}") from error


def write_lines(
    filesystem: fs.FileSystem, path: str, table: pa.Table, columns: Sequence[Column], line: str
) -> None:
    """Write what the SQL `line` makes of each row; DataError if it can't."""
    session = writer_session()
    session.register("sink_rows", table, columns)
    try:
        lines = session.query(f"SELECT {line} AS line FROM sink_rows")
    finally:
        session.drop("sink_rows")
    with filesystem.open_output_stream(path, compression=None) as out:
        for chunk in lines["line"].chunks:
            out.write("".join(chunk.to_pylist()).encode())


def copy_rows(
    filesystem: fs.FileSystem,
    path: str,
    table: pa.Table,
    columns: Sequence[Column],
    items: Sequence[str],
    settings: str,
) -> None:
    """DuckDB's COPY, to a local file first where the target is elsewhere."""
    session = writer_session()
    session.register("sink_rows", table, columns)
    select = f"SELECT {', '.join(items)} FROM sink_rows"
    try:
        if isinstance(filesystem, fs.LocalFileSystem):
            session.connection.execute(f"COPY ({select}) TO {quote_literal(path)} ({settings})")
            return
        with RunFolder("part-") as folder:
            target = folder.path / "part"
            session.connection.execute(f"COPY ({select}) TO {quote_literal(str(target))} ({settings})")
            with target.open("rb") as source, filesystem.open_output_stream(path, compression=None) as out:
                shutil.copyfileobj(source, out, 8 << 20)
    except duckdb.IOException as error:
        raise MachineError(f"{machine_trouble(error) or error} (while {path} was written)") from error
    except duckdb.Error as error:
        raise DataError(f"a row can't be written: {error}") from error
    finally:
        session.drop("sink_rows")
