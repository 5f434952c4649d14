"""What of a Delta table is gone before it was read, and versions whose rows can't be read as rows that come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlstream.connectors.delta.source.ahead import NextFile
from sqlstream.connectors.delta.source.log import Commit, DeltaLog, Snapshot
from sqlstream.connectors.delta.source.positions import DeltaPosition
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, counted

_MOST_NAMED = 10
_LONGEST = 80


#: What is kept so that nothing is gone, and by which settings.
KEPT = "versions longer (delta.logRetentionDuration, delta.deletedFileRetentionDuration)"


@dataclass(frozen=True, slots=True)
class Loss:
    """What is gone, in words, and the position to go on from without it."""

    what: str
    on: DeltaPosition


def loss(log: DeltaLog, at: DeltaPosition, now: Snapshot) -> Loss | None:
    """What of a position is not there any more, of the table as it is `now`; None: all is there."""
    if now.shape.id != at.table:
        what = f"the table was made anew: its id was {at.table}, and is {now.shape.id}"
        anew = DeltaPosition(now.shape.id, now.version, True, now.version, lost=(*at.lost, what))
        return Loss(f"{what}; it is at version {now.version}", anew)
    if now.version < at.version - 1 or (at.in_snapshot and now.version < at.version):
        what = f"version {at.version} is wanted, the log ends at version {now.version}: an older copy was restored"
        return _at_version(at, now.version + 1, what)
    if at.seen is not None:
        there = log.digest(at.seen[0])
        if there and there != at.seen[1]:
            what = f"version {at.seen[0]} is another than the one that was read: an older copy was restored"
            return _at_version(at, at.version + 1 if at.in_snapshot else at.version, what)
    if at.in_snapshot:
        if log.at(at.version) is not None:
            return None
        what = f"the table can't be read as it was at version {at.version}: the log of that was cleaned up"
        return _at_version(at, at.version + 1, what)
    if at.version > now.version or log.commit(at.version) is not None:
        return None
    log.forget()
    if log.commit(at.version) is not None:  # it came between the looks
        return None
    first = next((version for version, _ in log.times() if version > at.version), now.version + 1)
    what = f"version {at.version} is wanted, the log begins at version {first}: it was cleaned up"
    return _at_version(at, first, what)


def _at_version(at: DeltaPosition, version: int, what: str) -> Loss:
    return Loss(what, replace(at, version=version, file=0, row=0, seen=None, lost=(*at.lost, what)))


def gone_files(files: Sequence[NextFile]) -> str:
    """What is gone with data files that a version names."""
    versions = sorted({one.version for one in files})
    rows = [one.file.rows for one in files]
    of = f"version {versions[0]}" if len(versions) == 1 else f"versions {versions[0]} to {versions[-1]}"
    known = "" if None in rows else f", with {counted(sum(row or 0 for row in rows), 'row')}"
    are = "is" if len(files) == 1 else "are"
    return (
        f"{counted(len(files), 'file')} of {of} {are} gone{known}: VACUUM deletes what the table has no more"
    )


def changes(table: str, place: str, commit: Commit) -> DiagnosticError:
    """The error for a version that deletes or changes rows."""
    operation = commit.operation or "an operation that the log does not name"
    predicate = f" WHERE {commit.predicate}" if commit.predicate else ""
    if len(predicate) > _LONGEST:
        predicate = predicate[:_LONGEST] + " …"
    restored = "" if commit.removed else ", which brings rows back"
    number = len(commit.removed)
    files = f": {counted(number, 'file')} that had rows {'is' if number == 1 else 'are'} replaced or removed"
    return DiagnosticError(
        Diagnostic(
            "DAT019",
            f"version {commit.version} of the table of `{table}` changes rows that were read",
            notes=(
                f"it is '{place}'",
                f"the operation is {operation}{predicate}{files if commit.removed else restored}",
            ),
            help="write 'skipChangeCommits' = 'true' to pass over such versions, with all that they add; "
            "or 'readChangeFeed' = 'true', with a new state directory, to read what changes, too",
        ),
        exit_code=4,
    )


def deleted_rows(table: str, place: str, version: int) -> DiagnosticError:
    """The error for files of which some rows are deleted by deletion vectors."""
    return DiagnosticError(
        Diagnostic(
            "DAT018",
            f"the Delta table of `{table}` has deletion vectors in version {version}, which can't be read here",
            notes=(f"it is '{place}'",),
            help="run REORG TABLE … APPLY (PURGE) over it, which writes its files without them, and begin there; and set "
            "delta.enableDeletionVectors to false",
        )
    )


def no_partition(table: str, place: str, version: int) -> DiagnosticError:
    """The error for a version that removes files and does not say what their partition is."""
    return DiagnosticError(
        Diagnostic(
            "DAT018",
            f"version {version} of the table of `{table}` removes files without saying which partition they are of",
            notes=(f"it is '{place}'", "whoever wrote it has left that out, so what goes can't be read"),
            help="begin behind it, with a new state directory",
        )
    )


def no_table(table: str, place: str, former: DeltaPosition | None = None) -> DiagnosticError:
    """The error for a table that is not there."""
    notes = () if former is None else (f"it was read up to {former.in_words}",)
    return DiagnosticError(
        Diagnostic(
            "DAT004",
            f"there is no Delta table of `{table}` at '{place}'",
            notes=notes,
            help="write the folder that has `_delta_log` in it",
        )
    )


def named(texts: Sequence[str]) -> tuple[str, ...]:
    """The first of some notes, and how many more there are."""
    more = len(texts) - _MOST_NAMED
    return (*texts[:_MOST_NAMED], *((f"and {more} more",) if more > 0 else ()))
