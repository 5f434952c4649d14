"""A state directory with one sink that writes a topic, driven as the epoch loop drives it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlstream.connectors.api import ConnectorContext, SinkPart
from sqlstream.connectors.exactly_once.sink import ExactlyOnceSink
from sqlstream.connectors.registry import REGISTERED
from sqlstream_operators.plan.spec import Column, SinkSpec
from sqlstream_operators.plan.types import parse_type
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from tests.connectors.kafka.topics import Topics
from tests.connectors.staged_parts import Delta, staged_part


@dataclass
class Job:
    """A state directory with one sink; epochs go as the epoch loop drives them."""

    folder: Path
    spec: SinkSpec
    last: int = 0
    committed: int = 0
    sinks: list[ExactlyOnceSink] = field(default_factory=list)
    state: str = "state"

    @property
    def store(self) -> CheckpointStore:
        return CheckpointStore(self.folder / self.state, sync=False)

    def start(self, *, close: bool = True) -> ExactlyOnceSink:
        """A driver starts; the last one is gone, or (`close=False`) still there."""
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
        parts = [self.part(delta) for delta in deltas]
        self.sink.prepare(self.last + 1, parts, previous=self.committed)
        return parts

    def commit(self, parts: Sequence[SinkPart]) -> None:
        self.last += 1
        self.sink.commit(self.last, parts, previous=self.committed)
        self.committed = self.last

    def commit_again(self, parts: Sequence[SinkPart]) -> None:
        self.sink.commit(self.last, parts, previous=self.last - 1)

    def epoch(self, *deltas: Delta) -> None:
        self.commit(self.prepare(*deltas))


def new_job(
    made: list[Job],
    tmp_path: Path,
    topics: Topics,
    topic: str,
    columns: Mapping[str, str] | None = None,
    *,
    key: Sequence[str] = (),
    upsert: bool = False,
    changelog: str = "append",
    state: str = "state",
    unique: tuple[str, ...] | None = None,
    metadata: tuple[tuple[str, str], ...] = (),
    **options: str,
) -> Job:
    given = {"topic": topic, "properties.bootstrap.servers": topics.bootstrap}
    if upsert:
        given |= {"key.format": "json", "value.format": "json"}
    elif "value.format" not in options:
        given |= {"format": "json"}
    given |= {name.replace("__", "-").replace("_", "."): value for name, value in options.items()}
    schema = tuple(
        Column(name, parse_type(text)) for name, text in (columns or {"k": "BIGINT", "v": "VARCHAR"}).items()
    )
    spec = SinkSpec(
        "out",
        "upsert-kafka" if upsert else "kafka",
        given,
        schema,
        primary_key=tuple(key),
        changelog=changelog,
        key=unique,
        metadata=metadata,
    )
    job = Job(tmp_path, spec, state=state)
    made.append(job)
    return job


def values(topics: Topics, topic: str) -> list[Any]:
    return [json.loads(value) for value in topics.values(topic) if value is not None]
