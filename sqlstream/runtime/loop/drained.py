"""What a run reports of sources that are drained: that one has no end, and that one has new rows."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream.connectors.api import Source
from sqlstream.runtime.loop.progress import instant
from sqlstream.storage.manifest import SourceState
from sqlstream_operators.plan.watermarks import WATERMARK_MIN
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError


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


def check_ends(sources: Mapping[str, Source]) -> None:
    """Raise DiagnosticError (DAT012) for sources that a run is to drain and that never end."""
    endless = [name for name, source in sources.items() if not source.bounded]
    if endless:
        raise DiagnosticError(
            *(
                Diagnostic(
                    "DAT012",
                    f"source `{name}` never ends, so `--drain` can't close its windows",
                    help="run without --drain, or give the source an end, such as 'number-of-rows' = '1000'",
                )
                for name in endless
            ),
            exit_code=2,
        )
