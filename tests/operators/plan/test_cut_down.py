"""A plan without what does not feed some of its states and sinks."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from sqlstream_operators.plan.cut_down import cut_down
from sqlstream_operators.plan.spec import ExchangeInput, OperatorStep, PhysicalPlan, SourceInput
from tests.operators.pipelines import window_plan
from tests.runtime.support import TUMBLE

TABLES = """
CREATE TABLE t (k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = 't', 'format' = 'json');
CREATE TABLE u (k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = 'u', 'format' = 'json');
CREATE VIEW per_key AS SELECT k, COUNT(*) AS n, COUNT(DISTINCT v) AS d FROM t GROUP BY k;
CREATE TABLE per_count WITH ('connector' = 'print') AS SELECT n, COUNT(*) AS keys FROM per_key GROUP BY n;
CREATE TABLE keys WITH ('connector' = 'print') AS SELECT * FROM per_key;
CREATE TABLE windows WITH ('connector' = 'print') AS
SELECT window_start, window_end, k, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, k;
CREATE TABLE plain WITH ('connector' = 'print') AS SELECT k FROM u WHERE v > 0;
"""


@pytest.fixture
def plan(tmp_path: Path) -> PhysicalPlan:
    for name in "tu":
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.json").write_text('{"k": 1}\n')
    (tmp_path / "p.sql").write_text(TABLES)
    return plan_file(tmp_path / "p.sql").physical


def states(plan: PhysicalPlan) -> dict[str, str]:
    """The id of each operator's state, by the kind of the operator and how many keys it has."""
    found: dict[str, str] = {}
    for stage in plan.stages:
        for step in stage.steps:
            if isinstance(step, OperatorStep):
                found.setdefault(f"{step.operator.kind} {stage.level}", step.operator.state.state_id)
    return found


def names(plan: PhysicalPlan) -> tuple[set[str], set[str], set[str]]:
    return (
        {source.name for source in plan.sources},
        {sink.name for sink in plan.sinks},
        {state.state_id for state in plan.states},
    )


def check(plan: PhysicalPlan) -> None:
    """What is read is made, in order; nothing is left that nobody needs."""
    assert [stage.level for stage in plan.stages] == sorted(stage.level for stage in plan.stages)
    assert {stage.level for stage in plan.stages} == set(range(plan.levels))
    edges = {i.edge for s in plan.stages for i in s.inputs if isinstance(i, ExchangeInput)}
    assert edges == {o.edge for s in plan.stages for o in s.outputs if hasattr(o, "edge")}
    read = {i.source for s in plan.stages for i in s.inputs if isinstance(i, SourceInput)}
    assert read == {source.name for source in plan.sources}


def test_all_of_a_plan_is_the_plan(plan: PhysicalPlan) -> None:
    everything = cut_down(plan, [s.state_id for s in plan.states], [s.name for s in plan.sinks])
    assert everything == plan


def test_nothing_of_it(plan: PhysicalPlan) -> None:
    nothing = cut_down(plan, ())
    assert (nothing.sources, nothing.sinks, nothing.stages, nothing.states) == ((), (), (), ())
    assert nothing.options == plan.options


def test_a_state_with_what_feeds_it(plan: PhysicalPlan) -> None:
    for state in plan.states:
        cut = cut_down(plan, [state.state_id])
        check(cut)
        sources, sinks, kept = names(cut)
        assert (sinks, state.state_id in kept) == (set(), True)
        assert len(sources) == 1
        # Whoever is alone has nobody below that could go.
        assert cut_down(cut, [state.state_id]) == cut
    below = {state.state_id: names(cut_down(plan, [state.state_id]))[2] for state in plan.states}
    found = states(plan)
    assert below[found["window_aggregate 1"]] == {found["window_aggregate 1"]}
    assert below[found["distinct_values 1"]] == {found["distinct_values 1"]}
    assert below[found["group_aggregate 2"]] == {found["distinct_values 1"], found["group_aggregate 2"]}
    assert len(below[found["group_aggregate 3"]]) == 3


def test_a_sink_with_what_feeds_it(plan: PhysicalPlan) -> None:
    found = states(plan)
    for sink, sources, kept in (
        ("plain", {"u"}, set()),
        ("windows", {"u"}, {found["window_aggregate 1"]}),
        ("keys", {"t"}, {found["distinct_values 1"], found["group_aggregate 2"]}),
        ("per_count", {"t"}, {s.state_id for s in plan.states} - {found["window_aggregate 1"]}),
    ):
        cut = cut_down(plan, (), [sink])
        check(cut)
        assert names(cut) == (sources, {sink}, kept)


def test_levels_without_a_stage_are_left_out(plan: PhysicalPlan) -> None:
    assert plan.levels == 4
    assert cut_down(plan, [states(plan)["window_aggregate 1"]]).levels == 2
    assert cut_down(plan, (), ["plain"]).levels == 1


def test_late_rows_are_looked_for_in_all_inputs_of_a_window() -> None:
    whole = window_plan(TUMBLE)
    cut = cut_down(whole, ["w1"])
    assert [stage.steps for stage in cut.stages] == [stage.steps for stage in whole.stages]
    assert cut.sinks == ()


def test_what_the_plan_does_not_have(plan: PhysicalPlan) -> None:
    with pytest.raises(KeyError, match="no nothing, windowz"):
        cut_down(plan, ["nothing"], ["windowz"])
