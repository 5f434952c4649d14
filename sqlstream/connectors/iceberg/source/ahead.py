"""The files that come next behind a position, snapshot by snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlstream.connectors.api import Limits
from sqlstream.connectors.iceberg.source.log import LogFile
from sqlstream.connectors.iceberg.source.positions import IcebergPosition
from sqlstream_planner.diagnostics import DiagnosticError

#: At most so many files are looked at for one epoch, and no more than so many snapshots.
_MOST_FILES, _MOST_SNAPSHOTS = 10_000, 1_000


@dataclass(frozen=True, slots=True)
class NextFile:
    """A file to read, its snapshot's number in what is ahead, and its own number in that."""

    step: int
    number: int
    file: LogFile


@dataclass(frozen=True, slots=True)
class Ahead:
    """Files in the order in which they are read, of the snapshots `steps` behind `begin`; of them `skipped` are left out.

    `ended`: there are no more snapshots.
    """

    begin: IcebergPosition
    steps: tuple[int, ...]
    files: tuple[NextFile, ...]
    skipped: frozenset[int]
    ended: bool

    def position(self, number: int, row: int) -> IcebergPosition:
        """The position at a row of the file of this number here; behind all of them if there is none of it."""
        at = self.begin
        if number >= len(self.files):
            if not self.steps:
                return at
            skipped = at.skipped + len(self.skipped)
            return replace(at, after=self.steps[-1], at=None, file=0, row=0, skipped=skipped)
        one = self.files[number]
        after = self.steps[one.step - 1] if one.step else at.after
        skipped = at.skipped + sum(self.steps.index(step) < one.step for step in self.skipped)
        if not (one.number or row) and not (at.in_whole and one.step == 0):
            return replace(at, after=after, at=None, file=0, row=0, skipped=skipped)
        return replace(at, after=after, at=self.steps[one.step], file=one.number, row=row, skipped=skipped)


def files_ahead(
    at: IcebergPosition,
    limits: Limits,
    steps: Sequence[int],
    read: Callable[[int], Sequence[LogFile] | None],
) -> Ahead:
    """The files of the snapshots `steps` behind a position, as far as they are within the limits.

    `read` says what is read of a snapshot, None if it is left out. What it raises is raised once nothing is left before it.
    """
    files: list[NextFile] = []
    skipped: list[int] = []
    rows, begun = -at.row, at.file
    for step, snapshot in enumerate(steps):
        full = limits.rows is not None and rows >= limits.rows
        full = full or (limits.files is not None and len(files) >= limits.files)
        if step and (full or len(files) >= _MOST_FILES or step >= _MOST_SNAPSHOTS):
            return Ahead(at, tuple(steps[:step]), tuple(files), frozenset(skipped), False)
        try:
            found = read(snapshot)
        except DiagnosticError:
            if files or skipped:  # what is before it comes first
                return Ahead(at, tuple(steps[:step]), tuple(files), frozenset(skipped), False)
            raise
        if found is None:
            skipped.append(snapshot)
        for number, file in enumerate(found or ()):
            if step or number >= begun:
                files.append(NextFile(step, number, file))
                rows += file.rows
    return Ahead(at, tuple(steps), tuple(files), frozenset(skipped), True)
