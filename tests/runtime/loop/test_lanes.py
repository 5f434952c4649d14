"""Watermarks by lane: a slow partition's rows are not late, a silent one steps aside, and no cutting changes a result."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.runtime.loop import lanes as lanes_module
from sqlstream.runtime.loop.epochs import EpochLoop
from sqlstream.runtime.run import attempt
from sqlstream.storage.manifest import PlannedSource, SourceState
from sqlstream_operators.plan.watermarks import WATERMARK_MIN, Watermarks
from sqlstream_planner.diagnostics import Diagnostic
from tests.examples import examples
from tests.runtime.loop.lane_worlds import FlinkModel, LaneWorld, Step
from tests.runtime.support import Crash, crash_at, manifests, tumbling


def run(world: LaneWorld, **options: Any) -> LaneWorld:
    """All runs of a script, by the script's clock."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(attempt, "EpochLoop", partial(EpochLoop, clock=world.clock))
        world.run_all(retained_epochs=100, **options)
    return world


def same(world: LaneWorld, model: FlinkModel) -> None:
    assert world.visible() == model.given
    assert world.late() == sorted(model.late)


def test_rows_of_a_slow_partition_are_not_late(tmp_path: Path) -> None:
    steps = [
        Step({"a": (5, 25, 45), "b": (1,)}, new=("a", "b")),
        Step({"a": (65,), "b": (3, 8)}),
        Step({"a": (85,), "b": (31, 52)}),
        Step({"a": (90,)}),
    ]
    world = run(LaneWorld(tmp_path, steps))
    assert world.late() == []
    assert world.visible() == tumbling(world.rows)
    reported = [
        (m["sources"][0]["applied"], m["sources"][0]["lanes"]) for m in manifests(world.state).values()
    ]
    assert reported[:3] == [(1, {"a": 45, "b": 1}), (8, {"a": 65, "b": 8}), (52, {"a": 85, "b": 52})]


def test_what_closes_in_an_epoch_is_the_least_of_what_lanes_have_by_then(tmp_path: Path) -> None:
    """Lane b was at 3 before the epoch: with what the epoch reads of both, two windows close in it."""
    steps = [
        Step({"a": (5,), "b": (3,)}, new=("a", "b")),
        Step({"a": (25,), "b": (21,)}),
        Step({"a": (95,)}),
    ]
    world = run(LaneWorld(tmp_path, steps))
    assert [sum(r.rows_written.values()) for r in world.reports][:3] == [0, 2, 0]


def test_a_partition_that_comes_holds_the_watermark_until_it_has_rows(tmp_path: Path) -> None:
    steps = [
        Step({"a": (5, 15)}, new=("a",)),
        Step({"a": (45,)}, new=("b",)),
        Step({"a": (65,)}, gap=1000.0),
        Step({"b": (17, 33)}),
        Step({"a": (70,)}),
    ]
    world = run(LaneWorld(tmp_path, steps))
    assert [m["sources"][0]["applied"] for m in manifests(world.state).values()][:4] == [15, 15, 15, 33]
    assert world.late() == []


def test_an_idle_partition_steps_aside_and_its_rows_are_late_then(tmp_path: Path) -> None:
    steps = [
        Step({"a": (5,), "b": (3,)}, new=("a", "b")),
        Step({"a": (45,)}, gap=6.0),
        Step({"a": (65,)}, gap=6.0),
        Step({"b": (7,)}),
        Step({"b": (66,)}),
    ]
    world = run(LaneWorld(tmp_path, steps, idle_s=10.0))
    model = FlinkModel(10.0).play(steps)
    same(world, model)
    assert len(model.late) == 1


def test_a_partition_without_rows_is_named(tmp_path: Path) -> None:
    reported: list[Diagnostic] = []
    steps = [Step({"a": (5, 25)}, new=("a", "b")), Step({"a": (45,)}, ends=True), Step({"a": (50,)})]
    world = run(LaneWorld(tmp_path, steps), tell=reported.append)
    assert [d.code for d in reported] == ["DAT016"], "when the first run ends; the last one drains"
    assert reported[0].message == "a partition of `bid` without any row keeps its windows open: b"
    assert "scan.watermark.idle-timeout" in (reported[0].help or "")
    assert world.visible() == tumbling(world.rows)


def test_a_source_that_is_at_its_end_for_good_holds_nothing_open(tmp_path: Path) -> None:
    reported: list[Diagnostic] = []
    world = LaneWorld(tmp_path, [Step({"a": (5, 25)}, new=("a", "b"), ends=True)])
    world.lanes.final = True
    for _ in range(2):
        world.run(drains=False, rows=None, tell=reported.append)
    assert [d.code for d in reported] == [], "its windows were closed"
    assert world.visible() == tumbling(world.rows)


