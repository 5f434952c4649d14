"""What the log of a table has of this pipeline, and the commits that are made to it.

An epoch is in two places of the commit that has its rows: in the snapshot's summary, which shows whether the snapshot is
still a part of the table, and in a property of the table, which stays when old snapshots are expired.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.iceberg.library import attempt, catalog_of, failures, open_table
from sqlstream.connectors.iceberg.options import GLUE, TablePlace
from sqlstream.connectors.iceberg.sink.replacing import replacing
from sqlstream.connectors.iceberg.sink.shape import (
    missing_columns,
    new_partitions,
    new_schema,
    wider_columns,
)
from sqlstream.connectors.lakehouse.given import GivenTable
from sqlstream_operators.errors import InternalError, TargetError
from sqlstream_operators.plan.spec import SinkSpec

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table, Transaction
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

_T = TypeVar("_T")
_APPLICATION, _EPOCH, _WRITER = "sqlstream.application", "sqlstream.epoch", "sqlstream.writer"
#: Of tables that are created here: manifests are merged, one for each epoch would be too many, and old metadata files go.
_PROPERTIES = {
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}


class TableLog:
    """The table of one sink, its log, and the note about it in the state directory."""

    def __init__(self, spec: SinkSpec, context: ConnectorContext) -> None:
        self._spec = spec
        self._at = TablePlace.of(spec, context.base_dir)
        self.place = self._at.shown
        self.given = GivenTable(
            context.store,
            "iceberg",
            context.known_as or spec.name,
            spec.name,
            self.place,
            "drop the table if it is there",
        )

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """What is raised if the catalog or the store fails."""
        return failures(self._at)

    def open(self) -> Table | None:
        """The table as it is now, None if there is none. Raises what `pyiceberg` does."""
        return open_table(self._at)

    def attempt(self, work: Callable[[], _T]) -> _T:
        """Do something that may be done twice, again after the catalog or the store has failed.

        Raises DiagnosticError (ENV006) if it goes on failing.
        """
        return attempt(self._at, work, done="written")

    def create(self) -> None:
        """Create the table, with its namespace, if it is not there."""
        from pyiceberg.exceptions import NoSuchNamespaceError

        catalog = catalog_of(self._at, create=True)
        if catalog is None:
            raise InternalError("a catalog that is created is there")
        try:
            self._create(catalog)
        except NoSuchNamespaceError:
            catalog.create_namespace_if_not_exists(self._at.identifier[:-1])
            self._create(catalog)

    def _create(self, catalog: Catalog) -> None:
        from pyiceberg.exceptions import TableAlreadyExistsError

        self._check_location(catalog)
        schema = new_schema(self._spec)
        partitions = new_partitions(self._spec, schema)
        with contextlib.suppress(TableAlreadyExistsError):
            catalog.create_table(
                self._at.identifier, schema, partition_spec=partitions, properties=_PROPERTIES
            )

    def _check_location(self, catalog: Catalog) -> None:
        """Raises TargetError if nothing says where the table of a Glue catalog is created."""
        if self._at.type != GLUE or self._at.warehouse:
            return
        if not catalog.load_namespace_properties(self._at.identifier[:-1]).get("location"):
            raise TargetError(
                f"the table of `{self._spec.name}` can't be created: nothing says where its files are to be",
                (f"the database `{self._at.database}` of AWS Glue has no location",),
                "add 'warehouse' = 's3://…', or give the database a location",
            )

    # ----------------------------------------------------------------------------------------------- epochs

    def epoch_of(self, table: Table) -> int:
        """The last epoch of ours that is in the table, 0 if there is none.

        It is that of the last snapshot of ours that the table follows from. Of what was expired the property tells; it is
        not believed where a snapshot with its epoch is there, but is no part of the table any more (it was rolled back).
        """
        metadata = table.metadata
        if not self.given.is_named or metadata.current_snapshot() is None:
            return 0
        found = next((epoch for one in ancestors(metadata) if (epoch := self._epoch_in(one))), 0)
        if found:
            return found
        told = int(table.properties.get(self._property, 0))
        return 0 if any(self._epoch_in(one) >= told > 0 for one in metadata.snapshots) else told

    def _epoch_in(self, snapshot: Snapshot) -> int:
        summary = snapshot.summary
        if summary is None or summary.get(_APPLICATION) != self.given.application:
            return 0
        return int(summary.get(_EPOCH) or 0)

    @property
    def _property(self) -> str:
        return f"{_EPOCH}.{self.given.application.removeprefix('sqlstream/')}"

    def check_epoch(self, table: Table | None, here: int) -> None:
        """Raises TargetError if the table, or this state directory at epoch `here`, is an older copy, or another table."""
        id_ = None if table is None else str(table.metadata.table_uuid)
        noted = self.given.check_epoch(id_, 0 if table is None else self.epoch_of(table), here)
        given = None if noted is None else noted.version
        if table is not None and given is not None and _lacks(table.metadata, given):
            raise self.given.without(
                "does not follow from the snapshot with the last epoch, which is expired: it was rolled back",
                "restore an older copy of its metadata",
            )

    def note(self, table: Table, epoch: int) -> None:
        """Write down that this state directory has given the table an epoch, and by which snapshot."""
        id_ = str(table.metadata.table_uuid)
        ours = (one.sequence_number for one in ancestors(table.metadata) if self._epoch_in(one))
        # None: it is expired, or the table's format has no such numbers.
        number = next(ours, None) or self.given.noted_version(id_)
        self.given.note(id_, epoch, [column.name for column in self._spec.schema], number)

    def gone(self, epoch: int) -> TargetError:
        """The error for a table that had rows up to an epoch, and is not there."""
        return self.given.gone(epoch)

    # ------------------------------------------------------------------------------------------------ owner

    def check_owner(self, table: Table) -> None:
        """Raises TargetError for a table whose rows are all another's."""
        writer = table.properties.get(_WRITER)
        if writer is None or (self.given.is_named and writer == self.given.application):
            return
        raise TargetError(
            f"the table of `{self._spec.name}` is kept up to date by another writer",
            (f"'{self.place}' was written with another state directory, or by another table of this query",),
            "go on with that state directory, drop the table, or choose another 'catalog-table'",
        )

    def claim(self) -> None:
        """Write down in the table that all of its rows are ours. Raises TargetError if they are another's by now."""
        table = self._there()
        self.check_owner(table)
        if table.properties.get(_WRITER) is None:
            table.transaction().set_properties({_WRITER: self.given.application}).commit_transaction()
            # Of two that claim it at once the last one stays, and each commit looks again.
            self.check_owner(self._there())

    def _there(self) -> Table:
        table = self.open()
        if table is None:
            raise self.gone(0)
        return table

    # ---------------------------------------------------------------------------------------------- commits

    def alter(self, table: Table) -> None:
        """Give the table the columns that the sink has and it lacks, and the wider types; its rows stay."""
        new, wider = missing_columns(self._spec, table), wider_columns(self._spec, table)
        if not (new or wider):
            return
        transaction = table.transaction()
        with transaction.update_schema() as schema:
            for name, type_ in new.items():
                schema.add_column((name,), type_)
            for name, type_ in wider.items():
                schema.update_column((name,), type_)
        _commit(table, transaction)

    def append(self, table: Table, files: Sequence[DataFile], epoch: int) -> None:
        """Add files, with the epoch, in one commit. Raises CommitFailedException if others have committed meanwhile."""
        specs = {file.spec_id for file in files}
        with _as_partitioned(table, specs) as staged:
            transaction = staged.transaction()
            producer = transaction.update_snapshot(snapshot_properties=self._summary(epoch)).merge_append()
            with producer as snapshot:
                for file in files:
                    snapshot.append_data_file(file)
        transaction.set_properties({self._property: str(epoch)})
        _commit(table, transaction)

    def replace(self, table: Table, files: Sequence[DataFile], epoch: int) -> None:
        """Let files be all that the table has, with the epoch, in one commit. Raises CommitFailedException."""
        there = without_deletes(table.scan().plan_files(), self._spec.name, self.place, "written anew")
        self.overwrite(table, [task.file for task in there], files, epoch)

    def overwrite(
        self, table: Table, gone: Sequence[DataFile], files: Sequence[DataFile], epoch: int
    ) -> None:
        """Put files into the place of others, with the epoch, in one commit. Raises CommitFailedException."""
        transaction = table.transaction()
        producer = transaction.update_snapshot(snapshot_properties=self._summary(epoch)).overwrite()
        with producer as snapshot:
            for file in gone:
                snapshot.delete_data_file(file)
            for file in files:
                snapshot.append_data_file(file)
        transaction.set_properties({self._property: str(epoch)})
        _commit(table, transaction)

    def rewrite(self, table: Table, gone: Sequence[DataFile], files: Sequence[DataFile]) -> None:
        """Put files into the place of others that have the same rows. Raises CommitFailedException."""
        transaction = table.transaction()
        with replacing(transaction, table) as snapshot:
            for file in gone:
                snapshot.delete_data_file(file)
            for file in files:
                snapshot.append_data_file(file)
        _commit(table, transaction)

    def _summary(self, epoch: int) -> dict[str, str]:
        return {_APPLICATION: self.given.application, _EPOCH: str(epoch)}


