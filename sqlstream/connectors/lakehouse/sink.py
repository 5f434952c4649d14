"""The driver's half of a table in a lake: an epoch is one commit of the table's own log, which has the epoch's number in it.

So a commit that is repeated is seen and left out, whatever others have committed between; and of two drivers that commit one
epoch at once the log refuses the second. Epochs without rows are no commits. With an interval of commits an epoch is noted
in the state directory, and several are one commit (`waiting`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from sqlstream.connectors.api import ConnectorContext, SinkPart, TargetEdit
from sqlstream.connectors.exactly_once.target import unusable
from sqlstream.connectors.lakehouse.commits import beside_others
from sqlstream.connectors.lakehouse.compaction import Compaction
from sqlstream.connectors.lakehouse.content import Content
from sqlstream.connectors.lakehouse.waiting import WaitingEpoch, WaitingEpochs
from sqlstream_operators.errors import MemoryExhaustedError, TargetError
from sqlstream_operators.plan.spec import SinkSpec

_T = TypeVar("_T")
_Table = TypeVar("_Table")
#: After these the table has nothing of what it had.
_ANEW = (TargetEdit.REWRITE, TargetEdit.REPLACE)


class LakeLog(Protocol[_Table]):
    """The table of one sink, its log, and the note about it in the state directory (`given`)."""

    @property
    def place(self) -> str:
        """The table, for messages."""
        ...

    def open(self) -> _Table | None:
        """The table as it is now, None if there is none. Raises what its library does."""
        ...

    def attempt(self, work: Callable[[], _T]) -> _T:
        """Do something that may be done twice, again after the store has failed. Raises DiagnosticError (ENV006)."""
        ...

    def epoch_of(self, table: _Table) -> int:
        """The last epoch of ours in the log, 0 if there is none."""
        ...

    def check_epoch(self, table: _Table | None, here: int) -> None:
        """Raises TargetError if the table, or this state directory at epoch `here`, is an older copy, or another table."""
        ...

    def check_owner(self, table: _Table) -> None:
        """Raises TargetError for a table whose rows are all another's."""
        ...

    def gone(self, epoch: int) -> TargetError:
        """The error for a table that had rows up to an epoch, and is not there."""
        ...

    def note(self, table: _Table, epoch: int) -> None:
        """Write down that this state directory has given the table an epoch; 0: that this is the table."""
        ...


