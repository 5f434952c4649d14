"""What a source may be besides a source: it is told of commits, let go, and its start is decided once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from sqlstream.connectors.api import ConnectorContext, Position
from sqlstream.connectors.capabilities import Acknowledging, Closing, StartingOnce
from sqlstream.runtime.loop.stop import StopFlag
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_planner.diagnostics import Diagnostic
from tests.runtime.support import Crash, RowSource, World, crash_at, manifests, rows_of, tumbling

ROWS = rows_of(*((n, "ab"[n % 2]) for n in range(30)))


@dataclass
class Queue(RowSource, Acknowledging, Closing, StartingOnce):
    """Rows that are told where they were read up to; it starts at `latest`, which is another row each time."""

    latest: int = 0
    decided: int = 0
    reported: list[int] = field(default_factory=list)
    closed: int = 0
    fails: str = ""

    @property
    def starts_once(self) -> bool:
        return True

    def initial_position(self) -> Position:
        self.decided += 1
        return {"row": self.latest}

    def committed(self, position: Mapping[str, Any]) -> None:
        if self.fails:
            raise ConnectionError(self.fails)
        self.reported.append(int(position["row"]))

    def close(self) -> None:
        self.closed += 1


@dataclass
class QueueWorld(World):
    def __post_init__(self) -> None:
        super().__post_init__()
        plan = self.plan
        sources = tuple(replace(spec, identity='{"the":"queue"}') for spec in plan.sources)
        self.plan = replace(plan, sources=sources)
        self.queue = Queue(self.rows, self.bounded)
        self.the_source = self.queue
        self.warnings: list[Diagnostic] = []

    def source(self, spec: SourceSpec, context: ConnectorContext) -> Queue:
        return self.queue

    def started(self) -> list[int]:
        """Where plans that are there begin."""
        plans = sorted((self.state / "epochs").glob("*.plan.json"))
        return [json.loads(plan.read_text())["sources"][0]["start"]["row"] for plan in plans]


def test_a_source_is_told_of_each_epoch_that_is_published(tmp_path: Path) -> None:
    world = QueueWorld(tmp_path, ROWS)
    world.run(rows=12)
    assert world.queue.reported == [12, 24, 30]
    assert world.queue.closed == 1
    world.run()
    assert world.queue.reported == [12, 24, 30, 30], "and of the last one when a run begins"


@pytest.mark.parametrize("point", ["published", "committed"])
def test_what_a_run_did_not_come_to_tell_the_next_one_does(tmp_path: Path, point: str) -> None:
    world = QueueWorld(tmp_path, ROWS)
    with pytest.raises(Crash):
        world.run(rows=12, faults=crash_at(point, 2))
    assert world.queue.reported == ([12] if point == "published" else [12, 24])
    world.run(rows=12)
    assert world.queue.reported[-2:] == [24, 30]
    assert world.visible() == tumbling(ROWS)


def test_a_source_that_can_not_be_told_fails_no_epoch_and_warns_once(tmp_path: Path) -> None:
    world = QueueWorld(tmp_path, ROWS)
    world.queue.fails = "the broker is away"
    world.run(rows=12, tell=world.warnings.append)
    assert world.visible() == tumbling(ROWS)
    assert [(w.code, w.severity) for w in world.warnings] == [("DAT014", "warning")]
    assert "the broker is away" in world.warnings[0].notes[0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("point", ["planned", "run", "prepared", "published", "committed"])
@pytest.mark.parametrize("shards", [2, 3])
def test_a_start_is_decided_once(tmp_path: Path, point: str, shards: int) -> None:
    """Killed in the first epoch, which is replayed or (with other shards) given up: it starts where it was planned to."""
    world = QueueWorld(tmp_path, ROWS)
    world.queue.latest = 10
    with pytest.raises(Crash):
        world.run(rows=12, faults=crash_at(point, 1))
    world.queue.latest = 20
    world.run(rows=12, shards=shards)
    assert world.visible() == tumbling(ROWS[10:])
    assert world.queue.decided == 1
    assert world.started()[0] == 10


def test_a_start_is_decided_anew_as_long_as_nothing_was_planned(tmp_path: Path) -> None:
    world = QueueWorld(tmp_path, ROWS, bounded=False)
    world.queue.latest = 30
    stop = StopFlag()
    world.run(drains=False, stop=stop, on_phase=lambda text: stop.request())
    assert manifests(world.state) == {}
    world.queue.latest, world.queue.bounded = 20, True
    world.run()
    assert world.visible() == tumbling(ROWS[20:])


def test_plans_of_sources_that_start_anywhere_else_are_as_they_were(tmp_path: Path) -> None:
    world = World(tmp_path, ROWS)
    with pytest.raises(Crash):
        world.run(faults=crash_at("planned", 1))
    (plan,) = (world.state / "epochs").glob("*.plan.json")
    source = json.loads(plan.read_text())["sources"][0]
    assert {"starts", "lanes"}.isdisjoint(source)
    assert all("lane" not in split for split in source["splits"])
