"""What a Spark task calls: from rows of blobs to the task program and back.

Between two levels travel rows (shard, edge, producer, part, blob): a message is cut into parts of a few MB,
because Spark moves those faster than big ones (1 GB through one exchange: 2.9 s in parts of 1 MB, 4.7 s
of 16 MB, 9.5 s of 64 MB) and no Arrow batch comes near its limit of 2 GiB.
"""

from __future__ import annotations

import functools
import itertools
import json
import traceback
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sqlstream.connectors.api import ConnectorContext, Split
from sqlstream.runtime.tasks.job import EpochJob
from sqlstream_operators.codec.exchange import Message
from sqlstream_operators.errors import DataError, MemoryExhaustedError, StateError
from sqlstream_operators.plan import plan_json
from sqlstream_operators.plan.spec import PhysicalPlan, SinkSpec, SourceSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.task.io import SinkWriter, SplitReader
from sqlstream_operators.task.report import Report
from sqlstream_operators.task.task import EpochContext, rocks_stores, run_shard_task, run_source_task
from sqlstream_planner.diagnostics import DiagnosticError

if TYPE_CHECKING:
    from sqlstream.connectors.registry import Registry

PART_BYTES = 4 << 20
ROW = pa.schema(
    [
        ("shard", pa.int32()),
        ("edge", pa.string()),
        ("producer", pa.int32()),
        ("part", pa.int32()),
        ("blob", pa.binary()),
    ]
)
#: Producers of one edge are ordered by (level, ordinal).
LEVEL = 1 << 24
#: A level-0 task for each split, up to this many for each shard.
TASKS_PER_SHARD = 4

_FAILURE = "sqlstream task failure: "


@dataclass(frozen=True, slots=True)
class Connectors:
    """How a task comes by the halves of connectors that run in it."""

    reader: Callable[[SourceSpec, str], SplitReader]
    careful_reader: Callable[[SourceSpec, str], SplitReader]
    writer: Callable[[SinkSpec, ConnectorContext], SinkWriter]


def of_registry(registry: Registry) -> Connectors:
    """The connectors of a registry."""
    return Connectors(registry.reader, registry.careful_reader, registry.writer)


def registered() -> Connectors:
    """The connectors that there are."""
    from sqlstream.connectors.registry import REGISTERED

    return of_registry(REGISTERED)


@dataclass(frozen=True, slots=True)
class TaskSplit:
    """A split, and its place among all splits of the epoch in the order of the sources."""

    ordinal: int
    split: Split


