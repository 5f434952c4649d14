"""What a state directory has given to a table in a lake: which table, up to which epoch, and which columns.

It is noted in the state directory, and compared with what the table's own log says: a copy of either is another age.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from sqlstream.storage.identity import NAME, identity
from sqlstream_operators.errors import TargetError
from sqlstream_operators.state.checkpoint_store import CheckpointStore


@dataclass(frozen=True, slots=True)
class Given:
    """What a table was given: its id, the last epoch, the columns, and the version of the table that has them.

    `version` is None where nobody has noted it.
    """

    table: str
    epoch: int
    columns: tuple[str, ...] = ()
    version: int | None = None


@dataclass(frozen=True, slots=True)
class GivenTable:
    """The note about one table. `kind` is the connector, `known_as` what the table was called when it was first written.

    `name` is what it is called now, `place` where it is, `removal` how it is done away with, both for messages.
    """

    store: CheckpointStore
    kind: str
    known_as: str
    name: str
    place: str
    removal: str

    @property
    def is_named(self) -> bool:
        """Whether the state directory has a name; without one it has given nothing to anybody."""
        return self.store.exists(NAME)

    @property
    def application(self) -> str:
        """Who this is, in the table's log."""
        return f"sqlstream/{identity(self.store)}/{self.known_as}"

    def check_epoch(self, table: str | None, there: int, here: int) -> Given | None:
        """What is noted of a table. Raises TargetError if it, or this state directory at epoch `here`, is an older copy, or
        another table.

        `table` is its id, None if it is not there; `there` is the last epoch of ours in its log, 0 if there is none.
        """
        noted = self._noted()
        if noted and table != noted.table:
            raise self.gone(noted.epoch)
        if there > here:
            raise TargetError(
                f"the table of `{self.name}` has epoch {there}, but its state is at epoch {here}",
                (f"'{self.place}' is newer: the state directory was restored from an older copy",),
                f"restore the newer copy of the state directory; or {self._anew()}",
            )
        if noted and there < noted.epoch:
            raise self.behind(there, noted.epoch)
        return noted

    def behind(self, there: int, committed: int) -> TargetError:
        """The error for a table that has not all that was committed to it."""
        return TargetError(
            f"the table of `{self.name}` has epoch {there}, but epoch {committed} was committed to it",
            (f"'{self.place}' is older: it was restored from an older copy or version",),
            f"restore the newer one; or {self._anew()}",
        )

    def gone(self, epoch: int) -> TargetError:
        """The error for a table that had rows up to an epoch, and is not there."""
        return TargetError(
            f"the table of `{self.name}` is gone",
            (f"'{self.place}' had the rows up to epoch {epoch}",),
            f"restore it; or {self._anew()}",
        )

    def note(self, table: str, epoch: int, columns: Sequence[str], version: int | None = None) -> None:
        """Write down that this state directory has given a table an epoch, and these columns.

        `version` is the table's that has the epoch, where such a number tells more than the epoch does.
        """
        given = list(dict.fromkeys([*self.columns(), *columns]))
        content = {"table": table, "epoch": epoch, "columns": given}
        if version is not None:
            content["version"] = version
        self.store.put(self._mark, json.dumps(content).encode())

    def noted_version(self, table: str) -> int | None:
        """The version of the table with this id that is noted to have what was given; None: there is none."""
        noted = self._noted()
        return noted.version if noted is not None and noted.table == table else None

    def without(self, what: str, again: str) -> TargetError:
        """The error for a table that had rows, which `what` took away; `again` gives them back."""
        return TargetError(
            f"the table of `{self.name}` has not all rows that were committed to it",
            (f"'{self.place}' {what}",),
            f"{again}; or {self._anew()}",
        )

    def columns(self) -> tuple[str, ...]:
        """The columns that the table has been given by this state directory, those of former queries too."""
        noted = self._noted()
        return () if noted is None else noted.columns

    def _anew(self) -> str:
        return f"{self.removal}, and run with --rewrite {self.name}: all that it should have is given again"

    def _noted(self) -> Given | None:
        """What this state directory has given to which table; None: nothing."""
        try:
            found = json.loads(self.store.get(self._mark))
        except FileNotFoundError:
            return None
        version = found.get("version")
        return Given(
            found["table"],
            int(found["epoch"]),
            tuple(found.get("columns", ())),
            None if version is None else int(version),
        )

    @property
    def _mark(self) -> str:
        digest = hashlib.sha256(f"{self.kind} {self.known_as}".encode()).hexdigest()[:16]
        return f"sinks/{digest}.{self.kind}"
