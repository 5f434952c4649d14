"""Runs the epochs of a test in this process, and moves watermarks as the test says once its rows are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from sqlstream.runtime.tasks.job import EpochJob, EpochOutcome, SourceOutcome
from sqlstream.runtime.tasks.local_runner import run_here
from sqlstream.runtime.tasks.task_program import Connectors
from sqlstream_operators.codec.exchange import Message, producer
from sqlstream_operators.state.open_caches import OpenCaches
from sqlstream_operators.task.watermark_messages import WATERMARK_EDGE


class MovingRunner:
    """Runs every epoch with one shard; sources that it reads are read up to the `marks` (µs), or further.

    To the tasks it is as if a row behind the others had that watermark. `kept` has the caches of state that are open.
    """

    parallelism = 1
    known_parallelism = 1

    def __init__(self, connectors: Connectors, marks: Mapping[str, int], kept: OpenCaches) -> None:
        self._connectors = connectors
        self._marks = marks
        self._kept = kept

    def make_ready(self, job: EpochJob | None = None) -> bool:
        """It runs."""
        return False

    def run(self, job: EpochJob) -> EpochOutcome:
        """Run one epoch; see `JobRunner`. What reads history again moves nothing: it goes by what is known."""
        read = {source.name for source in job.plan.sources if source.splits and not job.of_history}
        marks = {name: mark for name, mark in self._marks.items() if name in read}
        of_marks = [_message(job, marks)] if marks else []

        def moved(messages: list[Message]) -> list[Message]:
            found = [*messages, *of_marks]
            of_marks.clear()  # each level passes it to the next one
            return found

        made = run_here(job, self._connectors, moved, self._kept)
        sources = {name: _moved(source, marks.get(name)) for name, source in made.sources.items()}
        return replace(made, sources=sources)

    def close(self) -> None:
        """The caches stay open for the next step."""


def _message(job: EpochJob, marks: Mapping[str, int]) -> Message:
    """What tells the shard up to where sources are read."""
    splits = sum(len(source.splits) for source in job.plan.sources)
    content = json.dumps({name: {"": mark} for name, mark in marks.items()}, sort_keys=True)
    return Message(WATERMARK_EDGE, 0, producer(0, splits), content.encode())


def _moved(outcome: SourceOutcome, mark: int | None) -> SourceOutcome:
    if mark is None:
        return outcome
    mark = mark if outcome.watermark is None else max(mark, outcome.watermark)
    return replace(outcome, watermark=mark, lanes={**outcome.lanes, "": mark})
