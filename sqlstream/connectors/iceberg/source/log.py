"""A table's snapshots and their files, as its metadata has them."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from sqlstream.connectors.filesystem.paths import FileEntry
from sqlstream.connectors.iceberg.files import plain
from sqlstream.connectors.iceberg.library import attempt, open_table
from sqlstream.connectors.iceberg.options import TablePlace
from sqlstream_operators.plan.types import quote_literal

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

_T = TypeVar("_T")
#: Of how many snapshots the files are kept.
_KEPT = 200


@dataclass(frozen=True, slots=True)
class LogFile:
    """A data file: its path as paths are here, size in bytes, rows; the snapshot that its rows count as coming with.

    `constants` are values of columns by the ids of their fields, as SQL, for files that don't have the columns.
    """

    path: str
    size: int
    rows: int
    snapshot: int
    constants: Mapping[str, str]
    format: str = "PARQUET"


@dataclass(frozen=True, slots=True)
class SnapshotFiles:
    """What a snapshot adds, and how many data files it removes and files with deletes of rows it adds."""

    added: tuple[LogFile, ...]
    removed: int
    deletes: int


class IcebergLog:
    """Looks at a table; what was looked at is kept for `patience_s` by `clock`."""

    def __init__(
        self, place: TablePlace, patience_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._at = place
        self.place, self.opening = place.shown, place.opening
        self._patience_s, self._clock = patience_s, clock
        self._table: Table | None = None
        self._looked_at = float("-inf")
        self._files: OrderedDict[tuple[int, bool], Any] = OrderedDict()

    def now(self) -> Table | None:
        """The table as it is now, or was a moment ago; None if there is none. Raises DiagnosticError (ENV006)."""
        clock = self._clock()
        if self._table is None or clock - self._looked_at >= self._patience_s:
            self._table = self._try(lambda: open_table(self._at))
            self._looked_at = clock
        return self._table

    def forget(self) -> None:
        """Look anew next time."""
        self._looked_at = float("-inf")
        self._files.clear()

    def whole(self, table: Table, snapshot: Snapshot) -> tuple[tuple[LogFile, ...], int]:
        """The files that the table has at a snapshot, by when they came and their names; and how many files of deletes."""
        return self._kept((snapshot.snapshot_id, True), lambda: _whole(table, snapshot))

    def changes(self, table: Table, snapshot: Snapshot) -> SnapshotFiles:
        """What a snapshot adds and removes."""
        return self._kept((snapshot.snapshot_id, False), lambda: _changes(table, snapshot))

    def entry(self, file: LogFile) -> FileEntry:
        """A file as the log has it; nobody has looked whether it is there."""
        return FileEntry(file.path, file.size, 0, self.opening)

    def _kept(self, key: tuple[int, bool], look: Callable[[], _T]) -> _T:
        if key not in self._files:
            self._files[key] = self._try(look)
            if len(self._files) > _KEPT:
                self._files.popitem(last=False)
        found: _T = self._files[key]
        return found

    def _try(self, work: Callable[[], _T]) -> _T:
        return attempt(self._at, work, done="read")


def _whole(table: Table, snapshot: Snapshot) -> tuple[tuple[LogFile, ...], int]:
    from pyiceberg.manifest import DataFileContent

    found: list[tuple[int, LogFile]] = []
    deletes = 0
    for manifest in snapshot.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            if entry.data_file.content == DataFileContent.DATA:
                file = _file(table.metadata, entry.data_file, snapshot.snapshot_id)
                found.append((entry.sequence_number or 0, file))
            else:
                deletes += 1
    found.sort(key=lambda one: (one[0], one[1].path))
    return tuple(file for _, file in found), deletes


def _changes(table: Table, snapshot: Snapshot) -> SnapshotFiles:
    from pyiceberg.manifest import DataFileContent, ManifestEntryStatus

    added: list[LogFile] = []
    removed = deletes = 0
    for manifest in snapshot.manifests(table.io):
        if manifest.added_snapshot_id != snapshot.snapshot_id:
            continue  # what it has came, or went, with the snapshot that wrote it, or before
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
            if entry.snapshot_id != snapshot.snapshot_id:
                continue
            if entry.data_file.content != DataFileContent.DATA:
                deletes += 1
            elif entry.status == ManifestEntryStatus.ADDED:
                added.append(_file(table.metadata, entry.data_file, snapshot.snapshot_id))
            elif entry.status == ManifestEntryStatus.DELETED:
                removed += 1
    return SnapshotFiles(tuple(sorted(added, key=lambda file: file.path)), removed, deletes)


def _file(metadata: TableMetadata, file: DataFile, snapshot: int) -> LogFile:
    return LogFile(
        plain(file.file_path),
        file.file_size_in_bytes,
        file.record_count,
        snapshot,
        dict(_constants(metadata, file)),
        file.file_format.name,
    )


def _constants(metadata: TableMetadata, file: DataFile) -> Iterator[tuple[str, str]]:
    """The columns by whose values the file's partition is known, by the ids of their fields, as SQL."""
    from pyiceberg.transforms import IdentityTransform

    spec = metadata.specs().get(file.spec_id)
    for number, field in enumerate(() if spec is None else spec.fields):
        if isinstance(field.transform, IdentityTransform):
            schemas = (metadata.schema(), *metadata.schemas)
            source = next(
                (s.find_field(field.source_id) for s in schemas if field.source_id in s.field_ids), None
            )
            if source is not None:
                yield str(field.source_id), _literal(file.partition[number], source.field_type)


def _literal(value: Any, type_: Any) -> str:
    """A partition value as SQL; "" for one that has no form here."""
    from pyiceberg import types as ice

    if value is None:
        return "NULL"
    match type_:
        case ice.BooleanType() | ice.IntegerType() | ice.LongType():
            return str(value)
        case ice.DateType():
            return f"(DATE '1970-01-01' + {int(value)})"
        case ice.TimestampType():
            return f"make_timestamp({int(value)})"
        case ice.TimestamptzType():
            return f"(make_timestamp({int(value)}) AT TIME ZONE 'UTC')"
        case ice.StringType():
            return quote_literal(value)
        case ice.DecimalType():
            return f"CAST({quote_literal(str(value))} AS DECIMAL({type_.precision}, {type_.scale}))"
    return ""


def last_number(metadata: TableMetadata) -> int:
    """The sequence number of the last commit; 0 of a table of version 1, which has none."""
    return int(getattr(metadata, "last_sequence_number", 0))


def in_utc(moment_ms: int) -> str:
    """A time for people.

    >>> in_utc(1_700_000_000_000)
    '2023-11-14 22:13:20 UTC'
    """
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=moment_ms)
    return f"{moment.replace(tzinfo=None).isoformat(' ', 'auto')} UTC"


def lineage(metadata: TableMetadata) -> Sequence[Snapshot]:
    """The snapshots that the table follows from, oldest first, as far as they are there."""
    found = []
    snapshot = metadata.current_snapshot()
    while snapshot is not None:
        found.append(snapshot)
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else metadata.snapshot_by_id(parent)
    return found[::-1]
