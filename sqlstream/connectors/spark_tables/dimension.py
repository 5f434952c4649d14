"""A table that Spark reads, and that lookup joins read: each time copied by Spark's tasks, and read from the copy."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from sqlstream.connectors.api import ConnectorContext, SparkRead
from sqlstream.connectors.database import copies
from sqlstream.connectors.spark_tables.columns import check_columns
from sqlstream.connectors.spark_tables.source import Read, spark_of
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.spec import DimensionSpec


class SparkTableRows:
    """The rows of a table as Spark gives them."""

    def __init__(self, spec: DimensionSpec, context: ConnectorContext, read: SparkRead) -> None:
        self._spec, self._context, self._read = spec, context, read

    def version(self) -> None:
        """Nothing that costs less than reading the table shows whether it was changed."""

    def rows(self, duck: DuckSession) -> Iterator[pa.RecordBatch]:
        """All rows, a file of the copy at a time. Raises DiagnosticError: DAT009, ENV006, ENV023."""
        spark, store, schema = (
            spark_of(self._context, self._spec.name),
            self._context.store,
            self._spec.schema,
        )
        check_columns(self._spec.name, schema, spark.columns(self._read), self._read.location, "DAT009")
        owner = f"lookups/{self._spec.name}"
        copies.remove_all(store, owner)  # of a run that broke off
        folder = copies.folder_of(copies.new_id(owner))
        try:
            for part in spark.copy(self._read, schema, store.uri, folder, None):
                with store.open(part.name) as file, pa.ipc.open_file(file) as reader:
                    yield from (reader.get_batch(number) for number in range(reader.num_record_batches))
        finally:
            copies.remove_all(store, owner)


class SparkDimension:
    """Makes dimensions of tables that Spark reads."""

    def __init__(self, read: Read) -> None:
        self._read = read

    def dimension(self, spec: DimensionSpec, context: ConnectorContext) -> SparkTableRows:
        """The driver's half."""
        return SparkTableRows(spec, context, self._read(spec.source, context.base_dir))
