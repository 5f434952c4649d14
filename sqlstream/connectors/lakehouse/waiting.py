"""Epochs that wait for a commit of their table, where that has an interval of its own.

An epoch that waits is published, so its rows are no longer in anybody's plan: all that its commit needs is written down in
the state directory, a note per epoch, before the next epoch is published. The commit of several epochs has the number of the
last one. So a note whose epoch the table's log has, or a later one, is of no use any more, whoever has left it.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlstream.connectors.lakehouse.options import COMMIT_INTERVAL
from sqlstream.connectors.options import duration_us
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore

_DIGITS = 10


@dataclass(frozen=True, slots=True)
class WaitingEpoch:
    """An epoch and what its commit needs, as plain JSON data."""

    epoch: int
    content: Mapping[str, Any]


class WaitingEpochs:
    """The epochs of one sink that wait, `known_as` what its table was called when it was first written.

    `clock` gives seconds. One driver at a time adds to them; notes that another one has left are found when this one begins.
    """

    def __init__(
        self,
        store: CheckpointStore,
        spec: SinkSpec,
        known_as: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        digest = hashlib.sha256(f"{spec.connector} {known_as}".encode()).hexdigest()[:16]
        self._store, self._clock = store, clock
        self._interval_s = (duration_us(spec.options, COMMIT_INTERVAL.name) or 0) / 1e6
        self._found: list[WaitingEpoch] | None = None
        self._since: float | None = None
        self.folder = f"sinks/{digest}.{spec.connector}.waiting"

    @property
    def may_wait(self) -> bool:
        """Whether epochs may wait at all."""
        return self._interval_s > 0

    @property
    def is_due(self) -> bool:
        """Whether the first one has waited for as long as it may."""
        return self._since is not None and self._clock() - self._since >= self._interval_s

    def all(self) -> list[WaitingEpoch]:
        """Those that wait, in their order."""
        if self._found is None:
            names = [name for name in self._store.list(self.folder) if name.endswith(".json")]
            notes = [json.loads(self._store.get(name)) for name in sorted(names)]
            self._found = [WaitingEpoch(note["epoch"], note["content"]) for note in notes]
        return list(self._found)

    def furthest(self, there: int) -> int:
        """The last epoch that waits, or else the one that is `there` in the table's log."""
        return max([there, *(one.epoch for one in self.all())])

    def add(self, epoch: int, content: Mapping[str, Any]) -> None:
        """Write down an epoch; durable when this returns."""
        found = [one for one in self.all() if one.epoch != epoch]
        self._store.put(self._name(epoch), json.dumps({"epoch": epoch, "content": content}).encode())
        self._found = sorted([*found, WaitingEpoch(epoch, content)], key=lambda one: one.epoch)
        if self._since is None:
            self._since = self._clock()

    def clear(self, *, in_order: bool = False) -> None:
        """Delete the notes of all epochs that wait here, once the table has them, and files that they name.

        Later ones are those of another driver, which has gone on. `in_order`: the earliest goes first, for a table whose log
        does not tell that it has them; else an object store gets one request for many.
        """
        waiting = self.all()
        if waiting:
            if in_order:
                for one in waiting:
                    self._store.delete(self._name(one.epoch))
            last = waiting[-1].epoch
            self._store.delete_all([n for n in self._store.list(self.folder) if self._epoch_of(n) <= last])
        self._found, self._since = [], None

    def folder_of(self, epoch: int) -> str:
        """Where files are that the note of an epoch names."""
        return f"{self.folder}/{epoch:0{_DIGITS}d}"

    def _name(self, epoch: int) -> str:
        return f"{self.folder_of(epoch)}.json"

    def _epoch_of(self, name: str) -> int:
        return int(name.removeprefix(f"{self.folder}/")[:_DIGITS])
