"""An Iceberg table as a sink, exactly once by the table's own log.

What happens in an epoch: tasks write data files below the table's location (1), which nobody reads, as no snapshot names
them. The driver checks the table (2). Behind the manifest it commits a snapshot (3) that names them, with the epoch in its
summary and in a property of the table. So a commit that is repeated is seen and left out, whatever others have committed
between; and of two drivers that commit one epoch at once the catalog refuses the second, which then sees it. Epochs without
rows are no commits.

The table is there before tasks write to it, with all columns: their ids are in the files. So it is created, or altered, when
it is checked.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from sqlstream.connectors.api import ConnectorContext, SinkPart, TargetEdit
from sqlstream.connectors.iceberg.sink.data_files import files_of, from_json
from sqlstream.connectors.iceberg.sink.log import TableLog
from sqlstream.connectors.iceberg.sink.shape import check_shape
from sqlstream.connectors.lakehouse.commits import beside_others
from sqlstream_operators.errors import DataError, TargetError
from sqlstream_operators.plan.spec import SinkSpec

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table


class IcebergSink:
    """Adds an epoch's rows to the table.

    Where a state directory is in a copy of the table's past, or the table in one of the state's, it is refused: what it had
    given would be missing or there twice. Others may write to the table, too.
    """

    def __init__(self, spec: SinkSpec, context: ConnectorContext) -> None:
        self._spec = spec
        self._log = TableLog(spec, context)
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
            self._log.epoch_of(table) or any(True for _ in table.scan().plan_files())
        )

    def epoch_there(self) -> int | None:
        """The last epoch of this state directory and table that is in the log."""

        def look() -> int | None:
            table = self._log.open()
            return None if table is None else self._log.epoch_of(table) or None

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
        """Give the table the epoch, if its log does not have it yet."""
        edit, self._edit = self._edit, None
        files = [from_json(file) for file in files_of(parts)]
        if not files and edit is not TargetEdit.REPLACE:
            return
        tables = {part.payload["table"] for part in parts if part.rows}
        self._log.attempt(lambda: self._give(epoch, files, tables, edit))

    def _give(
        self, epoch: int, files: Sequence[DataFile], tables: Collection[str], edit: TargetEdit | None
    ) -> None:
        from pyiceberg.exceptions import CommitFailedException

        beside_others(lambda: self._give_once(epoch, files, tables, edit), CommitFailedException)

    def _give_once(
        self, epoch: int, files: Sequence[DataFile], tables: Collection[str], edit: TargetEdit | None
    ) -> None:
        """What is in the log is read anew each time: another driver may have given the table the epoch."""
        table = self._log.open()
        if table is None or {*tables} - {str(table.metadata.table_uuid)}:
            raise self._log.given.gone(epoch)
        there = self._log.epoch_of(table)
        if there < epoch:
            if edit is not TargetEdit.REWRITE:
                self._log.check_epoch(table, epoch)
            if edit is TargetEdit.REPLACE:
                self._log.replace(table, files, epoch)
            else:
                self._log.append(table, files, epoch)
        self._log.note(table, max(there, epoch))
