"""The report of an epoch that is committed, and the totals of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlstream.connectors.api import Source
from sqlstream.runtime.loop.epoch import Epoch
from sqlstream.runtime.loop.progress import EpochReport, RunResult
from sqlstream.runtime.loop.run_state import RunState
from sqlstream.storage.manifest import Manifest


class Timer:
    """Seconds by step."""

    def __init__(self, clock: Callable[[], float], seconds: Mapping[str, float]) -> None:
        self._clock = clock
        self._since = clock()
        self.seconds = dict(seconds)

    def lap(self, name: str) -> None:
        """The step `name` ends now, and the next one begins."""
        now = self._clock()
        self.seconds[name] = now - self._since
        self._since = now

    def resume(self) -> None:
        """What has passed since the last step belongs to none."""
        self._since = self._clock()

    @property
    def total(self) -> float:
        """The seconds of all steps."""
        return sum(self.seconds.values())


def epoch_report(
    facts: Epoch,
    state: RunState,
    sources: Mapping[str, Source],
    *,
    replayed: bool,
) -> EpochReport:
    """The report of an epoch behind which the run stands at `state`; how it was done is added when it is completed."""
    shards = [shard for versions in state.versions.values() for shard in versions]
    return EpochReport(
        facts,
        lag={
            name: 0 if name in state.finished else source.lag(state.sources[name].position)
            for name, source in sources.items()
        },
        state_rows=sum(shard.rows for shard in shards),
        state_bytes=sum(shard.bytes for shard in shards),
        replayed=replayed,
        bounded=all(source.bounded for source in sources.values()),
    )


@dataclass(slots=True)
class Totals:
    """What the epochs of a run did, added up: a run may have millions of them."""

    epochs: int = 0
    read: Counter[str] = field(default_factory=Counter)
    written: Counter[str] = field(default_factory=Counter)
    letters: Counter[str] = field(default_factory=Counter)

    def add(self, facts: Epoch) -> None:
        """Count one more epoch, which has happened."""
        self.epochs += 1
        self.read.update(facts.rows_read)
        self.written.update(facts.rows_written)
        self.letters.update(facts.manifest.dead_letters)

    def result(
        self, outcome: str, last: Manifest | None, seconds: float, *, unfinished: int | None = None
    ) -> RunResult:
        """The totals of a run that ended with `outcome` behind the manifest `last`, in the epoch `unfinished`."""
        epoch = None if last is None else last.epoch
        read, written, letters = dict(self.read), dict(self.written), dict(self.letters)
        return RunResult(outcome, epoch, self.epochs, read, written, letters, seconds, unfinished)
