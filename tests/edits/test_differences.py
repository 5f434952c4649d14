"""What a plan says of a state that is computed anew: which clause makes it another one, and where that stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.edits.plan.edit_plan import edit_diff
from sqlstream.runtime.edits.plan.plan_parts import EditPlan, StatePart
from sqlstream_planner.edits.verdict import Verdict
from sqlstream_planner.explain.meaning import shown_meanings
from sqlstream_planner.pipeline import Planned

TABLES = """\
CREATE TABLE t (k INT, s STRING, v BIGINT, tags ARRAY<STRING>, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE o WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'changelog-json') AS
"""
#: The line of the query's first line.
FIRST = 4
SUMS = "SELECT k, SUM(v) AS v FROM t\nWHERE k > 0\nGROUP BY k"
MINUTES = (
    "SELECT window_end AS w, k, COUNT(*) AS n FROM TABLE(\n"
    "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))\n"
    "GROUP BY window_start, window_end, k"
)
BEST = (
    "SELECT k, s, v FROM (SELECT *,\n"
    "ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, s) AS rn FROM t)\nWHERE rn <= 3"
)
TAGS = "SELECT tag, COUNT(*) AS n FROM t CROSS JOIN UNNEST(tags) AS u (tag)\nGROUP BY tag"
BOTH = "SELECT k, SUM(v) AS v FROM (SELECT k, v FROM t UNION ALL\nSELECT k, v FROM t WHERE k > 5)\nGROUP BY k"

PAIRS = "SELECT a.k, b.v AS w FROM t AS a\nJOIN t AS b ON a.k = b.k"
COMMON = "SELECT k, v FROM t INTERSECT\nSELECT k, v FROM t WHERE k > 5"


def planned(folder: Path, query: str) -> Planned:
    (folder / "p.sql").write_text(f"{TABLES}{query};\n")
    return plan_file(folder / "p.sql")


def diff(folder: Path, old: str, new: str) -> EditPlan:
    before, now = planned(folder, old), planned(folder, new)
    return edit_diff(before.physical, now.physical, written=now.written, nodes=now.state_nodes)


def only(plan: EditPlan) -> StatePart:
    """The one state that the new query needs and that is not just kept."""
    [state] = [s for s in plan.states if s.edit.verdict not in (Verdict.KEEP, Verdict.DROP)]
    return state


def marked(folder: Path, state: StatePart) -> set[str]:
    """The text of the clauses that are given as the fields' places."""
    lines = (folder / "p.sql").read_text().split("\n")
    spans = {f.at for f in state.fields if f.verdict not in (Verdict.KEEP, Verdict.DROP)}
    return {lines[at.line - 1][at.column - 1 : at.column - 1 + at.length] for at in spans if at is not None}


