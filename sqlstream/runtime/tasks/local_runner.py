"""Runs epochs in this process, one task after the other: the same task programs as on Spark, without Spark.

For epochs that are not worth distributing (`small`), and for property tests, which need thousands of epochs.
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
from sqlstream_operators.state.open_caches import OpenCaches
from sqlstream_operators.task.report import reports_among
from sqlstream_planner.diagnostics import SqlstreamError

Shuffle = Callable[[list[Message]], list[Message]]


def run_here(
    job: EpochJob,
    connectors: Connectors | None = None,
    moved: Callable[[list[Message]], list[Message]] = list,
    kept: OpenCaches | None = None,
) -> EpochOutcome:
    """Run an epoch's tasks in order; see `JobRunner`. `moved` is what an exchange does to the messages of a stage level.

    `kept` has the caches of state that are open. Those of history are moved to where they may be: then none is open.
    """
    if kept is not None:
        kept.only(() if job.of_history else {*job.states, *(state.state_id for state in job.program.states)})
    connectors = connectors or registered()
    program = TaskProgram.of(job, connectors)
    try:
        messages = program.run_all(connectors, moved, None if job.of_history else kept)
    except SqlstreamError:
        raise
    except Exception as error:
        raise error_of(describe(error), job.plan.epoch) from error
    return outcome_of(job, program.ordinals, list(reports_among(messages)))


class InProcessRunner:
    """Runs every epoch in this process. Each message passes through the rows that Spark would move, cut into parts;
    `shuffle` may reorder the messages of each exchange, as Spark does. With `keeps_state` caches of state stay open until
    it is closed.
    """

    def __init__(
        self,
        parallelism: int = 2,
        connectors: Connectors | None = None,
        shuffle: Shuffle | None = None,
        *,
        keeps_state: bool = False,
    ) -> None:
        self._kept = OpenCaches() if keeps_state else None
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

    def make_ready(self, job: EpochJob | None = None) -> bool:
        """It runs."""
        return False

    def run(self, job: EpochJob) -> EpochOutcome:
        """Run one epoch; see `JobRunner`."""
        return run_here(job, self._connectors, self._moved, self._kept)

    def close(self) -> None:
        """Close the caches of state."""
        if self._kept is not None:
            self._kept.close()

    def _moved(self, messages: list[Message]) -> list[Message]:
        moved = from_batches(to_batches(messages))
        return moved if self._shuffle is None else self._shuffle(moved)
