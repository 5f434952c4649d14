"""Runs epochs in this process, one task after the other: the same task programs as on Spark, without Spark.

For property tests, which need thousands of epochs; and it shows that nothing in a task depends on Spark.
Every message passes through the rows that Spark would move, cut into parts.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlstream.runtime.tasks.failures import error_of
from sqlstream.runtime.tasks.job import EpochJob, EpochOutcome
from sqlstream.runtime.tasks.message_batches import from_batches, to_batches
from sqlstream.runtime.tasks.outcome import outcome_of
from sqlstream.runtime.tasks.task_failure import describe
from sqlstream.runtime.tasks.task_program import Connectors, TaskProgram, registered
from sqlstream_operators.codec.exchange import Message
from sqlstream_operators.task.report import reports_among
from sqlstream_planner.diagnostics import SqlstreamError

Shuffle = Callable[[list[Message]], list[Message]]


class InProcessRunner:
    """Runs an epoch's tasks in order. `shuffle` may reorder the messages of each exchange, as Spark does."""

    def __init__(
        self, parallelism: int = 2, connectors: Connectors | None = None, shuffle: Shuffle | None = None
    ) -> None:
        self._parallelism = parallelism
        self._connectors = connectors
        self._shuffle = shuffle

    @property
    def parallelism(self) -> int:
        """The default number of shards."""
        return self._parallelism

    @property
    def known_parallelism(self) -> int:
        """The same."""
        return self._parallelism

    def make_ready(self) -> bool:
        """It runs."""
        return False

    def run(self, job: EpochJob) -> EpochOutcome:
        """Run one epoch; see `JobRunner`."""
        connectors = self._connectors or registered()
        program = TaskProgram.of(job)
        try:
            messages = program.run_all(connectors, self._moved)
        except SqlstreamError:
            raise
        except Exception as error:
            raise error_of(describe(error), job.plan.epoch) from error
        return outcome_of(job, list(reports_among(messages)))

    def close(self) -> None:
        """Nothing is held."""

    def _moved(self, messages: list[Message]) -> list[Message]:
        moved = from_batches(to_batches(messages))
        return moved if self._shuffle is None else self._shuffle(moved)
