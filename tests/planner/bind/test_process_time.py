"""A table may declare a column of process time, as Flink's do: it is the clock of the epoch that reads the row."""

from __future__ import annotations

import pytest

from sqlstream.planning import plan_file
from sqlstream_operators.plan.spec import EpochInput
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.pipeline import Planned

TABLE = """CREATE TABLE t (
  k INT, p AS PROCTIME(), v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
"""
CHANGES = TABLE.replace("'json'", "'changelog-json'")
WINDOWS = "TABLE(TUMBLE(TABLE t, DESCRIPTOR({time}), INTERVAL '10' SECOND))"


def planned(query: str, table: str = TABLE) -> Planned:
    return plan_file(f"{table}{query};", file="p.sql")


def reads_clock(found: Planned) -> bool:
    return any(isinstance(read, EpochInput) for stage in found.physical.stages for read in stage.inputs)


@pytest.mark.parametrize("table", [TABLE, CHANGES])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, SUM(v) AS s FROM t GROUP BY k",
        f"SELECT window_end, COUNT(*) AS n FROM {WINDOWS.format(time='ts')} GROUP BY window_start, window_end",
        "SELECT * EXCEPT (p) FROM t",
        "SELECT COUNT(*) AS n FROM (SELECT * EXCLUDE (p) FROM t) AS a LEFT JOIN t AS b ON a.k = b.k",
    ],
)
def test_a_column_that_nothing_reads_is_no_hindrance(table: str, query: str) -> None:
    found = planned(query, table)
    assert found.warnings == ()
    assert "p" not in found.physical.sources[0].columns
    assert not reads_clock(found)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, p FROM t",
        "SELECT * FROM t",
        "SELECT k FROM t WHERE p > TIMESTAMP '2024-01-01 00:00:00'",
        "SELECT w.p FROM (SELECT * FROM t) AS w",
        f"SELECT w.p FROM {WINDOWS.format(time='ts')} AS w",
        "SELECT k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY p) AS n FROM t) WHERE n = 1",
        "SELECT DISTINCT p FROM t",
        "SELECT k, MAX(p) AS last FROM t GROUP BY k",
        "SELECT a.k, a.p FROM t AS a LEFT JOIN t AS b ON a.k = b.v",
        "SELECT l.k FROM (SELECT k, PROCTIME() AS q FROM t) AS l "
        "JOIN d FOR SYSTEM_TIME AS OF l.q ON l.k = d.k AND l.q > d.ts",
    ],
)
def test_it_is_the_clock_wherever_it_is_read(query: str) -> None:
    found = planned(query, TABLE + TABLE.replace("TABLE t", "TABLE d"))
    assert found.warnings == ()
    assert reads_clock(found)
    assert "p" not in found.physical.sources[0].columns


def test_rows_that_may_go_again_have_none() -> None:
    with pytest.raises(DiagnosticError) as caught:
        planned("SELECT k, p FROM t", CHANGES)
    assert caught.value.diagnostics[0].code == "SQL101"
    assert caught.value.diagnostics[0].span is not None
    found = planned("SELECT * FROM t", CHANGES)
    [warning] = found.warnings
    assert (warning.code, warning.severity) == ("SQL106", "warning")
    assert "p" not in [column.name for column in found.physical.sinks[0].schema]


REFUSED = {
    "SELECT k, COUNT(*) AS n, NOW() AS at FROM t GROUP BY k": "NOW() needs append-only rows",
    "SELECT k FROM t GROUP BY k HAVING MAX(ts) > LOCALTIMESTAMP": "LOCALTIMESTAMP needs append-only rows",
    "SELECT a.k FROM t AS a LEFT JOIN t AS b ON a.k = b.k AND b.ts > LOCALTIMESTAMP": "in the condition of an outer join",
    "SELECT a.k, CURRENT_DATE AS d FROM t AS a LEFT JOIN t AS b ON a.k = b.k": "CURRENT_DATE needs append-only rows",
    f"SELECT RANDOM() AS r, w.k FROM {WINDOWS.format(time='ts')} AS w": "no number of their own",
    "SELECT UUID() AS u, x FROM t CROSS JOIN UNNEST([1, k]) AS e (x)": "no number of their own",
    "SELECT RAND() AS r FROM (SELECT k FROM t UNION ALL SELECT v FROM t)": "no number of their own",
    "SELECT k, UUID() AS u FROM (SELECT DISTINCT k FROM t)": "no number of their own",
    "SELECT list_transform([1, k], x -> RANDOM()) AS l FROM t": "inside a lambda",
    "SELECT setseed(0.5) AS s FROM t": "SETSEED gives another value",
}


@pytest.mark.parametrize("query", REFUSED)
def test_what_could_not_be_given_again_is_refused_at_its_place(query: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        planned(query)
    [problem] = caught.value.diagnostics
    assert problem.code == "SQL101"
    assert REFUSED[query] in problem.message
    assert problem.span is not None
    assert problem.span.line == 4
    assert problem.help


def test_each_message_has_the_place_of_its_own_call() -> None:
    with pytest.raises(DiagnosticError) as caught:
        planned("SELECT k, NOW() AS a FROM t;\nSELECT k, COUNT(*) AS n,\n  NOW() AS b FROM t GROUP BY k")
    [problem] = caught.value.diagnostics
    assert problem.span is not None
    assert (problem.span.line, problem.span.column) == (6, 3)
