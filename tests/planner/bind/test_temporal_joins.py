"""What is planned of FOR SYSTEM_TIME AS OF and ASOF JOIN, what explain says of it, and what is refused, by place."""

from __future__ import annotations

import pytest

from sqlstream.planning import plan_file
from sqlstream_operators.plan.spec import LateStep
from sqlstream_operators.plan.temporal_join_spec import TemporalJoinSpec
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from sqlstream_planner.explain.plan import explain_text
from sqlstream_planner.logical import walk
from sqlstream_planner.pipeline import Planned
from sqlstream_planner.properties.facts import Facts
from sqlstream_planner.properties.summary import Summary

TABLES = """CREATE TABLE l (id INT, k INT, v INT, p AS PROCTIME(), ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = 'l', 'format' = 'json');
CREATE TABLE r (k INT, s STRING, w INT, ts TIMESTAMP(3), PRIMARY KEY (k, s) NOT ENFORCED, WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = 'r', 'format' = 'json');
CREATE TABLE c (k INT, w INT, ts TIMESTAMP(3), PRIMARY KEY (k) NOT ENFORCED, WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = 'c', 'format' = 'debezium-json');
CREATE TABLE plain (k INT, w INT) WITH ('connector' = 'filesystem', 'path' = 'plain', 'format' = 'json');
"""
OUT = "CREATE TABLE out WITH ('connector' = 'blackhole') AS "


def planned(query: str) -> Planned:
    return plan_file(f"{TABLES}{OUT}{query};", file="p.sql")


def spec_of(query: str) -> TemporalJoinSpec:
    [step] = planned(query).physical.operators
    assert isinstance(step.operator, TemporalJoinSpec)
    return step.operator


#: A query, with the place of its message between ⟦ and ⟧, the code, and what the message says.
REFUSED = [
    (
        "SELECT w FROM l JOIN ⟦plain FOR SYSTEM_TIME AS OF l.ts⟧ ON l.k = plain.k",
        "SQL080",
        "`plain` has no versions",
    ),
    (
        "SELECT n FROM l JOIN ⟦(SELECT k, COUNT(*) AS n FROM r GROUP BY k) AS q ON l.k = q.k AND l.ts >= q.n⟧",
        "TYP003",
        "can't be compared",
    ),
    (
        "SELECT w FROM l JOIN c FOR SYSTEM_TIME AS OF ⟦l.v⟧ ON l.k = c.k",
        "SQL081",
        "goes by an event-time column",
    ),
    (
        "SELECT c.w FROM c JOIN ⟦c FOR SYSTEM_TIME AS OF c.ts AS d ON c.k = d.k⟧",
        "SQL083",
        "the rows before JOIN change",
    ),
    (
        "SELECT w FROM l JOIN ⟦r FOR SYSTEM_TIME AS OF l.ts ON l.k = r.k⟧",
        "SQL082",
        "must compare `s` of the key",
    ),
    (
        "SELECT w FROM l RIGHT JOIN ⟦c FOR SYSTEM_TIME AS OF l.ts ON l.k = c.k⟧",
        "SQL100",
        "RIGHT JOIN … FOR SYSTEM",
    ),
    ("SELECT w FROM l ASOF CROSS JOIN ⟦r⟧", "SQL100", "ASOF CROSS JOIN"),
    (
        "SELECT w FROM l ASOF JOIN ⟦r ON l.k = r.k AND l.v >= l.v⟧",
        "SQL081",
        "takes exactly one comparison by order",
    ),
    ("SELECT w FROM l ASOF JOIN ⟦r ON l.k = r.k⟧", "SQL081", "takes exactly one comparison by order"),
    (
        "SELECT w FROM l ASOF JOIN ⟦r ON l.k = r.k AND l.ts >= r.ts AND l.v > r.w⟧",
        "SQL081",
        "takes exactly one comparison by order",
    ),
    ("SELECT w FROM l ASOF JOIN ⟦c ON l.k = c.k AND l.ts >= c.ts⟧", "SQL083", "the rows behind JOIN change"),
]


