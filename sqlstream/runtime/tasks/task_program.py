"""An epoch as its tasks see it: the program, which task reads which splits, and how both travel to a worker."""

from __future__ import annotations

import functools
import itertools
import json
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlstream.connectors.api import ConnectorContext, Split
from sqlstream.connectors.capabilities import FromStore
from sqlstream.runtime.tasks.job import EpochJob
from sqlstream.runtime.tasks.planned_splits import splits_of
from sqlstream_operators.codec.exchange import Message
from sqlstream_operators.plan import plan_json
from sqlstream_operators.plan.epoch_values import EPOCH_RELATION
from sqlstream_operators.plan.spec import PhysicalPlan, SinkSpec, SourceSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.open_caches import OpenCaches
from sqlstream_operators.task.io import SinkWriter, SplitReader
from sqlstream_operators.task.report import Report
from sqlstream_operators.task.task import EpochContext, rocks_stores, run_shard_task, run_source_task
from sqlstream_planner.catalog.secrets import Secrets

if TYPE_CHECKING:
    from sqlstream.connectors.registry import Registry

#: A task of stage level 0 for each split, up to this many for each shard.
TASKS_PER_SHARD = 4
#: Splits of up to so many rows together are one, of connectors that combine them: each query costs some ms however few
#: rows it reads. 4,000 records of four partitions: 229 ms of CPU for an epoch without it, 86 with it.
COMBINED_ROWS = 10_000
#: Where all rows are staged, the parts of many epochs come together in one manifest: what it carries itself is small.
STAGED_INLINE_BYTES = 1 << 10


@dataclass(frozen=True, slots=True)
class Connectors:
    """How a task comes by the halves of connectors that run in it."""

    reader: Callable[[SourceSpec, str], SplitReader]
    lenient_reader: Callable[[SourceSpec, str], SplitReader]
    writer: Callable[[SinkSpec, ConnectorContext], SinkWriter]
    combines: Callable[[str], bool] = lambda connector: False


def of_registry(registry: Registry) -> Connectors:
    """The connectors of a registry."""
    return Connectors(registry.reader, registry.lenient_reader, registry.writer, registry.combines)


def registered() -> Connectors:
    """The connectors that there are."""
    from sqlstream.connectors.registry import REGISTERED

    return of_registry(REGISTERED)


@dataclass(frozen=True, slots=True)
class TaskSplit:
    """A split, and its place among all splits of the epoch in the order of the sources; of combined ones, the first's."""

    ordinal: int
    split: Split


