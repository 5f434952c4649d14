"""Rows that are changed by key: an epoch is one MERGE, which rewrites the files that hold its keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from sqlstream.connectors.api import ConnectorContext, SinkPart
from sqlstream.connectors.database.changes import CHANGE_COLUMN, short
from sqlstream.connectors.delta.library import deltalake
from sqlstream.connectors.delta.sink.log import TableLog
from sqlstream.connectors.delta.sink.shape import altered_schema, arrow_schema
from sqlstream.connectors.lakehouse.changes import CHANGES, Changes
from sqlstream.connectors.lakehouse.keyed import KeyedContent
from sqlstream_operators.errors import InternalError, RefusedRowError
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_operators.plan.types import Kind, quote_identifier, quote_literal

if TYPE_CHECKING:
    from deltalake import DeltaTable

_GOES = f"s.{CHANGE_COLUMN} < 0"
_STAYS = f"s.{CHANGE_COLUMN} >= 0"
#: Keys whose range lets files be passed over: of others the log's bounds may be cut off, or have no order that is ours.
_INTEGERS = frozenset({Kind.TINYINT, Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT})
_TIMES = {Kind.TIMESTAMP: "None", Kind.TIMESTAMPTZ: 'Some("UTC")'}
#: A date or time that Delta's library reads.
_READABLE = re.compile(r"(?!0000)\d{4}-\d\d-\d\d( .*)?")
_NOT_TEXTS = frozenset(
    {Kind.BOOLEAN, *_INTEGERS, Kind.HUGEINT, Kind.DECIMAL, Kind.DATE, *_TIMES, Kind.FLOAT, Kind.DOUBLE}
)
#: How long a folder's name may be: 255 bytes on most disks, of which Delta's library takes a few.
_LONGEST = 240


class MergedChanges(KeyedContent):
    """Merges the changes with Delta's library."""

    def __init__(self, spec: SinkSpec, context: ConnectorContext, log: TableLog) -> None:
        super().__init__(spec, context, Changes(spec))
        self._log = log

    def load(self, epoch: int, parts: Sequence[SinkPart]) -> None:
        """Put them together.

        Raises RefusedRowError for a key that is NULL or has two rows, or a row without a partition, DataError for a time
        that the table can't have.
        """
        super().load(epoch, parts)
        self._check_partitions()

    def write(self, table: DeltaTable, epoch: int) -> bool:
        """Merge them into the table. Whether that was a commit: a merge that changes nothing is none."""
        if not self._changes.count:
            return False
        commit = self._log.with_epoch(epoch, rebased=False)
        before = table.version()
        names = [column.name for column in self._spec.schema]
        merger = table.merge(
            self._changes.reader(),
            self._matching(),
            source_alias="s",
            target_alias="t",
            commit_properties=commit,
        ).when_matched_delete(_GOES)
        values = _assigned([name for name in names if name not in self._spec.primary_key])
        if values:
            merger = merger.when_matched_update(values, _STAYS)
        _carried_out(merger.when_not_matched_insert(_assigned(names), _STAYS).execute)
        return table.version() > before

    def replace(self, table: DeltaTable, epoch: int) -> None:
        """Write them as the table's only files."""
        schema, commit = altered_schema(self._spec, table), self._log.with_epoch(epoch, rebased=False)
        columns = arrow_schema(table) if schema is None else schema
        rows = self._changes.rows(columns)
        partitions = list(self._spec.partitioned_by) or None
        # A table whose columns stay keeps what is said of them.
        mode = None if schema is None else "overwrite"

        def overwrite() -> None:
            deltalake().write_deltalake(
                table,
                rows,
                partition_by=partitions,
                mode="overwrite",
                schema_mode=mode,
                target_file_size=self._file_bytes,
                commit_properties=commit,
            )

        _carried_out(overwrite)

    def _matching(self) -> str:
        """The condition of the merge: equal keys, and the range of those that change, by which files are passed over."""
        equal = [f"t.{quote_identifier(k)} = s.{quote_identifier(k)}" for k in self._spec.primary_key]
        ranges = [
            f"t.{quote_identifier(name)} >= {least} AND t.{quote_identifier(name)} <= {greatest}"
            for name, least, greatest in self._bounds()
        ]
        return " AND ".join([*equal, *ranges])

    def _bounds(self) -> Iterator[tuple[str, str, str]]:
        """Columns of the key, and SQL of Delta's library for a value that none is below, and one that none is above."""
        kinds = {column.name: column.type.kind for column in self._spec.schema}
        for name in self._spec.primary_key:
            kind, column = kinds[name], quote_identifier(name)
            if kind in _INTEGERS:
                ((least, greatest),) = self._changes.run(
                    f"SELECT min({column}), max({column}) FROM {CHANGES}"
                )
                yield name, str(least), str(greatest)
            elif kind is Kind.DATE or kind in _TIMES:
                yield from self._of_days(name, kind)

    def _of_days(self, name: str, kind: Kind) -> Iterator[tuple[str, str, str]]:
        column = quote_identifier(name)
        value = f"{column} AT TIME ZONE 'UTC'" if kind is Kind.TIMESTAMPTZ else column
        # Some writers cut the log's times to ms.
        slack = "INTERVAL 0 DAY" if kind is Kind.DATE else "INTERVAL 1 MILLISECOND"
        form = "%Y-%m-%d" if kind is Kind.DATE else "%Y-%m-%d %H:%M:%S.%f"
        finite = f"FROM (SELECT min({value}) AS l, max({value}) AS g FROM {CHANGES}) WHERE isfinite(l) AND isfinite(g)"
        found = self._changes.run(
            f"SELECT strftime(l - {slack}, '{form}'), strftime(g + {slack}, '{form}') {finite} "
            "AND year(l) BETWEEN 2 AND 9998 AND year(g) BETWEEN 2 AND 9998"
        )
        for least, greatest in found:
            if not (_READABLE.fullmatch(least) and _READABLE.fullmatch(greatest)):
                raise InternalError(f"a time is written {least} or {greatest}")
            if kind is Kind.DATE:
                yield name, f"CAST('{least}' AS DATE)", f"CAST('{greatest}' AS DATE)"
            else:
                type_ = f"Timestamp(Microsecond, {_TIMES[kind]})"
                yield name, f"arrow_cast('{least}', '{type_}')", f"arrow_cast('{greatest}', '{type_}')"

    def _check_partitions(self) -> None:
        """Raises RefusedRowError for a text that Delta's library can't make a partition of."""
        kinds = {column.name: column.type.kind for column in self._spec.schema}
        for name in self._spec.partitioned_by:
            if kinds[name] in _NOT_TEXTS:
                continue
            column, come = quote_identifier(name), f"FROM {CHANGES} WHERE {CHANGE_COLUMN} >= 0"
            if self._changes.run(f"SELECT 1 {come} AND CAST({column} AS VARCHAR) = '' LIMIT 1"):
                raise RefusedRowError(
                    f"a partition value of `{self._spec.name}` is an empty text, which a Delta table can't tell from NULL",
                    f"write NULLIF({name}, ''), or leave the column out of PARTITIONED BY",
                )
            size = (
                f"length(url_encode({quote_literal(name)})) + length(url_encode(CAST({column} AS VARCHAR)))"
            )
            long = self._changes.run(
                f"SELECT CAST({column} AS VARCHAR) {come} AND {size} > {_LONGEST} LIMIT 1"
            )
            if long:
                raise RefusedRowError(
                    f"a partition value of `{self._spec.name}` is too long for the name of a folder: {short(long[0][0])}",
                    f"shorten {name}, or leave the column out of PARTITIONED BY",
                )


def _assigned(names: Sequence[str]) -> dict[str, str]:
    return {quote_identifier(name): f"s.{quote_identifier(name)}" for name in names}


def _carried_out(work: Callable[[], object]) -> None:
    """Do it; what Delta's library says as a plain Exception (of the engine below it) is an error of its own."""
    try:
        work()
    except Exception as error:
        if type(error) is not Exception:
            raise
        raise deltalake().exceptions.DeltaError(str(error)) from error
