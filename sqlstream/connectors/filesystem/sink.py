"""The filesystem sink: files appear in the directory when their epoch is committed, and not before.

A task writes to `<path>/.sqlstream/staging/`, a hidden folder on the same file system; the commit renames
each file to its place, which readers see as all of it or nothing. Names follow from epoch and task, so a task
that runs again overwrites its own file and a commit that runs again finds its work done.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from sqlstream.connectors.api import ConnectorContext, SinkPart
from sqlstream.connectors.filesystem.columns import DEFAULT_PARTITION, literal
from sqlstream.connectors.filesystem.options import FileOptions
from sqlstream.connectors.filesystem.paths import is_local, open_filesystem, resolve
from sqlstream.connectors.options import bad_option, flag, size_bytes
from sqlstream_operators.arrow_types import to_arrow
from sqlstream_operators.errors import DataError
from sqlstream_operators.fragment import DuckSession
from sqlstream_operators.spec import Column, SinkSpec
from sqlstream_operators.types import Kind, SqlType, quote_identifier

_HIDDEN = ".sqlstream"
_STAGING = f"{_HIDDEN}/staging"
_OWNER = f"{_HIDDEN}/owner.json"
_FILE_BYTES = 128 << 20
_COMMITTED = f"{_HIDDEN}/committed"
_IDENTITY = "sinks/identity.json"
_STAGED_NAME = re.compile(r"part-(\d+)-.*")
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{}\[\]^]")


class FileWriter:
    """The task's half: writes one file, or one for each partition."""

    def __init__(self, spec: SinkSpec, base_dir: str) -> None:
        self._spec = spec
        self._options = FileOptions.read(spec.options)
        if self._options.format == "orc":
            raise bad_option("format", "orc", "json, csv or parquet for a table that is written")
        self._location = resolve(self._options.path, base_dir)
        self._file_bytes = size_bytes(spec.options, "sink.rolling-policy.file-size", _FILE_BYTES)
        self._default = spec.options.get("partition.default-name", DEFAULT_PARTITION)

    def write(self, table: pa.Table, *, epoch: int, task: str) -> SinkPart:
        """Stage the rows; nothing is written if there are none. Raises DataError if a value does not fit the
        type.
        """
        if not table.num_rows:
            return SinkPart(0)
        filesystem, root = open_filesystem(self._location)
        filesystem.create_dir(f"{root}/{_STAGING}", recursive=True)
        files = []
        for number, (folder, part, rows) in enumerate(self._parts(table)):
            end = _ENDINGS[self._options.format]
            name = f"part-{epoch:06d}-{_safe(task)}"
            staged = f"{_STAGING}/{name}{f'-{number}' if number else ''}{end}"
            columns = [c for c in self._spec.schema if c.name not in self._spec.partitioned_by]
            _FORMATS[self._options.format](
                filesystem,
                f"{root}/{staged}",
                rows.select([c.name for c in columns]),
                columns,
                self._spec.options,
            )
            if is_local(self._location):
                _sync(f"{root}/{staged}")
            files.append([staged, f"{folder}{name}{f'-{part}' if part else ''}{end}"])
        return SinkPart(table.num_rows, {"files": files})

    def _parts(self, table: pa.Table) -> Iterator[tuple[str, int, pa.Table]]:
        """Folder, number in it, rows: partitions are cut where they are larger than a file should be in
        memory.
        """
        for folder, rows in self._partitions(table):
            count = min(rows.num_rows, max(1, -(-rows.nbytes // self._file_bytes)))
            for part in range(count):
                start, end = rows.num_rows * part // count, rows.num_rows * (part + 1) // count
                yield folder, part, rows.slice(start, end - start)

    def _partitions(self, table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        """The folders (`k=v/`, "" without partitions) and their rows, in the order of the table."""
        keys = self._spec.partitioned_by
        if not keys:
            yield "", table
            return
        kinds = {column.name: column for column in self._spec.schema}
        session = _session()
        session.register("sink_rows", table, self._spec.schema)
        texts = ", ".join(f"CAST({quote_identifier(key)} AS VARCHAR)" for key in keys)
        values = session.query(f"SELECT {texts} FROM sink_rows")
        session.drop("sink_rows")
        folders = [
            _folder(key, values.column(i).combine_chunks(), self._default)
            for i, key in enumerate(kinds[key].name for key in keys)
        ]
        joined = pc.binary_join_element_wise(*folders, "/").dictionary_encode()
        joined = joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined
        codes = joined.indices.to_numpy(zero_copy_only=False)
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(len(joined.dictionary)), side="right")
        start = 0
        for folder, end in zip(joined.dictionary.to_pylist(), ends.tolist(), strict=True):
            yield f"{folder}/", table.take(pa.array(order[start:end]))
            start = end


class FileSink:
    """The driver's half.

    A directory belongs to one table of one state directory: another one would reuse the names and replace
    files, so it is refused.
    """

    def __init__(self, spec: SinkSpec, context: ConnectorContext) -> None:
        self._location = resolve(FileOptions.read(spec.options).path, context.base_dir)
        self._filesystem, self._root = open_filesystem(self._location)
        self._store = context.store
        self._table = spec.name
        self._claimed = False

    def prepare(self, epoch: int, parts: Sequence[SinkPart]) -> None:
        """Check that everything is staged and no name is taken. Raises DataError otherwise."""
        self._claim()
        for staged, final in _files(parts):
            if self._exists(final):
                raise DataError(f"{self._location}/{final} exists, but epoch {epoch} was not committed yet")
            if not self._exists(staged):
                raise DataError(
                    f"{self._location}/{staged} is gone: someone deleted a file that was not committed"
                )

    def commit(self, epoch: int, parts: Sequence[SinkPart]) -> None:
        """Rename the staged files to their places; those that are there already are done.

        Which epoch was the last is noted in the directory, so that a repeated commit does not miss files that
        someone took away since.
        """
        if epoch <= self._committed():
            return
        folders = set()
        for staged, final in _files(parts):
            folder, _, _ = final.rpartition("/")
            if folder not in folders:
                self._filesystem.create_dir(f"{self._root}/{folder}".rstrip("/"), recursive=True)
                folders.add(folder)
            if self._exists(staged):
                self._filesystem.move(f"{self._root}/{staged}", f"{self._root}/{final}")
            elif not self._exists(final):
                raise DataError(
                    f"{self._location}/{final} is missing: epoch {epoch} is committed, but its staged "
                    f"file was deleted. Start again from a new state directory to write its rows"
                )
        if not folders:
            return
        if is_local(self._location):
            for folder in sorted(folders):
                _sync(f"{self._root}/{folder}")
        with self._filesystem.open_output_stream(f"{self._root}/{_COMMITTED}") as out:
            out.write(str(epoch).encode())

    def _committed(self) -> int:
        """The last epoch with rows that is known to be committed; 0 if none is."""
        if not self._exists(_COMMITTED):
            return 0
        with self._filesystem.open_input_stream(f"{self._root}/{_COMMITTED}") as file:
            text = file.read().decode()
        return int(text) if text.isdigit() else 0  # torn by a crash: the files tell

    def abort_uncommitted(self, last_epoch: int) -> None:
        """Remove what epochs after `last_epoch` staged. Raises DataError if the directory belongs to another
        sink.
        """
        self._claim()
        selector = fs.FileSelector(f"{self._root}/{_STAGING}", allow_not_found=True)
        for info in self._filesystem.get_file_info(selector):
            found = _STAGED_NAME.fullmatch(info.base_name)
            if found is not None and int(found.group(1)) > last_epoch:
                self._filesystem.delete_file(info.path)

    def _claim(self) -> None:
        if self._claimed:
            return
        if not self._store.exists(_IDENTITY):
            self._store.put(_IDENTITY, json.dumps({"id": uuid.uuid4().hex}).encode())
        identity = json.loads(self._store.get(_IDENTITY))["id"]
        path = f"{self._root}/{_OWNER}"
        if self._exists(_OWNER):
            with self._filesystem.open_input_stream(path) as file:
                owner = json.loads(file.read())
            if owner["state"] != identity:
                raise DataError(
                    f"'{self._location}' was written with another state directory. Go on with that state "
                    f"directory, delete the output directory or choose another path"
                )
            if owner["table"] != self._table:
                raise DataError(
                    f"'{self._location}' is where table {owner['table']} writes: table {self._table} needs "
                    f"another path, or delete the output directory"
                )
        else:
            self._filesystem.create_dir(f"{self._root}/{_STAGING}", recursive=True)
            with self._filesystem.open_output_stream(path) as out:
                out.write(json.dumps({"state": identity, "table": self._table}).encode())
        self._claimed = True

    def _exists(self, relative: str) -> bool:
        info = self._filesystem.get_file_info(f"{self._root}/{relative}")
        return bool(info.type == fs.FileType.File)


def _files(parts: Sequence[SinkPart]) -> Iterator[tuple[str, str]]:
    for part in parts:
        yield from part.payload.get("files", ())


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def _folder(key: str, values: pa.Array, default: str) -> pa.Array:
    """`key=value` for every value; each distinct value is escaped once."""
    encoded = values.dictionary_encode()
    names = pa.array([f"{escape(key)}={escape(v) if v else default}" for v in encoded.dictionary.to_pylist()])
    if not len(names):
        names = pa.array([], pa.string())
    return pc.fill_null(names.take(encoded.indices), f"{escape(key)}={default}")


def escape(text: str) -> str:
    """A partition's value as part of a path, as Hive and Flink write it.

    >>> escape("a/b: 100%")
    'a%2Fb%3A 100%25'
    """
    return _UNSAFE.sub(lambda found: f"%{ord(found.group()):02X}", text)


@functools.cache
def _session() -> DuckSession:
    """The connection of this process for writing; the fragments' own may be in use."""
    return DuckSession()


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_Write = Callable[[fs.FileSystem, str, pa.Table, Sequence[Column], Mapping[str, str]], None]


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
        fields = ", ".join(_present(quote_identifier(c.name), c.name, c.type, iso) for c in columns)
        session = _session()
        session.register("sink_rows", table, columns)
        try:
            lines = session.query(f"SELECT '{{' || concat_ws(',', {fields}) || '}}\n' AS line FROM sink_rows")
        finally:
            session.drop("sink_rows")
        with filesystem.open_output_stream(path, compression=None) as out:
            for chunk in lines["line"].chunks:
                out.write("".join(chunk.to_pylist()).encode())
        return
    items = []
    for column in columns:
        name = quote_identifier(column.name)
        items.append(f"{json_value(name, column.type, iso=iso)} AS {name}")
    _copy(filesystem, path, table, columns, items, "FORMAT json")


def _present(value: str, name: str, type_: SqlType, iso: bool, depth: int = 0) -> str:
    """SQL of `"name":value` as JSON text, NULL if the value is; fields of rows that are NULL are left out
    too.
    """
    return f"{literal(json.dumps(name, ensure_ascii=False) + ':')} || {_json_text(value, type_, iso, depth)}"


def _json_text(value: str, type_: SqlType, iso: bool, depth: int) -> str:
    match type_.kind:
        case Kind.STRUCT:
            fields = ", ".join(
                _present(f"struct_extract({value}, {literal(name)})", name, field, iso, depth)
                for name, field in type_.fields
            )
            return f"CASE WHEN {value} IS NOT NULL THEN '{{' || concat_ws(',', {fields}) || '}}' END"
        case Kind.ARRAY if type_.element is not None and type_.element.kind in (Kind.STRUCT, Kind.ARRAY):
            inner = _json_text(f"e{depth}", type_.element, iso, depth + 1)
            made = f"list_transform({value}, lambda e{depth}: coalesce({inner}, 'null'))"
            return f"'[' || array_to_string({made}, ',') || ']'"
    made = json_value(value, type_, iso=iso, depth=depth)
    return f"CASE WHEN {value} IS NOT NULL THEN CAST(to_json({made}) AS VARCHAR) END"


def json_value(value: str, type_: SqlType, *, iso: bool = False, depth: int = 0) -> str:
    """SQL of what a value is in JSON: bytes in base64 as Flink has them; with `iso`, timestamps as ISO 8601
    (`2024-01-01T00:00:00.5`, with `Z` for instants). Everything else as DuckDB writes it.
    """

    def each(values: str, inner: SqlType) -> str:
        made = json_value(f"e{depth}", inner, iso=iso, depth=depth + 1)
        return values if made == f"e{depth}" else f"list_transform({values}, lambda e{depth}: {made})"

    match type_.kind:
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ if iso:
            zone = "Z" if type_.kind is Kind.TIMESTAMPTZ else ""
            return f"replace(CAST(CAST({value} AS TIMESTAMP) AS VARCHAR), ' ', 'T') || '{zone}'"
        case Kind.BLOB:
            return f"to_base64({value})"
        case Kind.STRUCT:
            parts = [(name, f"struct_extract({value}, {literal(name)})", t) for name, t in type_.fields]
            made = [(name, part, json_value(part, t, iso=iso, depth=depth)) for name, part, t in parts]
            if all(part == text for _, part, text in made):
                return value
            fields = ", ".join(f"{quote_identifier(name)} := {text}" for name, _, text in made)
            return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({fields}) END"
        case Kind.ARRAY if type_.element is not None:
            return each(value, type_.element)
        case Kind.MAP if type_.key is not None and type_.value is not None:
            keys, values = f"map_keys({value})", f"map_values({value})"
            made_keys, made_values = each(keys, type_.key), each(values, type_.value)
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
        f"FORMAT csv, HEADER {str(bool(read.csv_header)).lower()}, DELIMITER {literal(read.csv.delimiter)}, "
        f"QUOTE {literal(quote)}, ESCAPE {literal(read.csv.escape or quote)}, "
        f"NULLSTR {literal(read.csv_null or '')}"
    )
    _copy(filesystem, path, table, columns, [quote_identifier(c.name) for c in columns], settings)


def _copy(
    filesystem: fs.FileSystem,
    path: str,
    table: pa.Table,
    columns: Sequence[Column],
    items: Sequence[str],
    settings: str,
) -> None:
    """DuckDB's COPY, to a local file first where the target is elsewhere."""
    session = _session()
    session.register("sink_rows", table, columns)
    select = f"SELECT {', '.join(items)} FROM sink_rows"
    try:
        if isinstance(filesystem, fs.LocalFileSystem):
            session.connection.execute(f"COPY ({select}) TO {literal(path)} ({settings})")
            return
        with tempfile.TemporaryDirectory(prefix="sqlstream-") as folder:
            target = Path(folder) / "part"
            session.connection.execute(f"COPY ({select}) TO {literal(str(target))} ({settings})")
            with target.open("rb") as source, filesystem.open_output_stream(path, compression=None) as out:
                shutil.copyfileobj(source, out, 8 << 20)
    except duckdb.Error as error:
        raise DataError(f"a row can't be written: {error}") from error
    finally:
        session.drop("sink_rows")


_FORMATS: Mapping[str, _Write] = {"json": _write_json, "csv": _write_csv, "parquet": _write_parquet}
_ENDINGS: Mapping[str, str] = {"json": ".json", "csv": ".csv", "parquet": ".parquet"}