@pytest.mark.parametrize(
    ("old", "new", "reason", "clause"),
    [
        (SUMS, (" > 0", " > 0 AND v < 9"), "the condition v < 9 is new", "k > 0 AND v < 9"),
        (SUMS, ("WHERE k > 0\n", ""), "the condition k > 0 is gone", "k"),
        (
            SUMS,
            (" > 0", " > -1"),
            "the condition k > -1 is new; the condition k > 0 is gone",
            "k > -1",
        ),
        (SUMS, ("BY k", "BY k, s"), "it was grouped by k and is grouped by k, s", "k, s"),
        (
            MINUTES,
            ("'1' MINUTE", "'5' MINUTE"),
            "its windows were TUMBLE 1 minute over ts and are TUMBLE 5 minutes over ts",
            "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTE)",
        ),
        (
            MINUTES,
            ("TUMBLE(TABLE t, DESCRIPTOR(ts), ", "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '30' SECOND, "),
            "its windows were TUMBLE 1 minute over ts and are HOP 1 minute every 30 seconds over ts",
            "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '30' SECOND, INTERVAL '1' MINUTE)",
        ),
        (
            MINUTES,
            ("'1' MINUTE", "'1' MINUTE, INTERVAL '10' SECOND"),
            "its windows were TUMBLE 1 minute over ts and are TUMBLE 1 minute offset 10 seconds over ts",
            "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '10' SECOND)",
        ),
        (BEST, ("rn <= 3", "rn <= 5"), "3 of them were kept, and 5 are needed", None),
        (BEST, ("BY k", "BY s"), "it was ranked by k and is ranked by s", None),
        (BEST, ("v DESC, s", "s, v"), "its order was v desc, s and is s, v", None),
        (BEST, ("FROM t)", "FROM t WHERE v > 1)"), "the condition v > 1 is new", "v > 1"),
        (
            TAGS,
            ("CROSS JOIN UNNEST(tags) AS u (tag)", "LEFT JOIN UNNEST(tags) AS u (tag) ON TRUE"),
            "rows without an element are kept now",
            "tag",
        ),
        (
            PAIRS,
            ("JOIN t", "LEFT JOIN t"),
            "rows whose k is NULL were not kept by the INNER JOIN, and the LEFT JOIN gives them",
            None,
        ),
        (PAIRS, ("a.k = b.k", "a.s = b.s"), "it was joined by k and is joined by s", None),
        (PAIRS, ("b.v AS", "LENGTH(b.s) + b.v AS"), "of the right side s was not kept", None),
        (COMMON, ("INTERSECT", "EXCEPT"), "it was INTERSECT and is EXCEPT", None),
        (
            f"SELECT COUNT(*) AS n FROM ({COMMON})\nGROUP BY k",
            ("GROUP BY k", "GROUP BY v"),
            "it was grouped by k and is grouped by v",
            None,
        ),
        (SUMS, (" > 0", " >= 1 AND s IS NOT NULL"), "the condition s is not null is new", None),
        (SUMS, (" > 0", " > 0 AND NOT s LIKE 'a%'"), "the condition not s like 'a%' is new", None),
        (BOTH, ("k > 5", "k > 6"), "the condition k > 6 is new; the condition k > 5 is gone", "k > 6"),
    ],
)
def test_what_differs_is_said_and_marked(
    tmp_path: Path, old: str, new: tuple[str, str], reason: str, clause: str | None
) -> None:
    assert new[0] in old
    state = only(diff(tmp_path, old, old.replace(*new)))
    assert state.edit.verdict is Verdict.BACKFILL
    assert state.edit.reason == reason
    assert {f.reason for f in state.fields if f.verdict is Verdict.BACKFILL} == {reason}
    if clause is not None:
        assert marked(tmp_path, state) == {clause}


def test_a_filter_that_groups_can_be_left_out_by_is_marked(tmp_path: Path) -> None:
    state = only(diff(tmp_path, SUMS.replace("WHERE k > 0\n", ""), SUMS))
    assert state.edit.verdict is Verdict.ADAPT
    assert marked(tmp_path, state) == {"k > 0"}


def test_what_was_not_kept_is_marked_where_it_is_asked_for(tmp_path: Path) -> None:
    state = only(diff(tmp_path, SUMS, SUMS.replace("SUM(v)", "MAX(v)")))
    assert marked(tmp_path, state) == {"MAX(v)"}
    assert {f.reason for f in state.fields if f.verdict is Verdict.BACKFILL} == {"it was not kept"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("COUNT(DISTINCT s) AS n", "COUNT(DISTINCT v) AS n"),
        ("COUNT(DISTINCT s) AS n", "COUNT(DISTINCT s) AS n, COUNT(DISTINCT v) AS m"),
    ],
)
def test_distinct_values_that_were_not_kept_are_named(tmp_path: Path, old: str, new: str) -> None:
    distinct = f"SELECT k, {old} FROM t\nGROUP BY k"
    plan = diff(tmp_path, distinct, distinct.replace(old, new))
    values, groups = (s for s in plan.states if s.edit.verdict is Verdict.BACKFILL)
    assert values.reason == values.edit.reason == "the values of v were not kept"
    assert {f.reason for f in values.fields if f.verdict is Verdict.BACKFILL} == {values.reason}
    assert (groups.reason, groups.to_json()["reason"]) == ("count of values(v) was not kept",) * 2


