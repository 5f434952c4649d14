"""What a run reports while it works: a live line on a small terminal, a line per epoch elsewhere, or JSON.

Everything but JSON goes to standard error, so that `print` sinks own standard output.
"""

from __future__ import annotations

import shutil
import sys
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self, TextIO, cast

from sqlstream.cli.log import WARNING, is_shown
from sqlstream.cli.output import json_line
from sqlstream.connectors.filesystem.paths import listed
from sqlstream.runtime.edits.sinks.sink_places import descriptor_of
from sqlstream.runtime.loop.epoch import shown_watermark
from sqlstream.runtime.loop.progress import (
    EpochReport,
    LeftOpen,
    RunResult,
    counted_rows,
    dead_letter_kinds,
    instant,
)
from sqlstream.runtime.loop.restarts import Restart
from sqlstream_operators.plan.spec import PhysicalPlan, SinkSpec
from sqlstream_operators.state.places import below
from sqlstream_planner.catalog.secrets import without_secrets
from sqlstream_planner.diagnostics import counted
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


def epoch_line(report: EpochReport, timed: Collection[str], left: str = "") -> str:
    """An epoch in one line, what matters most first; `timed` are the sources with a watermark, `left` is what is left."""
    rows = sum(report.rows_read.values())
    seconds = report.total_seconds
    parts = [f"epoch {report.epoch}", f"{counted_rows(rows, 'row')} in {seconds:.2f} s"]
    if report.reemitted:
        given = ", ".join(report.reemitted)
        parts[1] = f"{given}: the full result, from the state, in {seconds:.2f} s"
    lags = [lag for lag in report.lag.values() if lag is not None]
    if lags and sum(lags):
        parts.append(f"lag {counted_rows(sum(lags), 'row')}" + (f" ({left})" if left else ""))
    parts += dead_letter_kinds(report.dead_letters)
    marks = [mark for name, mark in report.watermarks.items() if name in timed]
    if marks:
        parts.append(f"watermark {lowest_watermark(marks)}")
    if rows and seconds > 0:
        parts.append(f"{rows / seconds:,.0f} rows/s")
    if report.state_rows or report.state_bytes:
        parts.append(f"state {counted_rows(report.state_rows, 'row')}, {size(report.state_bytes)}")
    if report.replayed:
        parts.append("replayed")
    return "  ".join(parts)


@dataclass(slots=True)
class Left:
    """How much of a bounded input is left: what the epochs of this run have read, in how many seconds."""

    rows: int = 0
    seconds: float = 0.0

    def after(self, report: EpochReport) -> str:
        """The share that is read after one more epoch, and for how long there is more; "" if the input has no end."""
        waiting = list(report.lag.values())
        return self.after_rows(
            sum(report.rows_read.values()), report.total_seconds, waiting if report.bounded else [None]
        )

    def after_rows(self, read: int, seconds: float, lags: Sequence[int | None]) -> str:
        """The same after so many rows that took so long, with what waits in each source (None: not known).

        >>> Left().after_rows(30, 20.0, [90])
        '25 %, 1 min left'
        """
        self.rows += read
        self.seconds += seconds if read else 0.0
        waiting = [lag for lag in lags if lag is not None]
        if not self.rows or not sum(waiting) or len(waiting) < len(lags):
            return ""
        share = self.rows / (self.rows + sum(waiting))
        return f"{share:.0%}".replace("%", " %") + f", {about(self.seconds * sum(waiting) / self.rows)} left"


def about(seconds: float) -> str:
    """A time to wait for.

    >>> about(0.2), about(45), about(130), about(9_000)
    ('1 s', '45 s', '2 min', '2.5 h')
    """
    if seconds < 60:
        return f"{max(round(seconds), 1)} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def restart_lines(name: str, restart: Restart) -> list[str]:
    """Why a run is begun again, and when."""
    attempt = f"attempt {restart.attempt}" + ("" if restart.of is None else f" of {restart.of}")
    reasons = [f"{name}: {diagnostic.message} [{diagnostic.code}]" for diagnostic in restart.diagnostics]
    return [*reasons, f"{name}: trying again in {restart.delay_s:.3g} s ({attempt})"]


