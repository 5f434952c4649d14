"""The files that come next behind a position, version by version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlstream.connectors.api import Limits
from sqlstream.connectors.delta.source.log import Commit, DeltaLog, LogFile
from sqlstream.connectors.delta.source.positions import DeltaPosition, Passed
from sqlstream_operators.errors import InternalError
from sqlstream_planner.diagnostics import DiagnosticError

#: What is read of a version; None: it is passed over.
Read = Callable[[Commit], Sequence[LogFile] | None]
#: At most so many files are looked at for one epoch, and no more than so many versions once there are some.
MOST_FILES, MOST_VERSIONS = 10_000, 1_000


@dataclass(frozen=True, slots=True)
class NextFile:
    """A file to read, its number in its version, and that."""

    version: int
    number: int
    file: LogFile


@dataclass(frozen=True, slots=True)
class Ahead:
    """Files in the order in which they are read, and the version and the number in it of the file that comes after them.

    `begin` is the position that they follow. Of the versions that were looked at `skipped` are passed over, `tables` give
    the table an id from there on, and `seen` has the commits' digests.
    """

    begin: DeltaPosition
    files: tuple[NextFile, ...]
    end: tuple[int, int]
    skipped: tuple[int, ...] = ()
    tables: tuple[tuple[int, str], ...] = ()
    seen: tuple[tuple[int, str], ...] = ()

    def position(
        self, number: int, row: int, passed: tuple[Passed, ...], lost: tuple[str, ...]
    ) -> DeltaPosition:
        """The position at a row of the file of this number here; behind all of them if there is none of it."""
        version, file = self.end
        if number < len(self.files):
            version, file = self.files[number].version, self.files[number].number
        at = replace(self.begin, version=version, file=file, row=row)
        touched = version if file or row else version - 1
        skipped = sum(version < at.version for version in self.skipped)
        table = next((id_ for version, id_ in reversed(self.tables) if version <= touched), at.table)
        seen = next((one for one in reversed(self.seen) if one[0] <= touched), at.seen)
        return replace(
            at,
            table=table,
            seen=seen,
            skipped=at.skipped + skipped,
            passed=(*at.passed, *passed),
            lost=(*at.lost, *lost),
        )


def files_ahead(
    log: DeltaLog,
    at: DeltaPosition,
    limits: Limits,
    last: int | None,
    read: Read,
    versions: int = MOST_VERSIONS,
) -> Ahead:
    """The files behind a position, as far as there are some, they are within the limits, and no later than version `last`.

    `read` says what is read of a version, None if nothing is. What it raises is raised once nothing is left before it.
    """
    budget = _Budget(limits, at.row)
    files: list[NextFile] = []
    skipped: list[int] = []
    tables: list[tuple[int, str]] = []
    seen: list[tuple[int, str]] = []
    version, number = at.version, at.file
    while (last is None or version <= last) and (not files or version - at.version < versions):
        if at.snapshot and version == at.start:
            found = _of_snapshot(log, version)
        else:
            commit = log.commit(version)
            if commit is None:
                break
            try:
                given = read(commit)
            except DiagnosticError:
                if files:
                    break  # what is before it comes first
                raise
            seen.append((version, commit.digest))
            if commit.shape is not None:
                tables.append((version, commit.shape.id))
            if given is None:
                skipped.append(version)
            found = given or ()
        for place in range(number, len(found)):
            if budget.spent:
                return Ahead(at, tuple(files), (version, place), tuple(skipped), tuple(tables), tuple(seen))
            files.append(NextFile(version, place, found[place]))
            budget.take(found[place])
        version, number = version + 1, 0
    return Ahead(at, tuple(files), (version, number), tuple(skipped), tuple(tables), tuple(seen))


def _of_snapshot(log: DeltaLog, version: int) -> Sequence[LogFile]:
    snapshot = log.at(version)
    if snapshot is None:
        raise InternalError("the log does not have a version that was looked at before")
    return snapshot.files


class _Budget:
    """How much of the limits the files that were found take, as far as the log says it."""

    def __init__(self, limits: Limits, begun: int) -> None:
        self._limits = limits
        self._files = self._bytes = 0
        self._rows: int | None = -begun

    @property
    def spent(self) -> bool:
        """Whether an epoch reads no more than what was found."""
        limits = self._limits
        return (
            self._files >= MOST_FILES
            or (limits.files is not None and self._files >= limits.files)
            or (limits.rows is not None and self._rows is not None and self._rows >= limits.rows)
        )

    def take(self, file: LogFile) -> None:
        """Count a file."""
        self._files += 1
        self._rows = None if self._rows is None or file.rows is None else self._rows + file.rows
