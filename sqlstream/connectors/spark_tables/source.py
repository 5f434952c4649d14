"""Both halves of a source that Spark reads once: its tasks copy the table into the state directory, epochs read the copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlstream.connectors.api import ConnectorContext, Limits, Position, SparkRead, SparkTables, Split
from sqlstream.connectors.database import copies
from sqlstream.connectors.database.copied_source import CopiedSource, place_in_copy
from sqlstream.connectors.database.copy_reader import CopyReader
from sqlstream.connectors.spark_tables.columns import check_columns
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

#: What a table's options say is to be read, with the folder that relative paths begin in.
Read = Callable[[SourceSpec, str], SparkRead]


def spark_of(context: ConnectorContext, table: str) -> SparkTables:
    """Spark, which is started when it is first asked. Raises DiagnosticError (ENV003) where there is none to start."""
    if context.spark is None:
        raise DiagnosticError(
            Diagnostic("ENV003", f"`{table}` is read by Spark, and this command does not start Spark")
        )
    return context.spark


class SparkTable(CopiedSource):
    """A table that Spark reads. Who only looks is given as many of its rows as asked for, copied to its own store."""

    def __init__(self, spec: SourceSpec, context: ConnectorContext, read: SparkRead) -> None:
        super().__init__(spec, context)
        self._read = read

    def made(self) -> copies.Copy:
        """Have Spark's tasks copy the declared columns."""
        return self._copied(None)

    def seen(self, most: int | None) -> Sequence[Split]:
        """The first rows that Spark gives."""
        copy = self._copied(most)
        splits, _, _ = copies.next_splits(self.spec.name, copy, 0, 0, Limits(tasks=1))
        return [replace(one, payload={**one.payload, "store": self.context.store.uri}) for one in splits]

    def _copied(self, most: int | None) -> copies.Copy:
        spark, store = spark_of(self.context, self.spec.name), self.context.store
        check_columns(self.spec.name, self.spec.physical, spark.columns(self._read), self._read.location)
        copies.remove_all(store, self.folder)
        id_ = copies.new_id(self.folder)
        parts = spark.copy(self._read, self.spec.physical, store.uri, copies.folder_of(id_), most)
        return copies.finished(store, id_, parts)


class SparkTableFactory:
    """Tables that Spark reads as sources; a connector says what of its options is to be read."""

    def __init__(self, read: Read) -> None:
        self._read = read

    def place_of(self, position: Position) -> str:
        """The row of the copy; see `Placing`."""
        return place_in_copy(position)

    def source(self, spec: SourceSpec, context: ConnectorContext) -> SparkTable:
        """The driver's half."""
        return SparkTable(spec, context, self._read(spec, context.base_dir))

    def reader(self, spec: SourceSpec, base_dir: str) -> CopyReader:
        """The task's half."""
        return CopyReader(spec)

    def lenient_reader(self, spec: SourceSpec, base_dir: str) -> CopyReader:
        """The task's half for whole rows."""
        return CopyReader(spec)
