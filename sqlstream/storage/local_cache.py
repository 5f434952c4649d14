"""Where the machine keeps its caches of state: under the temporary folder, one folder a state directory.

A cache may be lost at any time; it is built again from the checkpoint. So that it does not grow for ever, a
run removes what belongs to another number of shards or to a state that its query does not have, and the
caches of state directories that are gone or were not used for a week.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from sqlstream.storage.user_folder import user_directory
from sqlstream_operators.state.private_folder import make_private
from sqlstream_operators.state.rescaling import RESCALE_PREFIX
from sqlstream_operators.state.slots import file_name, parts_of
from sqlstream_operators.task.dead_letters import FOLDER_PREFIX
from sqlstream_operators.task.task import SPILL

_OWNER = "state-dir"
UNUSED_S = 7 * 24 * 3600


def default_directory(state_uri: str) -> Path:
    """The cache folder of a state directory: the same in every run, another for every user."""
    return user_directory() / hashlib.sha256(state_uri.encode()).hexdigest()[:16]


def prepare(directory: Path, state_uri: str, states: Iterable[str], shards: int) -> None:
    """Make the folder (for this user only), mark it as used, and remove what this run has no use for.

    Raises PermissionError if somebody else may have made it.
    """
    make_private(directory)
    (directory / _OWNER).write_text(state_uri)
    wanted = set(map(file_name, states))
    for slot in directory.iterdir():
        found = parts_of(slot.name)
        unused = found is not None and (found[0] not in wanted or found[1] != shards)
        # What tasks that were killed collected, spilled or moved to other shards is of no use to anybody.
        if unused or slot.name.startswith((FOLDER_PREFIX, RESCALE_PREFIX)) or slot.name == SPILL:
            shutil.rmtree(slot, ignore_errors=True)


def hand_over(directory: Path, target: Path, states: Iterable[str]) -> None:
    """Move the caches of these states to those of the state directory that takes the states over; remove the others."""
    wanted = set(map(file_name, states))
    with contextlib.suppress(OSError):  # a cache may be lost at any time
        for slot in directory.iterdir():
            found = parts_of(slot.name)
            if found is not None and not found[2] and found[0] in wanted:
                shutil.rmtree(target / slot.name, ignore_errors=True)
                slot.rename(target / slot.name)
    shutil.rmtree(directory, ignore_errors=True)


def remove_unused(parent: Path, keep: Path) -> None:
    """Remove caches beside `keep` whose state directory is gone, or that were not used for a week."""
    with contextlib.suppress(OSError):
        for directory in parent.iterdir():
            owner = directory / _OWNER
            if directory == keep or not owner.is_file():
                continue
            uri = owner.read_text()
            unused = time.time() - owner.stat().st_mtime > UNUSED_S
            gone = "://" not in uri and not Path(uri).exists()
            if unused or gone:
                shutil.rmtree(directory, ignore_errors=True)
