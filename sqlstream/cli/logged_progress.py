"""A run's progress as a log of JSON objects, and to several places at once."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Self

from sqlstream.cli.figures import epoch_line, restart_lines
from sqlstream.cli.log import INFO, WARNING, Log
from sqlstream.cli.progress import Progress, TextLines
from sqlstream.runtime.loop.progress import EpochReport, RunResult
from sqlstream.runtime.loop.restarts import Restart
from sqlstream_operators.plan.spec import PhysicalPlan
from sqlstream_planner.diagnostics import counted


class LoggedLines(TextLines):
    """A log of JSON objects: `phase`, `restart` (a warning), `epoch`, `end`; each with its line for people as `message`."""

    def __init__(self, log: Log, plan: PhysicalPlan, state_dir: str) -> None:
        super().__init__(log.pipeline or "", plan, state_dir)
        self._log = log

    def phase(self, text: str) -> None:
        """Write it."""
        self._log.write(INFO, "phase", text)

    def restart(self, restart: Restart) -> None:
        """Write what failed, and when the run is begun again."""
        lines = restart_lines(self.name, restart)
        diagnostics = [diagnostic.to_json() for diagnostic in restart.diagnostics]
        delay = round(restart.delay_s, 3)
        self._log.write(
            WARNING,
            "restart",
            "; ".join(lines),
            attempt=restart.attempt,
            delay=delay,
            diagnostics=diagnostics,
        )

    def epoch(self, report: EpochReport) -> None:
        """Write the report."""
        self._log.epoch = report.epoch
        line = epoch_line(report, self._timed, self._left.after(report))
        self._log.write(INFO, "epoch", line, **{**report.to_json(), "epoch": report.epoch})

    def finished(self, result: RunResult) -> None:
        """Write the totals."""
        line = f"{result.outcome} after {counted(result.epochs, 'epoch')} in {result.seconds:.1f} s"
        self._log.write(INFO, "end", line, **result.to_json(), state_dir=self._state_dir)


class Together:
    """Reports to several, in their order."""

    def __init__(self, *parts: Progress) -> None:
        self._parts = parts
        self._open = ExitStack()

    def __enter__(self) -> Self:
        """The run begins."""
        for part in self._parts:
            self._open.enter_context(part)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The run is over."""
        self._open.close()

    def phase(self, text: str) -> None:
        """What takes its time."""
        for part in self._parts:
            part.phase(text)

    def restart(self, restart: Restart) -> None:
        """The run is begun again."""
        for part in self._parts:
            part.restart(restart)

    def epoch(self, report: EpochReport) -> None:
        """An epoch is committed."""
        for part in self._parts:
            part.epoch(report)

    def finished(self, result: RunResult) -> None:
        """The run ended."""
        for part in self._parts:
            part.finished(result)

    def clear(self) -> None:
        """Something else is written."""
        for part in self._parts:
            part.clear()
