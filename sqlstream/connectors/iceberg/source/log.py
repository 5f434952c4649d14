"""A table's snapshots and their files, as its metadata has them."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from sqlstream.connectors.filesystem.paths import FileEntry
from sqlstream.connectors.iceberg.files import plain
from sqlstream.connectors.iceberg.library import attempt, open_table
from sqlstream.connectors.iceberg.options import TablePlace
from sqlstream.connectors.iceberg.source.deletes import DeleteFile, Deletes
from sqlstream.connectors.iceberg.source.manifests import Entry, Manifests, ReadManifest
from sqlstream_operators.plan.types import quote_literal

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

_T = TypeVar("_T")
#: Of how many snapshots the files are kept, and how many files with what deletes rows of them, as each may have many.
_KEPT, _KEPT_FILES = 200, 500_000
#: Operations of snapshots that are not told by their files alone.
REPLACE, DELETE = "replace", "delete"


@dataclass(frozen=True, slots=True)
class LogFile:
    """A data file: its path as paths are here, size in bytes, rows; the snapshot that its rows count as coming with.

    `constants` are values of columns by the ids of their fields, as SQL, for files that don't have the columns. `location`
    is the path as the table has it. Its rows go (`goes`) or come: those that none of `without` deletes, and where `only` is
    not None one of these does.
    """

    path: str
    size: int
    rows: int
    snapshot: int
    constants: Mapping[str, str]
    format: str = "PARQUET"
    location: str = ""
    goes: bool = False
    only: tuple[DeleteFile, ...] | None = None
    without: tuple[DeleteFile, ...] = ()

    @property
    def deletes(self) -> tuple[DeleteFile, ...]:
        """All files of deletes that are read to know its rows."""
        return (*(self.only or ()), *self.without)


@dataclass(frozen=True, slots=True)
class SnapshotFiles:
    """What a snapshot adds, and how many data files it removes and files with deletes of rows it adds."""

    added: tuple[LogFile, ...]
    removed: int
    deletes: int

    @property
    def changes_rows(self) -> bool:
        """Whether rows that were there before are gone."""
        return bool(self.removed or self.deletes)


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
        self._files: OrderedDict[tuple[int, str], Any] = OrderedDict()
        self._sizes: dict[tuple[int, str], int] = {}
        self._manifests = Manifests()

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
        self._sizes.clear()

    def whole(self, table: Table, snapshot: Snapshot) -> tuple[LogFile, ...]:
        """The files that the table has at a snapshot, by when they came and their names."""
        return self._kept(
            (snapshot.snapshot_id, "whole"), lambda: _whole(table, snapshot, self._manifests.entries)
        )

    def added(self, table: Table, snapshot: Snapshot) -> SnapshotFiles:
        """What a snapshot adds, and that it removes something."""
        return self._kept(
            (snapshot.snapshot_id, "added"), lambda: _added(table, snapshot, self._manifests.entries)
        )

    def changes(self, table: Table, snapshot: Snapshot) -> tuple[LogFile, ...]:
        """What a snapshot does to rows: all that goes, then all that comes."""
        return self._kept(
            (snapshot.snapshot_id, "changes"), lambda: _changes(table, snapshot, self._manifests.entries)
        )

    def entry(self, path: str, size: int) -> FileEntry:
        """A file as the log has it; nobody has looked whether it is there."""
        return FileEntry(path, size, 0, self.opening)

    def _kept(self, key: tuple[int, str], look: Callable[[], _T]) -> _T:
        if key not in self._files:
            self._files[key] = made = self._try(look)
            self._sizes[key] = _size(made)
            while len(self._files) > _KEPT or (
                sum(self._sizes.values()) > _KEPT_FILES and len(self._files) > 1
            ):
                former, _ = self._files.popitem(last=False)
                del self._sizes[former]
        found: _T = self._files[key]
        return found

    def _try(self, work: Callable[[], _T]) -> _T:
        return attempt(self._at, work, done="read")


def _size(files: Any) -> int:
    """How many files and files of deletes something names."""
    listed = files.added if isinstance(files, SnapshotFiles) else files
    return sum(1 + len(file.deletes) for file in listed)


def _whole(table: Table, snapshot: Snapshot, read: ReadManifest) -> tuple[LogFile, ...]:
    data, deletes = _entries(table, snapshot, read)
    there = Deletes(table.metadata, (entry for entry in deletes if not entry.removed))
    found = [
        (entry.sequence, replace(_file(table.metadata, entry, snapshot), without=there.of(entry)))
        for entry in data
        if not entry.removed
    ]
    found.sort(key=lambda one: (one[0], one[1].path))
    return tuple(file for _, file in found)


def _added(table: Table, snapshot: Snapshot, read: ReadManifest) -> SnapshotFiles:
    data, deletes = (
        [entry for entry in one if entry.snapshot == snapshot.snapshot_id]
        for one in _entries(table, snapshot, read, own=True)
    )
    added = [_file(table.metadata, entry, snapshot) for entry in data if entry.added]
    removed = sum(entry.removed for entry in data)
    return SnapshotFiles(tuple(sorted(added, key=lambda file: file.path)), removed, len(deletes))


def _changes(table: Table, snapshot: Snapshot, read: ReadManifest) -> tuple[LogFile, ...]:
    """Of the files that stay only those of which rows are deleted now, or are no more."""
    metadata, number = table.metadata, snapshot.snapshot_id
    own, _ = _entries(table, snapshot, read, own=True)
    _, deletes = _entries(table, snapshot, read, data=False)
    new, gone = (
        [entry for entry in deletes if entry.snapshot == number and entry.added],
        [entry for entry in deletes if entry.snapshot == number and entry.removed],
    )
    old = [entry for entry in deletes if not entry.removed and not (entry.snapshot == number and entry.added)]
    before, after = Deletes(metadata, [*old, *gone]), Deletes(metadata, [*old, *new])
    going, coming = [], []
    for entry in own:
        if entry.snapshot == number and entry.removed:
            file = _file(metadata, entry, snapshot)
            going.append(replace(file, goes=True, without=before.of(entry)))
        elif entry.snapshot == number and entry.added:
            coming.append(replace(_file(metadata, entry, snapshot), without=after.of(entry)))
    if new or gone:
        data, _ = _entries(table, snapshot, read)
        others = Deletes(metadata, [*new, *gone])
        for entry in data:
            if entry.removed or (entry.snapshot == number and entry.added) or not others.of(entry):
                continue
            were, are = before.of(entry), after.of(entry)
            more = tuple(sorted({*are} - {*were}, key=lambda one: (one.path, one.offset)))
            less = tuple(sorted({*were} - {*are}, key=lambda one: (one.path, one.offset)))
            if more or less:
                file = _file(metadata, entry, snapshot)
                going += [replace(file, goes=True, only=more, without=were)] if more else []
                coming += [replace(file, only=less, without=are)] if less else []
    return (*sorted(going, key=lambda file: file.path), *sorted(coming, key=lambda file: file.path))


def _entries(
    table: Table, snapshot: Snapshot, read: ReadManifest, *, own: bool = False, data: bool = True
) -> tuple[list[Entry], list[Entry]]:
    """The data files and the files of deletes of a snapshot's manifests; `own`: only of those that it wrote itself.

    What the others have came, or went, with the snapshot that wrote them, or before. Without `data` only deletes.
    """
    from pyiceberg.manifest import DataFileContent, ManifestContent

    found: tuple[list[Entry], list[Entry]] = [], []
    for manifest in snapshot.manifests(table.io):
        if own and manifest.added_snapshot_id != snapshot.snapshot_id:
            continue
        if not data and manifest.content == ManifestContent.DATA:
            continue
        for entry in read(table.io, manifest):
            if own or not entry.removed or entry.snapshot == snapshot.snapshot_id:
                found[entry.file.content != DataFileContent.DATA].append(entry)
    return found


def _file(metadata: TableMetadata, entry: Entry, snapshot: Snapshot) -> LogFile:
    file = entry.file
    return LogFile(
        plain(file.file_path),
        file.file_size_in_bytes,
        file.record_count,
        snapshot.snapshot_id,
        dict(_constants(metadata, file)),
        file.file_format.name,
        file.file_path,
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


def operation_of(snapshot: Snapshot) -> str:
    """What a snapshot says that it does; "" if it does not."""
    return "" if snapshot.summary is None else str(snapshot.summary.operation.value)


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
