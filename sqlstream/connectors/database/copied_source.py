"""The driver's half of a source that is copied once into the state directory, when its first run begins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from urllib.parse import quote

from sqlstream.connectors.api import ConnectorContext, Limits, Position, Source, SourcePlan, Split
from sqlstream.connectors.capabilities import Acknowledging, Verifying
from sqlstream.connectors.database import copies
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

#: Where reading begins, before anything was looked at; and where it has ended.
_UNREAD: Position = {"begun": False}
_READ: Position = {"read": True}


def place_in_copy(position: Position) -> str:
    """Where such a source goes on, for people."""
    if position in (_UNREAD, _READ):
        return "the beginning" if position == _UNREAD else "the end"
    return f"the table as it was, file {position['file']:,}, row {position['row']:,}"


class CopiedSource(Source, Acknowledging, Verifying, ABC):
    """A table that is read once. A position is a row of a file of the copy.

    Only the run itself makes a copy for itself; who else looks is given rows as they are.
    """

    def __init__(self, spec: SourceSpec, context: ConnectorContext) -> None:
        self.spec, self.context = spec, context
        self.folder = context.folder or f"sources/{quote(spec.name, safe='')}"
        self._copy: copies.Copy | None = None

    @abstractmethod
    def made(self) -> copies.Copy:
        """Copy the table. Raises DiagnosticError: DAT004 and DAT018 for one that is not as declared, ENV006."""

    @abstractmethod
    def seen(self, most: int | None) -> Sequence[Split]:
        """As many rows as they are now, None: all. Raises what `made` does."""

    @property
    def bounded(self) -> bool:
        """It ends."""
        return True

    def initial_position(self) -> Position:
        """Where reading begins: nothing is copied, or looked at, before the first plan of a run."""
        return _UNREAD

    def lag(self, position: Position) -> int | None:
        """The rows that are left, once the table is copied."""
        if position == _READ:
            return 0
        if self._copy is None:
            return None
        before = sum(rows for rows, _ in self._copy.files[: position.get("file", 0)])
        return self._copy.rows - before - int(position.get("row", 0))

    def plan(self, position: Position, limits: Limits) -> SourcePlan:
        """The next rows. Raises DiagnosticError: what `made` does, and DAT015."""
        if position == _READ or "seen" in position:
            return SourcePlan((), position, exhausted=True, final=position == _READ)
        if not self.context.runs:
            splits = tuple(self.seen(None if self.context.whole else limits.rows))
            return SourcePlan(splits, {**position, "seen": True}, exhausted=True)
        copy = self._copy_at(position)
        splits, file, row = copies.next_splits(
            self.spec.name, copy, position.get("file", 0), position.get("row", 0), limits
        )
        ended = file == len(copy.files)
        following: Position = _READ if ended else {"copy": copy.id, "file": file, "row": row}
        return SourcePlan(splits, following, ended, final=ended)

    def can_replay(self, splits: Sequence[Split]) -> bool:
        """Whether the copy is there."""
        return all(copies.is_there(self.context.store, split.payload) for split in splits)

    def committed(self, position: Position) -> None:
        """Delete the copy once it was read."""
        if position == _READ:
            copies.remove_all(self.context.store, self.folder)

    def _copy_at(self, position: Position) -> copies.Copy:
        """The copy that a position is in; made, if it is the beginning."""
        if position == _UNREAD:
            if self._copy is None:
                self._copy = self.made()
            return self._copy
        if self._copy is None or self._copy.id != position["copy"]:
            self._copy = copies.copy_of(self.context.store, position["copy"])
        if self._copy is None:
            raise DiagnosticError(
                Diagnostic(
                    "DAT015",
                    f"rows of `{self.spec.name}` are gone before they were read",
                    notes=("the copy of the table as it was is not in the state directory",),
                    help="begin anew, with a new state directory",
                ),
                exit_code=4,
            )
        return self._copy
