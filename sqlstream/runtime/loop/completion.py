"""What is left of an epoch once its manifest is published: its sinks get it, old files go, and it is reported.

A sink may go on with a large epoch behind: then this is done once it has, while the next one runs or behind that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlstream.runtime.loop.faults import Faults
from sqlstream.runtime.loop.outputs import Outputs
from sqlstream.runtime.loop.planning import EpochPlanner
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream.runtime.loop.reporting import Timer
from sqlstream.storage.garbage import GarbageCollector
from sqlstream_operators.state.object_files import requests_sent


class Completion:
    """Completes the epochs of one run in their order, at most one of them behind the loop."""

    def __init__(
        self,
        outputs: Outputs,
        collector: GarbageCollector,
        planner: EpochPlanner,
        *,
        faults: Faults,
        on_epoch: Callable[[EpochReport], None],
    ) -> None:
        self._outputs, self._collector, self._planner = outputs, collector, planner
        self._faults, self._on_epoch = faults, on_epoch
        self._begun: tuple[EpochReport, Timer] | None = None
        _, self._requests = requests_sent()

    def begin(self, report: EpochReport, timer: Timer) -> None:
        """Take an epoch that is committed; it is completed at once, unless sinks go on with it behind."""
        self._begun = report, timer
        if not self._outputs.is_behind:
            self.wait()

    def wait(self) -> None:
        """Complete the epoch that was begun, if one was. Raises what its sinks raise; then the next run commits it again."""
        if self._begun is None:
            return
        (report, timer), self._begun = self._begun, None
        facts, beside = report.facts, 0.0
        if self._outputs.is_behind:
            beside = self._outputs.wait()
            timer.resume()
        self._outputs.complete(facts)
        timer.lap("commit")
        timer.seconds["commit"] += beside
        self._faults("committed", facts.number)
        self._collector.committed(facts.manifest)
        timer.lap("collect")
        self._faults("collected", facts.number)
        self._planner.learn_speed(sum(facts.rows_read.values()), max(timer.total - beside, beside))
        _, sent = requests_sent()
        requests = sent - self._requests + facts.outcome.metrics.get("store_requests", 0)
        self._requests = sent
        self._on_epoch(replace(report, seconds=timer.seconds, store_requests=requests))
