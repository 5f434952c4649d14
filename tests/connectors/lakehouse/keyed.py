"""A state directory with one table of a lake that is kept up to date by key; epochs go as the epoch loop drives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlstream.connectors.api import ConnectorContext, SinkPart
from sqlstream.connectors.lakehouse.sink import LakeSink
from sqlstream.connectors.registry import REGISTERED
from sqlstream.storage.identity import identity
from sqlstream_operators.plan.spec import Column, SinkSpec
from sqlstream_operators.plan.types import parse_type
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from tests.connectors.staged_parts import Delta, staged_part


def columns_of(schema: Mapping[str, str]) -> tuple[Column, ...]:
    return tuple(Column(column, parse_type(type_)) for column, type_ in schema.items())


@dataclass
class Driver:
    """A driver of the sink, and what it has committed."""

    folder: Path
    spec: SinkSpec
    state: str = "state"
    last: int = 0
    sinks: list[LakeSink[Any]] = field(default_factory=list)

    @property
    def store(self) -> CheckpointStore:
        return CheckpointStore(self.folder / self.state, sync=False)

    def start(self) -> LakeSink[Any]:
        """Another driver; the one before it stays as it is."""
        identity(self.store)
        made = REGISTERED.sink(self.spec, ConnectorContext(self.store, str(self.folder)))
        assert isinstance(made, LakeSink)
        self.sinks.append(made)
        return made

    @property
    def sink(self) -> LakeSink[Any]:
        return self.sinks[-1] if self.sinks else self.start()

    def part(self, delta: Delta) -> SinkPart:
        return staged_part(self.store, self.spec, self.last + 1, delta)

    def prepare(self, *deltas: Delta) -> list[SinkPart]:
        """Prepare the next epoch; what its manifest would keep of the parts."""
        parts = [self.part(delta) for delta in deltas]
        self.sink.prepare(self.last + 1, parts, previous=self.last)
        return parts

    def commit(self, parts: Sequence[SinkPart]) -> None:
        self.last += 1
        self.sink.commit(self.last, parts, previous=self.last - 1)

    def commit_again(self, parts: Sequence[SinkPart]) -> None:
        """As a new driver does that finds the last epoch's manifest."""
        self.start().commit(self.last, parts, previous=self.last - 1)

    def epoch(self, *deltas: Delta) -> list[SinkPart]:
        """One epoch from beginning to end; each delta comes from a task of its own."""
        parts = self.prepare(*deltas)
        self.commit(parts)
        return parts

    def close(self) -> None:
        for sink in self.sinks:
            sink.close()
