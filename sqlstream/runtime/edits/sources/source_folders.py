"""The folders that sources have for themselves in a state directory, for what they have listed."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import quote

from sqlstream_operators.state.checkpoint_store import CheckpointStore


def free_folder(store: CheckpointStore, table: str, used: Collection[str]) -> str:
    """A folder for a source that has nothing in it; what a run left there that was ended in the middle stays unused."""
    number = 1
    while True:
        number += 1
        folder = f"sources/{quote(table, safe='')}.{number}"
        if folder not in used and not store.list(folder):
            return folder


def copied_folder(
    store: CheckpointStore,
    folder: str,
    table: str,
    used: Collection[str],
    target: CheckpointStore | None = None,
) -> str:
    """The folder of a table, in `target` (default: the same store), that has all that `folder` has."""
    target = target or store
    free = free_folder(target, table, used)
    for name in store.list(folder):
        target.copy_from(store, name, f"{free}{name.removeprefix(folder)}")
    return free
