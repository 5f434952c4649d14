"""Copies of objects on this machine's disk, for files of which several tasks or epochs read a part each.

A copy is made once, by whoever asks first, and found by all processes of this user. Who asks is given a link of its own, so
a copy can be removed while it is read: those that were asked for longest ago are where all are too large together, and
those that nobody asked for in a day.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sqlstream.storage.run_folder import locked
from sqlstream.storage.user_folder import user_directory
from sqlstream_operators.state.private_folder import make_private

#: How many bytes of copies there are at most, and how large a part of what is free on the disk.
_MOST, _PART_OF_FREE = 16 << 30, 4
_LOCK, _HALF = ".lock", ".half"
#: After which time a copy that nobody asked for is removed, and what a killed process has left, s.
_UNUSED_S, _ABANDONED_S = 86_400, 3_600


def copied(what: str, size: int, target: Path, download: Callable[[Path], None]) -> None:
    """Make `target` hold `size` bytes of `what`, a version of an object: `download` writes them where there is no copy.

    Raises what `download` raises.
    """
    folder = make_private(_folder())
    name = hashlib.sha256(what.encode()).hexdigest()[:32]
    copy = folder / name
    # Another process may have removed the lock's file and lock a new one: then both download.
    with locked(folder / f"{name}{_LOCK}"):
        if _linked(copy, target):
            return
        half = folder / f"{name}.{uuid.uuid4().hex[:8]}{_HALF}"
        try:
            if size > _room(folder) // 2:
                download(target)
                return
            download(half)
            half.replace(copy)
        except OSError as error:
            half.unlink(missing_ok=True)
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            _tidy(folder, room=0)
            download(target)
            return
        except BaseException:
            half.unlink(missing_ok=True)
            raise
        if not _linked(copy, target):
            download(target)  # another process had no room for it
    _tidy(folder, room=_room(folder))


def sweep_copies() -> None:
    """Remove copies that nobody asked for in a day, and what killed processes left."""
    folder = _folder()
    if folder.is_dir():
        _tidy(folder, room=_room(folder))


def _folder() -> Path:
    return user_directory() / "objects"


def _linked(copy: Path, target: Path) -> bool:
    """Whether there is a copy, which `target` holds then."""
    try:
        os.utime(copy)  # it was asked for now
        try:
            os.link(copy, target)
        except FileNotFoundError:
            raise
        except OSError:  # a file system without links
            shutil.copyfile(copy, target)
    except FileNotFoundError:
        return False
    return True


def _room(folder: Path) -> int:
    """How many bytes the copies may have on this disk."""
    return min(_MOST, shutil.disk_usage(folder).free // _PART_OF_FREE)


def _tidy(folder: Path, *, room: int) -> None:
    """Remove copies that nobody asked for in a day or that there is no room for, and what killed processes left."""
    now, total = time.time(), 0
    found = []
    for one in folder.iterdir():
        with suppress(FileNotFoundError):
            found.append((one.stat().st_mtime, one.stat().st_size, one))
    for asked_for, size, one in sorted(found, reverse=True):
        age = now - asked_for
        if one.suffix in (_LOCK, _HALF):
            gone = age > _ABANDONED_S
        else:
            total += size
            gone = age > _UNUSED_S or total > room
        if gone:
            one.unlink(missing_ok=True)
