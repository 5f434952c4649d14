"""The driver's half of a source on a Delta table: which files of which versions an epoch reads."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from urllib.parse import quote

from sqlstream.connectors.api import (
    ConnectorContext,
    Limits,
    Movable,
    Position,
    Rereadable,
    SourcePlan,
    Split,
)
from sqlstream.connectors.capabilities import Awaited, Divided, Verifying
from sqlstream.connectors.delta.source import losses
from sqlstream.connectors.delta.source.ahead import Ahead, NextFile, files_ahead
from sqlstream.connectors.delta.source.columns import check_table
from sqlstream.connectors.delta.source.history import DeltaHistory, read_again
from sqlstream.connectors.delta.source.log import Commit, DeltaLog, LogFile, Snapshot
from sqlstream.connectors.delta.source.options import DeltaOptions
from sqlstream.connectors.delta.source.positions import DeltaPosition, Passed
from sqlstream.connectors.delta.source.splits import cut_ahead, entry_of
from sqlstream.connectors.delta.source.starts import begin
from sqlstream.connectors.filesystem.cutting import FileCutter, ToRead
from sqlstream.connectors.filesystem.file_ranges import FileRange
from sqlstream.connectors.filesystem.file_version import check_unchanged, present, repair
from sqlstream.connectors.filesystem.options import FileOptions
from sqlstream.connectors.filesystem.orders import FileOrders
from sqlstream.connectors.filesystem.paths import FileEntry, resolve
from sqlstream.connectors.lakehouse.source import LakeSource
from sqlstream_operators.errors import InputFileError
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

#: How often it is looked whether the table is still the one that was read, s; before a new version it is, anyway.
_CHECK_S = 30.0
#: How many versions are looked at to say how many rows wait.
_LAG_VERSIONS = 100
#: A version that is not there is asked for at most so often, s.
_PATIENCE_S = 1.0


class DeltaSource(LakeSource, Rereadable, Movable, Awaited, Divided, Verifying):
    """A Delta table: its files when reading begins, or none of them, and then those that each version adds.

    A position is a `DeltaPosition`. A version that deletes or changes rows is an error, or is passed over; one that writes
    rows anew in other files (OPTIMIZE) has none. `clock` (seconds) decides when to look whether the table is another one.
    """

    def __init__(
        self, spec: SourceSpec, context: ConnectorContext, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._options = options = DeltaOptions.read(spec.options)
        self._log = DeltaLog(
            resolve(options.path, context.base_dir), min(_PATIENCE_S, options.interval_us / 2e6), clock
        )
        self._folder = context.folder or f"sources/{quote(spec.name, safe='')}"
        self._orders = context.orders or FileOrders()
        self._left_out: set[str] = set()
        self._cutter = FileCutter(spec.name, FileOptions(options.path, "parquet"))
        self._opened: Snapshot | None = None
        self._now: Snapshot | None = None
        self._checked_at = float("-inf")
        self._verified = -1
        self._end: int | None = None
        super().__init__(spec, context, options, steps="versions", place=self._log.place, kept=losses.KEPT)

    # ------------------------------------------------------------------------------------------- where it is

    @property
    def waits_for(self) -> str:
        """What a run waits for that has read everything."""
        return f"versions of '{self._options.path}'"

    def initial_position(self) -> Position:
        """Where reading begins, as the log is now. Raises DiagnosticError (DAT004, DAT018, ENV006)."""
        now = self._opened = self._log.now()
        if now is None:
            raise losses.no_table(self._spec.name, self._log.place)
        check_table(self._spec, now.shape, now.features, self._log.place)
        return begin(self._spec.name, self._options, self._log, now).to_json()

    # -------------------------------------------------------------------------------------------------- plans

    def plan(self, position: Position, limits: Limits) -> SourcePlan:
        """The next files, or parts of them, within the limits.

        Raises DiagnosticError: DAT004 if there is no table, DAT015 (exit code 4) if versions or files are gone, DAT019
        (exit code 4) for a version that changes rows, DAT018 for a table that is not as declared, ENV006.
        """
        at = self._checked(DeltaPosition.from_json(position))
        last = self._last(at)
        while True:
            ahead = files_ahead(self._log, at, limits, last, self._read)
            taking = _Taking(self, ahead)
            cut = cut_ahead(self._cutter, ahead, self._log.place, limits, taking.to_read)
            following = ahead.position(cut.file, cut.row, *taking.passed_before(cut.file))
            if cut.splits or not ahead.files:
                break
            at = following  # all of these are passed over
        exhausted = self.bounded and last is not None and following.version > last
        self._skipped, self._lost = following.skipped, following.lost
        return SourcePlan(
            cut.splits,
            following.to_json(),
            exhausted,
            cut.taken,
            final=exhausted and self._options.is_as_of,
        )

    def until(self, position: Position) -> DeltaHistory:
        """The same rows once more. Raises DiagnosticError (DAT008) if versions or files are gone."""
        return DeltaHistory(self._spec, self._options, self._log, DeltaPosition.from_json(position))

    def can_replay(self, splits: Sequence[Split]) -> bool:
        """Whether the files of splits that were planned earlier are there as they were."""
        for split in splits:
            for item in split.payload["ranges"]:
                entry = FileRange.from_json(item, self._log.opening).entry
                try:
                    check_unchanged(entry)
                except InputFileError:
                    return False
                if self._orders.wanted(self._folder, entry.path):
                    return False
        return True

    def take_over(self, former: SourceSpec, kept: CheckpointStore, folder: str, position: Position) -> None:
        """Go on here where `former` stood: the table must be here, with the version that comes next.

        Raises DiagnosticError (STA018) with what is not the same.
        """
        at = DeltaPosition.from_json(position)
        now = self._log.now()
        found = None if now is None else losses.loss(self._log, at, now)
        if now is not None and found is None:
            return
        raise DiagnosticError(
            Diagnostic(
                "STA018",
                f"the Delta table of `{self._spec.name}` is not the same at '{self._log.place}'",
                notes=("there is no Delta table" if found is None else found.what,),
                help="name the folder that the table was moved to",
            ),
            exit_code=4,
        )

    def lag(self, position: Position) -> int | None:
        """The rows behind `position` as the log says it, of the next hundred versions; None if it does not."""
        at = DeltaPosition.from_json(position)
        if at.in_snapshot and self._log.at(at.version) is None:
            return None
        read = read_again(self._options)
        ahead = files_ahead(self._log, at, Limits(), self._last(at), read, _LAG_VERSIONS)
        rows = [one.file.rows for one in ahead.files]
        return None if None in rows else max(0, sum(filter(None, rows)) - at.row)

    # ----------------------------------------------------------------------------------- what is left out

    def paths(self) -> Sequence[str]:
        """The files that the table has now."""
        now = self._log.now()
        there = None if now is None else self._log.at(now.version)
        return [] if there is None else [entry_of(self._log, file).path for file in there.files]

    def entry(self, one: NextFile) -> FileEntry | None:
        """The file as it is there; None if it is gone. Raises InputFileError if it is another."""
        entry = entry_of(self._log, one.file)
        now = present(entry)
        if now is not None and now.size != entry.size >= 0:
            raise InputFileError(
                f"{entry.path} has {now.size} bytes, and {entry.size} by the table's log", repair(entry)
            )
        return now

    def is_left_out(self, one: NextFile) -> bool:
        """Whether the command line says to go on without a file."""
        path = entry_of(self._log, one.file).path
        order = self._orders.take(self._folder, [path]).get(path)
        if order == "again":
            raise DiagnosticError(
                Diagnostic(
                    "DAT004",
                    f"--read-again {path}: the file is of a Delta table, whose files are never written again",
                    help="begin anew, with a new state directory",
                ),
                exit_code=2,
            )
        if order == "skip":
            self._left_out.add(path)
        return path in self._left_out

    def gone(self, files: Sequence[NextFile]) -> str:
        """What is gone with files, if that was agreed to. Raises DiagnosticError (DAT015) if it was not."""
        what = losses.gone_files(files)
        self._agree(what)
        return what

    # ------------------------------------------------------------------------------------ is it still the table

    def _last(self, at: DeltaPosition) -> int | None:
        """The last version that is read now; None: there is none."""
        if at.last is not None and self._options.is_as_of:
            return at.last
        if not self.bounded:
            return None
        if self._end is None:
            if self._opened is None:
                self._opened = self._log.now()
            self._end = -1 if self._opened is None else self._opened.version
        return self._end

    def _checked(self, at: DeltaPosition) -> DeltaPosition:
        """The position without what is gone. Raises DiagnosticError (DAT015) if that was not agreed to."""
        if at.last is not None and self._options.is_as_of and at.version > at.last:
            return at  # nothing more is read
        clock = self._clock()
        if self._now is not None:
            due = clock - self._checked_at >= _CHECK_S
            if not (due or self._is_new(at)) or self._is_same(at):
                return at
        now = self._opened if self._now is None and self._opened is not None else self._log.now()
        if now is None:
            raise losses.no_table(self._spec.name, self._log.place, at)
        check_table(self._spec, now.shape, now.features, self._log.place)
        if self._now is None and at.in_snapshot:
            self._check_vectors(at.version)
        self._now, self._checked_at = now, clock
        while (found := losses.loss(self._log, at, now)) is not None:
            self._agree(found.what)
            self._log.forget()
            at = found.on
        return at

    def _is_new(self, at: DeltaPosition) -> bool:
        """Whether a version comes that nobody has looked at, which may be one of another table."""
        if at.in_snapshot or at.version <= self._verified or self._log.commit(at.version) is None:
            return False
        self._verified = at.version
        return True

    def _is_same(self, at: DeltaPosition) -> bool:
        """Whether the commit that was read last is there and the same: so is the table, and nothing behind it is gone."""
        if at.seen is None or self._log.digest(at.seen[0]) != at.seen[1]:
            return False
        self._checked_at = self._clock()
        return True

    def _check_vectors(self, version: int) -> None:
        there = self._log.at(version)
        if there is not None and any(file.deleted for file in there.files):
            raise losses.deleted_rows(self._spec.name, self._log.place, version)

    def _read(self, commit: Commit) -> Sequence[LogFile] | None:
        """What is read of a version; None: it is passed over. Raises DiagnosticError for one that can't be read."""
        name, place, changes = self._spec.name, self._log.place, self._options.reads_changes
        if commit.changes_rows and not (changes or self._options.skips_changes):
            raise losses.changes(name, place, commit)
        now = self._now
        shape = commit.shape or (now.shape if now is not None else None)
        if shape is not None and (commit.shape is not None or commit.features):
            former = now is not None and commit.version <= now.version
            check_table(self._spec, shape, commit.features or (), place, former=former)
        if commit.changes_rows and not changes:
            return None
        files = commit.changes if changes else commit.added
        if any(file.deleted for file in files):
            raise losses.deleted_rows(name, place, commit.version)
        if shape is not None and any({*shape.partitioned_by} - file.partition.keys() for file in files):
            raise losses.no_partition(name, place, commit.version)
        return files