@dataclass(frozen=True, slots=True)
class TaskProgram:
    """An epoch as its tasks see it: the program, the context, and which task reads which splits."""

    plan: PhysicalPlan
    context: EpochContext
    tasks: tuple[tuple[TaskSplit, ...], ...]
    base_dir: str

    @classmethod
    def of(cls, job: EpochJob) -> TaskProgram:
        """The program of an epoch's tasks."""
        splits = [
            Split(source.name, split.payload, split.rows, split.bytes)
            for source in job.plan.sources
            for split in source.splits
        ]
        context = EpochContext(
            epoch=job.plan.epoch,
            shards=job.plan.parallelism,
            max_parallelism=job.program.options.max_parallelism,
            watermarks={source.name: source.watermarks for source in job.plan.sources},
            state=job.states,
            checkpoint=job.store_uri,
            local_dir=job.local_dir,
            now_us=job.plan.now_us,
        )
        placed = [TaskSplit(ordinal, split) for ordinal, split in enumerate(splits)]
        return cls(job.program, context, _spread(placed, job.plan.parallelism), job.base_dir)

    def run_source(self, task: int, connectors: Connectors) -> Iterator[Message]:
        """Run all splits of a level-0 task; reports are among the messages."""
        specs = {source.name: source for source in self.plan.sources}
        for one in self.tasks[task]:
            spec = specs[one.split.source]
            reader = connectors.reader(spec, self.base_dir)
            whole = lenient = None
            if spec != spec.whole:
                whole = connectors.reader(spec.whole, self.base_dir)
                lenient = connectors.careful_reader(spec, self.base_dir)
            yield from _as_messages(
                run_source_task(
                    self.plan,
                    one.split.source,
                    reader,
                    one.split,
                    self.context,
                    one.ordinal,
                    writers=lambda sink: connectors.writer(sink, self._sink_context()),
                    whole=whole,
                    lenient=lenient,
                )
            )

    def run_shard(
        self, level: int, shard: int, messages: Iterable[Message], connectors: Connectors
    ) -> Iterator[Message]:
        """Run all stages of a level in a shard; all reports so far are among the messages."""
        return _as_messages(
            run_shard_task(
                self.plan,
                level,
                shard,
                messages,
                self.context,
                rocks_stores(self.context, shard),
                writers=lambda sink: connectors.writer(sink, self._sink_context()),
            )
        )

    def run_all(
        self, connectors: Connectors, moved: Callable[[list[Message]], list[Message]] = list
    ) -> list[Message]:
        """Run all tasks of all levels, one after the other; all reports are among the messages.

        `moved` is what an exchange does to the messages of all tasks of a level.
        """
        messages = [m for task in range(len(self.tasks)) for m in self.run_source(task, connectors)]
        for level in range(1, self.plan.levels):
            arrived: dict[int, list[Message]] = defaultdict(list)
            for message in moved(messages):
                arrived[message.shard].append(message)
            messages = [
                message
                for shard in range(self.context.shards)
                for message in self.run_shard(level, shard, arrived[shard], connectors)
            ]
        return messages

    def _sink_context(self) -> ConnectorContext:
        return ConnectorContext(CheckpointStore(self.context.checkpoint), self.base_dir)

    def plan_bytes(self) -> bytes:
        """The plan, the same in every epoch of a run, as compressed JSON."""
        return _packed(plan_json.to_json(self.plan))

    def epoch_bytes(self, *, state: bool = True, tasks: bool = True) -> bytes:
        """What is the epoch's own, as compressed JSON: with the `state` and the `tasks` that its readers need."""
        context = self.context.to_json()
        if not state:
            context["state"] = {}
        listed = [
            [[t.ordinal, t.split.source, dict(t.split.payload), t.split.rows, t.split.bytes] for t in task]
            for task in (self.tasks if tasks else ())
        ]
        return _packed({"context": context, "tasks": listed, "base_dir": self.base_dir})

    @classmethod
    def from_bytes(cls, plan: bytes, epoch: bytes) -> TaskProgram:
        """Read what `plan_bytes` and `epoch_bytes` wrote; a plan is decoded once a process."""
        content = json.loads(zlib.decompress(epoch))
        return cls(
            _plan(plan),
            EpochContext.from_json(content["context"]),
            tuple(
                tuple(TaskSplit(ordinal, Split(*split)) for ordinal, *split in task)
                for task in content["tasks"]
            ),
            content["base_dir"],
        )


def _packed(data: Any) -> bytes:
    return zlib.compress(json.dumps(data, separators=(",", ":")).encode(), 1)


@functools.lru_cache(maxsize=4)
def _plan(data: bytes) -> PhysicalPlan:
    return plan_json.from_json(json.loads(zlib.decompress(data)))


