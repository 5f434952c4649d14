"""A state directory with one sink that is exactly once, driven as the epoch loop drives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlstream.connectors.api import ConnectorContext, SinkPart
from sqlstream.connectors.exactly_once.sink import ExactlyOnceSink
from sqlstream.connectors.registry import REGISTERED
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from tests.connectors.staged_parts import Delta, staged_part


@dataclass
class SinkJob:
    """A state directory in a folder, with one sink."""

    folder: Path
    spec: SinkSpec
    state: str = "state"
    last: int = 0
    committed: int = 0
    sinks: list[ExactlyOnceSink] = field(default_factory=list)

    @property
    def store(self) -> CheckpointStore:
        return CheckpointStore(self.folder / self.state, sync=False)

    def start(self, *, close: bool = True) -> ExactlyOnceSink:
        """A driver starts; the last one is gone, and its transaction with it, or (`close=False`) still there."""
        if close:
            for sink in self.sinks:
                sink.close()
        made = REGISTERED.sink(self.spec, ConnectorContext(self.store, str(self.folder)))
        assert isinstance(made, ExactlyOnceSink)
        self.sinks.append(made)
        return made

    @property
    def sink(self) -> ExactlyOnceSink:
        return self.sinks[-1] if self.sinks else self.start()

    def part(self, delta: Delta) -> SinkPart:
        return staged_part(self.store, self.spec, self.last + 1, delta)

    def prepare(self, *deltas: Delta) -> list[SinkPart]:
        """Prepare the next epoch; what its manifest would keep of the parts."""
        parts = [self.part(delta) for delta in deltas]
        self.sink.prepare(self.last + 1, parts, previous=self.committed)
        return parts

    def commit(self, parts: Sequence[SinkPart]) -> None:
        self.last += 1
        self.sink.commit(self.last, parts, previous=self.committed)
        self.committed = self.last

    def commit_again(self, parts: Sequence[SinkPart]) -> None:
        """As a run does that finds the last epoch's manifest."""
        self.sink.commit(self.last, parts, previous=self.last - 1)

    def epoch(self, *deltas: Delta) -> None:
        """One epoch from beginning to end; each delta comes from a task of its own."""
        self.commit(self.prepare(*deltas))
