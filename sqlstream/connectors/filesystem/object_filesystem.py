"""An object store as one of Arrow's file systems, so that formats read and write its files as they do local ones.

Requests go through `ObjectFiles`, which repeats them. Paths are `bucket/name`, as those of Arrow's own S3 file system. No
folder has to be made: one is there while an object is below it.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
from pyarrow import fs

from sqlstream_operators.errors import InternalError
from sqlstream_operators.state.object_files import ObjectFiles, ObjectInfo

#: How many bytes of a file that is written are kept in memory until it is complete; more go to a temporary file.
_IN_MEMORY = 16 << 20


def object_filesystem(uri: str, bucket: str) -> fs.FileSystem:
    """The file system of the bucket that a URI names, without a path. Raises StorePlaceError."""
    return fs.PyFileSystem(_Objects(ObjectFiles(uri), bucket))


class _Objects(fs.FileSystemHandler):  # type: ignore[misc]  # Arrow's stubs have no base class for it
    """What pyarrow asks a file system for; what it never asks here is refused."""

    def __init__(self, files: ObjectFiles, bucket: str) -> None:
        self._files, self._bucket = files, bucket

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Objects) and other._files is self._files

    __hash__ = None  # type: ignore[assignment]  # nobody asks

    def get_type_name(self) -> str:
        """What Arrow calls it in messages."""
        return "object store"

    def normalize_path(self, path: str) -> str:
        """Names are as they are."""
        return path

    # ------------------------------------------------------------------------------------------- looking

    def get_file_info(self, paths: Sequence[str]) -> list[fs.FileInfo]:
        """What is at each path: an object, objects below it, or nothing."""
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        """What is in a folder, and with `recursive` below it, then without folders."""
        name = self._name(selector.base_dir)
        folders: Sequence[str] = ()
        if selector.recursive:
            found = self._files.infos(name)
        else:
            found, folders = self._files.folder(name)
        if not found and not folders and not selector.allow_not_found and not self._is_folder(name):
            raise FileNotFoundError(selector.base_dir)
        return [
            *(self._file(one) for one in found),
            *(fs.FileInfo(self._path(one), fs.FileType.Directory) for one in folders),
        ]

    def _info(self, path: str) -> fs.FileInfo:
        name = self._name(path)
        found = self._files.info(name) if name else None
        if found is not None and (found.size or not self._files.folder(name)[1]):
            return self._file(found)
        kind = fs.FileType.Directory if self._is_folder(name) else fs.FileType.NotFound
        return fs.FileInfo(path, kind)

    def _is_folder(self, name: str) -> bool:
        return not name or self._files.is_folder(name)

    def _file(self, found: ObjectInfo) -> fs.FileInfo:
        return fs.FileInfo(
            self._path(found.name),
            fs.FileType.File,
            size=found.size,
            mtime_ns=found.modified_us * 1000,
        )

    def _name(self, path: str) -> str:
        return path.removeprefix(self._bucket).strip("/")

    def _path(self, name: str) -> str:
        return f"{self._bucket}/{name}"

    # ------------------------------------------------------------------------------------ reading, writing

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """An object from its beginning on."""
        return self._files.open(self._name(path))

    def open_input_file(self, path: str) -> pa.NativeFile:
        """An object of which any part can be read."""
        return self._files.open(self._name(path))

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        """An object that appears when the stream is closed, over one of the same name."""
        return pa.PythonFile(_Writing(self._files, self._name(path)), mode="w")

    def move(self, src: str, dest: str) -> None:
        """Give an object another name, over one of that name."""
        self._files.move(self._name(src), self._name(dest))

    def delete_file(self, path: str) -> None:
        """Delete an object; it is no error if there is none."""
        self._files.delete(self._name(path))

    def create_dir(self, path: str, recursive: bool) -> None:
        """There are no folders without objects."""

    def copy_file(self, src: str, dest: str) -> None:
        """Nobody copies objects here."""
        raise _not_asked("copy_file")

    def delete_dir(self, path: str) -> None:
        """Nobody deletes folders here."""
        raise _not_asked("delete_dir")

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        """Nobody deletes folders here."""
        raise _not_asked("delete_dir_contents")

    def delete_root_dir_contents(self) -> None:
        """Nobody empties buckets here."""
        raise _not_asked("delete_root_dir_contents")

    def open_append_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        """Objects can't be appended to."""
        raise _not_asked("open_append_stream")


def _not_asked(method: str) -> Exception:
    return InternalError(f"{method} of an object store")


class _Writing:
    """An object that is uploaded when it is closed."""

    def __init__(self, files: ObjectFiles, name: str) -> None:
        self._files, self._name = files, name
        self._content: IO[bytes] = io.BytesIO()
        self._size = 0
        self.closed = False

    def write(self, data: bytes) -> int:
        """Add bytes."""
        if self._size + len(data) > _IN_MEMORY and isinstance(self._content, io.BytesIO):
            memory, self._content = self._content, tempfile.NamedTemporaryFile()  # noqa: SIM115
            self._content.write(memory.getbuffer())
        self._size += self._content.write(data)
        return len(data)

    def flush(self) -> None:
        """Nothing appears before all of it does."""

    def tell(self) -> int:
        """How many bytes there are."""
        return self._size

    def close(self) -> None:
        """Upload it."""
        if self.closed:
            return
        self.closed = True
        with self._content as content:
            if isinstance(content, io.BytesIO):
                self._files.put(self._name, content.getvalue())
            else:
                content.flush()
                self._files.put(self._name, Path(content.name))
