"""The dead-letter table: rows that could not be counted, kept as JSON lines, only from committed epochs.

A task's dead letters of an epoch are a file (`sqlstream_operators.task.dead_letters` says what is in it) that it stages
before the manifest, which names it. After the manifest it is put in place, under `dead-letter/`; both steps may be
repeated with the same result, and no row passes through the driver.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlstream.storage.checked_json import DamagedFileError
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.task.dead_letters import STAGED, digest

FOLDER = "dead-letter"


def visible_name(staged: str) -> str:
    """The name of a staged file once it is committed.

    >>> visible_name("staging/dead-letter/epoch-000042-0-00003-0123456789abcdef.jsonl")
    'dead-letter/epoch-000042-0-00003.jsonl'
    """
    task = staged.removeprefix(f"{STAGED}/").rsplit("-", 1)[0]
    return f"{FOLDER}/{task}.jsonl"


def commit(store: CheckpointStore, staged: Iterable[str], *, after_a_crash: bool = False) -> None:
    """Put the staged files of a committed epoch in place. Repeatable: one that is not there is in place.

    `after_a_crash`: another process has written them, so they are checked. Raises DamagedFileError.
    """
    for name in staged:
        if after_a_crash and store.exists(name):
            with store.open(name) as file:
                if digest(file) != name.removesuffix(".jsonl").rsplit("-", 1)[-1]:
                    raise DamagedFileError(name, "has another content than its name says")
        store.move(name, visible_name(name))


def abort_uncommitted(store: CheckpointStore, last_epoch: int) -> None:
    """Remove what epochs after `last_epoch` staged."""
    for name in store.list(STAGED):
        number = name.removeprefix(f"{STAGED}/epoch-").split("-")[0]
        if number.isdigit() and int(number) > last_epoch:
            store.delete(name)
