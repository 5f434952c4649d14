"""Small files of a table become larger ones, in a commit that changes no row.

Delta's library can do that, but beside a compaction of somebody else both go through, and the rows are there twice (tried
with 1.6.6, whatever `max_commit_retries` says). So the rows are copied here, and the commit is one that Delta refuses if
anybody has committed since the table was looked at.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from sqlstream.connectors.delta.library import deltalake
from sqlstream.connectors.delta.sink.folders import folder_of, path_of
from sqlstream.connectors.delta.sink.shape import arrow_schema
from sqlstream.connectors.delta.sink.statistics import FileStatistics
from sqlstream.connectors.filesystem.paths import is_local, open_filesystem
from sqlstream.connectors.filesystem.written_files import sync
from sqlstream.connectors.lakehouse.compaction import MOST, Compaction, packed
from sqlstream_planner.diagnostics import Diagnostic

if TYPE_CHECKING:
    from deltalake import DeltaTable

#: Features of tables under which a row is the same row in another file, and nothing more has to be written down.
_KNOWN = frozenset(
    {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "timestampNtz", "generatedColumns"}
)
_BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    size: int
    rows: int
    partition: tuple[str | None, ...]


class _LeaveError(Exception):
    """A file whose rows may not be copied as they are."""


class DeltaCompaction(Compaction["DeltaTable"]):
    """Compacts the table at `location`."""

    def __init__(self, name: str, location: str, file_bytes: int, tell: Callable[[Diagnostic], None]) -> None:
        library = deltalake().exceptions
        failures = (library.DeltaError, pa.ArrowException, OSError)
        super().__init__(name, file_bytes, tell, refused=library.CommitFailedError, failures=failures)
        self._location = location

    def _compact(self, table: DeltaTable) -> bool:
        if not _is_known(table):
            return False
        filesystem, root = open_filesystem(self._location)
        columns = table.metadata().partition_columns
        fields = [field for field in arrow_schema(table) if field.name not in columns]
        copy = _Copy(filesystem, root, pa.schema(fields), is_local(self._location))
        groups = [*islice(self._groups(self._small(table, columns)), MOST + 1)]
        try:
            actions: list[Any] = []
            for group in groups[:MOST]:
                actions += copy.of(dict(zip(columns, group[0].partition, strict=True)), group)
            if actions:
                from deltalake.transaction import CommitProperties

                table.create_write_transaction(
                    actions,
                    "append",
                    table.schema(),
                    columns or None,
                    commit_properties=CommitProperties(max_commit_retries=0),
                )
        except BaseException:
            copy.remove()
            raise
        return len(groups) > MOST

    def _small(self, table: DeltaTable, columns: Sequence[str]) -> Sequence[Sequence[_File]]:
        """The small files of each partition."""
        small: dict[tuple[str | None, ...], list[_File]] = {}
        there = pa.table(table.get_add_actions(flatten=False))
        for one in there.select([n for n in _LISTED if n in there.column_names]).to_pylist():
            values = _texts(one.get("partition") or {}, columns)
            path = path_of(one["path"])
            if values is None or one["num_records"] is None or path is None:
                continue
            if self._is_small(one["size_bytes"]):
                file = _File(path, one["size_bytes"], one["num_records"], values)
                small.setdefault(values, []).append(file)
        return [*small.values()]


class _Copy:
    """Copies rows into new files."""

    def __init__(self, filesystem: fs.FileSystem, root: str, schema: pa.Schema, local: bool) -> None:
        self._filesystem, self._root, self._schema, self._local = filesystem, root, schema, local
        self._made: list[str] = []

    def of(self, values: Mapping[str, str | None], files: Sequence[_File]) -> list[Any]:
        """What a commit has for one new file with the rows of others; those that can't be copied stay."""
        from deltalake.transaction import AddAction, RemoveAction

        folder = folder_of(values)
        name = f"{folder}part-compacted-{uuid.uuid4().hex}.parquet"
        path = f"{self._root}/{name}"
        self._filesystem.create_dir(f"{self._root}/{folder}".rstrip("/"), recursive=True)
        self._made.append(path)
        statistics = FileStatistics(list(self._schema))
        copied: list[_File] = []
        with pq.ParquetWriter(path, self._schema, filesystem=self._filesystem) as writer:
            for rows in packed(self._batches(files, copied), self._schema):
                writer.write_table(rows)
                statistics.add(rows)
        if len(copied) < 2:
            self.remove([self._made.pop()])
            return []
        if self._local:
            sync(path)
        now_ms = int(time.time() * 1000)
        size = self._filesystem.get_file_info(path).size
        added = AddAction(name, size, dict(values), now_ms, False, statistics.text())
        return [added, *(RemoveAction(f.path, False, now_ms, f.size, dict(values)) for f in copied)]

    def remove(self, paths: Sequence[str] | None = None) -> None:
        """Delete what was made, or some of it: the log names none of it. Never raises; VACUUM finds them, too."""
        for path in self._made if paths is None else paths:
            with suppress(Exception):
                self._filesystem.delete_file(path)

    def _batches(self, files: Sequence[_File], copied: list[_File]) -> Iterator[pa.RecordBatch]:
        """The rows of those files that can be copied, which are added to `copied`."""
        for file in files:
            with suppress(_LeaveError):
                yield from self._rows(file)
                copied.append(file)

    def _rows(self, file: _File) -> Iterator[pa.RecordBatch]:
        """Raises _LeaveError before any row of a file that must stay."""
        with self._filesystem.open_input_file(f"{self._root}/{file.path}") as opened:
            parquet = pq.ParquetFile(opened)
            if parquet.metadata.num_rows != file.rows:
                raise _LeaveError  # some of its rows are deleted, or it is another file
            _check(parquet.schema_arrow, self._schema)
            for batch in parquet.iter_batches(_BATCH_ROWS):
                yield from self._conformed(batch).to_batches()

    def _conformed(self, batch: pa.RecordBatch) -> pa.Table:
        there = set(batch.schema.names)
        columns = [
            batch.column(field.name).cast(field.type)
            if field.name in there
            else pa.nulls(batch.num_rows, field.type)
            for field in self._schema
        ]
        return pa.table(columns, schema=self._schema)