def _spread(splits: Sequence[TaskSplit], shards: int) -> tuple[tuple[TaskSplit, ...], ...]:
    """Splits to tasks: one each, or runs of neighbours if there are many; at least one task."""
    tasks = min(max(len(splits), 1), max(shards * TASKS_PER_SHARD, 1))
    bounds = [len(splits) * i // tasks for i in range(tasks + 1)]
    return tuple(tuple(splits[low:high]) for low, high in itertools.pairwise(bounds))


def _as_messages(made: Iterable[Message | Report]) -> Iterator[Message]:
    for one in made:
        yield one.to_message(one.level * LEVEL + one.ordinal) if isinstance(one, Report) else one


# --------------------------------------------------------------------------------------- rows of a Spark job


def to_batches(messages: Iterable[Message]) -> Iterator[pa.RecordBatch]:
    """Messages as rows, one part a batch; small ones share a batch."""
    waiting: list[tuple[int, str, int, int, bytes]] = []
    size = 0
    for message in messages:
        for part, start in enumerate(range(0, max(len(message.blob), 1), PART_BYTES)):
            blob = message.blob[start : start + PART_BYTES]
            waiting.append((message.shard, message.edge, message.producer, part, blob))
            size += len(blob)
            if size >= PART_BYTES:
                yield _batch(waiting)
                waiting, size = [], 0
    if waiting:
        yield _batch(waiting)


def _batch(rows: Sequence[tuple[int, str, int, int, bytes]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROW)


def from_batches(batches: Iterable[pa.RecordBatch]) -> list[Message]:
    """The messages whose parts are among the rows, in whatever order they came."""
    parts: dict[tuple[str, int, int], list[tuple[int, pa.Buffer]]] = {}
    for batch in batches:
        columns = [batch.column(i) for i in range(len(ROW))]
        shards, edges, producers, numbers = (column.to_pylist() for column in columns[:4])
        for row, (shard, edge, producer, number) in enumerate(
            zip(shards, edges, producers, numbers, strict=True)
        ):
            blob = columns[4][row].as_buffer()
            parts.setdefault((edge, shard, producer), []).append((number, blob))
    messages = []
    for (edge, shard, producer), found in parts.items():
        found.sort(key=lambda part: part[0])
        if [number for number, _ in found] != list(range(len(found))):
            raise RuntimeError(f"parts of a blob on edge {edge} are missing: {[n for n, _ in found]}")
        messages.append(Message(edge, shard, producer, b"".join(memoryview(part) for _, part in found)))
    return messages


@functools.lru_cache(maxsize=4)
def _program(plan: bytes, epoch: bytes) -> TaskProgram:
    return TaskProgram.from_bytes(plan, epoch)


@dataclass(frozen=True, slots=True)
class SourceTasks:
    """The function of level 0 for `mapInArrow`: its rows are numbers of tasks."""

    plan: bytes
    epoch: bytes

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the tasks whose numbers come in."""
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        with _Telling():
            program = _program(self.plan, self.epoch)
            connectors = registered()
            for number in numbers:
                yield from to_batches(program.run_source(number, connectors))


@dataclass(frozen=True, slots=True)
class ShardTasks:
    """The function of a later level for `mapInArrow`: its partition is the shard."""

    plan: bytes
    epoch: bytes
    level: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the shard that this task is."""
        from pyspark import TaskContext

        task = TaskContext.get()
        if task is None:
            raise RuntimeError("a shard's task runs in Spark only")
        with _Telling():
            messages = from_batches(batches)
            program = _program(self.plan, self.epoch)
            yield from to_batches(program.run_shard(self.level, task.partitionId(), messages, registered()))


@dataclass(frozen=True, slots=True)
class WholeEpoch:
    """The function for `mapInArrow` that runs all levels of a small epoch in one task.

    It reads the epoch from a file, so that Spark plans it once for all epochs. A task that is left from an
    epoch before does what the task of this epoch does, as any second attempt of it would.
    """

    file: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the epoch, if a row comes in."""
        rows = sum(batch.num_rows for batch in batches)
        with _Telling():
            if rows:
                program = _program(*unframed(Path(self.file).read_bytes()))
                yield from to_batches(program.run_all(registered()))


def framed(plan: bytes, epoch: bytes) -> bytes:
    """A plan and an epoch as one file.

    >>> unframed(framed(b"plan", b"epoch"))
    (b'plan', b'epoch')
    """
    return len(plan).to_bytes(8, "little") + plan + epoch


def unframed(content: bytes) -> tuple[bytes, bytes]:
    """What `framed` put together."""
    end = 8 + int.from_bytes(content[:8], "little")
    return content[8:end], content[end:]


# ------------------------------------------------------------------------------------------------- failures


class TaskFailureError(Exception):
    """What went wrong in a task, as text that survives Spark's wrapping: a marker and one line of JSON."""


class _Telling:
    """Turns what is raised inside into a TaskFailureError."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            text = json.dumps(describe(error)).replace("\n", " ")
            raise TaskFailureError(f"{_FAILURE}{text}") from None


def describe(error: Exception) -> dict[str, Any]:
    """An error of a task as JSON."""
    if isinstance(error, DiagnosticError):
        return {
            "kind": "diagnostic",
            "diagnostics": [
                {"code": d.code, "message": d.message, "notes": list(d.notes), "help": d.help}
                for d in error.diagnostics
            ],
            "exit_code": error.exit_code,
        }
    if isinstance(error, DataError):
        return {"kind": "data", "message": error.message, "sql": error.sql}
    if isinstance(error, MemoryExhaustedError):
        return {"kind": "memory", "message": error.message, "where": error.where}
    if isinstance(error, MemoryError):
        return {
            "kind": "memory",
            "message": f"Python has no memory left ({error or 'MemoryError'})",
            "where": "",
        }
    if isinstance(error, StateError):
        return {"kind": "state", "message": error.message, "help": error.help}
    trace = "".join(traceback.format_exception(error))
    return {"kind": "other", "message": f"{type(error).__name__}: {error}", "trace": trace}


def failure_in(text: str) -> Mapping[str, Any] | None:
    """The error that `describe` told, found in the text of an exception of Spark's; None if there is none."""
    at = text.find(_FAILURE)
    if at < 0:
        return None
    try:
        found, _ = json.JSONDecoder().raw_decode(text, at + len(_FAILURE))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
