"""What an exactly-once sink needs of the system that it writes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sqlstream.connectors.exactly_once.staged import StagedEpoch
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError


@dataclass(frozen=True, slots=True)
class Record:
    """Who writes a target, and the last epoch that is in it; kept by the target itself.

    `job` is the identity of a state directory, `sink` the table's name in the pipeline. `epoch` is 0 before
    the first. `partly` is a later epoch of which a part is committed: it is to be completed, and nothing else can be done.
    """

    job: str
    sink: str
    epoch: int
    partly: int | None = None

    @property
    def furthest(self) -> int:
        """The last epoch of which anything is there."""
        return max(self.epoch, self.partly or 0)


@dataclass(frozen=True, slots=True)
class Wording:
    """What messages call things: the target (`table`), its record, how to drop and empty it, the option with its name."""

    noun: str
    record: str
    drop: str
    empty: str
    name_option: str


class LostConnectionError(Exception):
    """The target went away; whether the transaction was committed is not known."""


class TableEdits(Protocol):
    """What is done to a table and can't be done to a log: it has a shape of its own, and rows that can be replaced.

    All of it is part of the target's transaction.
    """

    def check_shape(self) -> None:
        """Raises DataError if it has other columns than the sink."""
        ...

    def reshape(self, *, keep_rows: bool) -> None:
        """Give the target the columns that the sink has and it lacks, the wider types, and the sink's key.

        With `keep_rows` its rows stay, and have NULL in a new column. Raises DataError for what can't be done exactly.
        """
        ...

    def replace(self, rows: StagedEpoch) -> None:
        """Make the rows of an epoch all that the target has; what is the same already may stay as it is."""
        ...


class Target(Protocol):
    """One table, topic … and at most one transaction on it.

    Everything but `open`, `release` and `close` needs a transaction. Methods raise DataError for rows that the
    target refuses, DiagnosticError (ENV006) if it can't be reached or refuses to work, and LostConnectionError
    if it went away meanwhile.
    """

    @property
    def location(self) -> str:
        """The target and where it is, for messages; no password."""
        ...

    @property
    def wording(self) -> Wording:
        """What messages call it."""
        ...

    @property
    def edits(self) -> TableEdits | None:
        """How it is checked, reshaped and replaced; None for a log, whose messages are of any shape and stay."""
        ...

    @property
    def owns_all_rows(self) -> bool:
        """Whether rows of others in it would make the result wrong, so that it must be empty at first."""
        ...

    @property
    def may_be_committed_often(self) -> bool:
        """Whether several transactions per second keep none of its readers out and leave nothing but rows."""
        ...

    def open(self, *, create: bool) -> bool:
        """Connect and begin a transaction; False if there is nothing to connect to and `create` is not asked for."""
        ...

    def record(self, *, lock: bool) -> Record | None:
        """The committed epoch, None if there is none.

        With `lock` no other driver can write it until the end of the transaction, nor claim a target that has none:
        whoever comes second waits here, and then sees what the first one left.
        """
        ...

    def exists(self) -> bool:
        """Whether the target exists."""
        ...

    def is_empty(self) -> bool:
        """Whether it has no rows."""
        ...

    def create_record_store(self) -> None:
        """Create what `write_record` writes to, if it is not there."""
        ...

    def create(self) -> None:
        """Create the target."""
        ...

    def apply(self, rows: StagedEpoch) -> None:
        """Apply the rows of an epoch, reading them in batches. Raises DataError if they don't fit."""
        ...

    def write_record(self, record: Record, *, over: Record | None) -> bool:
        """Write the epoch, in the same transaction as its rows, in the place of what `record` gave there.

        False, with nothing written, if something else is there by now.
        """
        ...

    def commit(self) -> None:
        """Commit the transaction and release what `open` took."""
        ...

    def release(self) -> None:
        """Roll back the transaction, if there is one, and let others at the target. Never raises."""
        ...

    def close(self) -> None:
        """Release, and close the connection. Never raises."""
        ...


@runtime_checkable
class TargetBehind(Target, Protocol):
    """A target that takes long for a large epoch, and had better be given it while the next one is computed."""

    def may_be_behind(self, rows: StagedEpoch) -> bool:
        """Whether these rows may wait until their epoch is published; asked in the transaction they would be written in.

        What the target refuses of them is then no reason any more to give the epoch up: the run ends, and the next one
        writes them again.
        """
        ...


def held(location: str, holder: str, help_: str) -> DiagnosticError:
    """The error for a target that another process has for itself just now."""
    return DiagnosticError(
        Diagnostic(
            "ENV008",
            f"{location} can't be written: {holder} has the file open",
            notes=("what was read is kept: nothing is lost",),
            help=help_,
        )
    )


def unusable(location: str, what: str, help_: str | None = None, *, done: str = "written") -> DiagnosticError:
    """The error for a target that can't be reached or refuses to work; `done` is what was to be done with it."""
    return DiagnosticError(
        Diagnostic(
            "ENV006",
            f"{location} can't be {done}: {what}",
            help=help_ or "run again when it is fixed: the run goes on where it stopped, and nothing is lost",
        )
    )
