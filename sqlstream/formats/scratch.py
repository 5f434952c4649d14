"""Places for what DuckDB can only read or write as a file: on disk, and in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from sqlstream.storage.run_folder import RunFolder

_OPEN_FILES = Path("/proc/self/fd")


class Scratch:
    """A temporary folder that is made with its first file; gone when the `with` block ends."""

    def __init__(self) -> None:
        self._folder: RunFolder | None = None
        self._made = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.close()

    @property
    def used(self) -> bool:
        """Whether anything was put into it."""
        return self._folder is not None

    def new_file(self, suffix: str = "") -> Path:
        """The path of a file that does not exist yet."""
        if self._folder is None:
            self._folder = RunFolder("files-")
        self._made += 1
        return self._folder.path / f"{self._made}{suffix}"


@contextmanager
def in_memory(content: Any) -> Iterator[str]:
    """The path of a file that has these bytes (anything with a buffer) until the `with` block ends, in memory if it can be.

    A file without a name costs 0.1 ms, one in a folder of its own 1 ms and more.
    """
    handle = _nameless()
    if handle is None:
        with Scratch() as scratch:
            path = scratch.new_file()
            path.write_bytes(content)
            yield str(path)
        return
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        yield f"{_OPEN_FILES}/{handle}"


def _nameless() -> int | None:
    """A file in memory without a name; None if this system has none that can be opened by a path."""
    if not hasattr(os, "memfd_create") or not _OPEN_FILES.is_dir():
        return None
    return os.memfd_create("sqlstream")
