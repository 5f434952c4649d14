"""What was seen of each epoch, for people: `history/`, lines of JSON in files of some hundred epochs.

Manifests are the truth and only the last few are kept; this is a record of thousands, for plots and for finding out what a
slow epoch spent its time on. Nothing is computed from it. A run adds to it every few seconds, so one that is killed may
leave its last epochs out.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from sqlstream_operators.plan.plain_data import PlainData, PlainRow, stored
from sqlstream_operators.state.checkpoint_store import CheckpointStore

FOLDER = "history"
#: So many epochs are kept, at least.
KEPT_EPOCHS = 10_000
#: A file has so many epochs at most, and is closed when it has so many bytes: it is written again while it grows.
FILE_EPOCHS, FILE_BYTES = 512, 256 << 10
#: Of an epoch's tasks those that took longest.
SHOWN_TASKS = 12
_CACHED_FILES = 16


@dataclass(frozen=True, slots=True)
class TaskFigures(PlainRow):
    """What one task did: `rows` and `bytes` that came in, `shipped` bytes that went out, `us` by what it was at."""

    task: str
    rows: int
    bytes: int
    shipped: int
    us: Mapping[str, int]

    @property
    def total_us(self) -> int:
        """How long it took (µs)."""
        return sum(self.us.values())


@dataclass(frozen=True, slots=True)
class EpochRecord(PlainData):
    """One committed epoch.

    `at_us` is when it was committed (µs since 1970), `run` the id of its run, `digest` that of its physical plan. `seconds`
    are those of each step of the loop. `read` and `written` are rows by source and sink, `letters` dead-letter rows by kind,
    `lag` the rows that wait by source (None: not known), `watermarks` by source (µs, None before the first row, "end").
    `made` are the rows that operators gave, by step. `tasks` are the slowest of `task_count`. `edits`: it carried an edit
    out.
    """

    epoch: int
    at_us: int
    run: str
    digest: str
    seconds: Mapping[str, float]
    read: Mapping[str, int]
    written: Mapping[str, int]
    state_rows: int
    state_bytes: int
    letters: Mapping[str, int] = field(default_factory=dict, metadata=stored(if_default=False))
    lag: Mapping[str, Any] = field(default_factory=dict, metadata=stored(if_default=False))
    watermarks: Mapping[str, Any] = field(default_factory=dict, metadata=stored(if_default=False))
    made: Mapping[str, int] = field(default_factory=dict, metadata=stored(if_default=False))
    tasks: tuple[TaskFigures, ...] = field(default=(), metadata=stored(if_default=False))
    task_count: int = field(default=0, metadata=stored(if_default=False))
    edits: bool = field(default=False, metadata=stored(if_default=False))
    replayed: bool = field(default=False, metadata=stored(if_default=False))

    @property
    def total_seconds(self) -> float:
        """How long the epoch took."""
        return sum(self.seconds.values())


@dataclass(frozen=True, slots=True)
class EpochSummary:
    """The sums of an `EpochRecord`: what a plot of thousands needs. `lag` is None if that of no source is known."""

    epoch: int
    at_us: int
    run: str
    seconds: float
    job: float
    read: int
    written: int
    letters: int
    lag: int | None
    state_rows: int
    state_bytes: int
    edits: bool


def whole_lag(lags: Mapping[str, Any]) -> int | None:
    """The rows that wait, of all sources of which that is known; None: of none.

    >>> whole_lag({"t": 2, "u": None, "v": 3}), whole_lag({"u": None})
    (5, None)
    """
    known = [lag for lag in lags.values() if lag is not None]
    return sum(known) if known else None


def summary_of(stored: Mapping[str, Any]) -> EpochSummary:
    """The summary of a record as it is stored. Raises KeyError and TypeError for what is none."""
    return EpochSummary(
        epoch=stored["epoch"],
        at_us=stored["at_us"],
        run=stored["run"],
        seconds=sum(stored["seconds"].values()),
        job=stored["seconds"].get("job", 0.0),
        read=sum(stored["read"].values()),
        written=sum(stored["written"].values()),
        letters=sum(stored.get("letters", {}).values()),
        lag=whole_lag(stored.get("lag", {})),
        state_rows=stored["state_rows"],
        state_bytes=stored["state_bytes"],
        edits=stored.get("edits", False),
    )


class HistoryWriter:
    """Adds the epochs of one run. `add` is called by the run's own thread, `write` by another one, too."""

    def __init__(
        self, store: CheckpointStore, *, kept: int = KEPT_EPOCHS, per_file: int = FILE_EPOCHS
    ) -> None:
        self._store = store
        self._kept = kept
        self._per_file = per_file
        self._lock = threading.Lock()
        self._waiting: list[tuple[int, bytes]] = []
        self._open: list[bytes] = []
        self._name = ""

    def add(self, record: EpochRecord) -> None:
        """Note an epoch; it is written with the next `write`."""
        line = json.dumps(record.to_json(), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            self._waiting.append((record.epoch, line))

    def write(self) -> None:
        """Write what was noted. Raises OSError."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        try:
            self._write(waiting)
        except OSError:
            with self._lock:
                self._waiting[:0] = waiting
            raise

    def _write(self, waiting: list[tuple[int, bytes]]) -> None:
        name, lines = self._name, list(self._open)
        if not name:
            name, lines = self._last()
        for epoch, line in waiting:
            if not name or len(lines) >= self._per_file or sum(map(len, lines)) >= FILE_BYTES:
                if lines:
                    self._store.put(name, b"".join(lines))
                name, lines = f"{FOLDER}/{epoch:012d}.log", []
                self._forget(epoch)
            lines.append(line)
        self._store.put(name, b"".join(lines))
        self._name, self._open = name, lines

    def _last(self) -> tuple[str, list[bytes]]:
        """The file that an earlier run has left open, or none."""
        names = files(self._store)
        if not names:
            return "", []
        return names[-1], self._store.get(names[-1]).splitlines(keepends=True)

    def _forget(self, epoch: int) -> None:
        """Delete files that have only epochs before the kept ones."""
        names = files(self._store)
        for name, later in pairwise(names):
            if first_epoch(later) <= epoch - self._kept:
                self._store.delete(name)


def files(store: CheckpointStore) -> list[str]:
    """The names of all files of the history, oldest first."""
    return sorted(name for name in store.list(FOLDER) if name.endswith(".log") and first_epoch(name))


def first_epoch(name: str) -> int:
    """The first epoch in a file of the history, 0 if it is none.

    >>> first_epoch("history/000000000042.log"), first_epoch("history/x.log")
    (42, 0)
    """
    number = name.removeprefix(f"{FOLDER}/").removesuffix(".log")
    return int(number) if number.isdigit() else 0


class History:
    """Reads the history of a state directory, newest first. Closed files are read once: they never change."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self._closed: OrderedDict[str, tuple[EpochRecord, ...]] = OrderedDict()
        self._summed: dict[str, tuple[EpochSummary, ...]] = {}
        self._lock = threading.Lock()

    def latest(self, before: int | None = None) -> Iterator[EpochRecord]:
        """The epochs before one (None: all), newest first, as they are asked for. A file that is gone meanwhile has none."""
        for name, is_closed in self._newest_first(files(self._store)):
            if before is not None and first_epoch(name) >= before:
                continue
            for record in reversed(self._records(name, is_closed=is_closed)):
                if before is None or record.epoch < before:
                    yield record

    def summaries(self, number: int) -> list[EpochSummary]:
        """The sums of the last epochs, oldest first. Those of closed files are kept, some hundred bytes an epoch."""
        names = files(self._store)
        found: list[EpochSummary] = []
        for name, is_closed in self._newest_first(names):
            if len(found) >= number:
                break
            found[:0] = self._summaries(name, is_closed=is_closed)
        with self._lock:
            self._summed = {name: sums for name, sums in self._summed.items() if name in names}
        return found[-number:]

    @staticmethod
    def _newest_first(names: Sequence[str]) -> Iterator[tuple[str, bool]]:
        """Each file, and whether it is closed: a run adds to the last one only."""
        return ((name, number > 0) for number, name in enumerate(reversed(names)))

    def _summaries(self, name: str, *, is_closed: bool) -> tuple[EpochSummary, ...]:
        with self._lock:
            if name in self._summed:
                return self._summed[name]
        made: list[EpochSummary] = []
        for line in self._lines(name):
            # Another version may have written it otherwise.
            with suppress(ValueError, KeyError, TypeError, AttributeError):
                made.append(summary_of(json.loads(line)))
        if is_closed:
            with self._lock:
                self._summed[name] = tuple(made)
        return tuple(made)

    def _lines(self, name: str) -> list[bytes]:
        try:
            return self._store.get(name).splitlines()
        except OSError:
            return []

    def find(self, epoch: int) -> EpochRecord | None:
        """The record of an epoch, None if there is none."""
        found = next(self.latest(epoch + 1), None)
        return found if found is not None and found.epoch == epoch else None

    def _records(self, name: str, *, is_closed: bool) -> tuple[EpochRecord, ...]:
        with self._lock:
            if name in self._closed:
                self._closed.move_to_end(name)
                return self._closed[name]
        records = tuple(filter(None, map(_record, self._lines(name))))
        if is_closed:
            with self._lock:
                self._closed[name] = records
                while len(self._closed) > _CACHED_FILES:
                    self._closed.popitem(last=False)
        return records


def _record(line: bytes) -> EpochRecord | None:
    """A line's record; None for one that another version has written otherwise."""
    try:
        return EpochRecord.from_json(json.loads(line))
    except ValueError:
        return None
