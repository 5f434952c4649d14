"""The task's half: Parquet files in the table's folder, which no reader sees before the log names them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.connectors.api import SinkPart
from sqlstream.connectors.delta.sink.folders import folder_of
from sqlstream.connectors.delta.sink.statistics import FileStatistics
from sqlstream.connectors.filesystem.paths import is_local, open_filesystem, resolve
from sqlstream.connectors.filesystem.written_files import FILE_BYTES, combined_codes, cut, grouped, sync
from sqlstream.connectors.lakehouse.times import check_times
from sqlstream.connectors.options import size_bytes
from sqlstream.formats.file_writing import writer_session
from sqlstream.formats.parquet.files import write
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_operators.plan.types import Kind, quote_identifier


class DeltaWriter:
    """Writes the files of one task, one or more for each partition."""

    def __init__(self, spec: SinkSpec, base_dir: str) -> None:
        self._spec = spec
        self._location = resolve(spec.options["table-path"], base_dir)
        self._file_bytes = size_bytes(spec.options, "sink.rolling-policy.file-size", FILE_BYTES)
        self._columns = [c for c in spec.schema if c.name not in spec.partitioned_by]

    def write(self, table: pa.Table, *, epoch: int, task: str) -> SinkPart:
        """Write the rows. Names are new each time: what a task that is repeated has written before, the log never names.

        Raises DataError for rows that the table can't have.
        """
        if not table.num_rows:
            return SinkPart(0)
        check_times(self._spec.name, table)
        filesystem, root = open_filesystem(self._location)
        files = []
        for values, rows in self._files(table):
            folder = folder_of(values)
            name = f"{folder}part-{epoch:06d}-{task}-{uuid.uuid4().hex}.parquet"
            content = rows.select([column.name for column in self._columns])
            filesystem.create_dir(f"{root}/{folder}".rstrip("/"), recursive=True)
            write(filesystem, f"{root}/{name}", content, self._columns, {})
            if is_local(self._location):
                sync(f"{root}/{name}")
            size = filesystem.get_file_info(f"{root}/{name}").size
            files.append([name, size, values, _statistics(content)])
        return SinkPart(table.num_rows, {"files": files})

    def _files(self, table: pa.Table) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
        for values, rows in self._partitions(table):
            for part in cut(rows, self._file_bytes):
                yield values, part

    def _partitions(self, table: pa.Table) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
        """The values of the partition columns, as the log writes them, and their rows."""
        keys = self._spec.partitioned_by
        if not keys:
            yield {}, table
            return
        session = writer_session()
        session.register("sink_rows", table, self._spec.schema)
        texts = session.query(f"SELECT {', '.join(self._text(key) for key in keys)} FROM sink_rows")
        session.drop("sink_rows")
        if any(pc.any(pc.equal(texts.column(i), "")).as_py() for i in range(len(keys))):
            raise DataError(
                f"a partition value of `{self._spec.name}` is an empty text, which a Delta table can't tell from NULL: "
                f"write NULLIF({keys[0]}, '') or leave the column out of PARTITIONED BY"
            )
        codes = combined_codes(texts.columns, len(table))
        for first, rows in grouped(table, codes):
            yield {key: texts.column(i)[first].as_py() for i, key in enumerate(keys)}, rows

    def _text(self, key: str) -> str:
        """SQL of a value as the log writes it: times are in UTC there."""
        kind = next(column.type.kind for column in self._spec.schema if column.name == key)
        name = quote_identifier(key)
        if kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
            stamp = f"({name} AT TIME ZONE 'UTC')" if kind is Kind.TIMESTAMPTZ else name
            return f"strftime({stamp}, '%Y-%m-%d %H:%M:%S.%f')"
        return f"CAST({name} AS VARCHAR)"


def _statistics(rows: pa.Table) -> str:
    found = FileStatistics(list(rows.schema))
    found.add(rows)
    return found.text()


#: Name, size in bytes, partition values and statistics of a file.
File = tuple[str, int, dict[str, str | None], str]


def files_of(parts: Sequence[SinkPart]) -> Iterator[File]:
    """The files of an epoch."""
    for part in parts:
        yield from (tuple(file) for file in part.payload.get("files", ()))