@pytest.mark.parametrize(("gap", "codes"), [(30.0, []), (90.0, ["DAT016"])])
def test_a_partition_without_rows_is_named_after_a_while(
    tmp_path: Path, gap: float, codes: list[str]
) -> None:
    reported: list[Diagnostic] = []
    steps = [
        Step({"a": (5, 25)}, new=("a", "b", "c")),
        Step({"a": (45,)}),
        Step({"a": (65,)}, gap=gap),
        Step({"a": (75,), "b": (71,), "c": (72,)}),
        Step({"a": (80,), "b": (80,)}, ends=True),
        Step({"a": (81,)}),
    ]
    run(LaneWorld(tmp_path, steps), tell=reported.append)
    assert [d.code for d in reported] == codes
    assert not reported or reported[0].message.endswith("b, c")
    assert lanes_module.HOLDS_S == 60.0


def test_what_is_stored_of_a_source_of_one_lane_is_as_it_was() -> None:
    assert "lanes" not in SourceState("t", "x", {}).to_json()
    state = SourceState("t", "x", {}, lanes={"p/0": 5, "p/1": WATERMARK_MIN})
    assert SourceState.from_json(state.to_json()) == state
    assert state.least_seen == WATERMARK_MIN
    plain = PlannedSource("t", "x", {}, {}, (), False, Watermarks())
    assert {"lanes", "idle_lanes", "starts"}.isdisjoint(plain.to_json())
    planned = replace(plain, lanes={"a": 1, "b": 2}, idle_lanes=("b",))
    assert PlannedSource.from_json(planned.to_json()) == planned
    assert planned.active_lanes == {"a": 1}


LANES = ("a", "b", "c")


@st.composite
def scripts(draw: st.DrawFn) -> list[Step]:
    """Partitions of different speed, some of which come later or are silent for long."""
    number = draw(st.integers(1, 8))
    there = {"a": 0} | {lane: draw(st.integers(0, number)) for lane in LANES[1:]}
    at = {lane: draw(st.integers(0, 30)) for lane in LANES}
    steps = []
    for n in range(number):
        rows = {}
        for lane in LANES:
            if there[lane] <= n and draw(st.integers(0, 3)):
                pace = draw(st.sampled_from((0, 4, 25)))
                at[lane] += pace
                rows[lane] = tuple(
                    draw(st.lists(st.integers(max(at[lane] - 12, 0), at[lane]), min_size=1, max_size=3))
                )
        rows = rows or {"a": (at["a"],)}  # a look that finds nothing is a gap
        new = tuple(lane for lane in LANES if there[lane] == n)
        gap = draw(st.sampled_from((0.0, 0.0, 4.0, 11.0)))
        steps.append(Step(rows, gap, new, ends=n + 1 < number and draw(st.integers(0, 3)) == 0))
    return steps


@settings(max_examples=examples(10), deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=scripts(), idle_s=st.sampled_from((None, 10.0)))
def test_windows_and_late_rows_are_those_of_the_model(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step], idle_s: float | None
) -> None:
    world = run(LaneWorld(tmp_path_factory.mktemp("lanes"), steps, idle_s))
    same(world, FlinkModel(idle_s).play(steps))


POINTS = ("planned", "run", "prepared", "published", "committed")


@settings(max_examples=examples(6), deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=scripts(), point=st.sampled_from(POINTS), epoch=st.integers(1, 6), shards=st.integers(1, 3))
def test_a_run_that_is_killed_gives_what_one_does_that_is_not(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step], point: str, epoch: int, shards: int
) -> None:
    """Idleness counts from the start of a run, so these have no timeout; replayed, or given up and planned anew."""
    world = LaneWorld(tmp_path_factory.mktemp("lanes"), [replace(step, ends=False) for step in steps])
    try:
        run(world, faults=crash_at(point, epoch))
    except Crash:
        run(world, shards=shards)
    same(world, FlinkModel(None).play(steps))


@settings(max_examples=examples(6), deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=scripts(), cuts=st.sets(st.integers(0, 7)))
def test_cut_over_runs_the_windows_are_those_of_one_run(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step], cuts: set[int]
) -> None:
    """Without a timeout; drained in the last run only."""
    cut = [replace(step, ends=n in cuts and n + 1 < len(steps)) for n, step in enumerate(steps)]
    world = run(LaneWorld(tmp_path_factory.mktemp("lanes"), cut))
    same(world, FlinkModel(None).play([replace(step, ends=False) for step in steps]))
