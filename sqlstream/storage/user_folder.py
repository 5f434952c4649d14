"""The temporary folder of this user: caches of state, and what a run needs while it runs."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

#: Linux's file system in memory.
_SHARED_MEMORY = Path("/dev/shm")


def user_directory() -> Path:
    """Where this user's caches and temporary folders are on this machine."""
    return Path(tempfile.gettempdir()) / _name()


def memory_directory(room: int) -> Path | None:
    """Where this user's temporary folders can be in memory; None where the system has no such place with so many bytes.

    Nor is there one for who says by TMPDIR where temporary files are to be.
    """
    if os.environ.get("TMPDIR"):
        return None
    try:
        found = os.statvfs(_SHARED_MEMORY)
    except (AttributeError, OSError):
        return None
    if found.f_bavail * found.f_frsize < room or not os.access(_SHARED_MEMORY, os.W_OK | os.X_OK):
        return None
    return _SHARED_MEMORY / _name()


def _name() -> str:
    return f"sqlstream-{os.getuid() if hasattr(os, 'getuid') else 0}"
