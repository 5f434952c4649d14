"""An Iceberg table as a sink, exactly once by the table's own log.

What happens in an epoch: tasks write data files below the table's location (1), which nobody reads, as no snapshot names
them. The driver checks the table (2). Behind the manifest it commits a snapshot (3) that names them, with the epoch in its
summary and in a property of the table. So a commit that is repeated is seen and left out, whatever others have committed
between; and of two drivers that commit one epoch at once the catalog refuses the second, which then sees it. Epochs without
rows are no commits. With an interval of commits an epoch is noted (3) in the state directory, and several are one commit.

The table is there before tasks write to it, with all columns: their ids are in the files. So it is created, or altered, when
it is checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from sqlstream.connectors.api import ConnectorContext, SinkPart, TargetEdit
from sqlstream.connectors.iceberg.sink.data_files import files_of, from_json
from sqlstream.connectors.iceberg.sink.log import TableLog
from sqlstream.connectors.iceberg.sink.shape import check_shape
from sqlstream.connectors.lakehouse.commits import beside_others
from sqlstream.connectors.lakehouse.waiting import WaitingEpoch, WaitingEpochs
from sqlstream_operators.errors import DataError, TargetError
from sqlstream_operators.plan.spec import SinkSpec

if TYPE_CHECKING:
    from pyiceberg.table import Table

#: After these the table has nothing of what it had.
_ANEW = (TargetEdit.REWRITE, TargetEdit.REPLACE)


class IcebergSink:
    """Adds an epoch's rows to the table.

    Where a state directory is in a copy of the table's past, or the table in one of the state's, it is refused: what it had
    given would be missing or there twice. Others may write to the table, too.
    """

    def __init__(self, spec: SinkSpec, context: ConnectorContext) -> None:
        self._spec = spec
        self._log = TableLog(spec, context)
        self._waiting = WaitingEpochs(context.store, spec, context.known_as or spec.name)
        self._edit: TargetEdit | None = None
        self._is_set_up = False

    # --------------------------------------------------------------------------------------- before an epoch

    def begin_with(self, edit: TargetEdit) -> None:
        """The next epoch does this to the table first, or in its own commit."""
        self._edit = edit

    def is_vacant(self) -> bool:
        """Whether there is no table, or one without rows that never had an epoch of ours."""
        return self._log.attempt(lambda: self._vacant(self._log.open()))

    def _vacant(self, table: Table | None) -> bool:
        return table is None or not (
            self._log.epoch_of(table) or self._waiting.all() or any(True for _ in table.scan().plan_files())
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
        """Whether the table would take rows after epoch `previous`; creates it if it is not there, and gives it new columns.

        Raises TargetError, or DiagnosticError (ENV006).
        """

        def work() -> None:
            table = self._log.open()
            self._check(table, previous)
            if table is None:
                self._log.create()
            elif self._edit is TargetEdit.ALTER or self._edit is TargetEdit.REPLACE:
                self._log.alter(table)

        self._log.attempt(work)

    def _check(self, table: Table | None, previous: int) -> None:
        self._check_epoch(table, previous)
        if table is not None:
            given = self._log.given.columns()
            check_shape(self._spec, table, self._log.place, edit=self._edit, given=given)

    def _check_epoch(self, table: Table | None, previous: int) -> None:
        if self._edit is not TargetEdit.REWRITE:
            self._log.check_epoch(table, previous)
        elif not self._vacant(table):
            raise TargetError(
                f"the table of `{self._spec.name}` would be rewritten, but has rows, or had some of this pipeline",
                (f"it is '{self._log.place}'",),
                "drop it, or choose another 'catalog-table'",
            )

    def abort_uncommitted(self, last_epoch: int) -> None:
        """Look whether the log has later epochs. Files that it never named are those of `remove_orphan_files`."""
        self._log.attempt(lambda: self._check_epoch(self._log.open(), last_epoch))

    def prepare(self, epoch: int, parts: Sequence[SinkPart], *, previous: int) -> None:
        """Check the table, and that its files are written in one way. Raises DataError if they aren't."""
        if not self._is_set_up or self._edit is not None:
            self.check(previous=previous)
            self._is_set_up = True
        files = [*files_of(parts)]
        if len({file["spec"] for file in files}) > 1:
            raise DataError(
                f"how the table of `{self._spec.name}` is partitioned was changed while epoch {epoch} was written: run again"
            )

    # -------------------------------------------------------------------------------------------- the epoch

    def commit(self, epoch: int, parts: Sequence[SinkPart], *, previous: int) -> None:
        """Give the table the epoch, if its log does not have it yet, or let it wait for others."""
        edit, self._edit = self._edit, None
        if edit in _ANEW:
            self._waiting.clear()  # the table that they are for is gone, or will have other rows
        files = [*files_of(parts)]
        if not files and edit is not TargetEdit.REPLACE:
            return
        given = WaitingEpoch(epoch, {"files": files, "tables": _tables(parts)})
        if edit is None and self._waiting.may_wait:
            self._waiting.add(given.epoch, given.content)
            return
        self.flush()
        self._log.attempt(lambda: self._give([given], edit))

    @property
    def is_due(self) -> bool:
        """Whether an epoch has waited for as long as it may."""
        return self._waiting.is_due

    def flush(self) -> None:
        """Give the table the epochs that wait. Raises as `commit`."""
        waiting = self._waiting.all()
        for alike in _partitioned_alike(waiting):
            self._log.attempt(lambda alike=alike: self._give(alike, None))  # type: ignore[misc]
        self._waiting.clear()

    def _give(self, epochs: Sequence[WaitingEpoch], edit: TargetEdit | None) -> None:
        from pyiceberg.exceptions import CommitFailedException

        beside_others(lambda: self._give_once(epochs, edit), CommitFailedException)

    def _give_once(self, epochs: Sequence[WaitingEpoch], edit: TargetEdit | None) -> None:
        """What is in the log is read anew each time: another driver may have given the table the epochs."""
        table, last = self._log.open(), epochs[-1].epoch
        tables = {name for one in epochs for name in one.content["tables"]}
        if table is None or tables - {str(table.metadata.table_uuid)}:
            raise self._log.given.gone(last)
        there = self._log.epoch_of(table)
        if there < last:
            files = [from_json(f) for one in epochs if one.epoch > there for f in one.content["files"]]
            if edit is not TargetEdit.REWRITE:
                self._log.check_epoch(table, last)
            if edit is TargetEdit.REPLACE:
                self._log.replace(table, files, last)
            else:
                self._log.append(table, files, last)
        self._log.note(table, max(there, last))


def _tables(parts: Sequence[SinkPart]) -> list[str]:
    """The ids of the tables that the files of an epoch are of: one, unless it was made anew meanwhile."""
    return sorted({part.payload["table"] for part in parts if part.rows})


def _partitioned_alike(epochs: Sequence[WaitingEpoch]) -> Iterator[list[WaitingEpoch]]:
    """Epochs in their order, in groups whose files are partitioned in one way: others are another commit."""
    of_spec = groupby(epochs, key=lambda one: one.content["files"][0]["spec"])
    yield from (list(group) for _, group in of_spec)
