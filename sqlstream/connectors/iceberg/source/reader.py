"""The task's half of a source: Parquet files, whose columns are found by the ids of the table's fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sqlstream.connectors.api import Split
from sqlstream.connectors.filesystem.columns import ReadColumns, metadata_literal
from sqlstream.connectors.filesystem.paths import FileEntry, joined_location
from sqlstream.connectors.filesystem.reader import FileReader
from sqlstream.connectors.iceberg.files import plain
from sqlstream.connectors.iceberg.options import TablePlace
from sqlstream.connectors.lakehouse.reader import TableReader
from sqlstream.formats.file_parts import FilePart
from sqlstream_operators.errors import InputFileError
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.plan.types import SqlType, quote_identifier

#: The metadata column with the snapshot that a row came with.
SNAPSHOT_ID = "_snapshot_id"


class IcebergReader(TableReader):
    """Reads splits of one source as files of Parquet; which fields its columns are a split says."""

    def __init__(self, spec: SourceSpec, base_dir: str) -> None:
        place = TablePlace.of(spec, base_dir)
        path = joined_location(plain(place.warehouse) or "/", place.opening)
        self._spec = replace(spec, options={"path": path, "format": "parquet"}, partitioned_by=())
        self._base_dir = base_dir

    def _files(self, split: Split) -> FileReader:
        files: Mapping[str, Sequence[Any]] = split.payload["files"]
        wanted = ReadColumns.of(self._spec)

        def metadata(key: str, entry: FileEntry) -> str:
            return f"{files[entry.path][0]}::BIGINT" if key == SNAPSHOT_ID else metadata_literal(key, entry)

        columns = _Columns(wanted, split)
        return FileReader(
            self._spec,
            self._base_dir,
            lambda entries: wanted.constants(entries, None, metadata),
            columns_in=columns.items,
        )


class _Columns:
    """SELECT items of a file's columns; NULL for one that it has not, or its partition's value."""

    def __init__(self, wanted: ReadColumns, split: Split) -> None:
        self._wanted = wanted
        self._fields = split.payload["fields"]
        self._files = split.payload["files"]
        self._mapping = split.payload["mapping"]
        self._schemas: dict[str, Any] = {}

    def items(self, part: FilePart, path: str, read: Mapping[str, SqlType | None]) -> list[str]:
        """Of a file whose columns DuckDB reads as these types. Raises InputFileError for one whose columns have no ids."""
        from sqlstream.connectors.iceberg.source.fields import column_sql, fields_by_id

        there = fields_by_id(self._schema(part, path))
        constants = self._files[part.path][1]
        items = []
        for column in self._wanted.columns:
            field = self._fields.get(column.name)
            value = f"CAST(NULL AS {column.type})"
            if field is not None:
                found = there.get(field["id"])
                constant = constants.get(str(field["id"]))
                if found is not None:
                    value = column_sql(field, column.type, found, read.get(found.name))
                elif constant == "":
                    raise part.unlike(
                        f"column {column.name} is only in the file's partition, in a type that can't be read"
                    )
                elif constant is not None:
                    value = f"CAST({constant} AS {column.type})"
            items.append(f"{value} AS {quote_identifier(column.name)}")
        return items

    def _schema(self, part: FilePart, path: str) -> Any:
        """The file's schema as Iceberg's, with ids: the file's own, or those that the table has for its names."""
        if part.path not in self._schemas:
            from pyiceberg.io.pyarrow import pyarrow_to_schema
            from pyiceberg.table.name_mapping import parse_mapping_from_json

            mapping = parse_mapping_from_json(self._mapping) if self._mapping else None
            try:
                schema = pq.read_schema(path)
                self._schemas[part.path] = pyarrow_to_schema(
                    schema, mapping, downcast_ns_timestamp_to_us=True
                )
            except (pa.ArrowException, ValueError, TypeError) as error:
                raise _unreadable(part, error) from error
        return self._schemas[part.path]


def _unreadable(part: FilePart, error: Exception) -> InputFileError:
    what = str(error).splitlines()[0] if str(error) else type(error).__name__
    return part.unlike(f"its columns can't be matched with the table's: {what}")
