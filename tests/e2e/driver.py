"""A driver process for tests that kill it: runs the pipeline of a folder to its end.

python -m tests.e2e.driver FOLDER ROWS_PER_EPOCH PARALLELISM [MASTER]
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from sqlstream.planning import plan_file
from sqlstream.runtime.api import run_pipeline
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream.storage.garbage import RETAINED
from sqlstream_planner.diagnostics import DiagnosticError, render


def _clock() -> float:
    """The time; since CLOCK_FROM it goes CLOCK_SPEED times as fast, so that state grows old within a test."""
    begin = float(os.environ.get("CLOCK_FROM", "0"))
    return begin + (time.time() - begin) * float(os.environ.get("CLOCK_SPEED", "1"))


def main(folder: Path, rows_per_epoch: int, parallelism: int, master: str | None) -> int:
    """Run; print each committed epoch, so that a test can wait for one."""

    def told(report: EpochReport) -> None:
        print(f"epoch {report.epoch}", flush=True)

    print("ready", flush=True)
    try:
        plan = plan_file(folder / "pipeline.sql").physical
        # These pipelines are small, and what is tested is several tasks.
        options = replace(plan.options, single_task_rows=int(os.environ.get("SINGLE_TASK_ROWS", "0")))
        result = run_pipeline(
            replace(plan, options=options),
            state_dir=folder / "state",
            local_dir=folder / "cache",
            base_dir=folder,
            parallelism=parallelism,
            max_rows_per_epoch=rows_per_epoch,
            runner=None if master else InProcessRunner(parallelism),
            master=master or "local[2]",
            on_epoch=told,
            lease_beat_s=float(os.environ.get("LEASE_BEAT_S", "0.2")),
            retained_epochs=int(os.environ.get("RETAINED_EPOCHS", str(RETAINED))),
            wall_clock=_clock,
        )
    except DiagnosticError as error:
        for diagnostic in error.diagnostics:
            print(render(diagnostic, None), file=sys.stderr)
        return error.exit_code
    print(f"end {result.outcome}", flush=True)
    return 0


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(
        main(
            Path(arguments[0]), int(arguments[1]), int(arguments[2]), arguments[3] if arguments[3:] else None
        )
    )
