"""What `sqlstream status` prints of pipelines: a table, and the errors of those that have failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlstream.cli.figures import size
from sqlstream.runtime.loop.progress import instant
from sqlstream.state.overview import DAMAGED, EMPTY, KILLED, Overview
from sqlstream.storage.run_status import RESTARTING
from sqlstream_planner.diagnostics import counted
from sqlstream_planner.text.visible import visible

_HEAD = ("pipeline", "state", "epoch", "lag (rows)", "rows/s", "watermark", "dead-letter rows", "state rows")


def status_lines(found: Sequence[Overview]) -> Iterator[str]:
    """A table with a line per pipeline; below it what those have to say that failed, were killed or start anew."""
    if not found:
        yield "no pipeline of this project was ever run"
        return
    rows = [_HEAD, *map(_cells, found)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
    for row in rows:
        cells = (
            cell.ljust(width) if i in (0, 1, 5) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()
    for one in found:
        yield from _described(one)


def _cells(one: Overview) -> tuple[str, ...]:
    if one.state in (EMPTY, DAMAGED):
        return (one.pipeline, one.state, *[""] * (len(_HEAD) - 2))
    lag = [rows for rows in one.lag.values() if rows is not None]
    return (
        one.pipeline,
        one.state,
        "" if one.epoch is None else f"{one.epoch:,}",
        f"{sum(lag):,}" if lag else "",
        f"{one.rows_per_s:,.0f}" if one.rows_per_s else "",
        _watermark(one),
        f"{one.dead_letters:,}",
        f"{one.state_rows:,} ({size(one.state_bytes)})" if one.state_rows else "0",
    )


def _watermark(one: Overview) -> str:
    """The least of its sources', which is what holds results back."""
    times = [mark for mark in one.watermarks.values() if isinstance(mark, int)]
    if None in one.watermarks.values() or not one.watermarks:
        return ""
    return instant(min(times)) if times else "end"


def _described(one: Overview) -> Iterator[str]:
    if one.state == KILLED and one.run is not None:
        yield f"{one.pipeline}: {one.run} is gone without a word; the next run goes on behind its last epoch"
    if one.state == RESTARTING:
        yield f"{one.pipeline}: begun again {counted(one.restarts, 'time')} in a row"
    if one.doing:
        yield f"{one.pipeline}: {one.doing}"
    for problem in one.problems:
        code = f"[{problem['code']}]" if problem["code"] else ""
        yield f"{one.pipeline}: error{code}: {visible(str(problem['message']))}"
        if problem["help"]:
            yield f"  = help: {visible(str(problem['help']))}"
