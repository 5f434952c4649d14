"""Small files of an Iceberg table become larger ones, in a snapshot that replaces files and changes no row.

PyIceberg rewrites no files. The rows are copied here, a file at a time, and the catalog refuses the snapshot if there is
another one since the table was looked at.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.fileformat import FileFormatFactory
from pyiceberg.io.pyarrow import _to_requested_schema
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import sanitize_column_names
from pyiceberg.table.locations import load_location_provider

from sqlstream.connectors.filesystem.paths import is_local
from sqlstream.connectors.filesystem.written_files import sync
from sqlstream.connectors.iceberg.files import plain
from sqlstream.connectors.iceberg.sink.log import TableLog
from sqlstream.connectors.iceberg.sink.rows import arrow_schema, delete_files, rows_of
from sqlstream.connectors.lakehouse.compaction import MOST, Compaction, packed
from sqlstream_planner.diagnostics import Diagnostic

if TYPE_CHECKING:
    from pyiceberg.table import FileScanTask, Table


@dataclass(frozen=True, slots=True)
class _File:
    task: FileScanTask

    @property
    def size(self) -> int:
        return self.task.file.file_size_in_bytes


class IcebergCompaction(Compaction["Table"]):
    """Compacts the table of a log."""

    def __init__(self, name: str, log: TableLog, file_bytes: int, tell: Callable[[Diagnostic], None]) -> None:
        failures = (pa.ArrowException, ValueError, *log.failures)
        super().__init__(name, file_bytes, tell, refused=CommitFailedException, failures=failures)
        self._log = log

    def _compact(self, table: Table) -> bool:
        groups = [*islice(self._groups(self._small(table)), MOST + 1)]
        made: list[DataFile] = []
        gone: list[DataFile] = []
        try:
            for group in groups[:MOST]:
                made.append(_copied(table, [file.task for file in group]))
                gone += [file.task.file for file in group]
        except BaseException:
            delete_files(table, made)
            raise
        if made:
            try:
                self._log.rewrite(table, gone, made)
            except CommitFailedException:  # after any other error the files may be named
                delete_files(table, made)
                raise
        return len(groups) > MOST

    def _small(self, table: Table) -> Sequence[Sequence[_File]]:
        """The small files of each partition, of the partitions that the table has now; all of their rows are there."""
        small: dict[tuple[object, ...], list[_File]] = {}
        for task in table.scan().plan_files():
            file = task.file
            of_now = file.spec_id == table.metadata.default_spec_id
            plain_ = file.file_format is FileFormat.PARQUET and not task.delete_files
            if of_now and plain_ and self._is_small(file.file_size_in_bytes):
                values = tuple(file.partition[i] for i in range(len(file.partition)))
                small.setdefault(values, []).append(_File(task))
        return [*small.values()]


def _copied(table: Table, tasks: Sequence[FileScanTask]) -> DataFile:
    """One file with the rows of others of one partition, in their order; durable when this returns. Raises OSError."""
    metadata, columns = table.metadata, table.schema()
    shape = sanitize_column_names(columns)
    format_ = FileFormatFactory.get(FileFormat.PARQUET)
    location = load_location_provider(metadata.location, metadata.properties)
    place = location.new_data_location(f"compacted-{uuid.uuid4().hex}.parquet")
    output = table.io.new_output(place)

    def batches() -> Iterator[pa.RecordBatch]:
        for task in tasks:
            for batch in rows_of(table, task, columns):
                yield _to_requested_schema(
                    shape, columns, batch, include_field_ids=True, format_model=format_
                )

    rows = 0
    with format_.create_writer(output, shape, metadata.properties) as writer:
        for part in packed(batches(), arrow_schema(shape)):
            rows += part.num_rows
            writer.write(part)
    if rows != sum(task.file.record_count for task in tasks):
        raise OSError("a file has another number of rows than the table says")
    if is_local(plain(place)):
        sync(plain(place))
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=place,
        file_format=FileFormat.PARQUET,
        partition=tasks[0].file.partition,
        file_size_in_bytes=len(output),
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **writer.result().to_serialized_dict(),
    )
    made.spec_id = metadata.default_spec_id
    return made