class LakeSink(ABC, Generic[_Table]):
    """Gives the table an epoch's rows, as its `content` does; `refused` is raised where others have committed meanwhile.

    Where a state directory is in a copy of the table's past, or the table in one of the state's, it is refused: what it had
    given would be missing or there twice. Others may add rows to a table that is only appended to.
    """

    def __init__(
        self,
        spec: SinkSpec,
        context: ConnectorContext,
        log: LakeLog[_Table],
        content: Content[_Table],
        *,
        refused: type[Exception],
        compaction: Compaction[_Table] | None,
    ) -> None:
        self._spec = spec
        self._log = log
        self._content = content
        self._refused = refused
        self._store = context.store
        self._waiting = WaitingEpochs(context.store, spec, context.known_as or spec.name)
        self._compaction = compaction
        self._edit: TargetEdit | None = None
        self._is_set_up = False

    # ------------------------------------------------------------------------------------------------- kinds

    @abstractmethod
    def _has_rows(self, table: _Table) -> bool:
        """Whether the table has any."""

    @abstractmethod
    def _check_shape(self, table: _Table) -> None:
        """Raises TargetError if rows could not be written to the table as the sink is declared."""

    @abstractmethod
    def _remove(self) -> tuple[str, str]:
        """What a user does to be rid of the table, and of its rows, for messages."""

    def _make_ready(self, table: _Table | None) -> None:
        """Before tasks write: create the table, or give it new columns, where tasks must know it."""

    def _set_up(self) -> None:
        """Before an epoch is decided: create the table, if it is not there, and claim it, if all rows are to be ours."""

    def _alter(self, table: _Table) -> None:
        """Give the table the columns that the sink has and it lacks, in a commit before the epoch's, if that wasn't done."""

    # --------------------------------------------------------------------------------------- before an epoch

    def begin_with(self, edit: TargetEdit) -> None:
        """The next epoch does this to the table first, or in its own commit."""
        self._edit = edit

    def is_vacant(self) -> bool:
        """Whether there is no table, or one without rows that never had an epoch of ours: the log keeps that."""
        return self._log.attempt(lambda: self._vacant(self._log.open()))

    def _vacant(self, table: _Table | None) -> bool:
        return table is None or not (
            self._log.epoch_of(table) or self._waiting.all() or self._has_rows(table)
        )

    def epoch_there(self) -> int | None:
        """The last epoch of this state directory and table that is in the log, or waits for a commit."""

        def look() -> int | None:
            table = self._log.open()
            return None if table is None else self._waiting.furthest(self._log.epoch_of(table)) or None

        return self._log.attempt(look)

    def look(self, epochs: Collection[int]) -> None:
        """Whether the table is as one of these epochs left it. Raises TargetError; changes nothing."""
        self._log.attempt(lambda: self._check(self._log.open(), max(epochs)))

    def check(self, *, previous: int) -> None:
        """Whether the table would take rows after epoch `previous`. Raises TargetError, or DiagnosticError (ENV006)."""

        def work() -> None:
            table = self._log.open()
            self._check(table, previous)
            self._make_ready(table)

        self._log.attempt(work)

    def _check(self, table: _Table | None, previous: int) -> None:
        self._check_epoch(table, previous)
        if table is not None:
            self._check_owner(table)
            self._check_shape(table)

    def _check_epoch(self, table: _Table | None, previous: int) -> None:
        if self._edit is not TargetEdit.REWRITE:
            self._log.check_epoch(table, previous)
        elif not self._vacant(table):
            drop, _ = self._remove()
            raise TargetError(
                f"the table of `{self._spec.name}` would be rewritten, but has rows, or had some of this pipeline",
                (f"it is '{self._log.place}'",),
                drop,
            )

    def _check_owner(self, table: _Table) -> None:
        self._log.check_owner(table)
        if not self._content.owns_all_rows:
            return
        if self._edit is TargetEdit.REPLACE or self._log.epoch_of(table) or not self._has_rows(table):
            return
        _, empty = self._remove()
        raise TargetError(
            f"the table of `{self._spec.name}` has rows that this pipeline did not write",
            (f"'{self._log.place}' would not be equal to the query's result",),
            empty,
        )

    def abort_uncommitted(self, last_epoch: int) -> None:
        """Look whether the log has later epochs. Files that it never named are removed by whoever tidies the table up."""
        self._log.attempt(lambda: self._check_epoch(self._log.open(), last_epoch))

    def prepare(self, epoch: int, parts: Sequence[SinkPart], *, previous: int) -> None:
        """Check the table, create it if it is not there, and put the epoch together.

        Raises DataError for rows that the table can't have.
        """
        if not self._is_set_up or self._edit is not None:
            self.check(previous=previous)
            self._log.attempt(self._set_up)
            self._is_set_up = True
        self._content.unload()  # what an attempt before this one has put together
        if self._content.has_rows(parts):
            self._content.load(epoch, parts)

    # -------------------------------------------------------------------------------------------- the epoch

    def commit(self, epoch: int, parts: Sequence[SinkPart], *, previous: int) -> None:
        """Give the table the epoch, if its log does not have it yet, or let it wait for others."""
        edit, self._edit = self._edit, None
        if edit in _ANEW:
            self._waiting.clear()  # the table that they are for is gone, or will have other rows
        if edit is None and not self._content.has_rows(parts):
            return
        if edit is None and self._waiting.may_wait:
            with self._unloaded(epoch):
                note = self._content.noted(epoch, parts, self._store, self._waiting.folder_of(epoch))
                self._waiting.add(epoch, {"rows": note, "files": _files(parts)})
            return
        self.flush()
        with self._unloaded(epoch):
            self._give(epoch, lambda table: self._write(table, epoch, parts, edit), edit)
        self._added(_files(parts))

    @property
    def is_due(self) -> bool:
        """Whether an epoch has waited for as long as it may."""
        return self._waiting.is_due

    def flush(self) -> None:
        """Give the table the epochs that wait, as one commit, or few. Raises as `commit`."""
        waiting = self._waiting.all()
        for epochs in self._content.commits(waiting):
            last = epochs[-1].epoch
            with self._unloaded(last):
                self._give(last, lambda table, epochs=epochs: self._write_waiting(table, epochs))  # type: ignore[misc]
        self._waiting.clear(in_order=self._content.merges)
        if waiting:
            self._added(sum(one.content["files"] for one in waiting))

    def _added(self, files: int) -> None:
        """So many files were added, or about that: a merge adds some that no task has written."""
        if self._compaction is not None:
            self._compaction.added(max(files, 1), self._log.open)

    @contextmanager
    def _unloaded(self, epoch: int) -> Iterator[None]:
        """Forget what was put together, however that ends."""
        try:
            yield
        except MemoryExhaustedError as error:  # it is too late to give the epoch up for smaller ones
            raise unusable(
                self._log.place,
                error.message,
                f"epoch {epoch} is committed, but not in the table yet: run again where the driver has more memory; "
                "nothing is lost",
            ) from error
        finally:
            self._content.unload()

    def _give(self, epoch: int, write: Callable[[_Table], bool], edit: TargetEdit | None = None) -> None:
        """`write` says whether there was a commit with the epoch; the log is tried again where others have committed."""

        def once() -> None:
            """What is in the log is read anew each time: another driver may have given the table the epoch."""
            table = self._log.open()
            if table is None:
                raise self._log.gone(epoch)
            there = self._log.epoch_of(table)
            if there < epoch:
                if edit is not TargetEdit.REWRITE:
                    self._log.check_epoch(table, epoch)
                if edit is not TargetEdit.REPLACE:
                    self._check_owner(table)
                there = epoch if write(table) else there
            self._log.note(table, there)

        self._log.attempt(lambda: beside_others(once, self._refused))

    def _write(self, table: _Table, epoch: int, parts: Sequence[SinkPart], edit: TargetEdit | None) -> bool:
        if edit is TargetEdit.REPLACE:
            self._content.load(epoch, parts)
            self._content.replace(table, epoch)
            return True
        if edit is TargetEdit.ALTER:
            self._alter(table)
        if not self._content.has_rows(parts):
            return False
        self._content.load(epoch, parts)
        return self._content.write(table, epoch)

    def _write_waiting(self, table: _Table, waiting: Sequence[WaitingEpoch]) -> bool:
        there = self._log.epoch_of(table)
        self._content.load_noted([one.content["rows"] for one in waiting if one.epoch > there])
        return self._content.write(table, waiting[-1].epoch)

    def close(self) -> None:
        """Let go of what an epoch was put together in."""
        self._content.close()


def _files(parts: Sequence[SinkPart]) -> int:
    return sum(len(part.payload.get("files", ())) for part in parts)