def without_deletes(files: Iterable[FileScanTask], name: str, place: str, done: str) -> list[FileScanTask]:
    """Files of a table whose rows are all there. Raises TargetError if some are deleted elsewhere; `done` is for it."""
    found = list(files)
    if any(one.delete_files for one in found):
        raise TargetError(
            f"the table of `{name}` has deletes of single rows, and can't be {done}",
            (f"it is '{place}'",),
            "compact it (rewrite_data_files), or choose another 'catalog-table' and run with "
            f"--rewrite {name}",
        )
    return found


def ancestors(metadata: TableMetadata) -> Iterator[Snapshot]:
    """The snapshots that the table follows from, from the current one back, as far as they are there."""
    snapshot = metadata.current_snapshot()
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else metadata.snapshot_by_id(parent)


def _lacks(metadata: TableMetadata, given: int) -> bool:
    """Whether the table is known not to follow from the snapshot with this sequence number, which it once had.

    Where snapshots between are expired it is not known: PyIceberg makes the oldest that stays look like the first.
    """
    for one in ancestors(metadata):
        if one.sequence_number is None or one.sequence_number <= given:
            return one.sequence_number != given
    return False


@contextlib.contextmanager
def _as_partitioned(table: Table, specs: set[int]) -> Iterator[Table]:
    """The table as it is staged for files of a partition spec, which may not be its present one any more.

    Iceberg's library takes the present one for that of all files; those of a commit of ours are of one.
    """
    if len(specs) > 1:
        raise InternalError("the files of a commit are of one partition spec")
    now = table.metadata
    table.metadata = now.model_copy(update={"default_spec_id": min(specs, default=now.default_spec_id)})
    try:
        yield table
    finally:
        table.metadata = now


def _commit(table: Table, transaction: Transaction) -> None:
    """Commit what was staged, once: unlike the library's own loop, which would add the same files behind another commit.

    Its files stay whatever happens: if the answer was lost, they are the table's. Raises CommitFailedException.
    """
    from pyiceberg.table.update import AssertTableUUID

    same = AssertTableUUID(uuid=table.metadata.table_uuid)
    table._do_commit(  # what its loop calls
        updates=transaction._updates,
        requirements=(*transaction._requirements, same),
    )
