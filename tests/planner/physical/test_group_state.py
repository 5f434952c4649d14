"""What a group aggregate keeps: shared by what means the same, known by its meaning, gone with the watermark."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace

import pytest

from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, Watermarks
from sqlstream_planner.identity.relation import Meanings
from sqlstream_planner.logical import EventTime
from sqlstream_planner.physical.operators.group_aggregate import plan_group
from sqlstream_planner.streaming import GroupExpiry
from tests.planner.physical.group_cases import Shape, assert_same, call, expected, plan
from tests.planner.physical.group_rows import MODES, SHAPES, TIES, day, fixed_epochs
from tests.planner.physical.group_running import Running


def _accumulators(*texts: str, retracting: bool = True, shape: Shape = SHAPES[1]) -> list[str]:
    made = plan(shape, [call(t) for t in texts], retracting=retracting)
    return [c.name for c in made.spec.accumulators]


def test_equivalent_aggregates_share_their_state() -> None:
    """SUM, AVG and COUNT of one argument are one sum and one count; so are two spellings of one filter."""
    kept = _accumulators("avg(x)", "sum(x)", "count(x)", "count(*)")
    assert sorted(kept) == ["count_x", "row_count", "sum_x"]
    assert (
        len(_accumulators("count(*) FILTER (WHERE b AND x > 1)", "count(*) FILTER (WHERE 1 < x AND b)")) == 2
    )
    assert len(_accumulators("bool_or(b)", "bool_and(b)", "count_if(b)")) == 3


def test_a_group_without_aggregates_is_its_keys() -> None:
    """SELECT DISTINCT over append-only input keeps the keys alone, over retracting input how often they came."""
    assert _accumulators(retracting=False) == []
    assert _accumulators() == ["row_count"]
    assert _accumulators("list(x)", retracting=False) == []
    assert _accumulators("list(x)", retracting=False, shape=SHAPES[0]) == ["row_count"]


def test_distinct_aggregates_over_one_column_share_one_operator() -> None:
    """One state for all of them, one flag for each FILTER."""
    texts = [
        "count(DISTINCT x)",
        "sum(DISTINCT x)",
        "avg(DISTINCT x) FILTER (WHERE b)",
        "count(DISTINCT x) FILTER (WHERE b)",
    ]
    made = plan(SHAPES[1], [call(t) for t in texts], retracting=True)
    [distinct] = made.distinct
    assert len(distinct.spec.flags) == 2
    assert [f.name for f in distinct.spec.state.tables[0].value] == list(distinct.spec.flags)
    assert made.spec.multisets == ()


def test_the_least_and_greatest_read_one_value() -> None:
    """MIN and MAX over retracting input read an end of their values, unless something needs all of these anyway."""

    def picks(*texts: str) -> list[str]:
        made = plan(SHAPES[1], [call(t) for t in texts], retracting=True)
        return sorted(c.pick for c in made.spec.multisets)

    assert picks("min(x)") == ["first"]
    assert picks("min(x)", "max(x)", "any_value(x)") == ["first", "last"]
    assert picks("min(x)", "max(x)", "median(x)", "stddev(x)", "mode(x)") == ["all"]
    assert picks("arg_max(s, x)") == ["last"]
    assert picks("min(l)") == ["all"]  # NULLs inside a list sort differently in the state
    assert plan(SHAPES[1], [call("min(x)"), call("arg_max(s, x)")], retracting=False).spec.multisets == ()


def test_keys_and_calls_in_another_order_are_the_same_state() -> None:
    """The state's bytes follow from what is kept, not from how the query lists it."""
    texts = ["sum(x)", "count(DISTINCT s)", "median(f)", "max(x)"]
    one = plan(Shape(("g", "k")), [call(t) for t in texts], retracting=True)
    other = plan(Shape(("k", "g")), [call(t) for t in reversed(texts)], retracting=True)
    assert one.spec.state.schema_id == other.spec.state.schema_id
    assert one.spec.state.state_id == other.spec.state.state_id
    assert [d.spec.state.schema_id for d in one.distinct] == [d.spec.state.schema_id for d in other.distinct]
    assert [d.spec.state.state_id for d in one.distinct] == [d.spec.state.state_id for d in other.distinct]
    changed = plan(Shape(("k", "g")), [call(t) for t in texts[:-1]], retracting=True)
    assert changed.spec.state.schema_id != one.spec.state.schema_id


