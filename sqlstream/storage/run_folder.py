"""Temporary folders that live as long as their process, and are swept by a later one where a process was killed.

They are `runs/<name>` among the caches of this user (`local_cache`), or in memory. Whoever has one holds a lock of the
kernel's on a file in it; the lock goes with the process, so a folder whose lock can be had is nobody's. Making a folder
and sweeping exclude each other.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

try:
    import fcntl
except ImportError:  # pragma: no cover - not on Unix: nothing is swept there
    fcntl = None  # type: ignore[assignment]

from sqlstream.storage.user_folder import memory_directory, user_directory
from sqlstream_operators.state.private_folder import make_private

#: With less, a folder is on disk: containers have 64 MB of memory for files by default.
_ROOM_BYTES = 256 << 20
_RUNS = "runs"
_ALIVE = ".alive"
_GATE = ".gate"


class RunFolder:
    """A new temporary folder at `path`; gone when it is closed, or swept after its process was killed.

    `in_memory`: it is for little that is written often, and is in memory where the system has room for that.
    """

    def __init__(self, prefix: str = "", *, in_memory: bool = False) -> None:
        base = (memory_directory(_ROOM_BYTES) if in_memory else None) or user_directory()
        runs = make_private(base / _RUNS)
        with locked(runs / _GATE):
            self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=runs))
            self._alive = os.open(self.path / _ALIVE, os.O_CREAT | os.O_RDWR, 0o600)
            if fcntl is not None:
                fcntl.flock(self._alive, fcntl.LOCK_EX)

    def __enter__(self) -> Self:
        """The folder itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Remove the folder with what is in it; a second time does nothing."""
        if self._alive >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._alive)
            self._alive = -1


def sweep() -> None:
    """Remove the folders of processes that were killed."""
    for base in (user_directory(), memory_directory(0)):
        if base is not None:
            _sweep(base / _RUNS)


def _sweep(runs: Path) -> None:
    if fcntl is None or not runs.is_dir():
        return
    with locked(runs / _GATE):
        for folder in runs.iterdir():
            if folder.is_dir() and not _is_alive(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_alive(folder: Path) -> bool:
    try:
        handle = os.open(folder / _ALIVE, os.O_RDWR)
    except OSError:  # it was being made, or removed, when its process was killed
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Keep other processes out that lock the same file, which is made if it is not there."""
    handle = os.open(file, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        with contextlib.suppress(OSError):
            os.close(handle)
