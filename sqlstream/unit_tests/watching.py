"""Waits until a file changes that tests are about."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

POLL_S = 0.3
#: What a file was when it was looked at: its time and size; None if it is not there.
Looks = Mapping[Path, tuple[int, int] | None]


def look(files: Iterable[Path]) -> Looks:
    """How files are now."""
    return {path: _look(path) for path in files}


def changed(before: Looks, now: Looks) -> frozenset[Path]:
    """The files that are otherwise than before, new, or gone."""
    return frozenset(path for path in {*before, *now} if before.get(path) != now.get(path))


def wait(
    before: Looks, files: Callable[[], Iterable[Path]], sleep: Callable[[float], None] = time.sleep
) -> frozenset[Path]:
    """Wait until one of the files is otherwise than `before`, and has stayed so for a moment; which they are."""
    while True:
        sleep(POLL_S)
        now = look({*before, *files()})
        found = changed(before, now)
        if found and not changed(now, look(now)):
            return found


def _look(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size
