"""A table may declare a column of process time, as Flink's do; nothing may read it."""

from __future__ import annotations

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.pipeline import Planned

TABLE = """CREATE TABLE t (
  k INT, p AS PROCTIME(), v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
"""
WINDOWS = "TABLE(TUMBLE(TABLE t, DESCRIPTOR({time}), INTERVAL '10' SECOND))"


def planned(query: str) -> Planned:
    return plan_file(f"{TABLE}{query};", file="p.sql")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, SUM(v) AS s FROM t GROUP BY k",
        f"SELECT window_end, COUNT(*) AS n FROM {WINDOWS.format(time='ts')} GROUP BY window_start, window_end",
        "SELECT * EXCEPT (p) FROM t",
    ],
)
def test_a_column_that_nothing_reads_is_no_hindrance(query: str) -> None:
    found = planned(query)
    assert found.warnings == ()
    assert "p" not in found.physical.sources[0].columns


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, p FROM t",
        "SELECT k FROM t WHERE p > TIMESTAMP '2024-01-01 00:00:00'",
        "SELECT k FROM t AS u (k, q, v, ts) WHERE q IS NULL",
        f"SELECT COUNT(*) FROM {WINDOWS.format(time='p')} GROUP BY window_start, window_end",
        f"SELECT w.p FROM {WINDOWS.format(time='ts')} AS w",
        "SELECT k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY p) AS n FROM t) WHERE n = 1",
        "SELECT DISTINCT p FROM t",
        "SELECT k FROM t UNION ALL SELECT p FROM t",
        "SELECT k, MAX(p) AS last FROM t GROUP BY k",
    ],
)
def test_it_is_refused_wherever_it_is_read(query: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        planned(query)
    assert caught.value.diagnostics[0].code == "SQL101"
    assert caught.value.diagnostics[0].span is not None


def test_a_star_leaves_it_out_and_says_so() -> None:
    found = planned("SELECT * FROM t")
    assert [column.name for column in found.physical.sinks[0].schema] == ["k", "v", "ts"]
    [warning] = found.warnings
    assert (warning.code, warning.severity) == ("SQL106", "warning")
    assert "`p`" in warning.message
    with pytest.raises(DiagnosticError, match="unknown column `p`"):
        planned("SELECT p FROM (SELECT * FROM t)")
