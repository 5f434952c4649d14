"""A Delta table's log: the table as it is at a version, by Delta's library, and what single versions do, from their files.

A commit is a file of actions, one JSON object a line; which version it is its name says. The library gives no actions of
single commits, and a look whether there is a next one must cost no more than one request.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from sqlstream.connectors.delta.library import attempt, deltalake, open_table, place_and_options
from sqlstream.connectors.delta.source.changes import Change
from sqlstream.connectors.filesystem.paths import open_filesystem, split_location
from sqlstream_operators.errors import DataError
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from deltalake import DeltaTable

_T = TypeVar("_T")
_COMMIT = re.compile(r"(\d{20})\.json")
#: How many commits are kept in memory: a plan looks at the same ones several times.
_KEPT = 2_000


@dataclass(frozen=True, slots=True)
class LogFile:
    """A data file as the log names it: its path below the table's folder, size in bytes, and when it was written, ms.

    `rows` is None where the log does not know. `partition` are the values of the partition columns as the log's texts.
    `deleted`: some of its rows are deleted by a deletion vector. A size below 0 is not known.
    """

    path: str
    size: int
    modified_ms: int
    rows: int | None = None
    partition: Mapping[str, str | None] = field(default_factory=dict)
    deleted: bool = False
    change: Change = Change.ROWS


@dataclass(frozen=True, slots=True)
class TableShape:
    """What a table is: its id, its columns (Delta's JSON of a schema), what it is partitioned by, and its properties."""

    id: str
    schema: str
    partitioned_by: tuple[str, ...]
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Commit:
    """What a version does: files with rows that are new, and files whose rows are gone, or were written anew.

    `changed` are files of changes, which say the same row by row. `digest` is of the commit's file. `shape` and `features`
    (those that readers must know) only where the version says what the table is from then on.
    """

    version: int
    digest: str
    added: tuple[LogFile, ...]
    removed: tuple[LogFile, ...]
    operation: str
    predicate: str = ""
    changed: tuple[LogFile, ...] = ()
    shape: TableShape | None = None
    features: tuple[str, ...] | None = None

    @property
    def changes_rows(self) -> bool:
        """Whether rows that were there before are gone or others, or rows that were gone are back."""
        return bool(self.removed) or self.operation == "RESTORE"

    @property
    def changes(self) -> tuple[LogFile, ...]:
        """What to read of the version's changes: all that goes, then all that comes.

        A version that has files of changes says all with them; the others have whole files that go and come.
        """
        if self.changed:
            going = (replace(file, change=Change.GOING) for file in self.changed)
            return (*going, *(replace(file, change=Change.COMING) for file in self.changed))
        going = (replace(file, change=Change.GO) for file in self.removed)
        return (*going, *(replace(file, change=Change.COME) for file in self.added))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table at a version: what it is, and with `files` its files, in an order that is always the same."""

    version: int
    shape: TableShape
    features: tuple[str, ...]
    files: tuple[LogFile, ...] = ()


class DeltaLog:
    """The log of the table at a resolved path.

    That a version is not there is believed for `patience_s`, s by `clock`. Methods raise DiagnosticError (ENV006) for a log
    that can't be read.
    """

    def __init__(
        self, location: str, patience_s: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.location = location
        self.place, self.opening = split_location(location)
        self._patience_s, self._clock = patience_s, clock
        self._commits: OrderedDict[int, Commit] = OrderedDict()
        self._absent: tuple[int, float] = -1, float("-inf")
        self._snapshot: Snapshot | None = None

    # ---------------------------------------------------------------------------------------- the table as it is

    def now(self) -> Snapshot | None:
        """The table without its files, as it is now; None if there is none."""
        table = self._try(lambda: open_table(self.location))
        return None if table is None else _snapshot(table)

    def at(self, version: int) -> Snapshot | None:
        """The table at a version, with its files; None if the log does not have that version any more, or not yet.

        The last one is kept: a plan looks at the same one as long as it is read.
        """
        if self._snapshot is not None and self._snapshot.version == version:
            return self._snapshot

        def look() -> Snapshot | None:
            library = deltalake()
            place, options = place_and_options(self.location)
            there = self._now_or_none()
            if there is None or version > there:
                return None
            try:
                table: Any = library.DeltaTable(place, version=version, storage_options=options)
            except library.exceptions.DeltaError:
                if self._can_be_built(version):
                    raise
                return None  # a checkpoint has taken the place of the commits before it, and they were cleaned up
            return _snapshot(table, files=self._files(table))

        self._snapshot = self._try(look)
        return self._snapshot

    def _now_or_none(self) -> int | None:
        table = open_table(self.location)
        return None if table is None else table.version()

    def _can_be_built(self, version: int) -> bool:
        """Whether the log has all that a version follows from."""
        names = list(self._names())
        commits = {int(found[1]) for name, _ in names if (found := _COMMIT.fullmatch(name))}
        points = {int(name[:20]) for name, _ in names if ".checkpoint." in name and name[:20].isdigit()}
        start = max((point for point in points if point <= version), default=-1)
        return all(number in commits for number in range(start + 1, version + 1))

    def _files(self, table: DeltaTable) -> tuple[LogFile, ...]:
        import pyarrow as pa

        actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        deleted: set[str] = set()
        if "deletionVectors" in (table.protocol().reader_features or ()):
            vectors = pa.table(table.deletion_vectors()).column("filepath").to_pylist()
            deleted = {unquote(path).rpartition("/")[2] for path in vectors}
        keys = table.metadata().partition_columns
        files = [
            LogFile(
                path := self._path(one["path"]),
                one["size_bytes"],
                one["modification_time"],
                one.get("num_records"),
                {key: _as_text(one[f"partition.{key}"]) for key in keys},
                path.rpartition("/")[2] in deleted,
            )
            for one in actions
        ]
        return tuple(sorted(files, key=lambda file: (file.modified_ms, file.path)))

    # --------------------------------------------------------------------------------------------- single versions

    def commit(self, version: int) -> Commit | None:
        """What a version does; None if the log does not have it: not yet, or not any more."""
        found = self._commits.get(version)
        if found is not None:
            return found
        absent, at = self._absent
        if absent == version and self._clock() - at < self._patience_s:
            return None
        content = self.content(version)
        if content is None:
            self._absent = version, self._clock()
            return None
        commit = self._commits[version] = self._parsed(version, content)
        if len(self._commits) > _KEPT:
            self._commits.popitem(last=False)
        return commit

    def forget(self) -> None:
        """Look at the log anew: the table is another one."""
        self._commits.clear()
        self._snapshot = None
        self._absent = -1, float("-inf")

    def digest(self, version: int) -> str:
        """The digest of a commit's file as it is now; "" if it is not there."""
        content = self.content(version)
        return "" if content is None else digest_of(content)

    def content(self, version: int) -> bytes | None:
        """A commit's file; None if it is not there."""
        filesystem, root = open_filesystem(self.location)

        def read() -> bytes | None:
            try:
                with filesystem.open_input_stream(f"{root}/_delta_log/{version:020d}.json") as stream:
                    found: bytes = stream.read()
                    return found
            except FileNotFoundError:
                return None

        return self._try(read)

    def times(self) -> list[tuple[int, int]]:
        """The versions whose commits are there, and when each was made, ms; later ones are never earlier.

        It is when a file was written, as Delta's protocol has it; where the table keeps times in its commits, it is those.
        """
        found: list[tuple[int, int]] = []
        latest = -1
        for name, written_ms in sorted(self._try(lambda: list(self._names()))):
            commit = _COMMIT.fullmatch(name)
            if commit is not None:
                latest = max(latest + 1, written_ms)
                found.append((int(commit[1]), latest))
        return found

    def time_in_commit(self, version: int) -> int | None:
        """When a version was made, as its commit says it for a table that keeps that, ms; None: it does not."""
        content = self.content(version)
        for action in _actions(content or b"", self._named(version)):
            stamp = action.get("commitInfo", {}).get("inCommitTimestamp")
            if stamp is not None:
                return int(stamp)
        return None

    def _names(self) -> Iterator[tuple[str, int]]:
        """The files of the log, and when each was written, ms."""
        from pyarrow import fs

        filesystem, root = open_filesystem(self.location)
        selector = fs.FileSelector(f"{root}/_delta_log", allow_not_found=True)
        for info in filesystem.get_file_info(selector):
            yield info.base_name, int(info.mtime_ns or 0) // 1_000_000

    def _named(self, version: int) -> str:
        return f"{self.place}/_delta_log/{version:020d}.json"

    def _parsed(self, version: int, content: bytes) -> Commit:
        added: list[LogFile] = []
        removed: list[LogFile] = []
        changed: list[LogFile] = []
        operation = predicate = ""
        shape: TableShape | None = None
        features: tuple[str, ...] | None = None
        for action in _actions(content, self._named(version)):
            for kind, one in action.items():
                if kind == "add" and one["dataChange"]:
                    added.append(self._file(one))
                elif kind == "remove" and one["dataChange"]:
                    removed.append(self._file(one))
                elif kind == "cdc":
                    changed.append(self._file(one))
                elif kind == "commitInfo":
                    operation = str(one.get("operation") or "")
                    predicate = str((one.get("operationParameters") or {}).get("predicate") or "")
                elif kind == "metaData":
                    shape = TableShape(
                        one["id"],
                        one["schemaString"],
                        tuple(one["partitionColumns"]),
                        one.get("configuration") or {},
                    )
                elif kind == "protocol":
                    features = tuple(one.get("readerFeatures") or ())
        return Commit(
            version,
            digest_of(content),
            tuple(added),
            tuple(removed),
            operation,
            predicate,
            tuple(changed),
            shape,
            features,
        )

    def _file(self, one: Mapping[str, Any]) -> LogFile:
        """A file that is added or removed, or has changes; of a removed one the log need not have more than its path."""
        statistics = json.loads(one["stats"]) if one.get("stats") else {}
        size = one.get("size")
        return LogFile(
            self._path(one["path"]),
            -1 if size is None else size,
            one.get("modificationTime") or one.get("deletionTimestamp") or 0,
            statistics.get("numRecords"),
            {key: value or None for key, value in (one.get("partitionValues") or {}).items()},
            one.get("deletionVector") is not None,
        )

    def _path(self, written: str) -> str:
        """The path of a file below the table's folder. Raises DiagnosticError (DAT018) for one that is elsewhere."""
        path = unquote(written)
        if path.startswith("/") or "://" in written:
            raise DiagnosticError(
                Diagnostic(
                    "DAT018",
                    "a Delta table names files that are not in its folder",
                    notes=(f"'{self.place}' is a shallow clone: its log names '{path}'",),
                    help="read the table that it was cloned from, or make a deep clone of it",
                )
            )
        return path

    def _try(self, work: Callable[[], _T]) -> _T:
        return attempt(self.place, work, done="read")


def digest_of(content: bytes) -> str:
    """What tells one commit from another of its version."""
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def _snapshot(table: DeltaTable, files: Iterable[LogFile] = ()) -> Snapshot:
    metadata, protocol = table.metadata(), table.protocol()
    shape = TableShape(
        str(metadata.id),
        table.schema().to_json(),
        tuple(metadata.partition_columns),
        dict(metadata.configuration),
    )
    return Snapshot(table.version(), shape, tuple(protocol.reader_features or ()), tuple(files))


def _as_text(value: Any) -> str | None:
    """A partition value as a commit would have written it."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return str(value)


def _actions(content: bytes, name: str) -> Iterator[dict[str, Any]]:
    """The actions of a commit. Raises DataError if it is none."""
    for line in content.splitlines():
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                raise DataError(f"{name} is not a commit of a Delta table: {error}") from None
