"""What a Spark task calls: functions for `mapInArrow`, from rows of blobs to the task program and back."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from sqlstream.runtime.tasks.message_batches import from_batches, to_batches
from sqlstream.runtime.tasks.task_failure import failures_as_text
from sqlstream.runtime.tasks.task_program import TaskProgram, registered


@functools.lru_cache(maxsize=4)
def _program(plan: bytes, epoch: bytes) -> TaskProgram:
    return TaskProgram.from_bytes(plan, epoch)


@dataclass(frozen=True, slots=True)
class SourceTasks:
    """The function of stage level 0 for `mapInArrow`: its rows are numbers of tasks."""

    plan: bytes
    epoch: bytes

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the tasks whose numbers come in."""
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        with failures_as_text():
            program = _program(self.plan, self.epoch)
            connectors = registered()
            for number in numbers:
                yield from to_batches(program.run_source(number, connectors))


@dataclass(frozen=True, slots=True)
class ShardTasks:
    """The function of a later stage level for `mapInArrow`: its partition is the shard."""

    plan: bytes
    epoch: bytes
    level: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the shard that this task is."""
        from pyspark import TaskContext

        task = TaskContext.get()
        if task is None:
            raise RuntimeError("a shard's task runs in Spark only")
        with failures_as_text():
            messages = from_batches(batches)
            program = _program(self.plan, self.epoch)
            yield from to_batches(program.run_shard(self.level, task.partitionId(), messages, registered()))
