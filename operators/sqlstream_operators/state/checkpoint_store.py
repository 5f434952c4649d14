"""Immutable files under one path or URI: on a local file system, or in an object store (`object_files`).

Durability and atomicity:

- Local: `put` writes a temporary file beside the target, calls fsync on it, renames it over the target and calls
  fsync on the directory, so after a crash of the machine a name has either all of its bytes or does not
  exist. `put_exclusive` links the temporary file to its name, which the kernel does for one writer only.
- Object stores: an object appears when its upload is complete, and is durable then; `put_exclusive` is the store's own
  conditional write.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    import pyarrow as pa

from sqlstream_operators.errors import StorePlaceError
from sqlstream_operators.state.object_files import ObjectFiles
from sqlstream_operators.state.places import below

_TEMPORARY = ".tmp-"
_ABANDONED_S = 3600


class CheckpointStore:
    """Files by name (relative, `/`-separated) under `uri`, a local path or the URI of an object store.

    Raises StorePlaceError for a URI of no store that there is.
    With `sync=False` local files are not fsynced: for tests, and scratch that may be lost with the machine.
    """

    def __init__(self, uri: str | Path, *, sync: bool = True) -> None:
        self.uri = str(uri)
        self.sync = sync
        if not self.uri or "\0" in self.uri:
            raise StorePlaceError(f"{self.uri!r} is no path")
        self._local = local_path(self.uri)
        self._objects = ObjectFiles(self.uri) if self._local is None else None

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.uri, self.sync)

    def below(self, folder: str) -> CheckpointStore:
        """A folder of this store as a store of its own."""
        return CheckpointStore(below(self.uri, folder), sync=self.sync)

    @property
    def is_local(self) -> bool:
        """Whether files are on a file system of this machine: reading one again is as fast as from a copy."""
        return self._local is not None

    def path(self, name: str) -> str:
        """The full path or URI of a name, for messages."""
        return below(self.uri, name)

    def put(self, name: str, content: bytes | Path) -> None:
        """Write a file atomically, over one of the same name, from bytes or from a local file."""
        if self._local is not None:
            with self._staged(name, content) as (staged, target):
                staged.replace(target)
            self._sync_directory(target.parent)
            return
        self._remote.put(name, content)

    def put_exclusive(self, name: str, content: bytes) -> None:
        """Write a file that must not exist; raises FileExistsError if another writer was first."""
        if self._local is not None:
            with self._staged(name, content) as (staged, target):
                try:
                    os.link(staged, target)
                except FileExistsError:
                    # NFS sends a request whose answer was lost again, and says of the second that the name is taken.
                    if not _is_one_file(staged, target):
                        raise
            self._sync_directory(target.parent)
            return
        self._remote.create(name, content)

    def get(self, name: str) -> bytes:
        """The bytes of a file; raises FileNotFoundError."""
        if self._local is not None:
            return (self._local / name).read_bytes()
        return self._remote.get(name)

    def open(self, name: str) -> pa.NativeFile:
        """A file to read from its beginning on, local ones mapped into memory; raises FileNotFoundError."""
        if self._local is not None:
            import pyarrow as pa

            path = self._local / name
            return pa.memory_map(str(path)) if path.stat().st_size else pa.BufferReader(b"")
        return self._remote.open(name)

    def download(self, name: str, target: Path) -> None:
        """Copy a file to a local path; raises FileNotFoundError."""
        if self._local is not None:
            shutil.copyfile(self._local / name, target)
            return
        self._remote.download(name, target)

    def link(self, name: str, target: Path) -> None:
        """Make a local path hold a file of a local store without reading it; raises FileNotFoundError.

        A hard link where that can be: it stays when the file is deleted in the store. A symbolic one elsewhere.
        """
        if self._local is None:
            raise ValueError(f"{self.uri} is not local")
        source = self._local / name
        if not source.exists():
            raise FileNotFoundError(self.path(name))
        try:
            os.link(source, target)
        except FileNotFoundError:
            raise
        except OSError:  # another file system, one without links, or another user's file
            target.symlink_to(source)

    def copy_from(
        self, other: CheckpointStore, name: str, target: str | None = None, *, link: bool = True
    ) -> None:
        """Take over a file of another store, atomically, under its name or `target`; raises FileNotFoundError.

        With `link`, between folders of one local file system it is linked, which costs the same for every size: files of a
        store are replaced, and never changed in place.
        """
        target = target or name
        if link and self._local is not None and other._local is not None:
            new = self._local / target
            if new.exists() and new.samefile(other._local / name):
                return
            new.parent.mkdir(parents=True, exist_ok=True)
            staged = new.with_name(f"{_TEMPORARY}{uuid.uuid4().hex}")
            try:
                os.link(other._local / name, staged)
                staged.replace(new)
            except FileNotFoundError:
                raise
            except OSError:  # another file system, or one without links
                self.put(target, other._local / name)
            else:
                self._sync_directory(new.parent)
            finally:
                staged.unlink(missing_ok=True)
            return
        if other._local is not None:
            self.put(target, other._local / name)
            return
        with tempfile.TemporaryDirectory() as folder:
            other.download(name, Path(folder) / "copy")
            self.put(target, Path(folder) / "copy")

    def exists(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return self.size(name) is not None

    def size(self, name: str) -> int | None:
        """The bytes of a file, or None if it does not exist."""
        if self._local is not None:
            try:
                found = (self._local / name).stat()
            except (FileNotFoundError, NotADirectoryError):
                return None
            return found.st_size if stat.S_ISREG(found.st_mode) else None
        return self._remote.size(name)

    def list(self, prefix: str = "") -> list[str]:
        """The names of all files in the folder `prefix` and below it, sorted; [] if there is none."""
        prefix = prefix.strip("/")
        if self._local is not None:
            return sorted(_files_below(self._local / prefix, f"{prefix}/" if prefix else ""))
        return self._remote.list(prefix)

    def sweep_temporary(self) -> None:
        """Delete what writers that were killed have left behind; for a time when nobody but the caller writes.

        Files at the top, which drivers write that only ask who runs, are left for an hour.
        """
        if self._local is None:
            return
        for file in self._local.rglob(f"{_TEMPORARY}*"):
            with contextlib.suppress(FileNotFoundError):
                if file.parent != self._local or time.time() - file.stat().st_mtime > _ABANDONED_S:
                    file.unlink()

    def delete(self, name: str) -> None:
        """Delete a file; it is no error if it does not exist."""
        if self._local is None:
            self._remote.delete(name)
            return
        with contextlib.suppress(FileNotFoundError):
            (self._local / name).unlink()

    def delete_all(self, names: Iterable[str]) -> None:
        """Delete files in no order, in an object store many with a request; it is no error if some do not exist."""
        if self._local is None:
            self._remote.delete_all(list(names))
            return
        for name in names:
            self.delete(name)

    def move(self, name: str, target: str) -> None:
        """Give a file another name, over one of that name; it is no error if it does not exist."""
        if self._local is None:
            self._remote.move(name, target)
            return
        new = self._local / target
        new.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            (self._local / name).replace(new)
            self._sync_directory(new.parent)

    @property
    def _remote(self) -> ObjectFiles:
        assert self._objects is not None
        return self._objects

    @contextlib.contextmanager
    def _staged(self, name: str, content: bytes | Path) -> Iterator[tuple[Path, Path]]:
        assert self._local is not None
        target = self._local / name
        staged = target.with_name(f"{_TEMPORARY}{uuid.uuid4().hex}")
        try:
            if isinstance(content, bytes):
                self._write(staged, content)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(content, staged)
            if self.sync:
                handle = os.open(staged, os.O_RDONLY)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)
            yield staged, target
        except OSError as error:
            # A disk that is full does not say which file, or names the one that is copied.
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            if error.errno is not None and (full or error.filename is None):
                raise OSError(error.errno, error.strerror, str(target)) from error
            raise
        finally:
            staged.unlink(missing_ok=True)

    @staticmethod
    def _write(path: Path, content: bytes) -> None:
        try:
            path.write_bytes(content)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def _sync_directory(self, directory: Path) -> None:
        if not self.sync:
            return
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def local_path(uri: str) -> Path | None:
    """Where a path or a file:// URI is on this machine; None for what is elsewhere, or is no path."""
    if "\0" in uri or not uri:
        return None
    if uri.startswith("file:///"):
        return Path(unquote(uri.removeprefix("file://")))
    return None if "://" in uri else Path(uri).absolute()


def _is_one_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _files_below(folder: Path, prefix: str) -> Iterator[str]:
    """The names of all files below a folder, which may be gone or none, with `prefix` before each."""
    try:
        with os.scandir(folder) as found:
            for item in found:
                if item.is_dir():
                    yield from _files_below(folder / item.name, f"{prefix}{item.name}/")
                elif _TEMPORARY not in item.name and item.is_file():
                    yield f"{prefix}{item.name}"
    except (FileNotFoundError, NotADirectoryError):
        return


def _reopen(uri: str, sync: bool) -> CheckpointStore:
    return CheckpointStore(uri, sync=sync)
