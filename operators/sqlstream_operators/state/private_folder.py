"""Folders that only this user can write, also below one that everybody can, such as the temporary folder."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path


def make_private(path: Path) -> Path:
    """Make a folder, with those above it that are missing, for this user alone; returns it.

    What lies in it is believed, so nobody else may have laid it there: below a folder that others can write, each one on
    the way must be a folder of this user and no link. Raises PermissionError where one is not.
    """
    path = path.absolute()
    if not hasattr(os, "getuid"):
        path.mkdir(parents=True, exist_ok=True)
        return path
    for folder in (*list(reversed(path.parents))[1:], path):
        if not folder.is_dir():
            with contextlib.suppress(FileExistsError):
                folder.mkdir(0o700)
        if _others_can_write(folder.parent):
            _check_own(folder)
    found = _check_own(path)
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(0o700)
    return path


def _others_can_write(folder: Path) -> bool:
    return bool(folder.stat().st_mode & (stat.S_IWOTH | stat.S_IWGRP))


def _check_own(folder: Path) -> os.stat_result:
    found = folder.lstat()
    if stat.S_ISLNK(found.st_mode):
        what = "is a symbolic link"
    elif found.st_uid != os.getuid():
        what = f"belongs to user {found.st_uid}"
    else:
        return found
    raise PermissionError(
        f"{folder} {what}: state is not cached in a folder that somebody else may have made. Remove it, or set TMPDIR to "
        "a folder of your own"
    )
