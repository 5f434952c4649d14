"""Which columns are read, as which types, and how they become the declared ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote

from sqlstream.connectors.filesystem.file_version import other_shape
from sqlstream.connectors.filesystem.paths import FileEntry
from sqlstream.formats.values import cast_from
from sqlstream_operators.errors import DataError, InputFileError
from sqlstream_operators.plan.spec import Column, Schema, SourceSpec
from sqlstream_operators.plan.types import VARCHAR, Kind, SqlType, quote_identifier, quote_literal

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
#: SQL of the value that a name has of a file.
Literal = Callable[[str, FileEntry], str]
METADATA_KEYS = ("file.path", "file.name", "file.size", "file.modification-time")


@dataclass(frozen=True, slots=True)
class ReadColumns:
    """What a reader delivers: `columns` that are in the files (types without the nested fields that nobody
    needs), `partitions` whose values are in the paths, then metadata. `declared`: all columns in the files.
    """

    columns: Schema
    partitions: Schema
    declared: tuple[str, ...]
    spec: SourceSpec

    @property
    def schema(self) -> Schema:
        """The schema of the relation."""
        return self.columns + self.partitions + tuple(Column(m.name, m.type) for m in self.spec.metadata)

    @classmethod
    def of(cls, spec: SourceSpec) -> ReadColumns:
        """The columns of a source, in the order in which it wants them."""
        declared = {column.name: column for column in spec.physical}
        apart = {name.lower() for name in spec.partitioned_by}
        columns = tuple(
            replace(declared[name], type=prune(declared[name].type, paths_of(name, spec.needed_paths)))
            for name in spec.columns
        )
        return cls(
            columns=tuple(column for column in columns if column.name.lower() not in apart),
            partitions=tuple(column for column in columns if column.name.lower() in apart),
            declared=tuple(column.name for column in spec.physical if column.name.lower() not in apart),
            spec=spec,
        )

    def constants(
        self,
        entries: Sequence[FileEntry],
        partition: Literal | None = None,
        metadata_of: Literal | None = None,
    ) -> list[str]:
        """SELECT items of partition and metadata columns, for files that DuckDB numbers in this order (`file_index`).

        `partition` and `metadata_of` are SQL of a file's value of a column, or key; without them they are of its path.
        Raises DataError for a file outside of its partitions' folders.
        """
        default = self.spec.options.get("partition.default-name", DEFAULT_PARTITION)
        partition = partition or (lambda name, entry: partition_literal(name, entry, default))
        metadata_of = metadata_of or metadata_literal
        items = []
        for column in self.partitions:
            values = [partition(column.name, entry) for entry in entries]
            typed = cast_from(VARCHAR, picked(values), column.type)
            items.append(f"{typed} AS {quote_identifier(column.name)}")
        for metadata in self.spec.metadata:
            values = [metadata_of(metadata.key, entry) for entry in entries]
            items.append(f"CAST({picked(values)} AS {metadata.type}) AS {quote_identifier(metadata.name)}")
        return items


def unread_as_text(spec: SourceSpec) -> SourceSpec:
    """The source's whole rows; the columns that it does not read are taken as they are, as text."""
    read = set(spec.columns)
    unread = tuple(column.name for column in spec.physical if column.name not in read)
    text = tuple(c if c.name in read else replace(c, type=VARCHAR) for c in spec.physical)
    paths = (*spec.needed_paths, *unread) if spec.needed_paths else ()
    return replace(spec.whole, physical=text, needed_paths=paths)


def picked(values: Sequence[str]) -> str:
    """SQL of the value of a row's file, of values in the files' order."""
    if len(set(values)) == 1:
        return values[0]
    return f"[{', '.join(values)}][file_index::BIGINT + 1]"


def partition_literal(name: str, entry: FileEntry, default: str) -> str:
    """The text of a partition column as SQL, from a folder `name=value` of the path; `default` means NULL.

    >>> partition_literal("k", FileEntry("/d/k=a%2Fb/x.json", 1, 0), DEFAULT_PARTITION)
    "'a/b'"
    """
    for folder in reversed(entry.path.split("/")[:-1]):
        key, found, value = folder.partition("=")
        if found and unquote(key).lower() == name.lower():
            return "NULL::VARCHAR" if value == default else quote_literal(unquote(value))
    raise InputFileError(
        f"{entry.path}: is not in a folder '{name}=…' though the table is partitioned by {name}",
        other_shape(entry.path),
    )


def paths_of(column: str, needed: Sequence[str]) -> tuple[str, ...]:
    """The nested paths below `column`; () means all of it.

    >>> paths_of("bid", ["bid.price", "bid.a.b", "auction"])
    ('price', 'a.b')
    """
    if column in needed or "." in column:
        return ()
    return tuple(path[len(column) + 1 :] for path in needed if path.startswith(f"{column}."))


def prune(type_: SqlType, paths: Sequence[str]) -> SqlType:
    """A struct type with only the fields on `paths` (all of them if there is no path or a path leads
    nowhere).

    >>> from sqlstream_operators.plan.types import parse_type
    >>> str(prune(parse_type("STRUCT(a INTEGER, b VARCHAR)"), ["b"]))
    'STRUCT("b" VARCHAR)'
    """
    if type_.kind is not Kind.STRUCT or not paths:
        return type_
    names = {name for name, _ in type_.fields}
    heads = {path.partition(".")[0] for path in paths}
    if not heads <= names or any("." in name for name in names):
        return type_
    fields = tuple((n, prune(t, paths_of(n, paths))) for n, t in type_.fields if n in heads)
    return SqlType(Kind.STRUCT, fields=fields)


def metadata_literal(key: str, entry: FileEntry) -> str:
    """The value of a metadata column for one file, as SQL. Raises DataError for an unknown key."""
    match key:
        case "file.path":
            return quote_literal(entry.path)
        case "file.name":
            return quote_literal(entry.path.rpartition("/")[2])
        case "file.size":
            return f"{entry.size}::BIGINT"
        case "file.modification-time":
            moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=entry.modified_us)
            return f"TIMESTAMPTZ {quote_literal(moment.isoformat(' '))}"
    raise DataError(f"no metadata column '{key}': files have {', '.join(METADATA_KEYS)}")