@dataclass(frozen=True, slots=True)
class TaskProgram:
    """An epoch as its tasks see it: the program, the context, and which task reads which splits."""

    plan: PhysicalPlan
    context: EpochContext
    tasks: tuple[tuple[TaskSplit, ...], ...]
    base_dir: str
    secrets: Secrets = field(default_factory=Secrets)

    @classmethod
    def of(cls, job: EpochJob, connectors: Connectors | None = None) -> TaskProgram:
        """The program of an epoch's tasks; small splits of a source are combined where its connector can read several."""
        combines = (connectors or registered()).combines
        context = EpochContext(
            epoch=job.plan.epoch,
            shards=job.plan.parallelism,
            max_parallelism=job.program.options.max_parallelism,
            watermarks={source.name: source.watermarks for source in job.plan.sources}
            | {EPOCH_RELATION: job.plan.clock_watermarks},
            state=job.states,
            checkpoint=job.store_uri,
            local_dir=job.local_dir,
            now_us=job.plan.now_us,
            reemitted=job.plan.reemitted,
            retracts=job.retracts,
            state_max_parallelism=job.states_max_parallelism,
            dimensions={name: copy.name for name, copy in job.plan.dimensions.items()},
            of_history=job.of_history,
            latest=job.latest,
            lanes={source.name: source.active_lanes for source in job.plan.sources if source.lanes},
        )
        placed: list[TaskSplit] = []
        first = 0
        for source in job.plan.sources:
            splits = splits_of(source)
            for parts in _neighbours(splits) if combines(source.connector) else [[s] for s in splits]:
                placed.append(TaskSplit(first, Split.combined(parts)))
                first += len(parts)
        tasks = _spread(placed, job.plan.parallelism)
        return cls(job.program, context, tasks, job.base_dir, job.secrets)

    @property
    def ordinals(self) -> tuple[int, ...]:
        """What the splits are called in the reports of the tasks that read them, in order."""
        return tuple(split.ordinal for task in self.tasks for split in task)

    def run_source(self, task: int, connectors: Connectors) -> Iterator[Message]:
        """Run all splits of a task of stage level 0; reports are among the messages."""
        specs = {source.name: self.secrets.resolved(source) for source in self.plan.sources}
        for one in self.tasks[task]:
            spec = specs[one.split.source]
            reader = connectors.reader(spec, self.base_dir)
            whole = lenient = None
            if spec != spec.whole:
                whole = connectors.reader(spec.whole, self.base_dir)
                lenient = connectors.lenient_reader(spec, self.base_dir)
            for each in (reader, whole, lenient):
                self._open_store(each)
            yield from _as_messages(
                run_source_task(
                    self.plan,
                    one.split.source,
                    reader,
                    one.split,
                    self.context,
                    one.ordinal,
                    writers=lambda sink: self._writer(sink, connectors),
                    whole=whole,
                    lenient=lenient,
                )
            )

    def _open_store(self, reader: object) -> None:
        """Tell a reader where the state directory is, if its splits may be there."""
        if isinstance(reader, FromStore):
            reader.in_store(CheckpointStore(self.context.checkpoint))

    def run_shard(
        self,
        level: int,
        shard: int,
        messages: Iterable[Message],
        connectors: Connectors,
        kept: OpenCaches | None = None,
    ) -> Iterator[Message]:
        """Run all stages of a stage level in a shard; all reports so far are among the messages. `kept`: open caches."""
        return _as_messages(
            run_shard_task(
                self.plan,
                level,
                shard,
                messages,
                self.context,
                rocks_stores(self.context, shard, kept),
                writers=lambda sink: self._writer(sink, connectors),
            )
        )

    def run_all(
        self,
        connectors: Connectors,
        moved: Callable[[list[Message]], list[Message]] = list,
        kept: OpenCaches | None = None,
    ) -> list[Message]:
        """Run all tasks of all stage levels, one after the other; all reports are among the messages.

        `moved` is what an exchange does to the messages of all tasks of a stage level, `kept` has open caches of state.
        """
        messages = [m for task in range(len(self.tasks)) for m in self.run_source(task, connectors)]
        for level in range(1, self.plan.levels):
            arrived: dict[int, list[Message]] = defaultdict(list)
            for message in moved(messages):
                arrived[message.shard].append(message)
            messages = [
                message
                for shard in range(self.context.shards)
                for message in self.run_shard(level, shard, arrived[shard], connectors, kept)
            ]
        return messages

    def _writer(self, sink: SinkSpec, connectors: Connectors) -> SinkWriter:
        context = ConnectorContext(CheckpointStore(self.context.checkpoint), self.base_dir)
        if self.context.of_history:
            from sqlstream.connectors.exactly_once.staged import StagingWriter

            return StagingWriter(sink, context, inline_bytes=STAGED_INLINE_BYTES)
        return connectors.writer(self.secrets.resolved(sink), context)

    def plan_bytes(self) -> bytes:
        """The plan, the same in every epoch of a run, as compressed JSON."""
        return _packed(plan_json.to_json(self.plan))

    def epoch_bytes(self, *, state: bool = True, tasks: bool = True, secrets: bool = True) -> bytes:
        """What is the epoch's own, as compressed JSON: with the `state`, `tasks` and `secrets` that its readers need."""
        context = self.context.to_json()
        if not state:
            context["state"] = {}
        listed = [[[t.ordinal, _written(t.split)] for t in task] for task in (self.tasks if tasks else ())]
        known = dict(self.secrets.values) if secrets else {}
        own = {"base_dir": self.base_dir, "secrets": known}
        return _packed({"context": context, "tasks": listed, **own})

    @classmethod
    def from_bytes(cls, plan: bytes, epoch: bytes) -> TaskProgram:
        """Read what `plan_bytes` and `epoch_bytes` wrote; a plan is decoded once per process."""
        content = json.loads(zlib.decompress(epoch))
        return cls(
            _plan(plan),
            EpochContext.from_json(content["context"]),
            tuple(
                tuple(TaskSplit(ordinal, _split(split)) for ordinal, split in task)
                for task in content["tasks"]
            ),
            content["base_dir"],
            Secrets(content["secrets"]),
        )


def _written(split: Split) -> list[Any]:
    """A split as JSON."""
    parts = [_written(part) for part in split.parts]
    return [
        split.source,
        dict(split.payload),
        split.rows,
        split.bytes,
        split.lane,
        *([parts] if parts else []),
    ]


def _split(written: Sequence[Any]) -> Split:
    """Read what `_written` gave."""
    source, payload, rows, size, lane, *parts = written
    return Split(source, payload, rows, size, lane, tuple(_split(part) for group in parts for part in group))


def _packed(data: Any) -> bytes:
    return zlib.compress(json.dumps(data, separators=(",", ":")).encode(), 1)


@functools.lru_cache(maxsize=4)
def _plan(data: bytes) -> PhysicalPlan:
    return plan_json.from_json(json.loads(zlib.decompress(data)))


def _neighbours(splits: Sequence[Split]) -> Iterator[list[Split]]:
    """The splits of a source, in order; neighbours that have few rows together."""
    together: list[Split] = []
    rows = 0
    for split in splits:
        more = COMBINED_ROWS + 1 if split.rows is None else split.rows
        if together and rows + more > COMBINED_ROWS:
            yield together
            together, rows = [], 0
        together.append(split)
        rows += more
    if together:
        yield together


def _spread(splits: Sequence[TaskSplit], shards: int) -> tuple[tuple[TaskSplit, ...], ...]:
    """Splits to tasks: one each, or runs of neighbours if there are many; at least one task."""
    tasks = min(max(len(splits), 1), max(shards * TASKS_PER_SHARD, 1))
    bounds = [len(splits) * i // tasks for i in range(tasks + 1)]
    return tuple(tuple(splits[low:high]) for low, high in itertools.pairwise(bounds))


def _as_messages(made: Iterable[Message | Report]) -> Iterator[Message]:
    for one in made:
        yield one.to_message() if isinstance(one, Report) else one
