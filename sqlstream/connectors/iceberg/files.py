"""The files of a table, as Iceberg's library asks for them: on this machine's disks, or in a store, as all others here."""

from __future__ import annotations

import re
from typing import Any

from pyarrow import fs
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowLocalFileSystem
from pyiceberg.typedef import EMPTY_DICT, Properties

from sqlstream.connectors.filesystem.paths import is_local, joined_location, open_filesystem

#: The property of a catalog with what opens its files (`FileEntry.opening`); it is never written.
OPENING = "sqlstream.opening"
_FILE = re.compile(r"^file:(//[^/]*)?(?=/)")


def plain(location: str) -> str:
    """A location as paths are here: a local one without its scheme.

    Unlike in URIs, a `%` in it is one: Iceberg's locations are compared as text, and written by those who read them.

    >>> plain("file:///a/b%20c"), plain("file:/a"), plain("s3://bucket/x")
    ('/a/b%20c', '/a', 's3://bucket/x')
    """
    return _FILE.sub("", location)


class StoreFiles(FileIO):
    """Reads and writes files as the `filesystem` connector does, with its credentials and repeated requests."""

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__(properties)
        self._opening = str(properties.get(OPENING, ""))

    def new_input(self, location: str) -> InputFile:
        """A file to read."""
        return self._file(location)

    def new_output(self, location: str) -> OutputFile:
        """A file to write, with its folders."""
        return self._file(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file. Raises FileNotFoundError."""
        name = location if isinstance(location, str) else location.location
        filesystem, inside = self._opened(name)
        filesystem.delete_file(inside)

    def _file(self, location: str) -> PyArrowFile:
        filesystem, inside = self._opened(location)
        return PyArrowFile(location, inside, filesystem)

    def _opened(self, location: str) -> tuple[Any, str]:
        path = plain(location)
        if is_local(path):
            return PyArrowLocalFileSystem(), path
        filesystem, inside = open_filesystem(joined_location(path, self._opening))
        found: fs.FileSystem = filesystem
        return found, inside
