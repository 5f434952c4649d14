"""How the filesystem sink writes a table of each format to a file."""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Callable, Mapping, Sequence

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from sqlstream.connectors.filesystem.options import FileOptions
from sqlstream.connectors.options import flag
from sqlstream.storage.run_folder import RunFolder
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError, MachineError, machine_trouble
from sqlstream_operators.plan.spec import Column
from sqlstream_operators.plan.types import ROWS, Kind, SqlType, quote_identifier, quote_literal

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


def present(value: str, name: str, type_: SqlType, iso: bool, depth: int = 0) -> str:
    """SQL of `"name":value` as JSON text, NULL if the value is; fields of rows that are NULL are left out
    too.
    """
    return f"{quote_literal(json.dumps(name, ensure_ascii=False) + ':')} || {_json_text(value, type_, iso, depth)}"


def _json_text(value: str, type_: SqlType, iso: bool, depth: int) -> str:
    match type_.kind:
        case Kind.STRUCT:
            fields = ", ".join(
                present(f"struct_extract({value}, {quote_literal(name)})", name, field, iso, depth)
                for name, field in type_.fields
            )
            return f"CASE WHEN {value} IS NOT NULL THEN '{{' || concat_ws(',', {fields}) || '}}' END"
        case Kind.TUPLE:
            values = ", ".join(
                f"coalesce({_json_text(f'{value}[{n}]', field, iso, depth)}, 'null')"
                for n, (_, field) in enumerate(type_.fields, 1)
            )
            return f"CASE WHEN {value} IS NOT NULL THEN '[' || concat_ws(',', {values}) || ']' END"
        case Kind.ARRAY if type_.element is not None and type_.element.kind in (*ROWS, Kind.ARRAY):
            inner = _json_text(f"e{depth}", type_.element, iso, depth + 1)
            made = f"list_transform({value}, lambda e{depth}: coalesce({inner}, 'null'))"
            return f"'[' || array_to_string({made}, ',') || ']'"
    made = json_value(value, type_, iso=iso, depth=depth)
    return f"CASE WHEN {value} IS NOT NULL THEN CAST(to_json({made}) AS VARCHAR) END"


def json_value(value: str, type_: SqlType, *, iso: bool = False, depth: int = 0) -> str:
    """SQL of what a value is in JSON: bytes in base64 and numbers that are not finite as texts ("NaN", "Infinity",
    "-Infinity") as Flink has them; with `iso`, timestamps as ISO 8601 (`2024-01-01T00:00:00.5`, with `Z` for
    instants). Everything else as DuckDB writes it.
    """

    def each(values: str, inner: SqlType) -> str:
        made = json_value(f"e{depth}", inner, iso=iso, depth=depth + 1)
        return values if made == f"e{depth}" else f"list_transform({values}, lambda e{depth}: {made})"

    match type_.kind:
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ if iso:
            zone = "Z" if type_.kind is Kind.TIMESTAMPTZ else ""
            return f"replace(CAST(CAST({value} AS TIMESTAMP) AS VARCHAR), ' ', 'T') || '{zone}'"
        case Kind.TIMESTAMP_NS if iso:
            return f"replace(CAST({value} AS VARCHAR), ' ', 'T')"
        case Kind.BLOB:
            return f"to_base64({value})"
        case Kind.FLOAT | Kind.DOUBLE:  # JSON has no number for them
            return (
                f"CASE WHEN isnan({value}) THEN JSON '\"NaN\"' WHEN {value} = 'inf' THEN JSON '\"Infinity\"' "
                f"WHEN {value} = '-inf' THEN JSON '\"-Infinity\"' ELSE to_json({value}) END"
            )
        case Kind.STRUCT:
            parts = [(name, f"struct_extract({value}, {quote_literal(name)})", t) for name, t in type_.fields]
            made = [(name, part, json_value(part, t, iso=iso, depth=depth)) for name, part, t in parts]
            if all(part == text for _, part, text in made):
                return value
            fields = ", ".join(f"{quote_identifier(name)} := {text}" for name, _, text in made)
            return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({fields}) END"
        case Kind.TUPLE:
            given = [(f"{value}[{n}]", t) for n, (_, t) in enumerate(type_.fields, 1)]
            texts = [json_value(part, t, iso=iso, depth=depth) for part, t in given]
            if texts == [part for part, _ in given]:
                return value
            return f"CASE WHEN {value} IS NOT NULL THEN row({', '.join(texts)}) END"
        case Kind.ARRAY if type_.element is not None:
            return each(value, type_.element)
        case Kind.MAP if type_.key is not None and type_.value is not None:
            keys, values = f"map_keys({value})", f"map_values({value})"
            made_keys, made_values = keys, each(values, type_.value)
            if type_.key.kind not in (Kind.FLOAT, Kind.DOUBLE):  # a key is a text as it is
                made_keys = each(keys, type_.key)
            if (made_keys, made_values) == (keys, values):
                return value
            return f"CASE WHEN {value} IS NOT NULL THEN map({made_keys}, {made_values}) END"
    return value


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
