"""What a source on an Iceberg table has read up to some position, to be read once more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlstream.connectors.api import Limits, Position, SourcePlan
from sqlstream.connectors.filesystem.cutting import FileCutter, ToRead
from sqlstream.connectors.filesystem.file_version import present
from sqlstream.connectors.filesystem.options import FileOptions
from sqlstream.connectors.filesystem.paths import FileEntry
from sqlstream.connectors.iceberg.source.ahead import Ahead, NextFile, files_ahead
from sqlstream.connectors.iceberg.source.deletes import DeleteFile
from sqlstream.connectors.iceberg.source.log import DELETE, REPLACE, IcebergLog, LogFile, operation_of
from sqlstream.connectors.iceberg.source.options import IcebergOptions
from sqlstream.connectors.iceberg.source.positions import IcebergPosition
from sqlstream.connectors.iceberg.source.splits import Columns, cut_ahead
from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from pyiceberg.table import Table

_MOST_NAMED = 5


class IcebergHistory:
    """The rows from where reading began to `end`; its positions are those of the source.

    Snapshots that change rows have none, as they were left out, unless changes are read. Raises DiagnosticError (DAT008) if
    snapshots or files are gone.
    """

    def __init__(
        self,
        spec: SourceSpec,
        options: IcebergOptions,
        log: IcebergLog,
        end: IcebergPosition,
        columns: Callable[[Table], Columns],
    ) -> None:
        self._log, self._end = log, end
        self._reads_changes = options.reads_changes
        self._cutter = FileCutter(spec.name, FileOptions("/", "parquet"))
        self._begin = _begin(end)
        self.bytes: int | None = None
        table = log.now()
        self._steps = [] if table is None or end.lost else self._found(table)
        wrong = [*end.lost] or ([] if table is not None else ["there is no such table"])
        if not wrong and self._steps is None:
            wrong = ["snapshots are gone that were read: they were expired, or rolled back"]
        self._now = table
        if not wrong:
            wrong = self._gone_files()
        if wrong or table is None:
            raise DiagnosticError(
                Diagnostic(
                    "DAT008",
                    f"what was read of `{spec.name}` can't be read again as it was",
                    notes=(f"it is '{log.place}'", *wrong),
                    help="keep snapshots longer (history.expire.max-snapshot-age-ms), or begin with new rows",
                )
            )
        self._columns = columns(table)

    @property
    def bounded(self) -> bool:
        """It ends."""
        return True

    def initial_position(self) -> Position:
        """Where the source began."""
        return self._begin.to_json()

    def plan(self, position: Position, limits: Limits) -> SourcePlan:
        """The next files, or parts of them, within the limits."""
        at = IcebergPosition.from_json(position)
        while True:
            ahead = files_ahead(at, limits, self._behind(at), self._read)
            to_read = self._to_read(ahead)
            cut = cut_ahead(self._cutter, ahead, self._columns, limits, to_read, self._present)
            following = replace(ahead.position(cut.file, cut.row), skipped=0)
            ended = self._is_end(following) or (ahead.ended and cut.file >= len(ahead.files))
            if cut.splits or ended:
                break
            at = following
        return SourcePlan(cut.splits, (self._end if ended else following).to_json(), ended, cut.taken)

    def lag(self, position: Position) -> int | None:
        """The rows that are left, as the log says it."""
        at = IcebergPosition.from_json(position)
        ahead = files_ahead(at, Limits(), self._behind(at), self._read)
        ends = [self._ends_at(ahead, one) for one in ahead.files]
        rows = [one.file.rows if end is None else end for one, end in zip(ahead.files, ends, strict=True)]
        return max(0, sum(rows) - at.row)

    def _found(self, table: Table) -> list[int] | None:
        """The snapshots of which something was read, oldest first; None: some are gone."""
        metadata, begin, end = table.metadata, self._begin, self._end
        if str(metadata.table_uuid) != end.table:
            return None
        found: list[int] = []
        number = end.at if end.at is not None else end.after
        first = begin.at if begin.at is not None else begin.after
        while number is not None and (begin.whole or number != first):
            snapshot = metadata.snapshot_by_id(number)
            if snapshot is None:
                return None
            found.append(number)
            if begin.whole and number == first:
                return found[::-1]
            number = snapshot.parent_snapshot_id
        return found[::-1] if number == begin.after and not begin.whole else None

    def _behind(self, at: IcebergPosition) -> Sequence[int]:
        steps = self._steps or []
        if at.at is not None:
            return steps[steps.index(at.at) :]
        return steps[steps.index(at.after) + 1 :] if at.after in steps else steps

    def _read(self, number: int) -> Sequence[LogFile]:
        """What was read of a snapshot."""
        if self._now is None:
            raise InternalError("a history without a table is not read")
        snapshot = self._now.metadata.snapshot_by_id(number)
        if snapshot is None:
            raise InternalError("a snapshot of a history was looked at before")
        if self._begin.whole and number == self._begin.start:
            return self._log.whole(self._now, snapshot)
        if operation_of(snapshot) == REPLACE:
            return ()
        if self._reads_changes:
            return self._log.changes(self._now, snapshot)
        added = self._log.added(self._now, snapshot)
        return () if added.changes_rows or operation_of(snapshot) == DELETE else added.added

    def _is_end(self, at: IcebergPosition) -> bool:
        end = self._end
        return (at.after, at.at, at.file, at.row) == (end.after, end.at, end.file, end.row)

    def _ends_at(self, ahead: Ahead, one: NextFile) -> int | None:
        """Up to which row a file was read; None: all of it."""
        if self._end.at is None or ahead.steps[one.step] != self._end.at or one.number < self._end.file:
            return None
        return self._end.row if one.number == self._end.file else 0

    def _to_read(self, ahead: Ahead) -> Callable[[int], ToRead | None]:
        """What is read of the file of a number."""

        def to_read(number: int) -> ToRead | None:
            one = ahead.files[number]
            end = self._ends_at(ahead, one)
            return None if end == 0 else ToRead(self._present(one.file), end)

        return to_read

    def _present(self, file: LogFile | DeleteFile) -> FileEntry:
        entry = self._log.entry(file.path, file.size)
        return present(entry) or entry

    def _gone_files(self) -> list[str]:
        at = self._begin
        ahead = files_ahead(at, Limits(), self._behind(at), self._read)
        gone, size = [], 0
        looked: set[DeleteFile] = set()
        while True:
            for one in ahead.files:
                if self._ends_at(ahead, one) == 0:
                    continue
                size += one.file.size
                others = [file for file in one.file.deletes if file not in looked]
                looked |= {*others}
                there = [(one.file.path, one.file.size), *((file.path, file.size) for file in others)]
                for path, expected in there:
                    found = present(self._log.entry(path, expected))
                    if found is None or found.size != expected:
                        gone.append(f"{path} is gone, or is another file")
            if ahead.ended:
                break
            at = ahead.position(len(ahead.files), 0)
            ahead = files_ahead(at, Limits(), self._behind(at), self._read)
        self.bytes = size
        return gone[:_MOST_NAMED]


def _begin(end: IcebergPosition) -> IcebergPosition:
    """Where the source began that stands at `end`."""
    if end.whole:
        return IcebergPosition(end.table, end.start, True, None, end.start)
    return IcebergPosition(end.table, end.start, False, end.start)
