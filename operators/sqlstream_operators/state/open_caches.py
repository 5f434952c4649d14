"""Caches of state that stay open from one epoch to the next, where one process runs all of them.

Opening a RocksDB, writing its memory to files after each epoch and closing it takes 12 ms on a fast machine, 47 on a slow
one, for each state and shard, however little an epoch changes. Kept open, an epoch's changes are in RocksDB's memory. A
process that is killed loses them, and finds the state at an older version, from which deltas of the checkpoint lead on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from pathlib import Path

from .cache import Cache
from .checkpoint_store import CheckpointStore
from .slots import file_name, parts_of

#: So many stay open; more than that are opened and closed for each epoch.
MOST_OPEN = 32


class OpenCaches:
    """The caches that are open between two epochs; each holds the lock of its slot. For one thread."""

    def __init__(self, most: int = MOST_OPEN) -> None:
        self._most = most
        self._open: dict[Path, Cache] = {}

    def take(self, slot: Path, checkpoint: CheckpointStore) -> Cache | None:
        """The open cache of a slot, which is the caller's from now on; None if there is none, or its folder is gone."""
        cache = self._open.pop(slot, None)
        if cache is None or cache.reopened(checkpoint):
            return cache
        _close(cache, settle=False)
        return None

    def keep(self, slot: Path, cache: Cache) -> bool:
        """Keep the cache for a slot open for the next epoch; False if it is to be closed.

        It may be a scratch slot: another process has the slot itself, and may have it for long.
        """
        if not cache.is_open or len(self._open) >= self._most or slot in self._open:
            return False
        self._open[slot] = cache
        return True

    def only(self, states: Collection[str]) -> None:
        """Close those of other states than these, whose slots may be removed then.

        RocksDB writes its memory to files when it is closed, and where their folder is gone it waits for a second.
        """
        names = set(map(file_name, states))
        for slot in list(self._open):
            parts = parts_of(slot.name)
            if parts is None or parts[0] not in names:
                _close(self._open.pop(slot), settle=False)

    def close(self, *, settle: bool = True) -> None:
        """Close all, so that other processes can have the slots; `settle` lets a compaction that runs end its step."""
        while self._open:
            _, cache = self._open.popitem()
            _close(cache, settle=settle)


def _close(cache: Cache, *, settle: bool) -> None:
    """Close a cache. One whose folder was removed under it is nobody's loss, but RocksDB misses the folder."""
    with contextlib.nullcontext() if cache.is_there else contextlib.suppress(Exception):
        try:
            if settle:
                cache.rocks.settle()
        finally:
            cache.close()
