"""Whether a file is still the one that was listed: its size, its times and, on local disks, a digest of its content.

Times are compared first, because they are at hand. Where they differ and there is a digest, the digest decides: a file that
was only touched, or copied with its folder, is the same. It is of the whole content up to DIGESTED bytes; of a larger
file, of the head, the tail and pieces in between. Objects of a store have no digest, it would cost requests for each.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from sqlstream.connectors.filesystem.paths import FileEntry, is_local, local_entry, open_filesystem
from sqlstream_operators.errors import InputFileError, MachineError

#: A file of at most so many bytes is digested whole, a larger one in PIECES pieces that have as many bytes together.
DIGESTED = 256 << 10
PIECES = 8
_SECOND_US = 1_000_000


def stamped(entry: FileEntry) -> FileEntry:
    """The entry with the digest of its content, if the file is local.

    Raises InputFileError if it is gone, MachineError if it can't be read.
    """
    if not is_local(entry.path):
        return entry
    try:
        with Path(entry.path).open("rb") as file:
            digest = hashlib.blake2b(digest_size=8)
            piece = DIGESTED if entry.size <= DIGESTED else DIGESTED // PIECES
            count = 1 if entry.size <= DIGESTED else PIECES
            for number in range(count):
                file.seek((entry.size - piece) * number // (count - 1) if count > 1 else 0)
                digest.update(file.read(min(piece, entry.size)))
    except FileNotFoundError:
        raise file_vanished(entry) from None
    except OSError as error:
        raise file_unreadable(entry, error) from None
    return replace(entry, digest=digest.hexdigest())


def is_same(known: FileEntry, now: FileEntry) -> bool:
    """Whether `now`, as it was just listed, is the file that `known` was."""
    if known.size != now.size:
        return False
    if not is_local(known.path):
        # Lists have fractions of a second, the answer for one object has none.
        times = known.modified_us // _SECOND_US, now.modified_us // _SECOND_US
        return times[0] == times[1] or 0 in times
    if known.modified_us == now.modified_us and known.changed_us in (0, now.changed_us):
        return True
    return bool(known.digest) and known.digest == stamped(now).digest


def present(entry: FileEntry) -> FileEntry | None:
    """The file as it is now, without a digest; None if it is gone."""
    if is_local(entry.path):
        try:
            return replace(local_entry(entry.path, Path(entry.path).stat()), opening=entry.opening)
        except (FileNotFoundError, NotADirectoryError):
            return None
    filesystem, inside = open_filesystem(entry.location)
    found = filesystem.get_file_info(inside)
    if not found.is_file:
        return None
    return replace(entry, size=found.size, modified_us=int(found.mtime_ns or 0) // 1000)


def check_unchanged(entry: FileEntry) -> None:
    """Raise InputFileError if the file is gone or is another than the one that was listed."""
    now = present(entry)
    if now is None:
        raise file_vanished(entry)
    if not is_same(entry, now):
        raise file_changed(entry, now)


def file_changed(entry: FileEntry, now: FileEntry) -> InputFileError:
    """The error for a file that is not what was listed, and of which something may have been read."""
    if now.size != entry.size:
        what = f"it had {entry.size} bytes when it was listed and has {now.size} now"
    else:
        what = f"it has {now.size} bytes still, but was written again"
    return InputFileError(
        f"{entry.path} changed: {what}",
        f"write new data to new files, and rename them into place when they are complete; {ways_on(entry)}",
    )


def file_vanished(entry: FileEntry) -> InputFileError:
    """The error for a file that is gone before it was read."""
    return InputFileError(
        f"{entry.path} is gone: it had {entry.size} bytes when it was listed and has not been read completely",
        f"put it back, or go on without it: run with --skip-file '{entry.path}'",
    )


def file_unreadable(entry: FileEntry, error: OSError) -> MachineError:
    """The error for a file that the machine refuses to read: rights are missing, a disk fails."""
    return MachineError(f"{error.strerror or error}: {entry.path}")


def ways_on(entry: FileEntry) -> str:
    """What can be done about a file that can't be read as it is."""
    return (
        f"run with --skip-file '{entry.path}' to go on without what is in it now, "
        f"or with --read-again '{entry.path}' to read it from its beginning (rows that were read stay counted)"
    )


def repair(entry: FileEntry) -> str:
    """What can be done about a file that is damaged."""
    return (
        f"put the whole file in its place (nothing of it was counted), "
        f"or go on without it: run with --skip-file '{entry.path}'"
    )


def other_shape(path: str) -> str:
    """What can be done about a file that is not what the table declares."""
    return f"declare the table as its files are, or go on without this one: run with --skip-file '{path}'"
