"""What the log of a table has of this pipeline, and what the state directory has noted of the table.

The log has an epoch as the version of an application's transaction (`txn` in Delta's protocol), in the commit that has its
rows. A table whose rows are all this pipeline's has that in its log, too, so that no other one takes it for its own.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.delta.library import attempt, open_table
from sqlstream.connectors.delta.sink.restored import lacks
from sqlstream.connectors.filesystem.paths import resolve, split_location
from sqlstream.connectors.lakehouse.given import GivenTable
from sqlstream_operators.errors import TargetError
from sqlstream_operators.plan.spec import SinkSpec

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

_T = TypeVar("_T")
#: The application whose version says whose all rows of a table are: a property of the table would do, but Delta's library
#: sets those with Python's lock held, so that a slow store would stop the whole driver.
_WRITER = "sqlstream/writer"


class TableLog:
    """The table of one sink, its log, and the note about it in the state directory."""

    def __init__(self, spec: SinkSpec, context: ConnectorContext) -> None:
        self._name = spec.name
        self._columns = [column.name for column in spec.schema]
        self.location = resolve(spec.options["table-path"], context.base_dir)
        self.place, _ = split_location(self.location)
        self._given = GivenTable(
            context.store,
            "delta",
            context.known_as or spec.name,
            spec.name,
            self.place,
            "delete the table's folder if it is there",
        )

    def open(self) -> DeltaTable | None:
        """The table as it is now, None if there is none. Raises what `deltalake` does."""
        return open_table(self.location)

    def attempt(self, work: Callable[[], _T]) -> _T:
        """Do something that may be done twice, again after the store has failed.

        Raises DiagnosticError (ENV006) if it goes on failing.
        """
        return attempt(self.place, work, done="written")

    # ----------------------------------------------------------------------------------------------- epochs

    def epoch_of(self, table: DeltaTable) -> int:
        """The last epoch of ours in the log, 0 if there is none."""
        if not self._given.is_named:
            return 0
        return int(table.transaction_version(self._application) or 0)

    def with_epoch(self, epoch: int, *, rebased: bool) -> CommitProperties:
        """What a commit has beside its files: the epoch.

        `rebased`: it may go on behind commits that others have made since the table was opened, which is right for files
        that are only added. What replaces files must have seen all of them: Delta's library lets an overwrite pass that
        names files which were compacted meanwhile, whose rows would stay.
        """
        from deltalake.transaction import CommitProperties, Transaction

        given = Transaction(self._application, epoch, int(time.time() * 1000))
        return CommitProperties(app_transactions=[given], max_commit_retries=None if rebased else 0)

    def check_epoch(self, table: DeltaTable | None, here: int) -> None:
        """Raises TargetError if the table, or this state directory at epoch `here`, is an older copy, or another table."""
        there = 0 if table is None else self.epoch_of(table)
        noted = self._given.check_epoch(None if table is None else str(table.metadata().id), there, here)
        if table is None or noted is None or noted.version is None:
            return
        # A driver may have died before it noted its last commit.
        given = noted.version + (there > noted.epoch)
        if lacks(self.location, given, table.version()):
            raise self._given.without(
                f"was restored (RESTORE) to a version before {given}, which has them",
                f"restore it to version {given}, or a later one that has them",
            )

    def gone(self, epoch: int) -> TargetError:
        """The error for a table that had rows up to an epoch, and is not there."""
        return self._given.gone(epoch)

    # ------------------------------------------------------------------------------------------------ owner

    def check_owner(self, table: DeltaTable) -> None:
        """Raises TargetError for a table whose rows are all another's."""
        writer = table.transaction_version(_WRITER)
        if writer is None or (self._given.is_named and writer == self._signature):
            return
        raise TargetError(
            f"the table of `{self._name}` is kept up to date by another writer",
            (f"'{self.place}' was written with another state directory, or by another table of this query",),
            "go on with that state directory, delete the table's folder, or choose another 'table-path'",
        )

    def claim(self) -> None:
        """Write down in the log that all rows of the table are ours. Raises TargetError if they are another's by now."""
        from deltalake.transaction import CommitProperties, Transaction

        table = self.open()
        if table is None:
            raise self.gone(0)
        self.check_owner(table)
        if table.transaction_version(_WRITER) is None:
            # Of two that claim it at once, Delta refuses the second.
            claim = Transaction(_WRITER, self._signature, int(time.time() * 1000))
            partitions = table.metadata().partition_columns or None
            properties = CommitProperties(app_transactions=[claim])
            table.create_write_transaction(
                [], "append", table.schema(), partitions, commit_properties=properties
            )

    @property
    def _signature(self) -> int:
        """Who this is, as a version: 53 bits, as that is what every reader of JSON has."""
        return int.from_bytes(hashlib.sha256(self._application.encode()).digest()[:7]) >> 3

    @property
    def _application(self) -> str:
        return self._given.application

    # ------------------------------------------------------------------------------------------------- note

    def note(self, table: DeltaTable, epoch: int) -> None:
        """Write down that this state directory has given the table an epoch; 0: that this is the table."""
        # A table that files were added to is as it was before: its version with them is the next one, or a later one.
        version = table.version() + (self.epoch_of(table) < epoch)
        self._given.note(str(table.metadata().id), epoch, self._columns, version)

    def columns_given(self) -> tuple[str, ...]:
        """The columns that the table has been given by this state directory, those of former queries too."""
        return self._given.columns()
