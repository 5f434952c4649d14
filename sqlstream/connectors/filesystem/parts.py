"""Ranges of files as the formats read them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import BinaryIO

from sqlstream.connectors.filesystem.file_ranges import (
    FileRange,
    Workspace,
    compression,
    decompressed,
    open_entry,
)
from sqlstream.connectors.filesystem.file_version import other_shape, repair
from sqlstream.connectors.filesystem.paths import FileEntry
from sqlstream_operators.errors import InputFileError


class Part:
    """A range with the folder that its copies go to; see `FilePart`."""

    def __init__(self, file_range: FileRange, work: Workspace) -> None:
        self.range = file_range
        self._work = work

    @property
    def path(self) -> str:
        """The file, as messages say it."""
        return self.range.entry.path

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return self.range.entry.size

    @property
    def start(self) -> int:
        """Where the range begins."""
        return self.range.start

    @property
    def end(self) -> int | None:
        """Where it ends."""
        return self.range.end

    @property
    def whole(self) -> bool:
        """Whether it is all of the file."""
        return self.range.whole

    def local(self) -> str:
        """A local path with the file's bytes as they are."""
        return self._work.local(self.range)

    def text(self) -> str:
        """A local path with the range's text, not compressed. Raises InputFileError if it is no text."""
        return self._work.text(self.range)

    def head(self, start: int, most: int) -> bytes:
        """The first bytes of the file's text from a byte on (0 of a compressed one), not compressed."""
        packed = compression(self.path)
        with self.open() as file:
            if packed is None:
                file.seek(start)
                return file.read(most)
            with decompressed(self.range.entry, file, packed) as stream:
                found: bytes = stream.read(most)
                return found

    def lines_before(self) -> int:
        """How many lines are before the range; 0 in a compressed file, where nobody asks for line numbers."""
        if not self.start or compression(self.path) is not None:
            return 0
        from sqlstream.formats.boundaries import count_lines  # NumPy, which a plan has no time for

        with self.open() as file:
            return count_lines(file, 0, self.start)

    def open(self) -> AbstractContextManager[BinaryIO]:
        """The file's bytes as they are, seekable. Raises InputFileError if it is not what was listed."""
        return open_entry(self.range.entry)

    def beside(self, entry: FileEntry) -> Part:
        """Another file, whose copies go to the same folder."""
        return Part(FileRange(entry), self._work)

    def new_file(self, suffix: str) -> str:
        """The path of a file in that folder, which does not exist yet."""
        return str(self._work.new_file(suffix))

    def damaged(self, what: str) -> InputFileError:
        """The error for a file that is not of its format."""
        return InputFileError(f"{self.path}: {what}", repair(self.range.entry))

    def unlike(self, what: str) -> InputFileError:
        """The error for a file that is not as the table declares it."""
        return InputFileError(f"{self.path}: {what}", other_shape(self.path))
