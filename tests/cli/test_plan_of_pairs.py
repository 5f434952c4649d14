"""Plans of edits between the queries that are known to mean the same, or not: in both directions, as text and as JSON."""

from __future__ import annotations

import json

import pytest

from sqlstream.cli.plan_text import plan_lines
from sqlstream.planning import plan_file
from sqlstream.runtime.edits.plan.edit_plan import edit_diff
from sqlstream.runtime.edits.plan.plan_parts import EditPlan
from sqlstream_planner.edits.verdict import Verdict
from tests.identity.test_pairs import TABLES, Pair, parameters


def plans(pair: Pair) -> list[EditPlan]:
    one, other = (plan_file(f"{TABLES}{query};", file="p.sql") for query in (pair.one, pair.other))
    made = []
    for old, new in ((one, other), (other, one)):
        plan = edit_diff(old.physical, new.physical, nodes=new.state_nodes, written=new.written)
        assert "\n".join(plan_lines(plan, "p.sql", "against old.sql", new.rendered.sources)).endswith(
            plan.summary
        )
        code = json.loads(json.dumps(plan.to_json()))["exit_code"]
        # What rows have looked up is not known any more: what would be read again begins empty, by consent.
        assert code in (0, 4) or (code == 3 and "FOR SYSTEM_TIME" in pair.one + pair.other)
        made.append(plan)
    return made


@pytest.mark.sampled(5)
@pytest.mark.parametrize("pair", parameters("same.txt"))
def test_what_means_the_same_is_kept(pair: Pair) -> None:
    for plan in plans(pair):
        assert plan.states
        assert not any(state.changes for state in plan.states)
        assert all(f.verdict is Verdict.KEEP for state in plan.states for f in state.fields)


#: Other names of states, but known to mean the same where an edit is planned: LIKE without a wildcard is =.
OTHER_WORDS = frozenset(
    {("SELECT COUNT(*) AS n FROM t WHERE s = 'x'", "SELECT COUNT(*) AS n FROM t WHERE s LIKE 'x'")}
)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("pair", parameters("different.txt"))
def test_what_means_something_else_is_told(pair: Pair) -> None:
    if (pair.one, pair.other) in OTHER_WORDS:
        assert not any(state.changes for plan in plans(pair) for state in plan.states)
        return
    assert all(plan.changes and any(state.changes for state in plan.states) for plan in plans(pair))
