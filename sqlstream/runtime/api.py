"""Runs a physical plan on a state directory: what the command line, the golden check and tests call."""

from __future__ import annotations

from sqlstream.runtime.loop.progress import RunResult
from sqlstream.runtime.run.request import DriverConnectors, RunRequest
from sqlstream.runtime.run.run import run

__all__ = ["DriverConnectors", "RunRequest", "run_pipeline"]


def run_pipeline(request: RunRequest) -> RunResult:
    """Run a plan until all that its bounded sources have now is read and everything is committed, or it is to stop.

    Windows, and all else that waits for the watermark, stay open at the end for the next run; drained, they close for good.
    Raises DiagnosticError: exit code 4 if the state does not fit the plan, is damaged, or another run works
    on it; 1 if the data can't be computed or read; 5 if the machine, Spark or a sink's database refuses.
    """
    return run(request)
