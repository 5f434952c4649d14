"""Watermarks of sources: idle and exhausted sources, sources that go on, and when an empty epoch is worth it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.runtime.loop.watermarks import (
    WindowEnds,
    after_epoch,
    effective,
    planned,
    resumed,
    source_groups,
    window_ends,
)
from sqlstream.storage.manifest import SourceState
from sqlstream_operators.plan.spec import LateStep, OperatorStep, Stage
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN
from sqlstream_operators.plan.window_aggregate_spec import WindowAggregateSpec
from sqlstream_operators.plan.window_spec import WindowKind, WindowSpec
from tests.operators.pipelines import window_plan

NAMES = ("a", "b", "c")
TIMES = st.integers(-1000, 1000)


def test_an_idle_source_follows_the_least_active_one_of_its_group() -> None:
    groups = (frozenset({"a", "b", "c"}),)
    before = dict.fromkeys(NAMES, 0)
    own = {"a": 100, "b": 40, "c": 5}
    assert effective(own, (), (), groups, before) == own
    assert effective(own, (), {"c"}, groups, before) == {"a": 100, "b": 40, "c": 40}
    assert effective(own, (), {"b", "c"}, groups, before) == {"a": 100, "b": 100, "c": 100}
    assert effective(own, (), {"a", "b", "c"}, groups, before) == {"a": 100, "b": 100, "c": 100}


def test_sources_that_share_no_operator_do_not_wait_for_each_other() -> None:
    groups = (frozenset({"a", "b"}), frozenset({"c"}))
    own = {"a": 100, "b": 40, "c": 5}
    assert effective(own, (), {"b", "c"}, groups, dict.fromkeys(NAMES, 0)) == {"a": 100, "b": 100, "c": 5}


def test_an_exhausted_source_holds_nobody_back() -> None:
    groups = (frozenset({"a", "b"}),)
    marks = effective({"a": 1, "b": 7}, {"a"}, (), groups, {"a": 1, "b": 2})
    assert marks == {"a": WATERMARK_MAX, "b": 7}
    marks = effective({"a": 1, "b": 7}, {"a"}, {"b"}, groups, {"a": 1, "b": 2})
    assert marks["b"] == 7  # it is idle, but follows no active source
    marks = effective({"a": 1, "b": 7}, {"a"}, {"a", "b"}, groups, {"a": 1, "b": 2})
    assert marks == {"a": WATERMARK_MAX, "b": 7}  # nor one that was idle when it ended


@given(
    st.fixed_dictionaries(dict.fromkeys(NAMES, TIMES)),
    st.fixed_dictionaries(dict.fromkeys(NAMES, TIMES)),
    st.sets(st.sampled_from(NAMES)),
    st.sets(st.sampled_from(NAMES)),
)
def test_no_watermark_goes_back(
    own: dict[str, int], before: dict[str, int], idle: set[str], ended: set[str]
) -> None:
    marks = effective(own, ended, idle, (frozenset({"a", "b"}), frozenset({"c"})), before)
    for name in NAMES:
        assert marks[name] >= max(before[name], own[name])
        assert planned(before[name], marks[name], None, rises=True).close == marks[name]


def test_the_resume_watermark_covers_every_closed_window() -> None:
    state = SourceState("t", "x", {"n": 0}, seen=10, applied=10, resume=10)
    ended = after_epoch(
        state, position={"n": 1}, drained=True, read_up_to=95, applied=WATERMARK_MAX, closed_up_to=103
    )
    assert (ended.seen, ended.applied, ended.resume) == (95, WATERMARK_MAX, 103)
    again = resumed(ended)
    assert (again.seen, again.applied, again.drained) == (103, 103, False)
    older = after_epoch(
        again, position={"n": 2}, drained=False, read_up_to=50, applied=103, closed_up_to=None
    )
    assert (older.seen, older.resume) == (103, 103)
    nothing = after_epoch(
        SourceState("t", "x", {}), position={}, drained=True, read_up_to=None, applied=3, closed_up_to=None
    )
    assert (nothing.seen, nothing.resume) == (WATERMARK_MIN, 3)


def test_a_source_that_followed_others_while_it_was_idle_does_not_go_back_when_it_ends() -> None:
    state = SourceState("t", "x", {"n": 0}, seen=10)
    followed = after_epoch(
        state, position={"n": 0}, drained=False, read_up_to=None, applied=50, closed_up_to=None
    )
    assert (followed.seen, followed.applied, followed.resume) == (10, 50, 50)
    ended = after_epoch(
        followed,
        position={"n": 1},
        drained=True,
        read_up_to=20,
        applied=WATERMARK_MAX,
        closed_up_to=None,
    )
    again = resumed(ended)
    assert (again.seen, again.applied) == (50, 50)


@pytest.mark.parametrize(("before", "after"), [(0, 5), (7, 12), (None, None)])
def test_the_rows_that_were_read_are_counted_where_they_always_were(
    before: int | None, after: int | None
) -> None:
    state = SourceState("t", "x", {}, rows=before)
    read = after_epoch(
        state, position={}, drained=False, read_up_to=None, applied=3, closed_up_to=None, rows=5
    )
    assert read.rows == after
    assert SourceState.from_json(read.to_json()).rows == after


def test_sources_of_older_manifests_have_not_counted_their_rows() -> None:
    written = SourceState("t", "x", {}, rows=3).to_json()
    del written["rows"]
    assert SourceState.from_json(written) == SourceState("t", "x", {})


@given(st.integers(1, 60), st.integers(-30, 30), st.integers(1, 5), TIMES, st.integers(0, 100))
def test_windows_close_when_the_watermark_passes_a_window_end(
    slice_us: int, offset: int, tick: int, before: int, more: int
) -> None:
    known = WindowEnds("w", ("t",), slice_us, offset, tick, "s")
    after = before + more
    ends = [end for end in range(before - 10, after + 10) if (end - offset) % slice_us == 0]
    closes = [end for end in ends if end - tick <= after and not end - tick <= before]
    assert known.closes_any(before, after) == bool(closes)


@pytest.mark.parametrize("last", ["late", "operator"])
def test_sources_meet_through_others(last: str) -> None:
    plan = window_plan(WindowSpec(WindowKind.TUMBLE, 10, 10))
    [late] = [step for stage in plan.stages for step in stage.steps if isinstance(step, LateStep)]
    [operator] = [step for stage in plan.stages for step in stage.steps if isinstance(step, OperatorStep)]

    def over(number: int, step: LateStep | OperatorStep, *sources: str) -> Stage:
        if isinstance(step, LateStep):
            step = replace(step, watermark_sources=sources)
        else:
            assert isinstance(step.operator, WindowAggregateSpec)
            step = replace(step, operator=replace(step.operator, watermark_sources=sources))
        [stage] = [s for s in plan.stages if any(one.name == step.name for one in s.steps)]
        steps = tuple(step if one.name == step.name else one for one in stage.steps)
        return replace(stage, id=f"{stage.id}_{number}", steps=steps)

    apart = (over(1, late, "a"), over(2, operator, "b", "c"), over(3, late, "d"), over(4, late))
    assert set(source_groups(replace(plan, stages=apart))) == {
        frozenset("a"),
        frozenset("bc"),
        frozenset("d"),
    }
    both = over(5, late if last == "late" else operator, "a", "c")
    met = source_groups(replace(plan, stages=(*apart, both)))
    assert set(met) == {frozenset("abc"), frozenset("d")}
    assert len(met) == 2


def test_an_operator_is_as_far_as_the_last_of_its_sources() -> None:
    ends = WindowEnds("w", ("a", "b"), slice_us=10, offset_us=0, tick_us=1, state_id="s")
    assert ends.least({"a": 7, "b": 5, "c": 1}) == 5


def test_what_emits_nothing_when_it_closes_is_worth_an_epoch_at_the_end_alone() -> None:
    ends = WindowEnds("w", ("t",), slice_us=0, offset_us=0, tick_us=1, state_id="s")
    assert not ends.closes_any(0, 1_000_000)
    assert ends.closes_any(0, WATERMARK_MAX)
    assert not ends.closes_any(WATERMARK_MAX, WATERMARK_MAX)


def test_groups_and_window_ends_of_a_plan() -> None:
    plan = window_plan(WindowSpec(WindowKind.HOP, 10, 4, offset_us=-1))
    assert source_groups(plan) == (frozenset({"bid"}),)
    (ends,) = window_ends(plan)
    assert (ends.step, ends.slice_us, ends.offset_us, ends.state_id) == ("agg", 2, -1, "w1")
    assert ends.closes_any(WATERMARK_MIN, 100)
