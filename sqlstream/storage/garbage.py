"""Deletes what no retained manifest and no pin names.

In the usual case the work is proportional to what one epoch made: when a manifest falls out of the last few,
only the files that it named are looked at. Files that no manifest ever named (an epoch that was
killed half-way) are found by one full listing, once per run, after the epoch that was under way is decided:
before that, a paused driver could still publish a manifest that names them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from sqlstream.storage import backfills
from sqlstream.storage.journal import Journal, manifest_name, physical_plan_name, plan_name, sql_name
from sqlstream.storage.manifest import Manifest
from sqlstream_operators.state import dimension_copies, staged_rows
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.version import ShardVersion
from sqlstream_planner.diagnostics import DiagnosticError

RETAINED = 3
#: Names in the checkpoint store that a user holds on to.
Pins = Callable[[], frozenset[str]]


def no_pins() -> frozenset[str]:
    """Nothing is pinned."""
    return frozenset()


def state_files(manifest: Manifest) -> frozenset[str]:
    """The names of all state files that a manifest needs."""
    names: set[str] = set()
    for state in manifest.states:
        for shard in state.shards:
            names |= ShardVersion.from_json(shard).files()
    return frozenset(names)


def _kept_with(manifest: Manifest) -> frozenset[str]:
    """What is kept while a manifest is retained: what it needs, and copies that the next epoch may read. A savepoint has no
    need of these.
    """
    return files_of(manifest) | frozenset(manifest.dimension_files)


def files_of(manifest: Manifest) -> frozenset[str]:
    """The names of all files that a manifest needs: of state, of staged rows, and of what it ran."""
    plans = {physical_plan_name(manifest.plan_digest)}
    if manifest.sql_digest is not None:
        plans.add(sql_name(manifest.sql_digest))
    return state_files(manifest) | manifest.staged_files | plans


class GarbageCollector:
    """Keeps the last `retained` manifests with what they name, and what `pins` name."""

    def __init__(
        self, journal: Journal, *, retained: int = RETAINED, pins: Pins = no_pins, state_folder: str = "state"
    ) -> None:
        if retained < 1:
            raise ValueError("at least one manifest is retained")
        self._journal = journal
        self._store: CheckpointStore = journal.store
        self._retained = retained
        self._pins = pins
        self._state_folder = state_folder
        self._kept: dict[int, frozenset[str]] = {}

    def committed(self, manifest: Manifest) -> None:
        """Take note of a new manifest and delete what only manifests before the retained ones named."""
        self._kept[manifest.epoch] = _kept_with(manifest)
        dropped = sorted(self._kept)[: -self._retained]
        if not dropped:
            return
        pinned = self._pinned()
        if pinned is None:
            return
        candidates: set[str] = set()
        for epoch in dropped:
            candidates |= {*self._kept.pop(epoch), manifest_name(epoch), plan_name(epoch)}
        self._delete(candidates - self._needed(pinned))

    def sweep(self) -> None:
        """List everything and delete what is not needed; for the start, when no epoch is under way."""
        self._store.sweep_temporary()
        plans, manifests = self._journal.epochs()
        last = manifests[-1] if manifests else 0
        end: Manifest | None = None
        for epoch in manifests[-self._retained :]:
            if epoch not in self._kept or epoch == last:
                try:
                    manifest = self._journal.manifest(epoch)
                except DiagnosticError:
                    if epoch == last:
                        raise
                    continue  # an older one is damaged: nothing can be made of it, and nothing needs it
                self._kept[epoch] = _kept_with(manifest)
                end = manifest
        pinned = self._pinned()
        if pinned is None:
            return
        needed = self._needed(pinned)
        old = [manifest_name(epoch) for epoch in manifests] + [plan_name(e) for e in plans if e <= last]
        folders = (self._state_folder, staged_rows.FOLDER, dimension_copies.FOLDER, "plans")
        found = [*old, *(name for folder in folders for name in self._store.list(folder))]
        found += backfills.unwanted(self._store, end)
        self._delete(set(found) - needed)

    def _delete(self, names: Collection[str]) -> None:
        """The manifests go first: one that is there names only files that are there."""
        first = {name for name in names if name.startswith("epochs/")}
        self._store.delete_all(sorted(first))
        self._store.delete_all(sorted(set(names) - first))

    def _pinned(self) -> frozenset[str] | None:
        """What a user holds on to; None if that can't be read, and then nothing may be collected."""
        try:
            return self._pins()
        except DiagnosticError:
            return None

    def _needed(self, pinned: frozenset[str]) -> set[str]:
        needed = set(pinned)
        for epoch, files in self._kept.items():
            needed |= {*files, manifest_name(epoch), plan_name(epoch)}
        return needed
