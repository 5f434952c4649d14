"""Parquet, read by DuckDB where it is: columns and filters are pushed into the scan, and a file range
counts rows.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from sqlstream.connectors.api import BadRow
from sqlstream.connectors.filesystem.columns import ReadColumns, match_names
from sqlstream.connectors.filesystem.file_ranges import FileRange, Workspace
from sqlstream.connectors.filesystem.file_version import check_unchanged, repair
from sqlstream.connectors.filesystem.options import FileOptions
from sqlstream.connectors.filesystem.paths import FileEntry, open_filesystem
from sqlstream.formats.values import cast_from, file_list
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError, InputFileError
from sqlstream_operators.plan.types import SqlType, quote_identifier, quote_literal

RAW_CHARACTERS = 64 << 10
_RENAMED = re.compile(r".*_\d+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ParquetShape:
    """How many rows a file has, and where its row groups start (row numbers)."""

    rows: int
    groups: tuple[int, ...]


def shape(entry: FileEntry) -> ParquetShape:
    """Read a file's footer. Raises DataError if it is not the Parquet file that was listed."""
    check_unchanged(entry)
    filesystem, inside = open_filesystem(entry.location)
    try:
        metadata = pq.read_metadata(inside, filesystem=filesystem)
    except (pa.ArrowException, OSError) as error:
        raise broken(entry, error) from error
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    return ParquetShape(metadata.num_rows, tuple(itertools.accumulate(sizes, initial=0))[:-1])


def broken(entry: FileEntry, error: Exception) -> InputFileError:
    """The error for a file that is not Parquet, or damaged."""
    return InputFileError(
        f"{entry.path}: not a readable Parquet file: {str(error).splitlines()[0]}", repair(entry)
    )


def strict_sql(
    duck: DuckSession, wanted: ReadColumns, options: FileOptions, ranges: Sequence[FileRange], work: Workspace
) -> str:
    """A SELECT over the ranges in order. Raises DataError for a file that is not Parquet or lacks no
    column.
    """
    local = {file_range.entry.path: work.local(file_range.entry) for file_range in ranges}
    schemas = _schemas(duck, [file_range.entry for file_range in ranges], local)
    parts = []
    # Files with one schema are read together; a cut file stands alone.
    for _, group in itertools.groupby(
        ranges,
        key=lambda p: (tuple(schemas[p.entry.path].items()), None if p.whole else (p.entry.path, p.start)),
    ):
        members = list(group)
        paths = [local[file_range.entry.path] for file_range in members]
        items = _items(wanted, schemas[members[0].entry.path], members[0].entry)
        items += wanted.constants([file_range.entry for file_range in members])
        parts.append(
            f"SELECT {', '.join(items) or '1 AS one'} FROM read_parquet({file_list(paths)}, "
            f"hive_partitioning = false){_range(members[0])}"
        )
    return " UNION ALL ".join(parts)


def lenient(
    duck: DuckSession, wanted: ReadColumns, options: FileOptions, file_range: FileRange, work: Workspace
) -> tuple[pa.Table, list[BadRow]]:
    """The rows whose values can be cast to the declared types, and the others, by their row number from 1."""
    path = work.local(file_range.entry)
    schema = _schema(duck, file_range.entry, path)
    source = f"read_parquet({file_list([path])}, hive_partitioning = false)"
    names = match_names([c.name for c in wanted.columns], list(schema), file_range.entry.path)
    failures = []
    for column in wanted.columns:
        name = names[column.name]
        if name is not None and schema[name] != column.type:
            raw = quote_identifier(name)
            cast = cast_from(schema[name], raw, column.type)
            failures.append((f"{raw} IS NOT NULL AND TRY({cast}) IS NULL", column.name, column.type, raw))
    if not failures:
        return _whole(duck, wanted, file_range, path, schema), []
    reason = " ".join(
        f"WHEN {test} THEN {quote_literal(f'column {name}: not a {type_}: ')} || left({raw}::VARCHAR, 200)"
        for test, name, type_, raw in failures
    )
    raws = ", ".join(sorted({raw for _, _, _, raw in failures}))
    found = duck.query(
        f"SELECT * FROM (SELECT file_row_number AS row, CASE {reason} END AS reason, "
        f"to_json(struct_pack({', '.join(f'{r} := {r}' for r in raws.split(', '))}))::VARCHAR AS raw "
        f"FROM {source}{_range(file_range)}) WHERE reason IS NOT NULL"
    )
    bad = [
        BadRow(file_range.entry.path, row + 1, raw[:RAW_CHARACTERS], reason)
        for row, raw, reason in zip(*(found[n].to_pylist() for n in ("row", "raw", "reason")), strict=True)
    ]
    refused = " OR ".join(f"({test})" for test, _, _, _ in failures)
    return _whole(duck, wanted, file_range, path, schema, f"NOT coalesce({refused}, false)"), bad


def _whole(
    duck: DuckSession,
    wanted: ReadColumns,
    file_range: FileRange,
    path: str,
    schema: Mapping[str, SqlType | None],
    condition: str = "",
) -> pa.Table:
    items = _items(wanted, schema, file_range.entry) + wanted.constants([file_range.entry])
    where = _range(file_range)
    source = f"(SELECT * FROM read_parquet({file_list([path])}, hive_partitioning = false){where}"
    if condition:
        source += f"{' AND' if where else ' WHERE'} {condition}"
    return duck.query(f"SELECT {', '.join(items) or '1 AS one'} FROM {source})")


def _items(wanted: ReadColumns, schema: Mapping[str, SqlType | None], entry: FileEntry) -> list[str]:
    """SELECT items of the wanted columns; NULL for a column that this file does not have."""
    names = match_names([column.name for column in wanted.columns], list(schema), entry.path)
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
    duck: DuckSession, entries: Sequence[FileEntry], local: Mapping[str, str]
) -> dict[str, dict[str, SqlType | None]]:
    """The columns of files by their paths. DuckDB is asked once for all whose footers say the same of them."""
    alike: dict[Hashable, dict[str, SqlType | None]] = {}
    found = {}
    for entry in entries:
        path = local[entry.path]
        said = _said_of_columns(path) if len(local) > 1 else entry.path
        if said not in alike:
            alike[said] = _schema(duck, entry, path)
        found[entry.path] = alike[said]
    return found


def _said_of_columns(path: str) -> Hashable:
    """All that a file's footer says of its columns: the whole schema, and what whoever wrote it noted."""
    try:
        metadata = pq.read_metadata(path)
    except (pa.ArrowException, OSError):
        return path  # DuckDB says what is wrong with it
    noted = metadata.metadata or {}
    _, _, columns = str(metadata.schema).partition("\n")  # behind the name of an object
    return columns, metadata.created_by, tuple(sorted(noted.items()))


def _schema(duck: DuckSession, entry: FileEntry, path: str) -> dict[str, SqlType | None]:
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
            match_names([name for name in found if name in names], names, entry.path)
    return found


def _range(file_range: FileRange) -> str:
    if file_range.whole:
        return ""
    upper = "" if file_range.end is None else f" AND file_row_number < {file_range.end}"
    return f" WHERE file_row_number >= {file_range.start}{upper}"
