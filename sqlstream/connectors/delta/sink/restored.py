"""Whether RESTORE has taken rows away: it is a commit of its own, behind which the log has the epoch still."""

from __future__ import annotations

import json
from typing import Any

from pyarrow import fs

from sqlstream.connectors.filesystem.paths import open_filesystem


def lacks(location: str, given: int, now: int) -> bool:
    """Whether the table is at version `now` as it was at one before `given`. Raises OSError.

    The entries of the log are read here, a request each: Delta's library reads them with Python's lock held, so that a slow
    store would stop the whole driver.
    """
    filesystem, root = open_filesystem(location)
    has_all = {given: True}
    for version in range(given + 1, now + 1):
        commit = _commit(filesystem, f"{root}/_delta_log/{version:020d}.json")
        source = _restored(commit) if commit.get("operation") == "RESTORE" else version - 1
        has_all[version] = source is not None and has_all.get(source, False)
    return not has_all.get(now, True)


def _commit(filesystem: fs.FileSystem, path: str) -> dict[str, Any]:
    """What a version says of its commit; nothing if its entry is cleaned up: it is not known to have taken anything away."""
    try:
        with filesystem.open_input_stream(path) as stream:
            lines = stream.readall().splitlines()
    except FileNotFoundError:
        return {}
    actions = (json.loads(line) for line in lines if b'"commitInfo"' in line)
    found: dict[str, Any] = next((one["commitInfo"] for one in actions if "commitInfo" in one), {})
    return found


def _restored(commit: dict[str, Any]) -> int | None:
    """The version that a RESTORE has put into its place; None: it was named by a time."""
    version = str((commit.get("operationParameters") or {}).get("version"))
    return int(version) if version.isdecimal() else None
