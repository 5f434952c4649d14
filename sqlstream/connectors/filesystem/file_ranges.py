"""Ranges of files: what a split is made of, and how a task gets them as local files that DuckDB can open."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from sqlstream.connectors.filesystem.file_version import (
    check_unchanged,
    file_unreadable,
    file_vanished,
    repair,
    ways_on,
)
from sqlstream.connectors.filesystem.not_text import HEAD, not_text
from sqlstream.connectors.filesystem.paths import FileEntry, is_local, open_filesystem
from sqlstream.formats.scratch import Scratch
from sqlstream.storage.object_copies import copied
from sqlstream_operators.errors import InputFileError

if TYPE_CHECKING:
    import pyarrow as pa

_COPY = 8 << 20
#: File name endings that mean compression -> pyarrow's name of it.
COMPRESSIONS: Mapping[str, str] = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}


@dataclass(frozen=True, slots=True)
class FileRange:
    """A file, or the bytes (json, csv; of its text where it is compressed) or rows (parquet) start … end of it.

    `end` None: to the end of the file.
    """

    entry: FileEntry
    start: int = 0
    end: int | None = None

    @property
    def whole(self) -> bool:
        """Whether it is all of the file."""
        return self.start == 0 and self.end is None

    def to_json(self) -> list[Any]:
        """Plain JSON data; `from_json` reads it back."""
        entry = self.entry
        version = [entry.changed_us, entry.digest]
        return [entry.path, entry.size, entry.modified_us, self.start, self.end, *version]

    @classmethod
    def from_json(cls, data: Sequence[Any], opening: str) -> FileRange:
        """Read what `to_json` wrote, or an older version did; `opening` is what opens the file."""
        return cls(FileEntry(data[0], data[1], data[2], opening, *data[5:7]), data[3], data[4])


def compression(path: str) -> str | None:
    """How a text file is compressed, by the end of its name.

    >>> compression("a/b.json.GZ"), compression("b.json")
    ('gzip', None)
    """
    return COMPRESSIONS.get(Path(path).suffix.lower())


@contextmanager
def open_entry(entry: FileEntry) -> Iterator[BinaryIO]:
    """The file's bytes as they are, seekable. Raises DataError if it is not what was listed."""
    check_unchanged(entry)
    try:
        if is_local(entry.path):
            try:
                file = Path(entry.path).open("rb")  # noqa: SIM115
            except FileNotFoundError:
                raise file_vanished(entry) from None
            except OSError as error:
                raise file_unreadable(entry, error) from None
            with file:
                yield file
        else:
            filesystem, inside = open_filesystem(entry.location)
            with filesystem.open_input_file(inside) as file:
                yield file
    except EOFError:
        raise InputFileError(f"{entry.path} became shorter while it was read", ways_on(entry)) from None


class Workspace(Scratch):
    """A temporary folder for what DuckDB can't open where it is; gone when the `with` block ends."""

    def local(self, file_range: FileRange) -> str:
        """A local path with all of the file's bytes as they are; of one that is cut the machine keeps a copy."""
        entry = file_range.entry
        check_unchanged(entry)
        if is_local(entry.path):
            return entry.path
        target = self.new_file(Path(entry.path).suffix)

        def download(to: Path) -> None:
            filesystem, inside = open_filesystem(entry.location)
            with filesystem.open_input_stream(inside, compression=None) as source, to.open("wb") as out:
                shutil.copyfileobj(source, out, _COPY)

        if file_range.whole:
            download(target)
        else:
            copied(f"{entry.location} {entry.size} {entry.modified_us}", entry.size, target, download)
        return str(target)

    @contextmanager
    def _copy(self, file_range: FileRange) -> Iterator[BinaryIO]:
        """What has to be read from its beginning for any part of it."""
        entry = file_range.entry
        if file_range.whole or is_local(entry.path):
            with open_entry(entry) as file:
                yield file
        else:
            with Path(self.local(file_range)).open("rb") as file:
                yield file

    def text(self, file_range: FileRange) -> str:
        """A local path with the range's text, not compressed.

        DuckDB reads .gz and .zst too, but not their checksums: what a damaged or cut off file has would be taken for rows.
        Raises InputFileError if it is no text.
        """
        path = self._unpacked(file_range)
        if not file_range.start:
            with Path(path).open("rb") as file:
                found = not_text(file.read(HEAD))
            if found is not None:
                what, instead = found
                where = file_range.entry.path
                inside = "what is in it is " if compression(where) else "it is "
                raise InputFileError(
                    f"{where} is not the text that the table says: {inside}{what}",
                    f"{instead}, or go on without it: run with --skip-file '{where}'",
                )
        return path

    def _unpacked(self, file_range: FileRange) -> str:
        path = file_range.entry.path
        packed = compression(path)
        if file_range.whole and packed is None:
            return self.local(file_range)
        target = self.new_file()
        there = open_entry(file_range.entry) if packed is None else self._copy(file_range)
        with there as source, target.open("wb") as out:
            if packed is not None:
                with decompressed(file_range.entry, source, packed) as stream:
                    _copy_part(stream, file_range.start, file_range.end, out)
            else:
                _copy(
                    source,
                    file_range.start,
                    file_range.entry.size if file_range.end is None else file_range.end,
                    out,
                )
        return str(target)


@contextmanager
def decompressed(entry: FileEntry, source: BinaryIO, packed: str) -> Iterator[pa.NativeFile]:
    """What a compressed file has in it, as a stream. Raises InputFileError, also while it is read, if it is damaged."""
    import pyarrow as pa

    if not entry.size:
        raise InputFileError(
            f"{entry.path}: can't be decompressed as {packed}: it has no content", repair(entry)
        )
    try:
        with pa.CompressedInputStream(pa.PythonFile(source, mode="r"), packed) as stream:
            yield stream
    except OSError as error:
        if error.errno is not None:
            raise  # of the file system, and not of what is in the file
        raise InputFileError(
            f"{entry.path}: can't be decompressed as {packed}: {error}", repair(entry)
        ) from error


def _copy_part(stream: pa.NativeFile, start: int, end: int | None, out: BinaryIO) -> None:
    """Copy the bytes start … end (None: all that is left) of what can't be sought in."""
    at = 0
    while (end is None or at < end) and (chunk := stream.read(_COPY)):
        out.write(chunk[max(start - at, 0) : None if end is None else max(end - at, 0)])
        at += len(chunk)


def _copy(source: BinaryIO, start: int, end: int, out: BinaryIO) -> None:
    source.seek(start)
    left = end - start
    while left:
        chunk = source.read(min(_COPY, left))
        if not chunk:
            raise EOFError
        out.write(chunk)
        left -= len(chunk)
