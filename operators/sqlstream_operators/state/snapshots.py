"""Snapshots of a shard's state: when one is taken, and the files of the local RocksDB as one."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterable

from .cache import Cache
from .checkpoint_store import CheckpointStore
from .version import StateFile, file_digest

_IMMUTABLE = (".sst", ".blob")


@dataclasses.dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    """When the files of the local RocksDB become the new snapshot.

    When the deltas since the last one are larger than it (and than `min_bytes`), so that snapshots cost no
    more than deltas do; or when there are more than `max_deltas` and the files that are not uploaded yet
    are at most `new_bytes_per_delta_byte` times the deltas (and `min_bytes`); at the latest at four times
    `max_deltas`. `retained_deltas` deltas before the snapshot stay, for caches on other machines that lag
    behind.
    """

    min_bytes: int = 8 << 20
    max_deltas: int = 32
    new_bytes_per_delta_byte: int = 8
    retained_deltas: int = 16

    def due(self, deltas: int, delta_bytes: int, snapshot_bytes: int, new_bytes: Callable[[], int]) -> bool:
        """Whether to take a snapshot now; `new_bytes` says how much it would upload."""
        if deltas == 0:
            return False
        if delta_bytes > max(snapshot_bytes, self.min_bytes) or deltas > 4 * self.max_deltas:
            return True
        bound = max(self.new_bytes_per_delta_byte * delta_bytes, self.min_bytes)
        return deltas > self.max_deltas and new_bytes() <= bound


def uploaded_snapshot(
    cache: Cache, checkpoint: CheckpointStore, folder: str, before: Iterable[StateFile]
) -> tuple[StateFile, ...]:
    """The files of a cache as a snapshot in `folder`; those that the snapshot `before` has are not uploaded again."""

    def stored(name: str, size: int, digest: str) -> StateFile:
        return StateFile(f"{folder}/files/{digest}-{name}", size, digest)

    have = {file.name for file in before}
    known = cache.load_digests()
    digests: dict[str, list[object]] = {}
    files = []
    copy = cache.slot / "checkpoint"
    shutil.rmtree(copy, ignore_errors=True)
    try:
        cache.rocks.checkpoint(copy)
        for path in sorted(copy.iterdir()):
            size = path.stat().st_size
            if not _belongs(path.name) or (path.suffix == ".log" and size == 0):
                continue
            immutable = path.suffix in _IMMUTABLE
            remembered = known.get(path.name) if immutable else None
            if remembered is not None and remembered[0] == size:
                file = stored(path.name, size, str(remembered[1]))
                # What the store lost is given to it again, after a look at what the cache has of it.
                there = file.name in have and checkpoint.size(file.name) == size
            else:
                there = False
            if not there:
                file = stored(path.name, size, file_digest(path))
                checkpoint.put(file.name, path)
            if immutable:
                digests[path.name] = [size, file.digest]
            files.append(file)
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    cache.save_digests(digests)
    return tuple(files)


def _belongs(name: str) -> bool:
    return name == "CURRENT" or name.startswith("MANIFEST-") or name.endswith((*_IMMUTABLE, ".log"))
