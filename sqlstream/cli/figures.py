"""Figures of a run as text: an epoch in a line, what is left, why it begins again, watermarks and sizes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from sqlstream.runtime.loop.progress import EpochReport, counted_rows, dead_letter_kinds, instant
from sqlstream.runtime.loop.restarts import Restart


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
