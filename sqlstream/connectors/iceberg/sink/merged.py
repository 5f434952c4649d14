"""Rows that are changed by key: an epoch is one snapshot, which puts files with the new rows into the place of others.

PyIceberg merges nothing by itself in one snapshot. So each file that may hold a key of the epoch is looked at: first its key
columns, and if it has one, all of its rows, of which those that stay are written anew, with the rows that come. That is
copy-on-write, which every reader of Iceberg reads. The driver has a part of a file at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sqlstream.connectors.api import ConnectorContext, SinkPart
from sqlstream.connectors.database.changes import CHANGE_COLUMN
from sqlstream.connectors.iceberg.sink.log import TableLog, without_deletes
from sqlstream.connectors.iceberg.sink.rows import arrow_schema, delete_files, rows_of
from sqlstream.connectors.iceberg.sink.writer import null_refused, write_files
from sqlstream.connectors.lakehouse.changes import CHANGES, Changes
from sqlstream.connectors.lakehouse.keyed import KeyedContent
from sqlstream_operators.duck.arrow_values import for_arrow
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_operators.plan.types import Kind, quote_identifier

if TYPE_CHECKING:
    import numpy.typing as npt
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table

_KEYS, _THERE, _ROW = "temp.sqlstream_keys", "sqlstream_there", "__sq_row"
#: Keys whose range lets files be passed over: their order is that of the log's bounds.
_ORDERED = frozenset({Kind.TINYINT, Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.DATE, Kind.VARCHAR})
#: A date or time that Iceberg's library reads.
_READABLE = re.compile(r"(?!0000)\d{4}-\d\d-\d\d(T.*)?")
_TIMES = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMPTZ})


class MergedChanges(KeyedContent):
    """Merges the changes by writing files anew."""

    def __init__(self, spec: SinkSpec, context: ConnectorContext, log: TableLog) -> None:
        super().__init__(spec, context, Changes(spec))
        self._log = log
        self._never_null: Sequence[str] = ()

    def may_have_no_null(self, columns: Sequence[str]) -> None:
        """These columns of the table may not be NULL; said before an epoch is loaded."""
        self._never_null = columns

    def load(self, epoch: int, parts: Sequence[SinkPart]) -> None:
        """Put them together.

        Raises RefusedRowError for a key that is NULL or has two rows, DataError for a NULL or a time that the table
        can't have.
        """
        super().load(epoch, parts)
        names = {column.name for column in self._spec.schema}
        for name in self._never_null:
            if name in names and self._changes.run(
                f"SELECT 1 FROM {CHANGES} WHERE {CHANGE_COLUMN} >= 0 AND {quote_identifier(name)} IS NULL LIMIT 1"
            ):
                raise null_refused(self._spec.name, name)

    def write(self, table: Table, epoch: int) -> bool:
        """Merge them into the table. Whether that was a commit: a merge that changes nothing is none."""
        from pyiceberg.exceptions import CommitFailedException

        if not self._changes.count:
            return False
        self._keep_keys()
        gone = list(self._holding(table))
        made = self._written(table, self._staying(table, gone))
        if not made and not gone:
            return False
        try:
            self._log.overwrite(table, [task.file for task, _ in gone], made, epoch)
        except CommitFailedException:  # after any other error the files may be named
            delete_files(table, made)
            raise
        return True

    def replace(self, table: Table, epoch: int) -> None:
        """Write the rows that come as the table's only files."""
        self._log.replace(table, self._written(table, iter(())), epoch)

    # ------------------------------------------------------------------------------------- files with a key

    def _keep_keys(self) -> None:
        """Put the keys, as files have them, into a table of their own."""
        columns = [c for c in self._spec.schema if c.name in self._spec.primary_key]
        names = [column.name for column in columns]
        items = for_arrow(names, [column.type for column in columns]) or _listed(names)
        self._changes.run(f"CREATE OR REPLACE TEMP TABLE {_KEYS} AS SELECT {items} FROM {CHANGES}")

    def _holding(self, table: Table) -> Iterator[tuple[FileScanTask, npt.NDArray[np.int64]]]:
        """Files that have keys of the epoch, and in which of their rows, in order."""
        scan = table.scan(row_filter=self._range())
        keys = _part(table, self._spec.primary_key)
        for task in without_deletes(scan.plan_files(), self._spec.name, self._log.place, "merged into"):
            there = pa.Table.from_batches(rows_of(table, task, keys), arrow_schema(keys))
            found = self._matching_rows(there)
            if len(found):
                yield task, found

    def _matching_rows(self, there: pa.Table) -> npt.NDArray[np.int64]:
        numbered = there.append_column(_ROW, pa.array(np.arange(len(there), dtype=np.int64)))
        matching = " AND ".join(
            f"t.{quote_identifier(name)} = k.{quote_identifier(name)}" for name in self._spec.primary_key
        )
        connection = self._changes.session.connection
        connection.register(_THERE, numbered)
        try:
            found = self._changes.arrow(
                f"SELECT {_ROW} FROM {_THERE} AS t SEMI JOIN {_KEYS} AS k ON {matching} ORDER BY {_ROW}"
            )
        finally:
            connection.unregister(_THERE)
        rows: npt.NDArray[np.int64] = found.column(0).to_numpy()
        return rows

    def _range(self) -> BooleanExpression:
        """The range of the keys, by which the log passes files over."""
        from pyiceberg.expressions import AlwaysTrue, And, GreaterThanOrEqual, LessThanOrEqual, Reference
        from pyiceberg.expressions.literals import literal

        kinds = {column.name: column.type.kind for column in self._spec.schema}
        condition: BooleanExpression = AlwaysTrue()
        for name in self._spec.primary_key:
            bounds = self._bounds(name, kinds[name])
            if bounds is not None:
                least, greatest = bounds
                column = Reference(name)
                condition = And(condition, GreaterThanOrEqual(term=column, value=literal(least)))
                condition = And(condition, LessThanOrEqual(term=column, value=literal(greatest)))
        return condition

    def _bounds(self, name: str, kind: Kind) -> tuple[Any, Any] | None:
        """The least and the greatest value of a column of the key, as Iceberg's library takes them; None: not known."""
        column = quote_identifier(name)
        if kind in _ORDERED and kind is not Kind.DATE:
            ((least, greatest),) = self._changes.run(f"SELECT min({column}), max({column}) FROM {CHANGES}")
            return least, greatest
        if kind is Kind.DATE or kind in _TIMES:
            value = f"{column} AT TIME ZONE 'UTC'" if kind is Kind.TIMESTAMPTZ else column
            form = "%Y-%m-%d" if kind is Kind.DATE else "%Y-%m-%dT%H:%M:%S.%f"
            zone = "+00:00" if kind is Kind.TIMESTAMPTZ else ""
            found = self._changes.run(
                f"SELECT strftime(l, '{form}'), strftime(g, '{form}') FROM (SELECT min({value}) AS l, max({value}) AS g "
                f"FROM {CHANGES}) WHERE isfinite(l) AND isfinite(g)"
            )
            if found and all(_READABLE.fullmatch(text) for text in found[0]):
                return f"{found[0][0]}{zone}", f"{found[0][1]}{zone}"
        return None

    # ------------------------------------------------------------------------------------- what is written

    def _staying(
        self, table: Table, gone: Sequence[tuple[FileScanTask, npt.NDArray[np.int64]]]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of files that go, but for those whose key changes."""
        columns = table.schema()
        for task, matching in gone:
            first = 0
            for batch in rows_of(table, task, columns):
                low, high = np.searchsorted(matching, (first, first + len(batch)))
                stays = np.ones(len(batch), np.bool_)
                stays[matching[low:high] - first] = False
                yield batch.filter(pa.array(stays))
                first += len(batch)

    def _written(self, table: Table, staying: Iterator[pa.RecordBatch]) -> list[DataFile]:
        """Files with the rows that stay, and those that come."""
        shape = arrow_schema(table.schema())
        made: list[DataFile] = []
        waiting: list[pa.RecordBatch] = []

        def write() -> None:
            if sum(map(len, waiting)):
                made.extend(write_files(pa.Table.from_batches(waiting, shape), table, self._file_bytes))
            waiting.clear()

        try:
            for batches in (staying, self._coming(shape)):
                for batch in batches:
                    waiting.append(batch)
                    if sum(one.nbytes for one in waiting) >= self._file_bytes:
                        write()
            write()
        except BaseException:
            delete_files(table, made)
            raise
        return made

    def _coming(self, shape: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows that come, with all columns of the table."""
        for batch in self._changes.rows(pa.schema([*self._changes.columns()])):
            columns = [
                batch.column(field.name).cast(field.type)
                if field.name in batch.schema.names
                else pa.nulls(len(batch), field.type)
                for field in shape
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=shape)


def _part(table: Table, names: Sequence[str]) -> Schema:
    from pyiceberg.schema import Schema as Columns

    return Columns(*(table.schema().find_field(name) for name in names))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(quote_identifier(name) for name in names)
