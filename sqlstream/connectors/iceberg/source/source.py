"""The driver's half of a source on an Iceberg table: which files of which snapshots an epoch reads."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlstream.connectors.api import (
    ConnectorContext,
    Limits,
    Movable,
    Position,
    Rereadable,
    SourcePlan,
    Split,
)
from sqlstream.connectors.capabilities import Awaited, Verifying
from sqlstream.connectors.filesystem.cutting import FileCutter, ToRead
from sqlstream.connectors.filesystem.file_ranges import FileRange
from sqlstream.connectors.filesystem.file_version import check_unchanged, present
from sqlstream.connectors.filesystem.options import FileOptions
from sqlstream.connectors.filesystem.paths import FileEntry
from sqlstream.connectors.iceberg.options import TablePlace
from sqlstream.connectors.iceberg.source import losses
from sqlstream.connectors.iceberg.source.ahead import Ahead, files_ahead
from sqlstream.connectors.iceberg.source.columns import check_table, fields_of
from sqlstream.connectors.iceberg.source.deletes import DeleteFile
from sqlstream.connectors.iceberg.source.history import IcebergHistory
from sqlstream.connectors.iceberg.source.log import (
    DELETE,
    REPLACE,
    IcebergLog,
    LogFile,
    lineage,
    operation_of,
)
from sqlstream.connectors.iceberg.source.options import IcebergOptions
from sqlstream.connectors.iceberg.source.positions import IcebergPosition
from sqlstream.connectors.iceberg.source.splits import Columns, cut_ahead
from sqlstream.connectors.iceberg.source.starts import begin
from sqlstream.connectors.lakehouse import losses as lost_rows
from sqlstream.connectors.lakehouse.source import LakeSource
from sqlstream_operators.errors import InputFileError, InternalError
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

#: The catalog is asked for new snapshots at most so often, s.
_PATIENCE_S = 1.0
#: What is gone may be found in steps: the table as it was, then snapshots behind it.
_MOST_LOSSES = 4
#: Of how many files of deletes it is kept how they are: many data files have the same ones.
_DELETES_KEPT = 10_000
_MAPPING = "schema.name-mapping.default"


class IcebergSource(LakeSource, Rereadable, Movable, Awaited, Verifying):
    """An Iceberg table: its files when reading begins, or none of them, and then those that each snapshot adds.

    A position is an `IcebergPosition`. A snapshot that deletes or replaces rows is an error, is left out, or gives what goes
    and comes; one that writes rows anew in other files (`replace`: a compaction) has none. `clock` (seconds) decides when to
    look for new snapshots.
    """

    def __init__(
        self, spec: SourceSpec, context: ConnectorContext, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._options = options = IcebergOptions.read(spec.options)
        self._log = IcebergLog(
            TablePlace.of(spec, context.base_dir), min(_PATIENCE_S, options.interval_us / 2e6), clock
        )
        self._cutter = FileCutter(spec.name, FileOptions("/", "parquet"))
        self._opened: Table | None = None
        self._present_deletes: dict[DeleteFile, FileEntry] = {}
        super().__init__(spec, context, options, steps="snapshots", place=self._log.place, kept=losses.KEPT)

    # ------------------------------------------------------------------------------------------- where it is

    @property
    def waits_for(self) -> str:
        """What a run waits for that has read everything."""
        return f"snapshots of {self._log.place}"

    def initial_position(self) -> Position:
        """Where reading begins, as the table is now. Raises DiagnosticError (DAT004, DAT018, ENV006)."""
        now = self._table()
        at = begin(self._spec.name, self._log.place, self._options, now.metadata)
        self._check(now, at)
        return at.to_json()

    # -------------------------------------------------------------------------------------------------- plans

    def plan(self, position: Position, limits: Limits) -> SourcePlan:
        """The next files, or parts of them, within the limits.

        Raises DiagnosticError: DAT004 if there is no table, DAT015 (exit code 4) if snapshots or files are gone, DAT019
        (exit code 4) for a snapshot that changes rows, DAT018 for a table that is not as declared or has files that can't be
        read, ENV006.
        """
        at = IcebergPosition.from_json(position)
        now = self._table(at)
        at = self._checked(at, now)
        self._check(now, at)
        columns = self._columns(now, at)
        while True:
            ahead = files_ahead(at, limits, self._steps(now, at), self._reading(now, at))
            lost: list[str] = []
            to_read = self._entries(ahead, lost)
            cut = cut_ahead(self._cutter, ahead, columns, limits, to_read, self._deletes_to_read)
            following = _numbered(ahead.position(cut.file, cut.row), now)
            following = replace(following, lost=(*following.lost, *lost))
            if cut.splits or ahead.ended:
                break
            at = following  # all of these snapshots have no rows to read
        exhausted = self.bounded and ahead.ended and cut.file >= len(ahead.files)
        self._skipped, self._lost = following.skipped, following.lost
        final = exhausted and self._options.is_as_of
        return SourcePlan(cut.splits, following.to_json(), exhausted, cut.taken, final=final)

    def until(self, position: Position) -> IcebergHistory:
        """The same rows once more. Raises DiagnosticError (DAT008) if snapshots or files are gone."""
        at = IcebergPosition.from_json(position)
        return IcebergHistory(self._spec, self._options, self._log, at, lambda now: self._columns(now, at))

    def can_replay(self, splits: Sequence[Split]) -> bool:
        """Whether the files of splits that were planned earlier are there as they were."""
        try:
            for split in splits:
                deletes = [one["file"] for one in split.payload.get("deletes", ())]
                for item in (*split.payload["ranges"], *deletes):
                    check_unchanged(FileRange.from_json(item, self._log.opening).entry)
        except InputFileError:
            return False
        return True

    def take_over(self, former: SourceSpec, kept: CheckpointStore, folder: str, position: Position) -> None:
        """Go on here where `former` stood: the table must be here, with the snapshot that comes next.

        Raises DiagnosticError (STA018) with what is not the same.
        """
        now = self._log.now()
        found = None if now is None else losses.loss(IcebergPosition.from_json(position), now.metadata)
        if now is not None and found is None:
            return
        raise DiagnosticError(
            Diagnostic(
                "STA018",
                f"the Iceberg table of `{self._spec.name}` is not the same: {self._log.place}",
                notes=("there is no such table" if found is None else found.what,),
                help="name the catalog, the database and the name that the table has now",
            ),
            exit_code=4,
        )

    def lag(self, position: Position) -> int | None:
        """The rows behind `position`, as the table's log says it; None if what is next can't be read."""
        at = IcebergPosition.from_json(position)
        now = self._log.now()
        if now is None or losses.loss(at, now.metadata) is not None:
            return None
        try:
            ahead = files_ahead(at, Limits(), self._steps(now, at), self._reading(now, at))
        except DiagnosticError:
            return None
        return max(0, sum(one.file.rows for one in ahead.files) - at.row)

    # ------------------------------------------------------------------------------------ the table, and its files

    def _table(self, at: IcebergPosition | None = None) -> Table:
        """The table as it is now; for a run that ends, as it was when that began."""
        if self._opened is not None and self.bounded:
            return self._opened
        now = self._opened = self._log.now()
        if now is None:
            raise losses.no_table(self._spec.name, self._log.place, at)
        return now

    def _checked(self, at: IcebergPosition, now: Table) -> IcebergPosition:
        """The position without what is gone. Raises DiagnosticError (DAT015) if that was not agreed to."""
        if self._options.is_as_of and not at.in_whole:
            return at  # nothing more is read
        for _ in range(_MOST_LOSSES):
            found = losses.loss(at, now.metadata)
            if found is None:
                return at
            self._agree(found.what)
            self._log.forget()
            at = found.on
        raise InternalError("what is gone of a table is gone again once it was left out")

    def _check(self, now: Table, at: IcebergPosition) -> None:
        check_table(self._spec, now.metadata, self._schema(now, at), self._log.place)

    def _schema(self, now: Table, at: IcebergPosition) -> Schema:
        """The table's columns; of a table as it was once, those that it had then."""
        if self._options.is_as_of and at.start is not None:
            snapshot = now.metadata.snapshot_by_id(at.start)
            if snapshot is not None and snapshot.schema_id is not None:
                return now.schemas()[snapshot.schema_id]
        return now.schema()

    def _columns(self, now: Table, at: IcebergPosition) -> Columns:
        return Columns(fields_of(self._spec, self._schema(now, at)), now.properties.get(_MAPPING, ""))

    def _steps(self, now: Table, at: IcebergPosition) -> list[int]:
        """The snapshots to read from `at` on, oldest first."""
        if self._options.is_as_of:
            return [at.at] if at.in_whole and at.at is not None else []
        known = lineage(now.metadata)
        if not (at.in_whole and at.at is not None):
            return losses.next_ids(at, known)
        behind = replace(at, after=at.at, at=None, file=0, row=0)
        gone = losses.loss(behind, now.metadata) is not None  # told once the table as it was is read
        return [at.at, *([] if gone else losses.next_ids(behind, known))]

    def _reading(self, now: Table, at: IcebergPosition) -> Callable[[int], Sequence[LogFile] | None]:
        return lambda number: self._read(now, at, number)

    def _read(self, now: Table, at: IcebergPosition, number: int) -> Sequence[LogFile] | None:
        """What is read of a snapshot; None: it is left out. Raises DiagnosticError for one that can't be read."""
        name, place = self._spec.name, self._log.place
        snapshot = now.metadata.snapshot_by_id(number)
        if snapshot is None:
            raise lost_rows.refused(
                name, place, f"snapshot {number} was expired while it was read", losses.KEPT
            )
        changes = self._options.reads_changes
        if at.in_whole and number == at.start:
            files = self._log.whole(now, snapshot)
        elif operation_of(snapshot) == REPLACE:
            return ()
        elif changes:
            files = self._log.changes(now, snapshot)
        else:
            added = self._log.added(now, snapshot)
            files = added.added
            if added.changes_rows or operation_of(snapshot) == DELETE:
                skips = self._options.skips_overwrites if files else self._options.skips_deletes
                if not skips:
                    raise losses.changes(name, place, snapshot, added)
                return None
        self._check_files(number, files)
        return files

    def _check_files(self, snapshot: int, files: Sequence[LogFile]) -> None:
        """Raise DiagnosticError (DAT018) for files that can't be read here."""
        other = next((file for file in files if file.format != "PARQUET"), None)
        if other is not None:
            raise losses.other_format(self._spec.name, self._log.place, other)
        wrong = next((one for file in files for one in file.deletes if one.unreadable), None)
        if wrong is not None:
            raise losses.other_deletes(self._spec.name, self._log.place, snapshot, wrong)

    def _entries(self, ahead: Ahead, lost: list[str]) -> Callable[[int], ToRead | None]:
        """What is read of the file of a number; None: it is gone, which was agreed to, and is one of `lost`.

        Raises DiagnosticError: DAT018 for a file that is gone though the table has it, or is another; DAT015 for one that it
        has no more, and that is needed to know which rows go.
        """

        def entry(number: int) -> ToRead | None:
            one = ahead.files[number]
            file = one.file
            found = self._present(file.path, file.size)
            absent = next((each for each in file.deletes if self._deletes(each) is None), None)
            if found is not None and absent is None:
                return ToRead(found)
            path, size = (
                (file.path, file.size) if absent is None or found is None else (absent.path, absent.size)
            )
            whole = ahead.begin.in_whole and not one.step
            if not self._options.reads_changes or whole or not (file.goes or found is not None):
                there = present(self._log.entry(path, size))
                raise losses.gone_file(
                    self._spec.name, self._log.place, path, size, None if there is None else there.size
                )
            what = losses.gone_rows(file, path)
            if what not in lost:
                self._agree(what)
                lost.append(what)
            return None

        return entry

    def _deletes(self, file: DeleteFile) -> FileEntry | None:
        """A file of deletes as it is there; None if it is gone, or another."""
        if file not in self._present_deletes:
            if len(self._present_deletes) >= _DELETES_KEPT:
                self._present_deletes.clear()
            found = self._present(file.path, file.size)
            if found is None:
                return None
            self._present_deletes[file] = found
        return self._present_deletes[file]

    def _deletes_to_read(self, file: DeleteFile) -> FileEntry:
        found = self._deletes(file)
        if found is None:
            raise InternalError("a file of deletes is gone that was looked at before")
        return found

    def _present(self, path: str, size: int) -> FileEntry | None:
        """A file as it is there; None if it is gone, or another."""
        found = present(self._log.entry(path, size))
        return None if found is None or found.size != size else found


def _numbered(at: IcebergPosition, now: Table) -> IcebergPosition:
    """A position with the sequence number of the last snapshot that was read."""
    snapshot = None if at.after is None else now.metadata.snapshot_by_id(at.after)
    return at if snapshot is None else replace(at, sequence=snapshot.sequence_number)