@pytest.mark.parametrize(("marked", "code", "expected"), REFUSED)
def test_what_is_refused_and_where(marked: str, code: str, expected: str) -> None:
    query = marked.replace("⟦", "").replace("⟧", "")
    with pytest.raises(DiagnosticError) as caught:
        planned(query)
    found: Diagnostic = caught.value.diagnostics[0]
    assert (found.code, expected in found.message) == (code, True), found
    assert found.span is not None
    if code != "TYP003":
        column = found.span.column - len(OUT) - 1
        assert query[column : column + found.span.length] == marked.split("⟦")[1].split("⟧")[0]


@pytest.mark.parametrize(
    ("query", "keys", "condition", "gone"),
    [
        ("SELECT w FROM l JOIN c FOR SYSTEM_TIME AS OF l.ts ON l.k = c.k", 1, None, True),
        (
            "SELECT w FROM l JOIN r FOR SYSTEM_TIME AS OF l.ts ON l.k = r.k AND r.s = 'a' || l.v",
            2,
            None,
            False,
        ),
        ("SELECT w FROM l JOIN c FOR SYSTEM_TIME AS OF l.ts ON l.k = c.k AND l.v = c.w", 1, "=", True),
        ("SELECT w FROM l ASOF JOIN r ON l.k = r.k AND l.v = r.w AND r.ts <= l.ts", 2, None, False),
        ("SELECT w FROM l ASOF JOIN r USING (k, ts)", 1, None, False),
    ],
)
def test_the_key_is_what_versions_are_by(query: str, keys: int, condition: str | None, gone: bool) -> None:
    spec = spec_of(query)
    assert len(spec.keys) == keys
    assert (spec.condition is not None) == (condition is not None)
    assert spec.condition is None or condition is None or condition in spec.condition
    assert (spec.gone is not None) == gone
    assert spec.watermark_sources in (("l", "c"), ("l", "r"))


def test_late_rows_of_both_sides_are_taken_out() -> None:
    plan = planned("SELECT w FROM l LEFT JOIN c FOR SYSTEM_TIME AS OF l.ts ON l.k = c.k").physical
    late = [step for stage in plan.stages for step in stage.steps if isinstance(step, LateStep)]
    assert [(step.table, step.instant, step.watermark_sources) for step in late] == [
        ("l", True, ("l", "c")),
        ("c", True, ("l", "c")),
    ]


def test_only_what_is_read_is_kept() -> None:
    spec = spec_of("SELECT l.id, w FROM l ASOF JOIN r ON l.k = r.k AND l.ts >= r.ts")
    assert {c.name.rstrip("0123456789_") for c in spec.left.columns} == {"id", "k", "ts"}
    assert {c.name.rstrip("0123456789_") for c in spec.right.columns} == {"k", "w", "ts"}


def test_a_join_to_the_next_row_waits_for_it() -> None:
    query = "SELECT l.id, l.ts, w FROM l ASOF JOIN r ON l.k = r.k AND r.ts > l.ts"
    spec = spec_of(query)
    assert (spec.forward, spec.strict) == (True, True)
    assert [table.name for table in spec.state.tables] == ["waiting", "versions"]
    assert "rows that find none are kept" in explain_text(planned(query))
    assert not [f for f in planned(query).logical[0].fields if f.time is not None]


def test_explain_says_what_is_kept_and_until_when() -> None:
    found = planned("SELECT l.id, w FROM l LEFT JOIN c FOR SYSTEM_TIME AS OF l.ts ON l.k = c.k")
    text = explain_text(found)
    assert "left temporal join, when the watermark comes" in text
    assert "rows of the left are given, and dropped, when the watermark of l, c reaches their time" in text
    assert "of the right, versions older than the newest that it has reached are dropped" in text
    assert "bounded by the watermark, but for the newest version of each key" in text


def test_the_left_stays_as_it_is_behind_the_join() -> None:
    """Its event time, its keys, and that its rows stay."""
    root = planned("SELECT id, l.ts, w FROM l LEFT JOIN c FOR SYSTEM_TIME AS OF l.ts ON l.k = c.k").logical[0]
    [join] = [node for node in walk((root,)) if type(node).__name__ == "TemporalJoin"]
    times = {f.name: f.time for f in join.fields if f.time is not None}
    assert {name: (time.sources, time.direct) for name, time in times.items()} == {"ts": (("l", "c"), False)}
    assert Summary(Facts()).of(root).text().startswith("append-only")
