"""Files as a table that lookup joins read: all that are there, each time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from sqlstream.connectors.api import ConnectorContext, Limits
from sqlstream.connectors.filesystem.reader import FileReader
from sqlstream.connectors.filesystem.source import FileSource
from sqlstream.storage.run_folder import RunFolder
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.spec import DimensionSpec
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_operators.state.checkpoint_store import CheckpointStore

_ROWS = "dimension_rows"
#: How many rows are read at once.
_ROWS_PER_READ = 1_000_000
#: Of a source that is watched; a look at the table takes the files that are there.
_WATCHING = ("source.monitor-interval", "source.settle-time")


class FileDimension:
    """The files under a path. A row that can't be read is an error: nobody would miss it in a join."""

    def __init__(self, spec: DimensionSpec, context: ConnectorContext) -> None:
        options = {key: value for key, value in spec.source.options.items() if key not in _WATCHING}
        self._spec = spec
        self._source = replace(spec.source, options=options)
        self._base_dir = context.base_dir

    def version(self) -> str:
        """Which files there are, of which size, and when they were changed. Raises DiagnosticError (DAT004) if none is."""
        with RunFolder("dimension-") as scratch:
            files = self._files(scratch).files_there()
        return json.dumps([[f.path, f.size, f.modified_us, f.changed_us] for f in files])

    def rows(self, duck: DuckSession) -> Iterator[pa.RecordBatch]:
        """All rows of the files that are there. Raises DataError, and InputFileError if one is changed meanwhile."""
        reader = FileReader(self._source, self._base_dir)
        names = ", ".join(quote_identifier(column.name) for column in self._spec.schema)
        with RunFolder("dimension-") as scratch:
            source = self._files(scratch)
            position, ended = source.initial_position(), False
            while not ended:
                plan = source.plan(position, Limits(rows=_ROWS_PER_READ, tasks=1))
                for split in plan.splits:
                    reader.open_strict(duck, _ROWS, split, queries=1)
                    try:
                        rows = duck.query(f"SELECT {names} FROM {_ROWS}")
                    finally:
                        duck.drop(_ROWS)
                    yield from rows.combine_chunks().to_batches()
                position, ended = plan.next_position, plan.exhausted

    def _files(self, scratch: RunFolder) -> FileSource:
        """The files as a source that has read none of them."""
        store = CheckpointStore(str(scratch.path), sync=False)
        return FileSource(self._source, ConnectorContext(store, self._base_dir))


class FileDimensionFactory:
    """Makes dimensions of files."""

    def dimension(self, spec: DimensionSpec, context: ConnectorContext) -> FileDimension:
        """The driver's half."""
        return FileDimension(spec, context)