class _Taking:
    """What a plan takes of the files ahead: each is looked at once, when it is its turn."""

    def __init__(self, source: DeltaSource, ahead: Ahead) -> None:
        self._source, self._ahead = source, ahead
        self._entries: dict[int, FileEntry | None] = {}
        self._lost: dict[int, str] = {}

    def to_read(self, number: int) -> ToRead | None:
        """What to read of the file of a number; None: it is passed over."""
        if number not in self._entries:
            one = self._ahead.files[number]
            entry = None if self._source.is_left_out(one) else self._source.entry(one)
            self._entries[number] = entry
            if entry is None and number not in self._lost:
                self._note(number)
        found = self._entries[number]
        return None if found is None else ToRead(found)

    def _note(self, number: int) -> None:
        """Ask for all that is gone at once, and whether that was agreed to."""
        if self._source.is_left_out(self._ahead.files[number]):
            return
        gone = [
            other
            for other in range(number, len(self._ahead.files))
            if not self._source.is_left_out(self._ahead.files[other])
            and self._source.entry(self._ahead.files[other]) is None
        ]
        self._source.gone([self._ahead.files[other] for other in gone])
        for other in gone:
            self._entries[other] = None
            self._lost[other] = losses.gone_files([self._ahead.files[other]])

    def passed_before(self, number: int) -> tuple[tuple[Passed, ...], tuple[str, ...]]:
        """The files before a number that are passed over, and what was lost with them."""
        passed = [
            Passed(
                self._ahead.files[one].version,
                self._ahead.files[one].number,
                0 if one else self._ahead.begin.row,
            )
            for one, entry in sorted(self._entries.items())
            if entry is None and one < number
        ]
        return tuple(passed), tuple(self._lost[one] for one in sorted(self._lost) if one < number)
