"""What a task must know of its epoch: watermarks and versions of state, as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.plain_data import PlainData, stored
from sqlstream_operators.plan.spec import ExchangeInput, ExchangeOutput, LateStep, PhysicalPlan, Stage, Step
from sqlstream_operators.plan.watermarks import Watermarks, read_up_to
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.open_caches import OpenCaches
from sqlstream_operators.state.shard_store import ShardStore
from sqlstream_operators.state.version import ShardVersion

from .io import Stores


@dataclass(frozen=True, slots=True)
class EpochContext(PlainData):
    """What a task must know of its epoch; plain data.

    watermarks: of each source, µs. state: by state id, the versions of all shards before this epoch, in
    order; their number is the parallelism that they were written with, state_max_parallelism the max_parallelism (0:
    the same). checkpoint: URI of the checkpoint
    store. local_dir: a directory of the task's machine that may be lost. now_us: the wall clock when the epoch was
    planned, µs, the same when it is replayed. reemitted: sinks that get the whole answer that the state has, and nothing
    else happens in the epoch; without any it is an ordinary one. retracts: they are to lose that answer instead.
    dimensions: of each dimension table, the name of its copy in the checkpoint store. of_history: it reads again what
    epochs have read that are no part of it (a backfill). latest: by source, the watermark (µs) beyond which rows don't count
    for it, because they were too far ahead of the clock when they were read first. lanes: of each source that has several,
    those that its watermark is the least of, with what was seen of each before this epoch, µs.
    """

    epoch: int
    shards: int
    max_parallelism: int
    watermarks: Mapping[str, Watermarks]
    state: Mapping[str, tuple[ShardVersion, ...]] = field(default_factory=dict)
    checkpoint: str = ""
    local_dir: str = ""
    now_us: int = 0
    reemitted: tuple[str, ...] = ()
    retracts: bool = False
    state_max_parallelism: int = 0
    dimensions: Mapping[str, str] = field(default_factory=dict)
    of_history: bool = False
    latest: Mapping[str, int] = field(default_factory=dict)
    lanes: Mapping[str, Mapping[str, int]] = field(default_factory=dict, metadata=stored(if_default=False))

    @property
    def arrival(self) -> int:
        """The place of the epoch in the order of arrival: before all others if it reads history.

        >>> EpochContext(1, 1, 128, {}).arrival, EpochContext(1, 1, 128, {}, of_history=True).arrival < 0
        (1, True)
        """
        return self.epoch - (1 << 62) if self.of_history else self.epoch

    def version_of(self, state_id: str, shard: int) -> ShardVersion | None:
        """A shard's version before this epoch; None if it must be put together from other shards.

        >>> context = EpochContext(2, 1, 128, {}, {"s": (ShardVersion(1),)}, state_max_parallelism=64)
        >>> context.version_of("s", 0), context.version_of("other", 0) == ShardVersion.empty()
        (None, True)
        """
        versions = self.state.get(state_id, ())
        if not versions:
            return ShardVersion.empty()
        same = self.state_max_parallelism in (0, self.max_parallelism)
        return versions[shard] if same and len(versions) == self.shards else None

    def having_read(self, read: Mapping[str, Mapping[str, int]]) -> EpochContext:
        """The same once lanes of sources have been read up to watermarks (µs)."""
        raised = {
            source: marks.raised(read_up_to(self.lanes.get(source, {}), read.get(source, {})))
            for source, marks in self.watermarks.items()
        }
        return replace(self, watermarks=raised)


def rocks_stores(epoch: EpochContext, shard: int, kept: OpenCaches | None = None) -> Stores:
    """Opens states of a shard in the epoch's checkpoint store, RocksDB being the local cache, which `kept` may have open."""
    checkpoint = CheckpointStore(epoch.checkpoint)

    def open_store(schema: Any) -> ShardStore:
        version = epoch.version_of(schema.state_id, shard)
        return ShardStore.open(
            schema,
            shard,
            epoch.shards,
            epoch.max_parallelism,
            epoch.state[schema.state_id] if version is None else version,
            checkpoint=checkpoint,
            local_dir=Path(epoch.local_dir),
            epoch=epoch.epoch,
            written_with=(epoch.state_max_parallelism or None) if version is None else None,
            kept=kept,
        )

    return open_store


def watermarks_for(
    plan: PhysicalPlan, epoch: EpochContext, operator: str, sources: Iterable[str]
) -> Watermarks:
    """The watermarks of an operator: the least of its sources'.

    Where rows of it come from an operator (from a stage level after 0), they left that one in this very epoch, for
    windows that this epoch's watermark closed. So only what the epoch before closed is late for them.
    """
    try:
        marks = [epoch.watermarks[source] for source in sources]
    except KeyError as error:
        raise InternalError(f"epoch {epoch.epoch} has no watermark of source {error}") from None
    if not marks:
        raise InternalError(f"operator {operator} has no source with a watermark")
    previous = min(mark.previous for mark in marks)
    close = min(mark.close for mark in marks)
    cascaded = any(_from_operator(plan, stage, operator) for stage in plan.stages)
    return Watermarks(previous, previous if cascaded else min(mark.late for mark in marks), close)


def _from_operator(plan: PhysicalPlan, stage: Stage, operator: str) -> bool:
    """Whether the operator is in this stage and reads, through whatever steps, what a stage level after 0 sent."""
    needed = {name for s in stage.steps if s.name == operator for name in _reads(s)}
    for step in reversed(stage.steps):
        if step.name in needed:
            needed.update(_reads(step))
    edges = {i.edge for i in stage.inputs if isinstance(i, ExchangeInput) and i.name in needed}
    return any(
        isinstance(output, ExchangeOutput) and output.edge in edges and sender.level > 0
        for sender in plan.stages
        for output in sender.outputs
    )


def _reads(step: Step) -> tuple[str, ...]:
    return (step.input, *step.also, *step.inputs) if isinstance(step, LateStep) else step.inputs
