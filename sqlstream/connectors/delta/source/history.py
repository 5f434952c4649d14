"""What a source on a Delta table has read up to some position, to be read once more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlstream.connectors.api import Limits, Position, SourcePlan
from sqlstream.connectors.delta.source import losses
from sqlstream.connectors.delta.source.ahead import Ahead, NextFile, Read, files_ahead
from sqlstream.connectors.delta.source.log import DeltaLog
from sqlstream.connectors.delta.source.options import DeltaOptions
from sqlstream.connectors.delta.source.positions import DeltaPosition
from sqlstream.connectors.delta.source.splits import cut_ahead, entry_of
from sqlstream.connectors.filesystem.cutting import FileCutter, ToRead
from sqlstream.connectors.filesystem.file_version import present
from sqlstream.connectors.filesystem.options import FileOptions
from sqlstream.connectors.filesystem.paths import FileEntry, list_files
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError


class DeltaHistory:
    """The rows from where reading began to `end`; its positions are those of the source.

    Files that were passed over have none, nor have versions that change rows, unless changes are read. Raises
    DiagnosticError (DAT008) if versions or files are gone.
    """

    def __init__(self, spec: SourceSpec, options: DeltaOptions, log: DeltaLog, end: DeltaPosition) -> None:
        self._spec, self._log, self._end = spec, log, end
        self._cutter = FileCutter(spec.name, FileOptions(options.path, "parquet"))
        self._read = read_again(options)
        self._passed = {(one.version, one.file): one.row for one in end.passed}
        self.bytes: int | None = None
        wrong = list(end.lost) or self._gone()
        if wrong:
            raise DiagnosticError(
                Diagnostic(
                    "DAT008",
                    f"what was read of `{spec.name}` can't be read again as it was",
                    notes=(f"it is '{log.place}'", *losses.named(wrong)),
                    help="keep versions longer (delta.logRetentionDuration, delta.deletedFileRetentionDuration), or begin "
                    "with new rows",
                )
            )

    @property
    def bounded(self) -> bool:
        """It ends."""
        return True

    def initial_position(self) -> Position:
        """Where the source began."""
        return self._begin.to_json()

    def plan(self, position: Position, limits: Limits) -> SourcePlan:
        """The next files, or parts of them, within the limits."""
        at = DeltaPosition.from_json(position)
        while True:
            ahead = files_ahead(self._log, at, limits, self._last, self._read)
            cut = cut_ahead(self._cutter, ahead, self._log.place, limits, self._to_read(ahead))
            following = replace(ahead.position(cut.file, cut.row, (), ()), skipped=0)
            ended = (following.version, following.file, following.row) >= self._place
            if cut.splits or ended:
                break
            at = following  # all of these were passed over
        return SourcePlan(cut.splits, (self._end if ended else following).to_json(), ended, cut.taken)

    def _to_read(self, ahead: Ahead) -> Callable[[int], ToRead | None]:
        """What is read of the file of a number."""

        def to_read(number: int) -> ToRead | None:
            one = ahead.files[number]
            end = self._ends_at(one)
            return None if end == 0 else ToRead(self._entry(one), end)

        return to_read

    def lag(self, position: Position) -> int | None:
        """The rows that are left, as the log says it; None if it does not."""
        at = DeltaPosition.from_json(position)
        ahead = files_ahead(self._log, at, Limits(), self._last, self._read)
        rows = [one.file.rows if (end := self._ends_at(one)) is None else end for one in ahead.files]
        return None if None in rows else max(0, sum(filter(None, rows)) - at.row)

    @property
    def _begin(self) -> DeltaPosition:
        end = self._end
        return replace(end, version=end.start, file=0, row=0, seen=None, passed=(), skipped=0)

    @property
    def _place(self) -> tuple[int, int, int]:
        return self._end.version, self._end.file, self._end.row

    @property
    def _last(self) -> int:
        """The last version of which something was read."""
        return self._end.version if self._end.file or self._end.row else self._end.version - 1

    def _ends_at(self, one: NextFile) -> int | None:
        """Up to which row a file was read; None: all of it."""
        place = one.version, one.number
        if place in self._passed:
            return self._passed[place]
        if place == self._place[:2]:
            return self._end.row
        return 0 if place > self._place[:2] else None

    def _entry(self, one: NextFile) -> FileEntry:
        entry = entry_of(self._log, one.file)
        return present(entry) or entry

    def _gone(self) -> list[str]:
        """What can't be read any more, in words."""
        begin, last = self._begin, self._last
        if last < begin.version:
            return []
        now = self._log.now()
        if now is None:
            return ["the table is gone"]
        if now.shape.id != self._end.table:
            return [f"the table was made anew: its id was {self._end.table}, and is {now.shape.id}"]
        if begin.snapshot and self._log.at(begin.version) is None:
            return [f"the log has not the table as it was at version {begin.version}: it was cleaned up"]
        first = begin.version + 1 if begin.snapshot else begin.version
        absent = [version for version in range(first, last + 1) if self._log.commit(version) is None]
        if absent:
            return [
                f"the log has not version {absent[0]}{' and others' if absent[1:] else ''}: it was cleaned up"
            ]
        return list(self._gone_files())

    def _gone_files(self) -> Sequence[str]:
        there = {entry.path: entry.size for entry in list_files(self._log.location)}
        gone: list[NextFile] = []
        size, at = 0, self._begin
        while True:
            ahead = files_ahead(self._log, at, Limits(), self._last, self._read)
            for one in ahead.files:
                if self._ends_at(one) == 0:
                    continue
                size += max(0, one.file.size)
                entry = entry_of(self._log, one.file)
                known = there.get(entry.path)
                if known is None:
                    found = present(entry)  # a folder may have a name that is not listed
                    known = None if found is None else found.size
                if known is None or known != one.file.size >= 0:
                    gone.append(one)
            if (ahead.end == (at.version, at.file)) or ahead.end[0] > self._last:
                break
            at = replace(at, version=ahead.end[0], file=ahead.end[1], row=0)
        self.bytes = size
        return [losses.gone_files(gone)] if gone else []


def read_again(options: DeltaOptions) -> Read:
    """What of a version was read if it was: versions that change rows were passed over, or are read as changes."""
    if options.reads_changes:
        return lambda commit: commit.changes
    return lambda commit: None if commit.changes_rows else commit.added
