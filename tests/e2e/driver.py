"""A driver process for tests that kill it: runs the pipeline of a folder to its end.

python -m tests.e2e.driver FOLDER ROWS_PER_EPOCH PARALLELISM [MASTER]
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sqlstream.connectors.kafka import shares
from sqlstream.connectors.lakehouse import compaction
from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.loop.faults import Faults, Point, no_faults
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream.storage.garbage import RETAINED
from sqlstream_planner.diagnostics import DiagnosticError, render


def _clock() -> Callable[[], float]:
    """The time; with CLOCK_FROM and CLOCK_STEP (seconds) a step more each time it is asked for."""
    if "CLOCK_FROM" not in os.environ:
        return time.time
    return itertools.count(float(os.environ["CLOCK_FROM"]), float(os.environ["CLOCK_STEP"])).__next__


def kill_at(text: str) -> Faults:
    """Kill this process group at the n-th time a point is reached, or some seconds later: "planned 2 0.1"."""
    point, number, *delay = text.split()
    reached = 0

    def at(here: Point, epoch: int) -> None:
        nonlocal reached
        reached += here == point
        if here == point and reached == int(number):
            if not delay:
                os.killpg(0, signal.SIGKILL)
            threading.Timer(float(delay[0]), os.killpg, (0, signal.SIGKILL)).start()

    return at


def sleep_at(text: str) -> Faults:
    """Sleep for a minute at a point of an epoch, and say so: "run 2"."""
    point, number = text.split()

    def at(here: Point, epoch: int) -> None:
        if (here, epoch) == (point, int(number)):
            print("asleep", flush=True)
            time.sleep(60)

    return at


def stop_at(text: str) -> Faults:
    """Stop this process (SIGSTOP) the first time that an epoch gets to a point, until it is sent SIGCONT: "run 2"."""
    point, number = text.split()

    def at(here: Point, epoch: int) -> None:
        if (here, epoch) == (point, int(number)):
            os.kill(os.getpid(), signal.SIGSTOP)

    return at


#: Faults by the environment variable that asks for them.
_FAULTS = {"KILL_AT": kill_at, "SLEEP_AT": sleep_at, "STOP_AT": stop_at}


def main(
    folder: Path, rows_per_epoch: int, parallelism: int, master: str | None, *, faults: Faults = no_faults
) -> int:
    """Run; print each committed epoch, so that a test can wait for one."""

    def reported(report: EpochReport) -> None:
        print(f"epoch {report.epoch}", flush=True)

    print("ready", flush=True)
    if "SHARE_ROWS" in os.environ:
        shares.ROWS = int(os.environ["SHARE_ROWS"])
    if "COMPACTED_FILES" in os.environ:
        compaction.FEWEST = int(os.environ["COMPACTED_FILES"])
    try:
        planned = plan_file(folder / "pipeline.sql")
        plan = planned.physical
        # These pipelines are small, and what is tested is several tasks.
        options = replace(
            plan.options, single_task_rows=int(os.environ.get("SINGLE_TASK_ROWS", "0")), drain=True
        )
        result = run_pipeline(
            RunRequest(
                replace(plan, options=options),
                state_dir=os.environ.get("STATE_DIR", folder / "state"),
                secrets=planned.secrets,
                local_dir=folder / "cache",
                base_dir=folder,
                parallelism=parallelism,
                max_rows_per_epoch=rows_per_epoch,
                runner=None if master else InProcessRunner(parallelism),
                master=master or "local[2]",
                on_epoch=reported,
                lease_beat_s=float(os.environ.get("LEASE_BEAT_S", "0.2")),
                drain="ENDS" in os.environ,  # watched sources end with what they have
                retained_epochs=int(os.environ.get("RETAINED_EPOCHS", str(RETAINED))),
                wall_clock=_clock(),
                handle_signals="HANDLE_SIGNALS" in os.environ,
                faults=faults,
            )
        )
    except DiagnosticError as error:
        for diagnostic in error.diagnostics:
            print(render(diagnostic, None), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt as error:
        return 128 + int(getattr(error, "number", signal.SIGINT))
    print(f"end {result.outcome}", flush=True)
    return 0


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(
        main(
            Path(arguments[0]),
            int(arguments[1]),
            int(arguments[2]),
            arguments[3] if arguments[3:] else None,
            faults=next(
                (made(os.environ[name]) for name, made in _FAULTS.items() if name in os.environ), no_faults
            ),
        )
    )
