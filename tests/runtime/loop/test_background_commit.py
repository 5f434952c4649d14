"""A sink that goes on with an epoch behind: the next one is computed meanwhile, and waits before it prepares anything."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sqlstream.connectors.api import SinkPart
from sqlstream.connectors.capabilities import WrittenBehind
from sqlstream.runtime.loop.background_commit import BackgroundCommit
from sqlstream.runtime.loop.stop import Interrupted
from sqlstream_operators.errors import DataError
from sqlstream_planner.diagnostics import DiagnosticError
from tests.runtime.support import Crash, FileSink, World, crash_at, rows_of, tumbling

EVENTS = rows_of(*((ts, "ab"[ts % 2]) for ts in (1, 2, 3, 15, 16, 27, 29, 31, 33, 48)))


@dataclass
class SinkBehind(FileSink):
    """Files of every epoch are moved behind; those of epoch `waits` once `gate` is open, and `fails` can't be moved."""

    waits: int = 0
    fails: int = 0
    gate: threading.Event = field(default_factory=threading.Event)
    behind: int | None = None
    was_open: bool | None = None
    closed: int = 0
    threads: set[str] = field(default_factory=set)

    @property
    def is_behind(self) -> bool:
        return self.behind is not None

    def prepare(self, epoch: int, parts: Sequence[SinkPart], *, previous: int = 0) -> None:
        assert self.behind is None, "nothing is asked of it while it is at work"
        super().prepare(epoch, parts, previous=previous)
        self.behind = epoch

    def commit(self, epoch: int, parts: Sequence[SinkPart], *, previous: int = 0) -> None:
        self.threads.add(threading.current_thread().name)
        if epoch == self.waits:
            self.was_open = self.gate.wait(20)
        if epoch == self.fails:
            raise DataError("the target says no")
        super().commit(epoch, parts, previous=previous)
        self.behind = None

    def abort_uncommitted(self, last_epoch: int) -> None:
        self.behind = None
        super().abort_uncommitted(last_epoch)

    def close(self) -> None:
        self.closed += 1


def world_of(folder: Path, *, waits: int = 0, fails: int = 0) -> tuple[World, SinkBehind]:
    world = World(folder, EVENTS)
    sink = SinkBehind(folder / "out", waits=waits, fails=fails)
    assert isinstance(sink, WrittenBehind)
    world.the_sink = sink
    return world, sink


def _end_threads() -> None:
    for thread in threading.enumerate():
        if thread.name == "sqlstream-commit":
            thread.join()


def test_the_next_epoch_is_computed_meanwhile(tmp_path: Path) -> None:
    world, sink = world_of(tmp_path, waits=1)
    steps: list[str] = []

    def fault(point: str, epoch: int) -> None:
        steps.append(f"{point} {epoch}")
        if (point, epoch) == ("run", 2):
            sink.gate.set()

    result = world.run(faults=fault)
    assert sink.was_open, "epoch 2 ran before epoch 1 was committed"
    assert steps[steps.index("published 1") : steps.index("prepared 2") + 1] == [
        *("published 1", "planned 2", "run 2", "committed 1", "collected 1", "prepared 2")
    ]
    assert steps[-3:] == ["published 4", "committed 4", "collected 4"]
    assert sink.threads == {"sqlstream-commit"}
    assert [report.epoch for report in world.reports] == [1, 2, 3, 4] == sink.committed
    assert all(
        set(report.seconds) == {"plan", "job", "prepare", "publish", "commit", "collect"}
        for report in world.reports
    )
    assert result.outcome == "exhausted"
    assert sink.closed
    assert world.visible() == tumbling(EVENTS)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("point", ["planned", "run", "prepared", "published", "committed", "collected"])
@pytest.mark.parametrize("epoch", [1, 2, 3, 4])
def test_a_crash_after_any_step_changes_nothing(tmp_path: Path, point: str, epoch: int) -> None:
    world, sink = world_of(tmp_path)
    with pytest.raises(Crash):
        world.run(faults=crash_at(point, epoch))
    _end_threads()
    sink.behind = None
    world.run()
    assert world.visible() == tumbling(EVENTS)


def test_a_sink_that_refuses_ends_the_run_before_the_next_epoch_is_prepared(tmp_path: Path) -> None:
    world, sink = world_of(tmp_path, fails=2)
    with pytest.raises(DiagnosticError, match="the target says no"):
        world.run()
    assert [report.epoch for report in world.reports] == [1] == sink.committed
    sink.fails = 0
    assert world.run().outcome == "exhausted"
    assert world.visible() == tumbling(EVENTS)


@pytest.mark.parametrize("fails", [0, 1])
def test_an_epoch_that_fails_lets_the_one_before_be_committed(tmp_path: Path, fails: int) -> None:
    """What is told is why the epoch failed; what the sink refuses, the next run says."""
    world, sink = world_of(tmp_path, waits=1, fails=fails)

    def fault(point: str, epoch: int) -> None:
        if (point, epoch) == ("run", 2):
            sink.gate.set()
            raise DataError("epoch 2 can't be computed")

    with pytest.raises(DiagnosticError, match="can't be computed"):
        world.run(faults=fault)
    assert [report.epoch for report in world.reports] == sink.committed == [1][fails:]
    if fails:
        with pytest.raises(DiagnosticError, match="says no"):
            world.run()
    sink.fails = 0
    world.run()
    assert world.visible() == tumbling(EVENTS)


@pytest.mark.parametrize("waiting", [False, True])
def test_a_second_signal_does_not_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waiting: bool
) -> None:
    """Also one that comes while it is waited for."""
    world, sink = world_of(tmp_path, waits=1)

    def interrupted(commit: BackgroundCommit) -> float:
        raise Interrupted(2)

    def fault(point: str, epoch: int) -> None:
        if (point, epoch) == ("run", 2):
            sink.closed = 0  # one that was looked at before
            if not waiting:
                raise Interrupted(2)
            monkeypatch.setattr(BackgroundCommit, "wait", interrupted)

    with pytest.raises(Interrupted):
        world.run(faults=fault)
    monkeypatch.undo()
    assert sink.was_open is None
    assert sink.closed == 0, "the thread may be using it"
    sink.gate.set()
    _end_threads()
    world.run()
    assert world.visible() == tumbling(EVENTS)


def test_a_run_of_so_many_epochs_ends_with_all_of_them(tmp_path: Path) -> None:
    world, sink = world_of(tmp_path)
    assert world.run(max_epochs=2).epochs == 2
    assert sink.committed == [1, 2]
    world.run()
    assert world.visible() == tumbling(EVENTS)
