"""What a Spark task calls that copies rows of a table: a function for `mapInArrow`, from rows to names of files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa

from sqlstream.connectors.database.copies import content_of
from sqlstream.runtime.tasks.task_failure import failures_as_text
from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.plan.spec import Column
from sqlstream_operators.plan.types import parse_type
from sqlstream_operators.state.checkpoint_store import CheckpointStore

#: What a task gives for each file: its partition and the file's number in it, then what `CopiedPart` has.
PART = "partition int, number int, name string, rows bigint, bytes bigint"
_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("number", pa.int32()),
        ("name", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
#: Rows, and bytes of them, of one file.
_ROWS, _BYTES = 1 << 16, 32 << 20


@dataclass(frozen=True, slots=True)
class TableParts:
    """Writes the rows of a partition to files of a folder in a store, with these columns (name, type)."""

    store: str
    folder: str
    columns: tuple[tuple[str, str], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write what comes; a task that runs twice writes other files."""
        from pyspark import TaskContext

        task = TaskContext.get()
        if task is None:
            raise RuntimeError("a part of a table is written in Spark only")
        store = CheckpointStore(self.store)
        schema = tuple(Column(name, parse_type(text)) for name, text in self.columns)
        for number, rows in enumerate(_gathered(batches)):
            with failures_as_text():
                table = conformed(rows, schema, "a table that Spark reads")
                content = content_of(table)
                name = f"{self.folder}/{uuid4().hex}.part"
                store.put(name, content)
            part = [[task.partitionId()], [number], [name], [table.num_rows], [len(content)]]
            yield pa.RecordBatch.from_arrays(
                [pa.array(v, f.type) for v, f in zip(part, _SCHEMA, strict=True)], schema=_SCHEMA
            )


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together to what one file should have."""
    kept: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        kept.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= _ROWS or size >= _BYTES:
            yield pa.Table.from_batches(kept)
            kept, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(kept)