def test_two_aggregates_over_the_same_groups_have_states_of_their_own() -> None:
    """Their identities have one core: the rows and the keys are the same, the fields are not."""
    one = plan(SHAPES[1], [call("count(DISTINCT x)")], retracting=False)
    other = plan(SHAPES[1], [call("count(DISTINCT s)"), call("max(x)")], retracting=False)
    ids = [s.state_id for p in (one, other) for s in (p.spec.state, *(d.spec.state for d in p.distinct))]
    assert len(set(ids)) == 4
    assert json.loads(one.spec.state.identity)["id"] == json.loads(other.spec.state.identity)["id"]


def test_a_key_may_be_called_as_a_column_of_ours() -> None:
    """No column of the state collides with the count of values, the group's id or the weight."""
    for name in ("count", "time", "grouping_id", "__weight", "row_count", "value_x"):
        shape, calls = Shape(("k", "g"), ((0, 1), ())), [call("median(x)"), call("count(DISTINCT x)")]
        node = shape.node(calls)
        keys = (replace(node.keys[0], name=name), node.keys[1])
        made = plan_group(Meanings(), replace(node, keys=keys), retracting=True)
        for state in (made.spec.state, *(d.spec.state for d in made.distinct)):
            for table in state.tables:
                columns = [f.name for f in (*table.key, *table.sub_key, *table.value)]
                assert len({c.lower() for c in columns}) == len(columns)
        if name == "count":
            running, epoch = Running(made), fixed_epochs(retracting=True)[0]
            assert_same(running.epoch(epoch), expected(shape, calls, [epoch]))


# ------------------------------------------------------------------------------------------------- expiry


@MODES
def test_groups_that_expire(retracting: bool) -> None:
    """Groups go with the watermark, values and all; their results stay."""
    expiry = GroupExpiry(0, EventTime(("rows",), 1, direct=False), lateness_us=0)
    shape = Shape(("t", "k"))
    calls = [
        call(t)
        for t in ("sum(x)", "max(x)", "count(DISTINCT x)", "median(f)", "sum(DISTINCT x) FILTER (WHERE b)")
    ]
    made = plan(shape, calls, retracting=retracting, expiry=expiry)
    assert made.distinct == ()
    assert {t.layout for t in made.spec.state.tables} == {"time"}
    assert made.spec.expiry is not None
    assert made.spec.expiry.column in {c.name for c in made.spec.keys}
    running = Running(made, shards=2)
    rows = [(r, 1) for r in TIES if r[9] is not None]
    assert_same(running.epoch(rows), expected(shape, calls, [rows]))
    before = sum(len(store._memory.rows) for store in running.stores)
    low = int(day(2).replace(tzinfo=dt.UTC).timestamp() * 1_000_000)
    assert_same(running.epoch([], Watermarks(close=low)), expected(shape, calls, [rows]))
    between = sum(len(store._memory.rows) for store in running.stores)
    assert 0 < between < before
    assert_same(running.epoch([], Watermarks(low, low, WATERMARK_MAX)), expected(shape, calls, [rows]))
    assert all(not store.has_rows() for store in running.stores)


def test_a_distinct_list_ordered_by_something_else_is_refused() -> None:
    """DISTINCT leaves one row of several, and no one can say which one's order counts; the binder tells the user."""
    with pytest.raises(InternalError, match="DISTINCT"):
        plan(SHAPES[1], [call("list(DISTINCT x ORDER BY y)")], retracting=True)
