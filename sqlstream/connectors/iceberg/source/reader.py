"""The task's half of a source: Parquet files, whose columns are found by the ids of the table's fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sqlstream.connectors.api import Split
from sqlstream.connectors.filesystem.columns import ReadColumns, metadata_literal, picked
from sqlstream.connectors.filesystem.parts import Part
from sqlstream.connectors.filesystem.paths import FileEntry, joined_location
from sqlstream.connectors.filesystem.reader import HERE, FileReader
from sqlstream.connectors.iceberg.files import plain
from sqlstream.connectors.iceberg.options import TablePlace
from sqlstream.connectors.iceberg.source.deleted import Deleted
from sqlstream.connectors.iceberg.source.options import IcebergOptions
from sqlstream.connectors.lakehouse.reader import TableReader
from sqlstream.formats.file_parts import FilePart
from sqlstream_operators.errors import InputFileError, InternalError
from sqlstream_operators.plan.schema import KIND_COLUMN, RowKind
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.plan.types import SqlType, parse_type, quote_identifier, quote_literal

#: The metadata column with the snapshot that a row came with.
SNAPSHOT_ID = "_snapshot_id"
#: How much a split says of each file whose rows all are there, and come.
_PLAIN = 2


class IcebergReader(TableReader):
    """Reads splits of one source as files of Parquet; a split says which fields columns are, and which rows are there."""

    def __init__(self, spec: SourceSpec, base_dir: str) -> None:
        place = TablePlace.of(spec, base_dir)
        path = joined_location(plain(place.warehouse) or "/", place.opening)
        self._changes = IcebergOptions.read(spec.options).reads_changes
        self._spec = replace(
            spec,
            options={"path": path, "format": "parquet"},
            partitioned_by=(),
            # What a filter drops of changes may be what takes another row away.
            filter=None if self._changes else spec.filter,
        )
        self._base_dir, self._opening = base_dir, place.opening

    def _files(self, split: Split) -> FileReader:
        files: Mapping[str, Sequence[Any]] = split.payload["files"]
        wanted = ReadColumns.of(self._spec)

        def metadata(key: str, entry: FileEntry) -> str:
            return f"{files[entry.path][0]}::BIGINT" if key == SNAPSHOT_ID else metadata_literal(key, entry)

        def constants(entries: Sequence[FileEntry]) -> list[str]:
            items = wanted.constants(entries, None, metadata)
            if self._changes:
                kinds = [RowKind.DELETE if _goes(files[one.path]) else RowKind.INSERT for one in entries]
                items.append(f"{picked([quote_literal(kind) for kind in kinds])} AS {KIND_COLUMN}")
            return items

        columns = _Columns(wanted, split, self._opening)
        return FileReader(
            self._spec,
            self._base_dir,
            constants,
            kinds=self._changes,
            columns_in=columns.items,
            marks=columns.marks,
        )


def _goes(file: Sequence[Any]) -> bool:
    return len(file) > _PLAIN and bool(file[_PLAIN][0])


class _Columns:
    """SELECT items of a file's columns; NULL for one that it has not, or its partition's value.

    `marks`: whether a row is there is an item, too.
    """

    def __init__(self, wanted: ReadColumns, split: Split, opening: str) -> None:
        self._wanted = wanted
        self._fields = split.payload["fields"]
        self._files = split.payload["files"]
        self._mapping = split.payload["mapping"]
        self._fields_there: dict[str, Mapping[int, Any]] = {}
        deletes = split.payload.get("deletes", ())
        self.marks = bool(deletes)
        self._deleted = Deleted(deletes, opening, self._compared)

    def items(self, part: FilePart, path: str, read: Mapping[str, SqlType | None]) -> list[str]:
        """Of a file whose columns DuckDB reads as these types. Raises InputFileError for one whose columns have no ids."""
        from sqlstream.connectors.iceberg.source.fields import column_sql

        there = self._there(part, path)
        items = []
        for column in self._wanted.columns:
            field = self._fields.get(column.name)
            value = f"CAST(NULL AS {column.type})"
            if field is not None:
                found = there.get(field["id"])
                if found is not None:
                    value = column_sql(field, column.type, found, read.get(found.name))
                else:
                    value = self._constant(part, field["id"], column.type)
            items.append(f"{value} AS {quote_identifier(column.name)}")
        if self.marks:
            items.append(f"{self._here(part, path)} AS {HERE}")
        return items

    def _constant(self, part: FilePart, id_: int, type_: SqlType) -> str:
        """The value of a column that a file has not: that of its partition, or NULL."""
        constant = self._files[part.path][1].get(str(id_)) if part.path in self._files else None
        if constant == "":
            raise part.unlike(f"field {id_} is only in the file's partition, in a type that can't be read")
        return f"CAST({constant or 'NULL'} AS {type_})"

    def _here(self, part: FilePart, path: str) -> str:
        known = self._files[part.path][_PLAIN:]
        if not known:
            return "true"
        if not isinstance(part, Part):
            raise InternalError("files of a table are ranges of files")
        _, location, only, without = known[0]
        return self._deleted.condition(part, path, location, only, without)

    def _compared(self, part: FilePart, path: str, id_: int, type_: str) -> str:
        """A column of a file by its field's id, as a type, to be compared."""
        found = self._there(part, path).get(id_)
        if found is not None:
            return f"CAST({quote_identifier(found.name)} AS {type_})"
        return self._constant(part, id_, parse_type(type_))

    def _there(self, part: FilePart, path: str) -> Mapping[int, Any]:
        """The file's columns by their ids: the file's own, or those that the table has for its names."""
        if part.path not in self._fields_there:
            from sqlstream.connectors.iceberg.source.fields import fields_by_id

            try:
                schema = pq.read_schema(path).serialize().to_pybytes()
                self._fields_there[part.path] = fields_by_id(schema, self._mapping)
            except (pa.ArrowException, ValueError, TypeError, OSError) as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise  # of the file system, and not of what is in the file
                raise _unreadable(part, error) from error
        return self._fields_there[part.path]


def _unreadable(part: FilePart, error: Exception) -> InputFileError:
    what = str(error).splitlines()[0] if str(error) else type(error).__name__
    return part.unlike(f"its columns can't be matched with the table's: {what}")
