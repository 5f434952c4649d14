"""How a pipeline is, as its state directory tells: who runs on it, what that run says, and what was committed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlstream.runtime.coordination.lease import is_gone, read_lease
from sqlstream.runtime.loop.epoch import shown_watermark
from sqlstream.runtime.loop.recovery import last_manifest
from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import RunInfo
from sqlstream.storage.run_status import RESTARTING, RUNNING, STARTING, STOPPED, problems_of, read_status
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import DiagnosticError

#: States beside those of `run_status`: the process of the run is gone, nothing was ever run, and the manifest can't be read.
KILLED, EMPTY, DAMAGED = "killed", "empty", "damaged"
_DEPTH = 3


@dataclass(frozen=True, slots=True)
class Overview:
    """A pipeline, by its state directory.

    `state` is one of `run_status`, or `killed`, `empty`, `damaged`. `run` is the last one (None: there was none).
    `lag` are the rows that wait, `watermarks` where each source is in event time (µs; None: nowhere yet; "end"), both
    by source and as of the last committed `epoch`. `rows` are what was read since the state directory began. `at_us`
    is when the run wrote what it says (µs since 1970; 0: it did not).
    """

    state_dir: str
    pipeline: str
    state: str
    run: RunInfo | None = None
    doing: str = ""
    epoch: int | None = None
    lag: Mapping[str, int | None] = field(default_factory=dict)
    watermarks: Mapping[str, int | str | None] = field(default_factory=dict)
    rows: Mapping[str, int | None] = field(default_factory=dict)
    rows_per_s: float = 0.0
    dead_letters: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    restarts: int = 0
    problems: tuple[Mapping[str, Any], ...] = ()
    at_us: int = 0

    def to_json(self) -> dict[str, Any]:
        """One JSON object for `--json`; what nobody knows of a damaged one is null."""
        known = self.state != DAMAGED
        return {
            "state_dir": self.state_dir,
            "pipeline": self.pipeline,
            "state": self.state,
            "run": None if self.run is None else self.run.to_json(),
            "doing": self.doing,
            "epoch": self.epoch,
            "lag": dict(self.lag),
            "watermarks": dict(self.watermarks),
            "rows_read": dict(self.rows),
            "rows_per_second": self.rows_per_s,
            "dead_letters": self.dead_letters if known else None,
            "state_rows": self.state_rows if known else None,
            "state_bytes": self.state_bytes if known else None,
            "restarts": self.restarts,
            "problems": [dict(problem) for problem in self.problems],
            "updated_us": self.at_us,
        }


def overview(store: CheckpointStore, name: str, host: str | None = None) -> Overview:
    """How the pipeline of a state directory is, called `name` unless its run says otherwise.

    Nothing is written, and no run is disturbed. Raises DiagnosticError (STA001) if the last manifest is damaged.
    """
    held, status = read_lease(store), read_status(store)
    last = last_manifest(Journal(store))
    if status is None and held is None and last is None:
        return Overview(store.uri, name, EMPTY)
    run = held[0] if held is not None else status.run if status is not None else last.run if last else None
    ours = status if status is not None and run is not None and status.run.run_id == run.run_id else None
    if held is not None:
        gone = is_gone(held[0], host)
        state = KILLED if gone else STARTING if ours is None else ours.state
    elif ours is None:  # of an older version, which left no status
        state = STOPPED
    else:  # a run says that it ends before it gives the lease back
        state = KILLED if ours.state in (STARTING, RUNNING, RESTARTING) else ours.state
    states = () if last is None else last.states
    return Overview(
        state_dir=store.uri,
        pipeline=ours.pipeline if ours is not None and ours.pipeline else name,
        state=state,
        run=run,
        doing=ours.doing if ours is not None and state != KILLED else "",
        epoch=None if last is None else last.epoch,
        lag={} if ours is None else ours.lag,
        watermarks={} if last is None else {s.name: shown_watermark(s.applied) for s in last.sources},
        rows={} if last is None else {s.name: s.rows for s in last.sources},
        rows_per_s=ours.rows_per_s if ours is not None and held is not None and state != KILLED else 0.0,
        dead_letters=0 if last is None else last.tally.total,
        state_rows=sum(one.rows for one in states),
        state_bytes=sum(one.bytes for one in states),
        restarts=0 if ours is None else ours.restarts,
        problems=() if ours is None or state == KILLED else ours.problems,
        at_us=0 if ours is None else ours.at_us,
    )


def damaged(store: CheckpointStore, name: str, error: DiagnosticError) -> Overview:
    """What is left to say where `overview` raises."""
    return Overview(store.uri, name, DAMAGED, problems=problems_of(error.diagnostics))


def state_directories(folder: Path, depth: int = _DEPTH) -> Iterator[Path]:
    """The state directories that a folder of this machine is or has in it, in the order of their names."""
    if (folder / "epochs").is_dir() or (folder / "run.lock").is_file():
        yield folder
        return
    if depth:
        for inner in sorted(one for one in folder.iterdir() if one.is_dir()):
            yield from state_directories(inner, depth - 1)
