"""What a run reports while it works: a live line on a small terminal, a line per epoch elsewhere, or JSON.

Everything but JSON goes to standard error, so that `print` sinks own standard output.
"""

from __future__ import annotations

import shutil
import sys
import unicodedata
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol, Self, TextIO, cast

from sqlstream.cli.figures import Left, epoch_line, restart_lines
from sqlstream.cli.log import WARNING, is_shown
from sqlstream.cli.output import json_line
from sqlstream.cli.summary import summary
from sqlstream.runtime.loop.progress import EpochReport, RunResult
from sqlstream.runtime.loop.restarts import Restart
from sqlstream_operators.plan.spec import PhysicalPlan
from sqlstream_planner.text.masking import without_password


class Progress(Protocol):
    """What a run reports to; a context manager around the run."""

    def __enter__(self) -> Self:
        """The run begins."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The run is over, well or badly."""
        ...

    def phase(self, text: str) -> None:
        """What takes its time now, before the first epoch."""
        ...

    def restart(self, restart: Restart) -> None:
        """Something failed, and the run is begun again."""
        ...

    def epoch(self, report: EpochReport) -> None:
        """An epoch is committed."""
        ...

    def finished(self, result: RunResult) -> None:
        """The run ended without an error."""
        ...

    def clear(self) -> None:
        """Something else is written to standard error next."""
        ...


class JsonLines:
    """One JSON object per line on standard output: `"event": "epoch"` for each, `"event": "end"` at the end.

    While it is on, what `print` sinks write to standard output goes to standard error.
    """

    def __init__(self, name: str, state_dir: str) -> None:
        self._name = name
        self._state_dir = without_password(state_dir)
        self._out = sys.stdout

    def __enter__(self) -> Self:
        """Take standard output."""
        self._out = sys.stdout
        sys.stdout = sys.stderr
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give standard output back."""
        sys.stdout = self._out

    def phase(self, text: str) -> None:
        """Nothing that a program needs."""

    def restart(self, restart: Restart) -> None:
        """Write what failed, and when the run is begun again."""
        self._write(
            {
                "event": "restart",
                "attempt": restart.attempt,
                "delay": round(restart.delay_s, 3),
                "diagnostics": [diagnostic.to_json() for diagnostic in restart.diagnostics],
            }
        )

    def epoch(self, report: EpochReport) -> None:
        """Write the report."""
        self._write({"event": "epoch", **report.to_json()})

    def finished(self, result: RunResult) -> None:
        """Write the totals."""
        document = {"pipeline": self._name, **result.to_json(), "state_dir": self._state_dir}
        self._write({"event": "end", **document})

    def clear(self) -> None:
        """Nothing is in the way."""

    def _write(self, document: Mapping[str, Any]) -> None:
        self._out.write(json_line(document, self._out) + "\n")
        self._out.flush()


def timed_sources(plan: PhysicalPlan) -> frozenset[str]:
    """The sources with a watermark."""
    return frozenset(source.name for source in plan.sources if source.watermark is not None)


class TextLines:
    """One line per epoch, then a summary."""

    def __init__(self, name: str, plan: PhysicalPlan, state_dir: str, stream: TextIO | None = None) -> None:
        self.name = name
        self._plan = plan
        self._state_dir = without_password(state_dir)
        self._stream = stream or sys.stderr
        self._left = Left()
        self._timed = timed_sources(plan)

    def __enter__(self) -> Self:
        """Nothing to prepare."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing to put back."""

    def phase(self, text: str) -> None:
        """Show it."""
        self._line(f"{self.name}: {text}")

    def restart(self, restart: Restart) -> None:
        """Show what failed, and when the run is begun again."""
        for line in restart_lines(self.name, restart):
            self._line(line)

    def epoch(self, report: EpochReport) -> None:
        """Show an epoch."""
        self._line(epoch_line(report, self._timed, self._left.after(report)))

    def finished(self, result: RunResult) -> None:
        """Show the summary."""
        for line in summary(self.name, self._plan, result, self._state_dir):
            self._line(line)

    def clear(self) -> None:
        """Nothing is in the way."""

    def _line(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()


class QuietLines(TextLines):
    """Only what goes wrong, from the level `least` on."""

    def __init__(self, name: str, plan: PhysicalPlan, state_dir: str, least: str) -> None:
        super().__init__(name, plan, state_dir)
        self._least = least

    def phase(self, text: str) -> None:
        """Nothing."""

    def restart(self, restart: Restart) -> None:
        """Show what failed, if warnings are shown."""
        if is_shown(WARNING, self._least):
            super().restart(restart)

    def epoch(self, report: EpochReport) -> None:
        """Nothing."""

    def finished(self, result: RunResult) -> None:
        """Nothing."""


class TerminalProgress(TextLines):
    """The same on one line that is written over, out of the way of whatever is printed."""

    def __init__(self, name: str, plan: PhysicalPlan, state_dir: str, stream: TextIO | None = None) -> None:
        super().__init__(name, plan, state_dir, stream)
        self._shown = 0
        self._out = sys.stdout

    def __enter__(self) -> Self:
        """Put something before standard output that clears the line first."""
        self._out = sys.stdout
        sys.stdout = cast(TextIO, _Clearing(sys.stdout, self.clear))
        return super().__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give standard output back, and leave the terminal on an empty line."""
        sys.stdout = self._out
        self.clear()

    def phase(self, text: str) -> None:
        """Show it."""
        self._live(f"{self.name}: {text}")

    def restart(self, restart: Restart) -> None:
        """Show what failed, to stay."""
        self.clear()
        super().restart(restart)

    def epoch(self, report: EpochReport) -> None:
        """Show an epoch."""
        self._live(epoch_line(report, self._timed, self._left.after(report)))

    def finished(self, result: RunResult) -> None:
        """Show the summary."""
        self.clear()
        super().finished(result)

    def clear(self) -> None:
        """Take the lines away."""
        if self._shown:
            self._stream.write(self._cleared())
            self._stream.flush()
            self._shown = 0

    def _live(self, *lines: str) -> None:
        """Show lines in the place of those that are shown."""
        width = shutil.get_terminal_size().columns
        self._stream.write(self._cleared() + "\n".join(fitted(line, width - 1) for line in lines))
        self._stream.flush()
        self._shown = len(lines)

    def _cleared(self) -> str:
        """What takes away the lines that are shown, from the last one up."""
        return "\r\x1b[K" + "\x1b[A\x1b[K" * (self._shown - 1)


class _Clearing:
    """A text stream that calls `before` ahead of every write."""

    def __init__(self, stream: TextIO, before: Any) -> None:
        self._inner = stream
        self._before = before

    def write(self, text: str) -> int:
        """Write to the stream itself."""
        self._before()
        return self._inner.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def fitted(text: str, width: int) -> str:
    """The beginning of a text that has at most so many columns of a terminal.

    >>> fitted("state of 東京", 11), fitted("state", 11)
    ('state of 東', 'state')
    """
    columns = 0
    for place, char in enumerate(text):
        columns += (
            0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        )
        if columns > width:
            return text[:place]
    return text
