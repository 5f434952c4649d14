"""How the filesystem sink writes a table of each format to a file."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Mapping, Sequence

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from sqlstream.connectors.filesystem.options import FileOptions
from sqlstream.formats.json.writing import json_value, present
from sqlstream.formats.options import flag
from sqlstream.storage.run_folder import RunFolder
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError, MachineError, machine_trouble
from sqlstream_operators.plan.spec import Column
from sqlstream_operators.plan.types import quote_identifier, quote_literal

#: Writes rows with exactly these columns to a new file: (file system, path, rows, columns, options).
Write = Callable[[fs.FileSystem, str, pa.Table, Sequence[Column], Mapping[str, str]], None]


@functools.cache
def writer_session() -> DuckSession:
    """The connection of this process for writing; the fragments' own may be in use."""
    return DuckSession()


def _write_parquet(
    filesystem: fs.FileSystem,
    path: str,
    table: pa.Table,
    columns: Sequence[Column],
    options: Mapping[str, str],
) -> None:
    """HUGEINT, which Parquet does not have, becomes DECIMAL(38, 0); UUID and JSON become strings."""
    schema = pa.schema([pa.field(c.name, to_arrow(c.type)) for c in columns])
    try:
        table = table.cast(schema)
    except pa.ArrowException as error:
        raise DataError(f"a row does not fit the sink's columns: {error}") from error
    codec = options.get("parquet.compression", "snappy").lower()
    pq.write_table(
        table, path, filesystem=filesystem, compression="none" if codec == "uncompressed" else codec
    )


def _write_json(
    filesystem: fs.FileSystem,
    path: str,
    table: pa.Table,
    columns: Sequence[Column],
    options: Mapping[str, str],
) -> None:
    iso = options.get("json.timestamp-format.standard", "SQL").upper() == "ISO-8601"
    if flag(options, "json.encode.ignore-null-fields"):
        fields = ", ".join(present(quote_identifier(c.name), c.name, c.type, iso) for c in columns)
        write_lines(filesystem, path, table, columns, f"'{{' || concat_ws(',', {fields}) || '}}\n'")
        return
    items = []
    for column in columns:
        name = quote_identifier(column.name)
        items.append(f"{json_value(name, column.type, iso=iso)} AS {name}")
    copy_rows(filesystem, path, table, columns, items, "FORMAT json")


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


def _write_csv(
    filesystem: fs.FileSystem,
    path: str,
    table: pa.Table,
    columns: Sequence[Column],
    options: Mapping[str, str],
) -> None:
    read = FileOptions.read(options)
    quote = read.csv.quote or ""
    settings = (
        f"FORMAT csv, HEADER {str(bool(read.csv_header)).lower()}, DELIMITER {quote_literal(read.csv.delimiter)}, "
        f"QUOTE {quote_literal(quote)}, ESCAPE {quote_literal(read.csv.escape or quote)}, "
        f"NULLSTR {quote_literal(read.csv_null or '')}"
    )
    copy_rows(filesystem, path, table, columns, [quote_identifier(c.name) for c in columns], settings)


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


WRITERS: Mapping[str, Write] = {"json": _write_json, "csv": _write_csv, "parquet": _write_parquet}