def test_a_state_that_has_not_kept_a_field_says_so(tmp_path: Path) -> None:
    state = only(diff(tmp_path, SUMS, SUMS.replace("SUM(v)", "MAX(v)")))
    assert state.to_json()["reason"] == "max of v was not kept"
    filtered = "SELECT k, COUNT(DISTINCT s) AS n FROM t\nGROUP BY k"
    plan = diff(tmp_path, filtered, filtered.replace("s) AS", "s) FILTER (WHERE v > 1) AS"))
    reasons = [s.reason for s in plan.states if s.edit.verdict is Verdict.BACKFILL]
    assert reasons == ["rows where v > 1 was not kept", "count of values(s), v > 1 was not kept"]


def test_a_state_beside_those_that_are_kept_is_compared_with_none_of_them(tmp_path: Path) -> None:
    """It is new: that the other one is grouped otherwise says nothing about it."""
    both = (
        f"SELECT k, v FROM ({SUMS}) UNION ALL SELECT k, n FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k, v)"
    )
    state = only(diff(tmp_path, SUMS, both))
    assert state.edit.reason == "no state that is kept has these rows by these keys"


@pytest.mark.parametrize(
    ("query", "titles"),
    [
        (SUMS, ["groups by k"]),
        (SUMS.replace("BY k", "BY k % 2").replace("SELECT k", "SELECT k % 2 AS k"), ["groups by k % 2"]),
        (MINUTES, ["TUMBLE window of 1 minute by k"]),
        (
            MINUTES.replace("TUMBLE(TABLE t, DESCRIPTOR(ts), ", "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECOND, "),
            ["HOP window of 1 minute every 20 seconds by k"],
        ),
        (BEST, ["first 3 by k"]),
        (SUMS.replace("SUM(v)", "COUNT(DISTINCT s)"), ["DISTINCT s", "groups by k"]),
        (
            "SELECT a.k, COUNT(DISTINCT a.s) AS v FROM (SELECT k, s FROM t) AS a GROUP BY k",
            ["DISTINCT s", "groups by k"],
        ),
    ],
)  # fmt: skip
def test_states_are_called_by_the_columns_of_the_query(tmp_path: Path, query: str, titles: list[str]) -> None:
    states = diff(tmp_path, query, query).states
    assert sorted(state.title for state in states) == titles


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (PAIRS, {"k", "v"}),
        (COMMON, {"k", "v", "count of rows where it is of query 1", "count of rows where it is of query 2"}),
        ("SELECT k, v FROM t WHERE v NOT IN (SELECT v FROM t WHERE k > 5)", {"no key", "k", "v"}),
        (
            "SELECT a.k, b.v AS w, c.v AS x FROM t AS a JOIN t AS b ON a.k = b.k JOIN t AS c ON a.k = c.k",
            {"k", "v"},
        ),
        (
            "SELECT s, SUM(CASE WHEN s LIKE 'a%' THEN CAST(v AS DOUBLE) END) AS x FROM t GROUP BY s",
            {"s", "sum of case when s like 'a%' then cast(v as DOUBLE) end"},
        ),
        (
            "SELECT n, COUNT(*) AS m FROM (SELECT COUNT(*) AS a, SUM(v) AS b FROM t) UNPIVOT (v FOR n IN (a, b)) GROUP BY n",
            {"one of 'a', 'b'", "count of rows"},
        ),
    ],
)
def test_fields_are_told_in_the_words_of_the_query(tmp_path: Path, query: str, words: set[str]) -> None:
    plan = diff(tmp_path, "SELECT k FROM t", query)
    reported = {name for s in plan.states for name in shown_meanings(f.meaning for f in s.fields)}
    assert words <= reported
    for internal in (
        "the row",
        "how often it is there",
        "set column",
        "COALESCE(CAST('0x'",
        "side by side",
        "by(",
    ):
        assert not any(internal in name for name in (*reported, *(s.title for s in plan.states)))


def test_titles_say_by_what_a_join_is(tmp_path: Path) -> None:
    def titles(query: str) -> set[str]:
        return {s.title for s in diff(tmp_path, "SELECT k FROM t", query).states}

    assert titles(PAIRS) == {"inner join by k"}
    assert "anti join without a key" in titles(
        "SELECT k, v FROM t WHERE v NOT IN (SELECT v FROM t WHERE k > 5)"
    )
