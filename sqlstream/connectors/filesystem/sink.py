"""The filesystem sink: files appear in the directory when their epoch is committed, and not before.

A task writes to `<path>/.sqlstream/staging/`, a hidden folder on the same file system; the commit renames
each file to its place, which readers see as all of it or nothing. Names follow from epoch and task, so a task
that runs again overwrites its own file and a commit that runs again finds its work done.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from sqlstream.connectors.api import ConnectorContext, SinkPart, TargetEdit
from sqlstream.connectors.filesystem.columns import DEFAULT_PARTITION
from sqlstream.connectors.filesystem.descriptor import DESCRIPTOR
from sqlstream.connectors.filesystem.formats import FORMATS
from sqlstream.connectors.filesystem.options import FileOptions
from sqlstream.connectors.filesystem.paths import (
    is_local,
    open_filesystem,
    resolve,
    split_location,
    without_credentials,
)
from sqlstream.connectors.filesystem.written_files import FILE_BYTES, cut, grouped, sync
from sqlstream.connectors.options import bad_option, size_bytes
from sqlstream.formats.file_writing import writer_session
from sqlstream.storage.identity import NAME, identity
from sqlstream_operators.duck.row_kinds import to_kinds
from sqlstream_operators.errors import DataError, TargetError
from sqlstream_operators.plan.spec import KIND_COLUMN, SinkSpec
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.catalog.options import Role
from sqlstream_planner.diagnostics import DiagnosticError

_HIDDEN = ".sqlstream"
#: How many bytes the name of a folder may have on the file systems of Linux and macOS.
_LONGEST_NAME = 255
_STAGING = f"{_HIDDEN}/staging"
_HALF = "tmp_"
_OWNER = f"{_HIDDEN}/owner.json"
_COMMITTED = f"{_HIDDEN}/committed"
_STAGED_NAME = re.compile(r"part-(\d+)-.*")
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{}\[\]^]")


def checked_options(spec: SinkSpec) -> FileOptions:
    """The options of a table that is written. Raises DiagnosticError for what can't be written."""
    options = FileOptions.read(spec.options)
    if not options.files.written:
        names = ", ".join(one.name for one in FORMATS if Role.SINK in one.roles)
        raise bad_option("format", options.format, f"one of {names} for a table that is written")
    wrong = DESCRIPTOR.wrong_sink(spec)
    if wrong is not None:
        raise DiagnosticError(wrong)
    return options


