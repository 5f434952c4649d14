"""How the run of a state directory is by its own account, for whoever does not see its terminal: `status.json`.

It is written with the beats of the lease, every few seconds, and when the run ends. What is true of the data is in the
manifests: this file may be some seconds old, and a run that is killed leaves it as it was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlstream.storage.manifest import RunInfo
from sqlstream_operators.plan.plain_data import PlainData
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic

STATUS = "status.json"
STARTING, RUNNING, RESTARTING = "starting", "running", "restarting"
STOPPED, ENDED, FAILED = "stopped", "ended", "failed"


@dataclass(frozen=True, slots=True)
class RunStatus(PlainData):
    """What a run says of itself.

    `state` is one of the constants above; `ended` is a run that has read all there is. `at_us` is when it was written (µs
    since 1970). `doing` is what the run is at, if that takes long. `epoch` is the last one that it committed, `lag` the rows
    that wait by source (None: not known), `rows` what it has read by source, `rows_per_s` how many it read of late.
    `restarts` is how often in a row it was begun again. `problems` are the diagnostics of its last error, as
    `Diagnostic.to_json` has them; older ones have `code`, `message` and `help` alone. `base_dir` is what relative paths in
    its file refer to, on the machine of the run.
    """

    run: RunInfo
    pipeline: str
    state: str
    at_us: int
    doing: str = ""
    epoch: int | None = None
    lag: Mapping[str, Any] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    rows_per_s: float = 0.0
    restarts: int = 0
    problems: tuple[Mapping[str, Any], ...] = ()
    base_dir: str = ""


def problems_of(diagnostics: Sequence[Diagnostic]) -> tuple[dict[str, Any], ...]:
    """Diagnostics as a status has them."""
    return tuple({**d.to_json(), "help": d.help or ""} for d in diagnostics)


def write_status(store: CheckpointStore, status: RunStatus) -> None:
    """Write it over the last one. Raises OSError."""
    store.put(STATUS, json.dumps(status.to_json()).encode())


def read_status(store: CheckpointStore) -> RunStatus | None:
    """The last one; None if there is none, or none that can be read."""
    try:
        return RunStatus.from_json(json.loads(store.get(STATUS)))
    except (OSError, ValueError):
        return None
