"""Parquet, read by DuckDB where it is: columns and filters are pushed into the scan, and a file range
counts rows.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Hashable, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from sqlstream.formats.file_parts import RAW_BYTES, BadText, FilePart, FileShape, FileTable, match_names
from sqlstream.formats.file_writing import as_declared
from sqlstream.formats.scratch import Scratch
from sqlstream.formats.values import cast_from, file_list
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError, InputFileError
from sqlstream_operators.plan.spec import Column
from sqlstream_operators.plan.types import SqlType, quote_identifier, quote_literal

_RENAMED = re.compile(r".*_\d+", re.DOTALL)


def shape(part: FilePart) -> FileShape:
    """Read a file's footer. Raises DataError if it is not the Parquet file that was listed."""
    with part.open() as file:
        try:
            metadata = pq.read_metadata(file)
        except (pa.ArrowException, OSError) as error:
            raise broken(part, error) from error
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    return FileShape(metadata.num_rows, tuple(itertools.accumulate(sizes, initial=0))[:-1])


def broken(part: FilePart, error: Exception) -> InputFileError:
    """The error for a file that is not Parquet, or damaged."""
    return part.damaged(f"not a readable Parquet file: {str(error).splitlines()[0]}")


class ParquetFileReader:
    """Columns are found by name, ignoring case."""

    def __init__(self, table: FileTable) -> None:
        self._table = table

    @property
    def parses(self) -> bool:
        """See `FileReader`."""
        return False

    def strict(self, duck: DuckSession, parts: Sequence[FilePart], work: Scratch) -> str | pa.Table:
        """See `FileReader`."""
        return _strict_sql(duck, self._table, parts)

    def lenient(self, duck: DuckSession, part: FilePart, work: Scratch) -> tuple[pa.Table, list[BadText]]:
        """See `FileReader`."""
        return _lenient(duck, self._table, part)


def _strict_sql(duck: DuckSession, wanted: FileTable, ranges: Sequence[FilePart]) -> str:
    """A SELECT over the ranges in order. Raises DataError for a file that is not Parquet or lacks no column."""
    local = {part.path: part.local() for part in ranges}
    schemas = _schemas(duck, ranges, local)
    found = {part.path: _items(wanted, schemas[part.path], part, local[part.path]) for part in ranges}
    parts = []
    # Files with one schema are read together; a cut file stands alone.
    for _, group in itertools.groupby(
        ranges,
        key=lambda p: (
            tuple(schemas[p.path].items()),
            found[p.path],
            None if p.whole else (p.path, p.start),
        ),
    ):
        members = list(group)
        paths = [local[part.path] for part in members]
        items = [*found[members[0].path], *wanted.beside(members).items]
        parts.append(
            f"SELECT {', '.join(items) or '1 AS one'} FROM read_parquet({file_list(paths)}, "
            f"hive_partitioning = false){_range(members[0])}"
        )
    return " UNION ALL ".join(parts)


def _lenient(duck: DuckSession, wanted: FileTable, part: FilePart) -> tuple[pa.Table, list[BadText]]:
    """The rows whose values can be cast to the declared types, and the others, by their row number from 1."""
    path = part.local()
    schema = _schema(duck, part, path)
    source = f"read_parquet({file_list([path])}, hive_partitioning = false)"
    if wanted.columns_in is not None:
        return _whole(duck, wanted, part, path, schema), []
    names = match_names([c.name for c in wanted.columns], list(schema), part)
    failures = []
    for column in wanted.columns:
        name = names[column.name]
        if name is not None and schema[name] != column.type:
            raw = quote_identifier(name)
            cast = cast_from(schema[name], raw, column.type)
            failures.append((f"{raw} IS NOT NULL AND TRY({cast}) IS NULL", column.name, column.type, raw))
    if not failures:
        return _whole(duck, wanted, part, path, schema), []
    reason = " ".join(
        f"WHEN {test} THEN {quote_literal(f'column {name}: not a {type_}: ')} || left({raw}::VARCHAR, 200)"
        for test, name, type_, raw in failures
    )
    raws = ", ".join(sorted({raw for _, _, _, raw in failures}))
    found = duck.query(
        f"SELECT * FROM (SELECT file_row_number AS row, CASE {reason} END AS reason, "
        f"to_json(struct_pack({', '.join(f'{r} := {r}' for r in raws.split(', '))}))::VARCHAR AS raw "
        f"FROM {source}{_range(part)}) WHERE reason IS NOT NULL"
    )
    bad = [
        BadText(row + 1, raw[:RAW_BYTES], reason)
        for row, raw, reason in zip(*(found[n].to_pylist() for n in ("row", "raw", "reason")), strict=True)
    ]
    refused = " OR ".join(f"({test})" for test, _, _, _ in failures)
    return _whole(duck, wanted, part, path, schema, f"NOT coalesce({refused}, false)"), bad


