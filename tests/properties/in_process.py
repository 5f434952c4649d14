"""One way to run a plan in this process, with its state in a folder of the test."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.loop.progress import EpochReport, RunResult
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream_operators.codec.exchange import Message
from sqlstream_planner.pipeline import Planned
from tests.rows_given import note


def run_here(
    planned: Planned,
    folder: Path,
    *,
    state: str = "state",
    state_dir: str | Path | None = None,
    parallelism: int = 2,
    rows_per_epoch: int | None = None,
    tasks: int = 2,
    drain: bool = True,
    ends: bool = False,
    keeps_state: bool = True,
    shuffle: Callable[[list[Message]], list[Message]] | None = None,
    on_epoch: Callable[[EpochReport], Any] = lambda report: None,
    **options: Any,
) -> RunResult:
    """Run `planned` until its input ends, and drain it (or leave it to the plan's options). With `ends` watched sources end
    with what they have, as by `sqlstream run --drain`.

    State, cache and paths are in `folder`, nothing is synced or waited for. With
    `keeps_state` caches of state stay open from epoch to epoch, as in a driver; on Spark they don't.
    """
    with closing(InProcessRunner(tasks, shuffle=shuffle, keeps_state=keeps_state)) as runner:
        result = run_pipeline(
            RunRequest(
                replace(planned.physical, options=replace(planned.physical.options, drain=True))
                if drain
                else planned.physical,
                secrets=planned.secrets,
                nodes=planned.state_nodes,
                state_dir=state_dir or folder / state,
                local_dir=folder / "cache",
                base_dir=folder,
                parallelism=parallelism,
                max_rows_per_epoch=rows_per_epoch,
                runner=runner,
                on_epoch=on_epoch,
                drain=ends,
                sync=False,
                **{"poll_s": 0.0, **options},
            )
        )
    note(sum(result.rows_read.values()))
    return result