_LISTED = ("path", "size_bytes", "num_records", "partition")


def _check(there: pa.Schema, wanted: pa.Schema) -> None:
    """Raises _LeaveError for a file whose columns are not the table's, or of other types."""
    known = {field.name: field for field in wanted}
    if len(set(there.names)) < len(there.names):
        raise _LeaveError
    for field in there:
        now = known.pop(field.name, None)
        if now is None or not (field.type.equals(now.type) or _is_as_good(field.type, now.type)):
            raise _LeaveError
    if any(not field.nullable for field in known.values()):
        raise _LeaveError


def _is_as_good(there: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether these two are one type of Delta's in two ways to write it."""
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    bytes_ = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    return any(any(is_(there) for is_ in of) and any(is_(wanted) for is_ in of) for of in (texts, bytes_))


def _is_known(table: DeltaTable) -> bool:
    protocol = table.protocol()
    features = {*(protocol.writer_features or ()), *(protocol.reader_features or ())}
    named = protocol.min_writer_version >= 7
    mapped = (table.metadata().configuration or {}).get("delta.columnMapping.mode", "none") != "none"
    return not mapped and (features <= _KNOWN if named else protocol.min_writer_version <= 4)


def _texts(values: Mapping[str, Any], columns: Sequence[str]) -> tuple[str | None, ...] | None:
    """The values of a partition as the log has them; None where that is not known."""
    found = []
    for name in columns:
        value = values.get(name)
        if value is not None and not isinstance(value, bool | int | str | date):
            return None
        if isinstance(value, date) and type(value) is not date:
            return None
        text = str(value).lower() if isinstance(value, bool) else str(value)
        found.append(None if value is None else text)
    return tuple(found)
