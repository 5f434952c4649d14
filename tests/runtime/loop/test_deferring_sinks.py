"""A sink that lets epochs wait: it gives its target what waits when that is due, when a run begins, and when one ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sqlstream.connectors.api import SinkPart
from sqlstream.connectors.capabilities import Deferring
from sqlstream.runtime.loop.stop import StopFlag
from sqlstream_operators.errors import DataError
from sqlstream_planner.diagnostics import DiagnosticError
from tests.runtime.support import Crash, FileSink, World, crash_at, rows_of, tumbling

EVENTS = rows_of(*((ts, "ab"[ts % 2]) for ts in (1, 2, 3, 15, 16, 27, 29, 31, 33, 48)))


@dataclass
class SinkThatDefers(FileSink):
    """Files of an epoch are moved when it is flushed; `due` epochs may wait at most."""

    due: int = 100
    waiting: dict[int, Sequence[SinkPart]] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)

    @property
    def is_due(self) -> bool:
        return len(self.waiting) >= self.due

    def prepare(self, epoch: int, parts: Sequence[SinkPart], *, previous: int = 0) -> None:
        self.steps.append(f"prepare {epoch}")
        super().prepare(epoch, parts, previous=previous)

    def commit(self, epoch: int, parts: Sequence[SinkPart], *, previous: int = 0) -> None:
        self.steps.append(f"commit {epoch}")
        self.waiting[epoch] = parts

    def flush(self) -> None:
        self.steps.append("flush")
        for epoch, parts in self.waiting.items():
            super().commit(epoch, parts, previous=0)
        self.waiting.clear()


def world_of(folder: Path, due: int = 100) -> tuple[World, SinkThatDefers]:
    world = World(folder, EVENTS)
    sink = SinkThatDefers(folder / "out", due=due)
    assert isinstance(sink, Deferring)
    world.the_sink = sink
    return world, sink


def test_a_run_ends_with_all_that_waits(tmp_path: Path) -> None:
    world, sink = world_of(tmp_path)
    world.run()
    assert sink.steps == [f"{step} {epoch}" for epoch in (1, 2, 3, 4) for step in ("prepare", "commit")] + [
        "flush"
    ]
    assert world.visible() == tumbling(EVENTS)


def test_what_is_due_is_given_behind_the_commit_of_its_epoch(tmp_path: Path) -> None:
    world, sink = world_of(tmp_path, due=2)
    world.run()
    assert [step for step in sink.steps if not step.startswith("prepare")] == [
        *("commit 1", "commit 2", "flush", "commit 3", "commit 4", "flush", "flush")
    ]
    assert world.visible() == tumbling(EVENTS)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("point", ["planned", "run", "prepared", "published", "committed", "collected"])
@pytest.mark.parametrize("epoch", [2, 3, 4])
def test_after_a_crash_the_next_run_begins_with_what_waits(tmp_path: Path, point: str, epoch: int) -> None:
    world, sink = world_of(tmp_path)
    with pytest.raises(Crash):
        world.run(faults=crash_at(point, epoch))
    assert "flush" not in sink.steps
    last = epoch if point in ("published", "committed", "collected") else epoch - 1
    before = len(sink.steps)
    world.run()
    assert sink.steps[before : before + 2] == [f"commit {last}", "flush"]
    assert world.visible() == tumbling(EVENTS)


def test_behind_an_epoch_that_was_given_up_as_well(tmp_path: Path) -> None:
    """The last manifest is void then: no epoch of it is committed again, and others still wait."""
    world, sink = world_of(tmp_path)
    with pytest.raises(Crash):
        world.run(faults=crash_at("planned", 3))
    with pytest.raises(Crash):
        world.run(shards=1, faults=crash_at("voided", 3))  # another parallelism: it can't be replayed
    before = len(sink.steps)
    world.run(shards=1)
    assert sink.steps[before] == "flush"
    assert world.visible() == tumbling(EVENTS)


def test_a_run_that_fails_leaves_it_to_the_next_one(tmp_path: Path) -> None:
    world, sink = world_of(tmp_path)

    def fault(point: str, epoch: int) -> None:
        if (point, epoch) == ("run", 3):
            raise DataError("epoch 3 can't be computed")

    with pytest.raises(DiagnosticError, match="can't be computed"):
        world.run(faults=fault)
    assert sorted(sink.waiting) == [1, 2]
    world.run()
    assert not sink.waiting
    assert world.visible() == tumbling(EVENTS)


def test_a_target_that_refuses_ends_the_run_and_nothing_is_lost(tmp_path: Path) -> None:
    world, sink = world_of(tmp_path)
    given = sink.flush

    def refuse() -> None:
        raise DataError("the target says no")

    sink.flush = refuse  # type: ignore[method-assign]
    with pytest.raises(DiagnosticError, match="the target says no"):
        world.run()
    sink.flush = given  # type: ignore[method-assign]
    world.run()
    assert world.visible() == tumbling(EVENTS)


def test_what_is_due_while_nothing_comes_is_given_too(tmp_path: Path) -> None:
    stop = StopFlag()
    looks = 0

    class DueLater(SinkThatDefers):
        @property
        def is_due(self) -> bool:
            nonlocal looks
            looks += bool(self.waiting)
            return looks > 20

        def flush(self) -> None:
            super().flush()
            stop.request()

    world = World(tmp_path, EVENTS[:3], bounded=False)
    world.the_sink = sink = DueLater(tmp_path / "out")
    world.run(rows=None, drains=False, stop=stop)
    assert sink.steps == ["prepare 1", "commit 1", "flush", "flush"]
