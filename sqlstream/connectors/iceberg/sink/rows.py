"""The rows of a table's files, as the table has them now, and files that others take the place of."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table


def arrow_schema(schema: Schema) -> pa.Schema:
    """Columns as Arrow has them, with their ids."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    found: pa.Schema = schema_to_pyarrow(schema)
    return found


def rows_of(table: Table, task: FileScanTask, columns: Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a file in their order, with some of the table's columns, which a file may have under other names."""
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan

    shape = arrow_schema(columns)
    scan = ArrowScan(table.metadata, table.io, columns, AlwaysTrue())
    for batch in scan.to_record_batches([task]):
        given = [batch.column(field.name).cast(field.type) for field in shape]
        yield pa.RecordBatch.from_arrays(given, schema=shape)


def delete_files(table: Table, files: Sequence[DataFile]) -> None:
    """Delete files that no snapshot names. Never raises; `remove_orphan_files` finds them, too."""
    for file in files:
        with contextlib.suppress(Exception):
            table.io.delete(file.file_path)
