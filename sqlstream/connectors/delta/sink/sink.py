"""The driver's half: an epoch is one commit of the table's log, which has the epoch's number in it.

The number is the version of an application's transaction (`txn` in Delta's protocol). So a commit that is repeated is seen
and left out, whatever others have committed between; and two drivers that commit one epoch at once are told by Delta that
they do. Epochs without rows are no commits. With an interval of commits an epoch is noted in the state directory, and
several are one commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from sqlstream.connectors.api import ConnectorContext, SinkPart, TargetEdit
from sqlstream.connectors.delta.library import deltalake, place_and_options
from sqlstream.connectors.delta.sink.compaction import Compaction
from sqlstream.connectors.delta.sink.content import Content
from sqlstream.connectors.delta.sink.log import TableLog
from sqlstream.connectors.delta.sink.shape import altered_schema, check_shape, missing_columns, wanted_columns
from sqlstream.connectors.exactly_once.target import unusable
from sqlstream.connectors.filesystem.written_files import FILE_BYTES
from sqlstream.connectors.lakehouse.commits import beside_others
from sqlstream.connectors.lakehouse.waiting import WaitingEpoch, WaitingEpochs
from sqlstream.connectors.options import size_bytes
from sqlstream.formats.options import flag
from sqlstream_operators.errors import MemoryExhaustedError, TargetError
from sqlstream_operators.plan.spec import SinkSpec

if TYPE_CHECKING:
    from deltalake import DeltaTable

#: After these the table has nothing of what it had.
_ANEW = (TargetEdit.REWRITE, TargetEdit.REPLACE)


class DeltaSink:
    """Gives the table an epoch's rows, as its `content` does.

    Where a state directory is in a copy of the table's past, or the table in one of the state's, it is refused: what it had
    given would be missing or there twice. Others may add rows to a table that is only appended to.
    """

    def __init__(self, spec: SinkSpec, context: ConnectorContext, content: Content) -> None:
        self._spec = spec
        self._log = TableLog(spec, context)
        self._content = content
        self._compaction: Compaction | None = None
        if flag(spec.options, "auto-compaction"):
            file_bytes = size_bytes(spec.options, "compaction.file-size", FILE_BYTES)
            self._compaction = Compaction(spec.name, self._log.location, file_bytes, context.tell)
        self._store = context.store
        self._waiting = WaitingEpochs(context.store, spec, context.known_as or spec.name)
        self._edit: TargetEdit | None = None
        self._is_set_up = False

    # --------------------------------------------------------------------------------------- before an epoch

    def begin_with(self, edit: TargetEdit) -> None:
        """The next epoch does this to the table first, or in its own commit."""
        self._edit = edit

    def is_vacant(self) -> bool:
        """Whether there is no table, or one without rows that never had an epoch of ours: the log keeps that."""
        return self._log.attempt(lambda: self._vacant(self._log.open()))

    def _vacant(self, table: DeltaTable | None) -> bool:
        return table is None or not (table.file_uris() or self._log.epoch_of(table) or self._waiting.all())

    def epoch_there(self) -> int | None:
        """The last epoch of this state directory and table that is in the log, or waits for a commit."""

        def look() -> int | None:
            table = self._log.open()
            return None if table is None else self._waiting.furthest(self._log.epoch_of(table)) or None

        return self._log.attempt(look)

    def look(self, epochs: Collection[int]) -> None:
        """Whether the table is as one of these epochs left it. Raises TargetError; changes nothing."""
        self.check(previous=max(epochs))

    def check(self, *, previous: int) -> None:
        """Whether the table would take rows after epoch `previous`. Raises TargetError, or DiagnosticError (ENV006)."""
        self._log.attempt(lambda: self._check(previous))

    def _check(self, previous: int) -> None:
        table = self._log.open()
        self._check_epoch(table, previous)
        if table is not None:
            self._check_owner(table)
            check_shape(
                self._spec,
                table,
                self._log.place,
                edit=self._edit,
                merges=self._content.merges,
                given=self._log.columns_given(),
            )

    def _check_epoch(self, table: DeltaTable | None, previous: int) -> None:
        if self._edit is not TargetEdit.REWRITE:
            self._log.check_epoch(table, previous)
        elif not self._vacant(table):
            raise TargetError(
                f"the table of `{self._spec.name}` would be rewritten, but has rows, or had some of this pipeline",
                (f"it is '{self._log.place}'",),
                "delete its folder, or choose another 'table-path'",
            )

    def _check_owner(self, table: DeltaTable) -> None:
        self._log.check_owner(table)
        if not self._content.owns_all_rows:
            return
        if self._edit is TargetEdit.REPLACE or self._log.epoch_of(table) or not table.file_uris():
            return
        raise TargetError(
            f"the table of `{self._spec.name}` has rows that this pipeline did not write",
            (f"'{self._log.place}' would not be equal to the query's result",),
            "choose another 'table-path'; or delete its rows, or its folder",
        )

    def abort_uncommitted(self, last_epoch: int) -> None:
        """Look whether the log has later epochs. Files that it never named are VACUUM's."""
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

    def _set_up(self) -> None:
        """Create the table, if it is not there, and claim it if it is to have no rows of others."""
        place, options = place_and_options(self._log.location)
        deltalake().DeltaTable.create(
            place,
            pa.schema([*wanted_columns(self._spec).items()]),
            mode="ignore",
            partition_by=list(self._spec.partitioned_by) or None,
            storage_options=options,
        )
        if self._content.owns_all_rows:
            self._log.claim()

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
            self._log.attempt(lambda: self._give(epoch, lambda table: self._write(table, epoch, parts, edit)))
        self._added(_files(parts))

    @property
    def is_due(self) -> bool:
        """Whether an epoch has waited for as long as it may."""
        return self._waiting.is_due

    def flush(self) -> None:
        """Give the table the epochs that wait, as one. Raises as `commit`."""
        waiting = self._waiting.all()
        if not waiting:
            return
        last = waiting[-1].epoch
        with self._unloaded(last):
            self._log.attempt(lambda: self._give(last, lambda table: self._write_waiting(table, waiting)))
        self._waiting.clear(in_order=self._content.merges)
        self._added(sum(one.content["files"] for one in waiting))

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

    def _added(self, files: int) -> None:
        if self._compaction is not None:
            self._compaction.added(max(files, 1), self._log.open)

    def _give(self, epoch: int, write: Callable[[DeltaTable], bool]) -> None:
        beside_others(lambda: self._give_once(epoch, write), deltalake().exceptions.CommitFailedError)

    def _give_once(self, epoch: int, write: Callable[[DeltaTable], bool]) -> None:
        """What is in the log is read anew each time: another driver may have given the table the epoch.

        `write` says whether there was a commit with the epoch.
        """
        table = self._log.open()
        if table is None:
            raise self._log.gone(epoch)
        there = self._log.epoch_of(table)
        if there < epoch:
            there = epoch if write(table) else there
        self._log.note(table, there)

    def _write_waiting(self, table: DeltaTable, waiting: Sequence[WaitingEpoch]) -> bool:
        self._check_owner(table)
        there = self._log.epoch_of(table)
        self._content.load_noted([one.content["rows"] for one in waiting if one.epoch > there])
        epoch = waiting[-1].epoch
        return self._content.write(table, self._log.with_epoch(epoch, rebased=not self._content.merges))

    def _write(
        self, table: DeltaTable, epoch: int, parts: Sequence[SinkPart], edit: TargetEdit | None
    ) -> bool:
        if edit is TargetEdit.REPLACE:
            self._content.load(epoch, parts)
            schema = altered_schema(self._spec, table)
            self._content.replace(table, schema, self._log.with_epoch(epoch, rebased=False))
            return True
        self._check_owner(table)
        new = missing_columns(self._spec, table) if edit is TargetEdit.ALTER else []
        if new:
            # A commit before the epoch's: columns that are NULL everywhere harm nobody, and are not added twice.
            table.alter.add_columns(list(deltalake().Schema.from_arrow(pa.schema(new)).fields))
        if not self._content.has_rows(parts):
            return False
        self._content.load(epoch, parts)
        return self._content.write(table, self._log.with_epoch(epoch, rebased=not self._content.merges))

    def close(self) -> None:
        """Let go of what an epoch was put together in."""
        self._content.close()


def _files(parts: Sequence[SinkPart]) -> int:
    return sum(len(part.payload.get("files", ())) for part in parts)
