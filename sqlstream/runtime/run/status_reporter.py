"""Keeps `status.json` and the history of epochs of a run up to date; see `storage.run_status`, `storage.epoch_history`."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlstream.runtime.loop.progress import EpochReport
from sqlstream.runtime.loop.restarts import Restart
from sqlstream.runtime.loop.stop import Interrupted
from sqlstream.runtime.run.request import RunRequest
from sqlstream.runtime.run.row_rate import RowRate
from sqlstream.storage.epoch_history import EpochRecord, HistoryWriter
from sqlstream.storage.manifest import RunInfo
from sqlstream.storage.run_status import (
    ENDED,
    FAILED,
    RESTARTING,
    RUNNING,
    STARTING,
    STOPPED,
    RunStatus,
    problems_of,
    write_status,
)
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import DiagnosticError

#: The exit codes of a run that needs consent, and of one that does not fit the state directory.
_REFUSED = (3, 4)


class StatusReporter:
    """What a run says of itself. The run's own thread changes it, that of the lease writes it."""

    def __init__(
        self,
        store: CheckpointStore,
        run: RunInfo,
        pipeline: str,
        base_dir: str = "",
        *,
        wall_clock: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._wall_clock = wall_clock
        self._rows: Counter[str] = Counter()
        self._rate = RowRate(clock)
        self._status = RunStatus(run, pipeline, STARTING, 0, base_dir=base_dir)
        self._history = HistoryWriter(store)
        self._has_begun = False

    def observing(self, request: RunRequest) -> RunRequest:
        """The request, whose observers this one comes before."""

        def epoch(report: EpochReport) -> None:
            self._epoch(report)
            request.on_epoch(report)

        def phase(text: str) -> None:
            self._has_begun = True
            self._status = replace(self._status, doing=text)
            request.on_phase(text)

        def restart(one: Restart) -> None:
            self._has_begun = True
            self._status = replace(
                self._status, state=RESTARTING, restarts=one.attempt, problems=problems_of(one.diagnostics)
            )
            request.on_restart(one)

        def lag(waiting: Mapping[str, int | None]) -> None:
            self._status = replace(self._status, lag={**self._status.lag, **waiting})
            request.on_lag(waiting)

        return replace(request, on_epoch=epoch, on_phase=phase, on_restart=restart, on_lag=lag)

    def ended(self, outcome: str) -> None:
        """The run has ended as it should."""
        self._has_begun = True
        self._status = replace(
            self._status, state=STOPPED if outcome == "stopped" else ENDED, doing="", problems=()
        )

    def failed(self, error: BaseException) -> None:
        """The run ends with an error. What one of ours says may have secrets in it, so only its kind is kept.

        A run that needs consent before it begins, or has another pipeline's state directory, changes nothing there.
        """
        if isinstance(error, Interrupted):
            self.ended(STOPPED)
            return
        if isinstance(error, DiagnosticError) and error.exit_code in _REFUSED and not self._has_begun:
            return
        self._has_begun = True
        if isinstance(error, DiagnosticError):
            problems = problems_of(error.diagnostics)
        else:
            problems = ({"code": "", "message": type(error).__name__, "help": ""},)
        self._status = replace(self._status, state=FAILED, doing="", problems=problems)

    def write(self) -> None:
        """Write what is known, if anything has happened; a store that does not answer misses one."""
        if not self._has_begun:
            return
        status = replace(self._status, at_us=int(self._wall_clock() * 1e6), rows_per_s=self._rate.per_s())
        with contextlib.suppress(OSError):
            write_status(self._store, status)
            self._history.write()

    def _epoch(self, report: EpochReport) -> None:
        self._has_begun = True
        self._rows.update(report.rows_read)
        self._history.add(self._record(report))
        self._rate.add(sum(report.rows_read.values()), sum(report.seconds.values()))
        self._status = replace(
            self._status,
            state=RUNNING,
            doing="",
            epoch=report.epoch,
            lag=dict(report.lag),
            rows=dict(self._rows),
            restarts=0,
            problems=(),
        )

    def _record(self, report: EpochReport) -> EpochRecord:
        outcome = report.facts.outcome
        return EpochRecord(
            epoch=report.epoch,
            at_us=int(self._wall_clock() * 1e6),
            run=self._status.run.run_id,
            digest=report.facts.manifest.plan_digest,
            seconds={step: round(seconds, 4) for step, seconds in report.seconds.items()},
            read=report.rows_read,
            written=report.rows_written,
            state_rows=report.state_rows,
            state_bytes=report.state_bytes,
            letters=report.dead_letters,
            lag=report.lag,
            watermarks=report.watermarks,
            made=outcome.made,
            tasks=outcome.slowest_tasks,
            task_count=len(outcome.tasks),
            edits=report.facts.plan.is_state_only,
            replayed=report.replayed,
        )