def summary(name: str, plan: PhysicalPlan, result: RunResult, state_dir: str) -> list[str]:
    """How a run ended, in a few lines."""
    but = f" but {counted(len(result.skipped), 'file')}" if result.skipped else ""
    ending = {
        "exhausted": f"done, all input that is there{but} is read, all results are committed",
        "stopped": "stopped, what was read is committed; run again to go on"
        if result.unfinished is None
        else f"stopped in epoch {result.unfinished}, which the next run does again; all before it is committed",
        "nothing new": f"nothing new, everything{but} up to here was read and committed before"
        if result.last_epoch is not None
        else "nothing to read, no source has ever had a row",
    }.get(result.outcome, result.outcome)
    lines = [f"{name}: {ending}"]
    if result.outcome != "nothing new":
        lines += _table("read", ((n, counted_rows(r, "row"), "") for n, r in result.rows_read.items()))
        places = {sink.name: _place(sink) for sink in without_secrets(plan).sinks}
        # What a table or a changelog is given where rows are updating; how many rows there are now is another question.
        changing = {sink.name for sink in plan.sinks if sink.changelog != "append"}
        written = (
            (name, counted_rows(number, "change" if name in changing else "row"), places.get(name, ""))
            for name, number in result.rows_written.items()
        )
        lines += _table("wrote", written)
        lines.append(f"  {'epochs':<7}{result.epochs} in {result.seconds:.1f} s")
    lines += _open_lines(result.left_open)
    dead = ", ".join(dead_letter_kinds(result.dead_letters))
    if dead:
        lines.append(f"  {'dead':<7}{dead}: kept in {below(state_dir, 'dead-letter')}")
    if result.skipped:
        lines.append(f"  {'skipped':<8}{listed(result.skipped)}: --read-again PATH takes a file back")
    lines += [f"  {'' if i else 'left out':<9}{one}" for i, one in enumerate(result.left_out)]
    lines.append(f"  {'state':<7}{state_dir}")
    return lines


def _open_lines(left_open: Sequence[LeftOpen]) -> list[str]:
    """What waits for the watermark, and what becomes of it."""
    if not left_open:
        return []
    lines = _table("open", ((one.operator, _waiting(one), _until(one)) for one in left_open))
    mark = lowest_watermark([shown_watermark(one.watermark_us) for one in left_open])
    return [*lines, f"  {'':<7}the next run goes on from watermark {mark}; --drain closes them for good"]


def _waiting(one: LeftOpen) -> str:
    """What waits in the state of an operator, in words."""
    return f"about {one.rows:,} rows of state" if one.number is None else counted_rows(one.number, one.what)


def _until(one: LeftOpen) -> str:
    return "" if one.until_us is None else f"until {instant(one.until_us)}"


def _table(title: str, rows: Iterable[tuple[str, str, str]]) -> list[str]:
    found = list(rows)
    if not found:
        return []
    wide = max(len(name) for name, _, _ in found)
    high = max(len(count) for _, count, _ in found)
    return [
        f"  {title if i == 0 else '':<7}{name:<{wide}}  {count:>{high}}  {place}".rstrip()
        for i, (name, count, place) in enumerate(found)
    ]


def _place(sink: SinkSpec) -> str:
    """Where a sink's rows went: a path, or the connector and what it calls the table.

    >>> _place(SinkSpec("o", "filesystem", {"path": "out"}, ())), _place(SinkSpec("o", "print", {}, ()))
    ('to out', 'to print')
    >>> _place(SinkSpec("o", "kafka", {"topic": "orders"}, ())), _place(SinkSpec("o", "postgres", {}, ()))
    ('to kafka orders', 'to postgres o')
    """
    path = sink.options.get("path") or sink.options.get("table-path")
    if path:
        return f"to {path}"
    descriptor = descriptor_of(sink)
    if descriptor is None or not descriptor.sink.place:
        return f"to {sink.connector}"
    option = descriptor.sink.place[-1]
    name = sink.options.get(option, "") or (sink.name if option == descriptor.sink.named_by else "")
    return f"to {sink.connector} {name}".rstrip()


def lowest_watermark(marks: Iterable[int | str | None]) -> str:
    """The watermark that holds the others back: none, a time, or the end of the input.

    >>> lowest_watermark(["end", 1_704_067_200_000_000])
    '2024-01-01 00:00:00'
    """
    found = list(marks)
    if any(mark is None for mark in found):
        return "none yet"
    times = [mark for mark in found if isinstance(mark, int)]
    return instant(min(times)) if times else "end"


def size(count: int) -> str:
    """Bytes for people.

    >>> size(512), size(1536), size(3 << 30)
    ('512 B', '1.5 KiB', '3.0 GiB')
    """
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
