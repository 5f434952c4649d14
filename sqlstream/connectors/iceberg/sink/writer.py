"""The task's half: Parquet files in the table's layout, which no reader sees before a commit names them."""

from __future__ import annotations

import uuid
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa

from sqlstream.connectors.api import SinkPart
from sqlstream.connectors.filesystem.paths import is_local
from sqlstream.connectors.filesystem.written_files import FILE_BYTES, cut, sync
from sqlstream.connectors.iceberg.files import plain
from sqlstream.connectors.iceberg.library import attempt, open_table
from sqlstream.connectors.iceberg.options import TablePlace
from sqlstream.connectors.iceberg.sink.data_files import to_json
from sqlstream.connectors.iceberg.sink.partitions import partitions
from sqlstream.connectors.lakehouse.times import check_times
from sqlstream.connectors.options import size_bytes
from sqlstream.formats.file_writing import as_declared
from sqlstream_operators.errors import DataError, TargetError
from sqlstream_operators.plan.spec import SinkSpec

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table


class IcebergWriter:
    """Writes the files of one task, one or more for each partition, with the ids that the table's columns have now."""

    def __init__(self, spec: SinkSpec, base_dir: str) -> None:
        self._spec = spec
        self._place = TablePlace.of(spec, base_dir)
        self._file_bytes = size_bytes(spec.options, "sink.rolling-policy.file-size", FILE_BYTES)

    def write(self, table: pa.Table, *, epoch: int, task: str) -> SinkPart:
        """Write the rows. Names are new each time: what a task that is repeated has written before, no commit names.

        Raises DataError for rows that the table can't have, TargetError if it is not there any more, DiagnosticError
        (ENV006).
        """
        if not table.num_rows:
            return SinkPart(0)
        check_times(self._spec.name, table)
        target = attempt(self._place, lambda: open_table(self._place), done="written")
        if target is None:
            raise TargetError(
                f"the table of `{self._spec.name}` is gone",
                (f"'{self._place.shown}' was there when the run began",),
                "run again",
            )
        rows = self._as_there(as_declared(table, self._spec.schema), target)
        files = [to_json(file) for file in write_files(rows, target, self._file_bytes)]
        return SinkPart(table.num_rows, {"table": str(target.metadata.table_uuid), "files": files})

    def _as_there(self, rows: pa.Table, table: Table) -> pa.Table:
        """The rows with the table's types, and ids. Raises DataError for a NULL where the table has none."""
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        there = {field.name for field in table.schema().fields}
        absent = [column.name for column in self._spec.schema if column.name not in there]
        if absent:
            raise TargetError(
                f"the table of `{self._spec.name}` has no column `{absent[0]}` any more",
                (f"'{self._place.shown}' had it when the run began",),
                "give it the column, or run again",
            )
        for name in never_null(table):
            if name in rows.column_names and rows.column(name).null_count:
                raise null_refused(self._spec.name, name)
        wanted = schema_to_pyarrow(_part(table.schema(), rows.column_names))
        return rows.cast(wanted)


def never_null(table: Table) -> list[str]:
    """The columns of a table that may not be NULL."""
    return [field.name for field in table.schema().fields if field.required]


def null_refused(sink: str, column: str) -> DataError:
    """The error for a row that has a NULL there."""
    return DataError(
        f"a row of `{sink}` is NULL in `{column}`, which the table does not allow: "
        f"write COALESCE({column}, …), or leave such rows out"
    )


def write_files(rows: pa.Table, table: Table, file_bytes: int) -> list[DataFile]:
    """Write rows that have the table's types and ids, in files of its partitions; durable when this returns.

    Raises OSError.
    """
    from pyiceberg.io.pyarrow import pyarrow_to_schema, write_file
    from pyiceberg.table import WriteTask

    metadata = table.metadata
    schema = pyarrow_to_schema(rows.schema, format_version=metadata.format_version)
    numbers, name = count(), uuid.uuid4()
    tasks = (
        WriteTask(
            write_uuid=name,
            task_id=next(numbers),
            schema=schema,
            record_batches=_whole(part),
            partition_key=key,
        )
        for key, of_partition in partitions(rows, metadata.spec(), metadata.schema())
        for part in cut(of_partition, file_bytes)
    )
    files = [*write_file(table.io, metadata, tasks)]
    for file in files:
        if is_local(plain(file.file_path)):
            sync(plain(file.file_path))
        file.spec_id = metadata.default_spec_id
    return files


def _part(schema: Schema, names: list[str]) -> Schema:
    """The columns of these names, in this order, with their ids."""
    from pyiceberg.schema import Schema as Columns

    return Columns(*(schema.find_field(name) for name in names))


def _whole(rows: pa.Table) -> list[pa.RecordBatch]:
    batches: list[pa.RecordBatch] = rows.combine_chunks().to_batches()
    return batches
