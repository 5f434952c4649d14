"""Whether two paths mean the same files, written in other words."""

from __future__ import annotations

from collections.abc import Iterable

from sqlstream.connectors.filesystem.paths import is_local, list_files, would_list
from sqlstream_operators.errors import MachineError
from sqlstream_planner.diagnostics import DiagnosticError


def same_files(was: str, now: str, seen: Iterable[str]) -> bool:
    """Whether a source of the path `now` has the files that one of `was` has, which has `seen` some of them; resolved paths.

    A folder and a pattern in it are the same while all files that were seen or are there are files of both.
    """
    if was == now:
        return True
    if not (is_local(was) and is_local(now)):
        return False
    seen = tuple(seen)
    try:
        there = [{entry.path for entry in list_files(location)} for location in (was, now)]
    except (DiagnosticError, MachineError, OSError):  # one of them is not there
        return False
    return bool(seen) and there[0] == there[1] and all(would_list(now, path) for path in seen)