def _whole(
    duck: DuckSession,
    wanted: FileTable,
    part: FilePart,
    path: str,
    schema: Mapping[str, SqlType | None],
    condition: str = "",
) -> pa.Table:
    items = [*_items(wanted, schema, part, path), *wanted.beside([part]).items]
    where = _range(part)
    source = f"read_parquet({file_list([path])}, hive_partitioning = false)"
    if condition:  # of columns in the file, and not of the items that are called as they are
        source = f"(SELECT * FROM {source}{where}{' AND' if where else ' WHERE'} {condition})"
        where = ""
    return duck.query(f"SELECT {', '.join(items) or '1 AS one'} FROM {source}{where}")


def _items(wanted: FileTable, schema: Mapping[str, SqlType | None], entry: FilePart, path: str) -> list[str]:
    """SELECT items of the wanted columns; NULL for a column that this file does not have."""
    if wanted.columns_in is not None:
        return wanted.columns_in(entry, path, schema)
    names = match_names([column.name for column in wanted.columns], list(schema), entry)
    items = []
    for column in wanted.columns:
        name = names[column.name]
        if name is None:
            value = f"CAST(NULL AS {column.type})"
        else:
            value = cast_from(schema[name], quote_identifier(name), column.type)
        items.append(f"{value} AS {quote_identifier(column.name)}")
    return items


def _schemas(
    duck: DuckSession, entries: Sequence[FilePart], local: Mapping[str, str]
) -> dict[str, dict[str, SqlType | None]]:
    """The columns of files by their paths. DuckDB describes once all whose footers say the same of them."""
    alike: dict[Hashable, dict[str, SqlType | None]] = {}
    found = {}
    for entry in entries:
        path = local[entry.path]
        footer = _footer_of(path) if len(local) > 1 else entry.path
        if footer not in alike:
            alike[footer] = _schema(duck, entry, path)
        found[entry.path] = alike[footer]
    return found


def _footer_of(path: str) -> Hashable:
    """All that a file's footer says of its columns: the whole schema, and what whoever wrote it noted."""
    try:
        metadata = pq.read_metadata(path)
    except (pa.ArrowException, OSError):
        return path  # DuckDB says what is wrong with it
    noted = metadata.metadata or {}
    _, _, columns = str(metadata.schema).partition("\n")  # behind the name of an object
    return columns, metadata.created_by, tuple(sorted(noted.items()))


def _schema(duck: DuckSession, entry: FilePart, path: str) -> dict[str, SqlType | None]:
    """Name -> type of a file's columns."""
    try:
        found: dict[str, SqlType | None] = dict(
            duck.describe(f"SELECT * FROM read_parquet({file_list([path])}, hive_partitioning = false)")
        )
    except DataError as error:
        raise broken(entry, error) from error
    if any(_RENAMED.fullmatch(name) for name in found):
        # DuckDB calls the second of `a` and `A` `A_1`; the real names show whether that happened.
        names = pq.read_schema(path).names
        if names != list(found):
            match_names([name for name in found if name in names], names, entry)
    return found


def _range(file_range: FilePart) -> str:
    if file_range.whole:
        return ""
    upper = "" if file_range.end is None else f" AND file_row_number < {file_range.end}"
    return f" WHERE file_row_number >= {file_range.start}{upper}"


def write(
    filesystem: fs.FileSystem,
    path: str,
    table: pa.Table,
    columns: Sequence[Column],
    options: Mapping[str, str],
) -> None:
    """HUGEINT, which Parquet does not have, becomes DECIMAL(38, 0); UUID and JSON become strings."""
    table = as_declared(table, columns)
    codec = options.get("parquet.compression", "snappy").lower()
    pq.write_table(
        table, path, filesystem=filesystem, compression="none" if codec == "uncompressed" else codec
    )
