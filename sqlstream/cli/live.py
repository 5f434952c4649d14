"""What a run shows on a terminal while it works: a few lines that are written over, with figures of its epochs so far."""

from __future__ import annotations

import shutil
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from typing import TextIO

from sqlstream.cli.figures import epoch_line, lowest_watermark, size
from sqlstream.cli.progress import TerminalProgress
from sqlstream.runtime.loop.progress import EpochReport, counted_rows, dead_letter_kinds
from sqlstream_operators.plan.spec import PhysicalPlan
from sqlstream_planner.text.visible import visible

#: Rows per second are those of so many seconds.
_LATELY_S = 30.0
#: So many sources or sinks are shown by their names.
_NAMED = 5
#: Lines of the terminal that are left to what is printed.
_LEFT = 6


class LiveProgress(TerminalProgress):
    """A run's figures on a few lines: rows per second, what was read and waits, watermarks, sinks, state and dead letters.

    On a terminal that is too low for them there is one line. `clock` gives seconds.
    """

    def __init__(
        self,
        name: str,
        plan: PhysicalPlan,
        state_dir: str,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(name, plan, state_dir, stream)
        self._clock = clock
        self._read: Counter[str] = Counter()
        self._written: Counter[str] = Counter()
        self._dead: Counter[str] = Counter()
        self._epochs = 0
        self._lately: deque[tuple[float, int]] = deque([(clock(), 0)])

    def epoch(self, report: EpochReport) -> None:
        """Show the figures with those of an epoch."""
        self._read.update(report.rows_read)
        self._written.update(report.rows_written)
        self._dead.update(report.dead_letters)
        self._epochs += 1
        now = self._clock()
        self._lately.append((now, sum(self._read.values())))
        while len(self._lately) > 2 and self._lately[1][0] <= now - _LATELY_S:
            self._lately.popleft()
        left = self._left.after(report)
        lines = list(self._figures(report, left))
        if len(lines) + _LEFT > shutil.get_terminal_size().lines:
            lines = [epoch_line(report, self._timed, left)]
        self._live(*lines)

    def _figures(self, report: EpochReport, left: str) -> Iterator[str]:
        head = [f"{self.name}: epoch {report.epoch:,}", f"{self._rows_per_s():,.0f} rows/s"]
        marks = [mark for name, mark in report.watermarks.items() if name in self._timed]
        if marks:
            head.append(f"watermark {lowest_watermark(marks)}")
        if left:
            head.append(left)
        yield "  ".join(head)
        yield from _table("read", self._read, {name: _lag(lag) for name, lag in report.lag.items()})
        yield from _table("wrote", self._written, {})
        yield f"  state  {counted_rows(report.state_rows, 'row')}, {size(report.state_bytes)}"
        dead = ", ".join(dead_letter_kinds(self._dead))
        if dead:
            yield f"  dead   {dead}"

    def _rows_per_s(self) -> float:
        (since, before), (now, rows) = self._lately[0], self._lately[-1]
        return (rows - before) / (now - since) if now > since else 0.0


def _lag(rows: int | None) -> str:
    return f"lag {counted_rows(rows, 'row')}" if rows else ""


def _table(title: str, rows: Mapping[str, int], beside: Mapping[str, str]) -> Iterator[str]:
    """A line for each of the first few, and one for the others."""
    shown = list(rows.items())[: _NAMED if len(rows) <= _NAMED else _NAMED - 1]
    wide = max((len(visible(name)) for name, _ in shown), default=0)
    high = max((len(counted_rows(count, "row")) for _, count in shown), default=0)
    for number, (name, count) in enumerate(shown):
        line = f"  {title if number == 0 else '':<7}{visible(name):<{wide}}  {counted_rows(count, 'row'):>{high}}"
        yield f"{line}  {beside.get(name, '')}".rstrip()
    if len(rows) > len(shown):
        others = sum(rows.values()) - sum(count for _, count in shown)
        yield f"  {'':<7}and {len(rows) - len(shown)} more: {counted_rows(others, 'row')}"
