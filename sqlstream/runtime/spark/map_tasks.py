"""What a Spark task calls: from rows of blobs to the task program and back.

Between two levels travel rows (shard, edge, producer, part, blob): a message is cut into parts of a few MB,
because Spark moves those faster than big ones (1 GB through one exchange: 2.9 s in parts of 1 MB, 4.7 s
of 16 MB, 9.5 s of 64 MB) and no Arrow batch comes near its limit of 2 GiB.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from sqlstream.runtime.tasks.task_failure import failures_told
from sqlstream.runtime.tasks.task_program import TaskProgram, registered
from sqlstream_operators.codec.exchange import Message

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
        with failures_told():
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
        with failures_told():
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
        with failures_told():
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
