"""What a sink needs of the database that its table is in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

#: The table, beside the sink's own, that says which epochs are in it.
EPOCHS_TABLE = "sqlstream_epochs"


@dataclass(frozen=True, slots=True)
class Record:
    """Who writes a table, and the last epoch that is in it: a row of EPOCHS_TABLE.

    `job` is the identity of a state directory, `sink` the table's name in the pipeline. `epoch` is 0 before
    the first.
    """

    job: str
    sink: str
    epoch: int


class LostConnectionError(Exception):
    """The database went away; whether the transaction was committed is not known."""


class Target(Protocol):
    """One table of a database, and at most one transaction on it.

    Everything but `open`, `release` and `close` needs a transaction. Methods raise DataError for rows that the
    database refuses, DiagnosticError (ENV006) if it can't be reached or refuses to work, and LostConnectionError
    if it went away meanwhile.
    """

    @property
    def place(self) -> str:
        """The table and where it is, for messages; no password."""
        ...

    def open(self, *, create: bool) -> bool:
        """Connect and begin a transaction; False if there is no database and `create` is not asked for."""
        ...

    def record(self, *, lock: bool) -> Record | None:
        """What EPOCHS_TABLE says of this table, None if nothing; with `lock` no other driver can write it
        until the end of the transaction.
        """
        ...

    def exists(self) -> bool:
        """Whether the table exists."""
        ...

    def is_empty(self) -> bool:
        """Whether the table has no rows."""
        ...

    def check_shape(self) -> None:
        """Raises DataError if the table has other columns than the sink."""
        ...

    def create_epochs(self) -> None:
        """Create EPOCHS_TABLE if it is not there."""
        ...

    def create_table(self) -> None:
        """Create the sink's table."""
        ...

    def write_record(self, record: Record) -> None:
        """Write the row of EPOCHS_TABLE."""
        ...

    def apply(self, changes: pa.Table) -> None:
        """Apply the changes of an epoch, as `changes.changes_of` gives them. Raises DataError if they don't fit."""
        ...

    def commit(self) -> None:
        """Commit the transaction and release what `open` took."""
        ...

    def release(self) -> None:
        """Roll back the transaction, if there is one, and let others at the database. Never raises."""
        ...

    def close(self) -> None:
        """Release, and close the connection. Never raises."""
        ...


def unusable(place: str, what: str, help_: str | None = None) -> DiagnosticError:
    """The error for a database that can't be reached or refuses to work."""
    return DiagnosticError(
        Diagnostic(
            "ENV006",
            f"{place} can't be written: {what}",
            help=help_
            or "run again when this is mended: the run goes on where it stopped, and nothing is lost",
        )
    )