class FileWriter:
    """The task's half: writes one file, or one for each partition."""

    def __init__(self, spec: SinkSpec, base_dir: str) -> None:
        self._spec = spec
        self._options = checked_options(spec)
        self._location = resolve(self._options.path, base_dir)
        self._file_bytes = size_bytes(spec.options, "sink.rolling-policy.file-size", FILE_BYTES)
        self._default = spec.options.get("partition.default-name", DEFAULT_PARTITION)
        self._longest = _LONGEST_NAME if is_local(self._location) else None

    def write(self, table: pa.Table, *, epoch: int, task: str) -> SinkPart:
        """Stage the rows, changes as their messages; nothing is written if there are none. Raises DataError if
        a value does not fit the type.
        """
        if not table.num_rows:
            return SinkPart(0)
        names = []
        if self._options.changelog:
            table, names = to_kinds(table, self._spec.key, self._spec.schema), [KIND_COLUMN]
        columns = [c for c in self._spec.schema if c.name not in self._spec.partitioned_by]
        names = [*(c.name for c in columns), *names]
        filesystem, root = open_filesystem(self._location)
        filesystem.create_dir(f"{root}/{_STAGING}", recursive=True)
        files = []
        for number, (folder, part, rows) in enumerate(self._parts(table)):
            end = self._options.files.ending
            name = f"part-{epoch:06d}-{_safe(task)}"
            staged = f"{_STAGING}/{name}{f'-{number}' if number else ''}{end}"
            self._options.files.write(
                filesystem, f"{root}/{staged}", rows.select(names), columns, self._spec.options
            )
            if is_local(self._location):
                sync(f"{root}/{staged}")
            files.append([staged, f"{folder}{name}{part}{end}"])
        return SinkPart(table.num_rows, {"files": files})

    def _parts(self, table: pa.Table) -> Iterator[tuple[str, str, pa.Table]]:
        """Folder, what distinguishes several files in it, rows: partitions are cut where they are larger than a
        file should be in memory.
        """
        ordered = self._options.changelog
        for folder, rows in self._partitions(table):
            parts = cut(rows, self._file_bytes)
            for number, part in enumerate(parts):
                # `x-1` is listed before `x`: where the order counts, all parts have a number.
                numbered = number or (ordered and len(parts) > 1)
                yield folder, f"-{number}" if numbered else "", part

    def _partitions(self, table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
        """The folders (`k=v/`, "" without partitions) and their rows, in the order of the table."""
        keys = self._spec.partitioned_by
        if not keys:
            yield "", table
            return
        kinds = {column.name: column for column in self._spec.schema}
        session = writer_session()
        session.register("sink_rows", table, self._spec.schema)
        texts = ", ".join(f"CAST({quote_identifier(key)} AS VARCHAR)" for key in keys)
        values = session.query(f"SELECT {texts} FROM sink_rows")
        session.drop("sink_rows")
        folders = [
            _folder(key, values.column(i).combine_chunks(), self._default, self._longest)
            for i, key in enumerate(kinds[key].name for key in keys)
        ]
        joined = pc.binary_join_element_wise(*folders, "/").dictionary_encode()
        joined = joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined
        codes = joined.indices.to_numpy(zero_copy_only=False)
        for first, rows in grouped(table, codes):
            yield f"{joined[first].as_py()}/", rows


class FileSink:
    """The driver's half.

    A directory belongs to one table of one state directory: another one would reuse the names and replace
    files, so it is refused.
    """

    def __init__(self, spec: SinkSpec, context: ConnectorContext) -> None:
        self._location = resolve(checked_options(spec).path, context.base_dir)
        self._filesystem, self._root = open_filesystem(self._location)
        self._place, _ = split_location(self._location)
        self._store = context.store
        self._table = context.known_as or spec.name
        self._name = spec.name
        self._claimed = False
        self._begins_anew = False

    def begin_with(self, edit: TargetEdit) -> None:
        """Files have no shape of their own: the next epoch can begin the directory anew, and nothing else."""
        self._begins_anew = edit is TargetEdit.REWRITE

    def is_vacant(self) -> bool:
        """Whether readers see no file in the directory."""
        selector = fs.FileSelector(self._root, allow_not_found=True, recursive=True)
        hidden = f"{self._root.rstrip('/')}/{_HIDDEN}"
        return not any(
            info.type == fs.FileType.File and not info.path.startswith(hidden)
            for info in self._filesystem.get_file_info(selector)
        )

    def check(self, *, previous: int) -> None:
        """Whether the directory would take rows after epoch `previous`. Raises TargetError as `prepare` does."""
        if self._begins_anew:
            if not self.is_vacant():
                raise TargetError(
                    f"the directory of `{self._name}` would be rewritten, but has files",
                    (f"it is '{self._place}'",),
                    "empty it, or choose another path",
                )
        elif not previous and self._is_mine(self._owner()) and self._committed():
            raise TargetError(
                f"the directory of `{self._name}` has rows from before it was left out",
                (
                    f"'{self._place}' has those of epoch {self._committed()} of this state directory, for which it is new: "
                    "the table was left out of the query for a while, was written elsewhere meanwhile, or the directory was "
                    "moved",
                ),
                self._anew(),
            )

    def look(self, epochs: Collection[int]) -> None:
        """Whether the directory is as an epoch of `epochs` left it. Raises TargetError; changes nothing."""
        self._check_claim()
        self.check(previous=max(epochs))
        if self._committed() > max(epochs) and not self._begins_anew:
            raise self._ahead(max(epochs))

    def epoch_there(self) -> int | None:
        """What a directory does not show, as epochs without rows leave nothing in it."""
        return None

    def prepare(self, epoch: int, parts: Sequence[SinkPart], *, previous: int = 0) -> None:
        """Check that everything is staged and no name is taken. Raises DataError otherwise."""
        self._claim()
        for staged, final in _files(parts):
            if self._exists(final):
                raise DataError(f"{self._place}/{final} exists, but epoch {epoch} was not committed yet")
            if not self._exists(staged):
                raise DataError(
                    f"{self._place}/{staged} is gone: someone deleted a file that was not committed"
                )

    def commit(self, epoch: int, parts: Sequence[SinkPart], *, previous: int = 0) -> None:
        """Rename the staged files to their places; those that are there already are done.

        Which epoch was the last is noted in the directory, so that a repeated commit does not miss files that
        someone took away since.
        """
        self._claim()
        self._begins_anew = False
        if epoch <= self._committed():
            return
        folders = set()
        for staged, final in _files(parts):
            folder, _, _ = final.rpartition("/")
            if folder not in folders:
                self._filesystem.create_dir(f"{self._root}/{folder}".rstrip("/"), recursive=True)
                folders.add(folder)
            if self._exists(staged):
                self._filesystem.move(f"{self._root}/{staged}", f"{self._root}/{final}")
            elif not self._exists(final):
                raise DataError(
                    f"{self._place}/{final} is missing: epoch {epoch} is committed, but its staged "
                    f"file was deleted. Start again from a new state directory to write its rows"
                )
        if not folders:
            return
        if is_local(self._location):
            for folder in sorted(folders):
                sync(f"{self._root}/{folder}")
        self._put(_COMMITTED, str(epoch).encode())

    def _committed(self) -> int:
        """The last epoch with rows that is known to be committed; 0 if none is."""
        if not self._exists(_COMMITTED):
            return 0
        with self._filesystem.open_input_stream(f"{self._root}/{_COMMITTED}") as file:
            text = file.read().decode()
        return int(text) if text.isdigit() else 0  # torn by a crash: the files show it

    def abort_uncommitted(self, last_epoch: int) -> None:
        """Remove what epochs after `last_epoch` staged. Raises DataError if the directory belongs to another
        sink.
        """
        self._claim()
        if self._committed() > last_epoch:
            raise self._ahead(last_epoch)
        selector = fs.FileSelector(f"{self._root}/{_STAGING}", allow_not_found=True)
        for info in self._filesystem.get_file_info(selector):
            # DuckDB writes beside a file that is there; the rest of a task that was killed is of no use.
            half = info.base_name.startswith(_HALF)
            found = _STAGED_NAME.fullmatch(info.base_name.removeprefix(_HALF))
            if found is None:
                continue
            epoch = int(found.group(1))
            if epoch > last_epoch or (half and epoch < last_epoch):
                self._filesystem.delete_file(info.path)

    def _claim(self) -> None:
        if self._claimed:
            return
        owner = self._check_claim()
        if owner is None:
            self._filesystem.create_dir(f"{self._root}/{_STAGING}", recursive=True)
            mine = {"state": identity(self._store), "table": self._table}
            self._put(_OWNER, json.dumps(mine).encode())
        if not self._store.exists(self._mark):
            self._store.put(self._mark, b"")
        self._claimed = True

    def _check_claim(self) -> Mapping[str, str] | None:
        """Whose the directory is, this table's or nobody's. Raises TargetError if it is another's, or not as it was left."""
        owner = self._owner()
        if owner is not None and not self._store.exists(NAME) and self._store.exists(self._mark):
            raise TargetError(
                f"the owner of the directory of `{self._name}` is not known",
                (
                    f"{self._store.path(NAME)}, which says who this state directory is, is missing",
                    f"'{self._place}' is written with it",
                ),
                "restore that file from a copy of the state directory, or start over with a new state directory and another "
                "path",
            )
        if owner is not None and not self._is_mine(owner):
            if self._store.exists(NAME) and owner["state"] == identity(self._store):
                raise TargetError(
                    f"two tables of the query write to one directory: {owner['table']} and {self._name}",
                    (f"it is '{self._place}'",),
                    f"give table {self._name} another path, or delete the output directory",
                )
            raise TargetError(
                f"the directory of `{self._name}` was written with another state directory",
                (f"it is '{self._place}'",),
                "go on with that state directory, delete the output directory, or choose another path",
            )
        if (
            owner is None
            and self._store.exists(self._mark)
            and not self._exists(_OWNER)
            and not self._begins_anew
        ):
            raise TargetError(
                f"the directory of `{self._name}` is gone, or its {_OWNER}",
                (f"this state directory has written to '{self._place}': the rows up to now may be gone",),
                f"restore the directory; or {self._anew()}",
            )
        return owner

    @property
    def _mark(self) -> str:
        """What says in the state directory that it has written there."""
        place, _ = without_credentials(self._location)
        return f"sinks/{hashlib.sha256(f'{self._table} {place}'.encode()).hexdigest()[:16]}.claimed"

    def _is_mine(self, owner: Mapping[str, str] | None) -> bool:
        return (
            owner is not None
            and self._store.exists(NAME)
            and owner == {"state": identity(self._store), "table": self._table}
        )

    def _ahead(self, here: int) -> TargetError:
        return TargetError(
            f"the directory of `{self._name}` has epoch {self._committed()}, but its state is at epoch {here}",
            (f"'{self._place}' is newer: the state directory was restored from an older copy",),
            f"restore the newer copy of the state directory; or {self._anew()}",
        )

    def _anew(self) -> str:
        return (
            f"delete the output directory if it is there, and run with --rewrite {self._name}: all that it should have is "
            "given again"
        )

    def _owner(self) -> Mapping[str, str] | None:
        """Whose the directory is: the identity of a state directory and a table. None: nobody's yet."""
        if not self._exists(_OWNER):
            return None
        with self._filesystem.open_input_stream(f"{self._root}/{_OWNER}") as file:
            content = file.read()
        if not content:
            return None  # whoever began to write it, with a disk that was full, has not written a row
        try:
            owner = json.loads(content)
            return {"state": str(owner["state"]), "table": str(owner["table"])}
        except (ValueError, KeyError, TypeError):
            raise TargetError(
                f"the owner of the directory of `{self._name}` can't be read",
                (f"'{self._place}/{_OWNER}' is damaged",),
                f"restore it; or {self._anew()}",
            ) from None

    def _put(self, relative: str, content: bytes) -> None:
        """Write a small file of ours, all of it or nothing."""
        path = f"{self._root}/{relative}"
        if not is_local(self._location):
            with self._filesystem.open_output_stream(path) as out:
                out.write(content)
            return
        new = f"{path}.{uuid.uuid4().hex[:8]}.new"  # a driver that was paused may write it beside another one
        try:
            with self._filesystem.open_output_stream(new) as out:
                out.write(content)
            sync(new)
            self._filesystem.move(new, path)
        except OSError:
            with suppress(OSError):  # a disk that is full for an hour is tried again many times
                self._filesystem.delete_file(new)
            raise

    def _exists(self, relative: str) -> bool:
        info = self._filesystem.get_file_info(f"{self._root}/{relative}")
        return bool(info.type == fs.FileType.File)


def _files(parts: Sequence[SinkPart]) -> Iterator[tuple[str, str]]:
    for part in parts:
        yield from part.payload.get("files", ())


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def _folder(key: str, values: pa.Array, default: str, longest: int | None) -> pa.Array:
    """`key=value` for every value; each distinct value is escaped once. Raises DataError for one that is too long."""
    encoded = values.dictionary_encode()
    found = [f"{escape(key)}={escape(v) if v else default}" for v in encoded.dictionary.to_pylist()]
    for name in found:
        if longest is not None and len(name.encode()) > longest:
            raise DataError(
                f"a value of the partition column {key} makes a folder's name of {len(name.encode())} bytes, and a file "
                f"system takes {longest}: '{name[:40]}…'; partition by less of it, such as LEFT({key}, 60) or MD5({key})"
            )
    names = pa.array(found)
    if not len(names):
        names = pa.array([], pa.string())
    return pc.fill_null(names.take(encoded.indices), f"{escape(key)}={default}")


def escape(text: str) -> str:
    """A partition's value as part of a path, as Hive and Flink write it.

    >>> escape("a/b: 100%")
    'a%2Fb%3A 100%25'
    """
    return _UNSAFE.sub(lambda found: f"%{ord(found.group()):02X}", text)
