"""What a run says of windows at the end of its input: that a source was drained before, and what stays open."""

from __future__ import annotations

from sqlstream.runtime.loop.progress import instant
from sqlstream.storage.manifest import SourceState
from sqlstream_operators.plan.watermarks import WATERMARK_MIN
from sqlstream_planner.diagnostics import Diagnostic


def read_after_drain(state: SourceState) -> Diagnostic:
    """The warning about new rows of a source that was drained: everything up to a time was closed for good."""
    closed = "" if state.resume <= WATERMARK_MIN else f" up to {instant(state.resume)}"
    return Diagnostic(
        "DAT011",
        f"source `{state.name}` was drained and has new rows",
        notes=(
            f"its windows{closed} were closed for good: rows for them go to the dead letters as late",
            "rows for later windows count as always",
        ),
        help="to have every row in its window, run without --drain until no more input comes",
        severity="warning",
    )
