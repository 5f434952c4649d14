"""Whether a file is whole by its format: it ends as only a file ends that nobody writes any more."""

from __future__ import annotations

import zlib
from pathlib import Path

from sqlstream.connectors.filesystem.file_ranges import compression
from sqlstream.connectors.filesystem.paths import FileEntry, is_local
from sqlstream.formats.files import FileFormat, Unit

#: A compressed file of at most so many bytes is unpacked to see whether it is whole.
_UNPACKED = 16 << 20
_CHUNK = 1 << 20
_GZIP = 31


def is_whole(entry: FileEntry, format_: FileFormat) -> bool:
    """Whether a file ends as one of its format: lines with the last line's end, gzip with its trailer.

    False where that is not known: of other compressed files, large ones, and files that are not on a local disk.
    """
    if not is_local(entry.path) or not entry.size:
        return False
    try:
        if format_.unit is not Unit.TEXT:
            return format_.is_whole(Path(entry.path))
        packed = compression(entry.path)
        if packed is None:
            return _last_byte(entry) == b"\n"
        return packed == "gzip" and entry.size <= _UNPACKED and _ends_as_gzip(Path(entry.path))
    except OSError:
        return False


def _last_byte(entry: FileEntry) -> bytes:
    with Path(entry.path).open("rb") as file:
        file.seek(entry.size - 1)
        return file.read(1)


def _ends_as_gzip(path: Path) -> bool:
    """Whether a file is members of gzip to its last byte, whose checksums are right."""
    with path.open("rb") as file:
        left = file.read(_CHUNK)
        while left:
            member = zlib.decompressobj(_GZIP)
            while left and not member.eof:
                try:
                    member.decompress(left, _CHUNK)
                except zlib.error:
                    return False
                left = (member.unconsumed_tail or member.unused_data) or file.read(_CHUNK)
            if not member.eof:
                return False
    return True
