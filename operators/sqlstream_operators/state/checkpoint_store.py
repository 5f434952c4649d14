"""Immutable files under one URI, on any file system that pyarrow knows: local, s3://, gs://, hdfs://.

Durability and atomicity:

- Local: `put` writes a temporary file beside the target, calls fsync on it, renames it over the target and calls
  fsync on the directory, so after a crash of the machine a name has either all of its bytes or does not
  exist. `put_exclusive` links the temporary file to its name, which the kernel does for one writer only.
- Object stores: an object appears when its upload is complete, and is durable then. They have no exclusive
  create through pyarrow, so `put_exclusive` is emulated: refuse if the name exists, write, wait
  `settle_seconds`, and read back; whoever does not find its own bytes has lost. Two writers can both win
  only if one of them took longer than the wait between its look and its write, or if they write the same
  bytes; the runtime's manifests hold a run id, so the second never happens.
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
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs

from sqlstream_operators.errors import MachineError, StorePlaceError
from sqlstream_operators.state.places import below

_TEMPORARY = ".tmp-"
_ABANDONED_S = 3600


class CheckpointStore:
    """Files by name (relative, `/`-separated) under `uri`, a local path or a URI that pyarrow.fs can open.

    Raises StorePlaceError for a URI of no file system that there is, MachineError if it can't be reached.
    With `sync=False` local files are not fsynced: for tests, and scratch that may be lost with the machine.
    """

    def __init__(self, uri: str | Path, *, sync: bool = True, settle_seconds: float = 1.0) -> None:
        self.uri = str(uri)
        self.sync = sync
        self.settle_seconds = settle_seconds
        if not self.uri or "\0" in self.uri:
            raise StorePlaceError(f"{self.uri!r} is no path")
        self._local = Path(self.uri).absolute() if "://" not in self.uri else None
        if self._local is None:
            self._fs, self._root = _opened(self.uri)
            if self.uri.startswith("file://"):
                self._local = Path(self._root)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.uri, self.sync, self.settle_seconds)

    def below(self, folder: str) -> CheckpointStore:
        """A folder of this store as a store of its own."""
        return CheckpointStore(below(self.uri, folder), sync=self.sync, settle_seconds=self.settle_seconds)

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
        if isinstance(content, bytes):
            with self._upload(name) as out:
                out.write(content)
            return
        # Closing a stream gives what was written its name: a file that is not there must not begin one.
        with content.open("rb") as source, self._upload(name) as out:
            while chunk := source.read(8 << 20):
                out.write(chunk)

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
        if self.exists(name):
            raise FileExistsError(self.path(name))
        with self._upload(name) as out:
            out.write(content)
        time.sleep(self.settle_seconds)
        if self.get(name) != content:
            raise FileExistsError(self.path(name))

    def get(self, name: str) -> bytes:
        """The bytes of a file; raises FileNotFoundError."""
        if self._local is not None:
            return (self._local / name).read_bytes()
        with self._fs.open_input_stream(self._path(name), compression=None) as source:
            content: bytes = source.read()
            return content

    def open(self, name: str) -> pa.NativeFile:
        """A file to read from its beginning on, local ones mapped into memory; raises FileNotFoundError."""
        if self._local is not None:
            import pyarrow as pa

            path = self._local / name
            return pa.memory_map(str(path)) if path.stat().st_size else pa.BufferReader(b"")
        return self._fs.open_input_stream(self._path(name), compression=None)

    def download(self, name: str, target: Path) -> None:
        """Copy a file to a local path; raises FileNotFoundError."""
        if self._local is not None:
            shutil.copyfile(self._local / name, target)
            return
        with (
            self._fs.open_input_stream(self._path(name), compression=None) as source,
            target.open("wb") as out,
        ):
            while chunk := source.read(8 << 20):
                out.write(chunk)

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
        info = self._fs.get_file_info(self._path(name))
        return info.size if info.is_file else None

    def list(self, prefix: str = "") -> list[str]:
        """The names of all files in the folder `prefix` and below it, sorted; [] if there is none."""
        if self._local is not None:
            prefix = prefix.strip("/")
            return sorted(_files_below(self._local / prefix, f"{prefix}/" if prefix else ""))
        from pyarrow import fs

        selector = fs.FileSelector(self._path(prefix), recursive=True, allow_not_found=True)
        start = len(self._root.rstrip("/")) + 1
        return sorted(
            info.path[start:]
            for info in self._fs.get_file_info(selector)
            if info.is_file and _TEMPORARY not in info.base_name
        )

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
        with contextlib.suppress(FileNotFoundError):
            if self._local is not None:
                (self._local / name).unlink()
            else:
                self._fs.delete_file(self._path(name))

    def move(self, name: str, target: str) -> None:
        """Give a file another name, over one of that name; it is no error if it does not exist."""
        if self._local is None:
            if self.exists(name):
                self._fs.move(self._path(name), self._path(target))
            return
        new = self._local / target
        new.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            (self._local / name).replace(new)
            self._sync_directory(new.parent)

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}".rstrip("/")

    def _upload(self, name: str) -> pa.NativeFile:
        path = self._path(name)
        if self._fs.type_name not in ("s3", "gcs", "abfs"):
            self._fs.create_dir(path.rsplit("/", 1)[0], recursive=True)
        return self._fs.open_output_stream(path, compression=None)

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
        return Path(uri.removeprefix("file://"))
    return None if "://" in uri else Path(uri).absolute()


def _opened(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of a URI and the path in it. Raises StorePlaceError and MachineError."""
    # For URIs only: importing it takes longer than a look at a local state.
    from pyarrow import fs

    try:
        filesystem, root = fs.FileSystem.from_uri(uri)
    except ValueError as error:
        raise StorePlaceError(f"{uri} can't be opened: {error}") from None
    except OSError as error:
        raise MachineError(f"{uri} can't be reached: {error}") from None
    return filesystem, root


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


def _reopen(uri: str, sync: bool, settle_seconds: float) -> CheckpointStore:
    return CheckpointStore(uri, sync=sync, settle_seconds=settle_seconds)
