"""Times to live that are added, changed and taken away (row 33); distinct values by fewer keys (row 12)."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.planning import plan_file
from sqlstream_operators.plan.state_ttl import AT, EXPIRY, TOUCHED, granularity_us
from sqlstream_planner.edits.decide import decide
from sqlstream_planner.edits.verdict import NOW_US, Verdict
from tests.edits.derived import (
    APPEND,
    CHANGES,
    DUCK,
    NOW,
    PHASES,
    assert_derived,
    columns_of,
    data,
    edits,
    needed,
    planned,
)
from tests.edits.test_ranked_rows import top
from tests.examples import examples

TTL = "SET 'table.exec.state.ttl' = '1 d'; "
LONGER = "SET 'table.exec.state.ttl' = '64 d'; "

QUERIES = {
    "groups": "SELECT k, COUNT(*) AS n, SUM(v) AS s, MIN(v) AS lo FROM bid GROUP BY k",
    "distinct values": "SELECT k, COUNT(*) AS n, COUNT(DISTINCT v) AS d FROM bid GROUP BY k",
    "ranked rows": top(),
    "one row of each key": top(n="= 1"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format_", [APPEND, CHANGES])
@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=examples(1), deadline=None, phases=PHASES)
@given(draw=st.data())
def test_what_is_there_is_touched_when_a_time_to_live_is_added(
    name: str, format_: str, draw: st.DataObject
) -> None:
    old, new = planned(QUERIES[name], format_), planned(TTL + QUERIES[name], format_)
    for edit in assert_derived(old, new, draw.draw(data(format_))):
        assert edit.verdict is Verdict.ADAPT


@pytest.mark.parametrize(("old", "new"), [(TTL, ""), (TTL, LONGER), (LONGER, TTL)])
@pytest.mark.parametrize("name", QUERIES)
def test_changed_and_removed_it_keeps_the_state(name: str, old: str, new: str) -> None:
    for edit in needed(planned(old + QUERIES[name]), planned(new + QUERIES[name])):
        assert edit.verdict is Verdict.KEEP
        assert edit.derivation is None


@settings(max_examples=examples(2), deadline=None, phases=PHASES)
@given(draw=st.data())
def test_a_filter_keeps_the_times(draw: st.DataObject) -> None:
    old = planned(TTL + QUERIES["groups"])
    new = planned(TTL + QUERIES["groups"].replace("FROM bid", "FROM bid WHERE k > 1"))
    [edit] = assert_derived(old, new, draw.draw(data(APPEND)))
    assert edit.derivation is not None
    assert {d.table: d.reads for d in edit.derivation.tables}[TOUCHED] == (TOUCHED,)


@settings(max_examples=examples(2), deadline=None, phases=PHASES)
@given(draw=st.data())
def test_fewer_keys_and_a_time_to_live(draw: st.DataObject) -> None:
    old = planned("SELECT k, g, COUNT(*) AS n, MIN(v) AS m FROM bid GROUP BY k, g", CHANGES)
    new = planned(TTL + "SELECT k, COUNT(*) AS n, MIN(v) AS m FROM bid GROUP BY k", CHANGES)
    assert_derived(old, new, draw.draw(data(CHANGES)))


ROLLED_UP = {
    "groups": (
        "SELECT k, g, COUNT(*) AS n, MIN(v) AS m FROM bid GROUP BY k, g",
        "SELECT k, COUNT(*) AS n, MIN(v) AS m FROM bid GROUP BY k",
    ),
    "no keys left": (
        "SELECT k, g, COUNT(*) AS n, MIN(v) AS m FROM bid GROUP BY k, g",
        "SELECT COUNT(*) AS n, MIN(v) AS m FROM bid",
    ),
    "a function of a key": (
        "SELECT g, COUNT(*) AS n, SUM(v) AS m FROM bid GROUP BY g",
        "SELECT UPPER(g) AS u, COUNT(*) AS n, SUM(v) AS m FROM bid WHERE g <> 'b' GROUP BY UPPER(g)",
    ),
}


@pytest.mark.parametrize("format_", [APPEND, CHANGES])
@pytest.mark.parametrize("name", ROLLED_UP)
@settings(max_examples=examples(1), deadline=None, phases=PHASES)
@given(draw=st.data())
def test_groups_that_were_never_forgotten_are_rolled_up_with_their_times(
    name: str, format_: str, draw: st.DataObject
) -> None:
    old, new = (planned(TTL + query, format_) for query in ROLLED_UP[name])
    for edit in assert_derived(old, new, draw.draw(data(format_))):
        assert edit.verdict is Verdict.ADAPT


@pytest.mark.parametrize("after", [TTL, LONGER, ""])
@pytest.mark.parametrize("name", ROLLED_UP)
def test_where_groups_were_forgotten_their_sums_are_short(name: str, after: str) -> None:
    old, new = (planned(t + query) for t, query in zip((TTL, after), ROLLED_UP[name], strict=True))
    forgetful = {state.state_id for state in old.physical.states}
    for edit in decide(old.physical, new.physical, new.state_nodes, forgetful=forgetful):
        assert edit.new is None or (edit.verdict, edit.old) == (Verdict.BACKFILL, None)


CHAIN = "SELECT n, COUNT(*) AS c FROM (SELECT k, g, COUNT(*) AS n FROM bid GROUP BY k, g) GROUP BY n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (QUERIES["groups"], QUERIES["groups"].replace("AS lo", "AS lo, MAX(w) AS hi")),
        (CHAIN, CHAIN.replace("AS c", "AS c, MAX(k) AS hi")),
        (QUERIES["distinct values"], QUERIES["distinct values"].replace("AS d", "AS d, MAX(v) AS hi")),
    ],
)
def test_what_was_forgotten_is_not_mixed_with_what_is_read_again(old: str, new: str) -> None:
    """With nothing forgotten only the new field is read again; else all states that rows go between."""
    before, after = planned(TTL + old), planned(TTL + new)
    kept = [e for e in needed(before, after) if e.old is not None]
    assert kept
    last = next(s for s in reversed(before.physical.states))
    found = decide(before.physical, after.physical, after.state_nodes, forgetful={last.state_id})
    for edit in found:
        assert edit.new is None or (edit.verdict, edit.old) == (Verdict.BACKFILL, None)
        assert edit.new is None or all(f.verdict is Verdict.BACKFILL and f.reason for f in edit.fields)
    unrelated = decide(before.physical, after.physical, after.state_nodes, forgetful={"another"})
    assert unrelated == tuple(edits(before, after))


def test_a_state_that_was_forgotten_is_kept_where_nothing_is_read_again() -> None:
    before, after = (
        planned(TTL + QUERIES["groups"] + more) for more in ("", " HAVING COUNT(*) > 1 AND SUM(v) < 9")
    )
    forgetful = {state.state_id for state in before.physical.states}
    [edit] = decide(before.physical, after.physical, after.state_nodes, forgetful=forgetful)
    assert edit.verdict is Verdict.KEEP


@pytest.mark.parametrize("format_", [APPEND, CHANGES])
@settings(max_examples=examples(2), deadline=None, phases=PHASES)
@given(draw=st.data())
def test_distinct_values_by_fewer_keys(format_: str, draw: st.DataObject) -> None:
    calls = "COUNT(*) AS n, COUNT(DISTINCT v) AS c, COUNT(DISTINCT v) FILTER (WHERE w > 0) AS f"
    old = planned(f"SELECT k, g, {calls} FROM bid GROUP BY k, g", format_)
    new = planned(f"SELECT UPPER(g) AS u, {calls} FROM bid WHERE k > 0 GROUP BY UPPER(g)", format_)
    distinct, groups = needed(old, new)
    assert distinct.verdict is Verdict.ADAPT
    assert distinct.reason == "rolled up from 2 keys to 1, groups that the new filter leaves out are dropped"
    assert groups.verdict is Verdict.ADAPT
    assert_derived(old, new, draw.draw(data(format_)))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, COUNT(DISTINCT w) AS c FROM bid GROUP BY k",
        "SELECT k, COUNT(DISTINCT v) FILTER (WHERE w > 1) AS c FROM bid GROUP BY k",
        "SELECT k, COUNT(DISTINCT v) AS c FROM bid WHERE v > 0 GROUP BY k",
        "SELECT k, COUNT(DISTINCT d) AS c FROM bid GROUP BY k",
    ],
)
def test_other_distinct_values_are_computed_anew(query: str) -> None:
    old = planned("SELECT k, g, COUNT(DISTINCT v) AS c FROM bid GROUP BY k, g")
    distinct = needed(old, planned(query))[0]
    assert distinct.verdict is Verdict.BACKFILL
    assert distinct.derivation is None


KEYED = """CREATE TABLE c (k INT, v INT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'debezium-json');
CREATE TABLE o WITH ('connector' = 'print') AS SELECT k, v FROM c;
"""
CONFLICTS = """CREATE TABLE c (k INT, v INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE o (k INT, v INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'duckdb', 'path' = 'o.duckdb');
INSERT INTO o SELECT k, v FROM c ON CONFLICT DO NOTHING;
"""


@pytest.mark.parametrize("text", [KEYED, CONFLICTS])
def test_rows_of_keys_are_touched_when_a_time_to_live_is_added(text: str) -> None:
    old, new = (plan_file(f"{before}{text}", file="p.sql") for before in ("", TTL))
    [edit] = needed(old, new)
    assert edit.verdict is Verdict.ADAPT
    assert edit.derivation is not None
    row, touched, expiry = edit.derivation.tables
    assert edit.new is not None
    assert edit.old is not None
    for shown, wanted in ((row, "row"), (touched, TOUCHED), (expiry, EXPIRY)):
        assert shown.table == wanted
        columns = [(c.name, c.type) for c in columns_of(edit.new.state.table(wanted))]
        names = [c.name for c in columns_of(edit.old.state.table("row"))]
        DUCK.register("old.row", pa.table({name: pa.array([1, None, 2], pa.int32()) for name in names}))
        rows = DUCK.query(shown.rows.replace(NOW_US, str(NOW)))
        DUCK.drop("old.row")
        assert sorted(rows.column_names) == sorted(name for name, _ in columns)
        assert rows.num_rows == 3


def test_times_are_cut_as_the_operator_does() -> None:
    [edit] = needed(planned(QUERIES["groups"]), planned(TTL + QUERIES["groups"]))
    assert edit.derivation is not None
    texts = {d.table: d.rows for d in edit.derivation.tables}
    assert f"% {granularity_us(86_400_000_000)} AS" in texts[TOUCHED]
    assert AT in texts[TOUCHED]
    assert EXPIRY in texts
