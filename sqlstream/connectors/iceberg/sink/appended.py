"""Rows that are added: an epoch is the files that its tasks have written, and its commit names them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from sqlstream.connectors.api import SinkPart
from sqlstream.connectors.iceberg.sink.data_files import files_of, from_json
from sqlstream.connectors.iceberg.sink.log import TableLog
from sqlstream.connectors.lakehouse.waiting import WaitingEpoch
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore

if TYPE_CHECKING:
    from pyiceberg.table import Table


class AppendedFiles:
    """The files of an epoch, as tasks report them, and the ids of the tables that they are of."""

    merges = False
    owns_all_rows = False

    def __init__(self, spec: SinkSpec, log: TableLog) -> None:
        self._spec, self._log = spec, log
        self._files: list[Mapping[str, Any]] = []
        self._tables: set[str] = set()

    def has_rows(self, parts: Sequence[SinkPart]) -> bool:
        """Whether there are any."""
        return any(True for _ in files_of(parts))

    def load(self, epoch: int, parts: Sequence[SinkPart]) -> None:
        """Take their names. Raises DataError if they are partitioned in several ways."""
        self.load_noted([self._note(parts)])
        if len({file["spec"] for file in self._files}) > 1:
            raise DataError(
                f"how the table of `{self._spec.name}` is partitioned was changed while epoch {epoch} was written: run again"
            )

    def noted(self, epoch: int, parts: Sequence[SinkPart], store: CheckpointStore, folder: str) -> Any:
        """Their names, and all that a commit says of them."""
        return self._note(parts)

    def load_noted(self, notes: Sequence[Any]) -> None:
        """Take the names of all."""
        self._files = [file for note in notes for file in note["files"]]
        self._tables = {name for note in notes for name in note["tables"]}

    def _note(self, parts: Sequence[SinkPart]) -> Mapping[str, Any]:
        tables = sorted({part.payload["table"] for part in parts if part.rows})
        return {"files": [*files_of(parts)], "tables": tables}

    def commits(self, waiting: Sequence[WaitingEpoch]) -> Iterator[Sequence[WaitingEpoch]]:
        """Those that follow each other and are partitioned in one way are one."""
        of_spec = groupby(waiting, key=lambda one: one.content["rows"]["files"][0]["spec"])
        yield from (list(group) for _, group in of_spec)

    def write(self, table: Table, epoch: int) -> bool:
        """Add them to the table."""
        self._check_table(table, epoch)
        self._log.append(table, [from_json(file) for file in self._files], epoch)
        return True

    def replace(self, table: Table, epoch: int) -> None:
        """Let them be all files of the table."""
        self._check_table(table, epoch)
        self._log.replace(table, [from_json(file) for file in self._files], epoch)

    def _check_table(self, table: Table, epoch: int) -> None:
        """Raises TargetError for another table than the files are of."""
        if self._tables - {str(table.metadata.table_uuid)}:
            raise self._log.gone(epoch)

    def unload(self) -> None:
        """Forget them."""
        self._files, self._tables = [], set()

    def close(self) -> None:
        """Nothing is held."""
