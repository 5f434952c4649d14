"""An aggregate that sees the order of arrival does not share slices: rows of a later slice may have come first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from sqlstream_operators.plan.window_aggregate_spec import WindowAggregateSpec
from tests.properties.in_process import run_here
from tests.properties.updating import collecting

TABLE = """
CREATE TABLE t (k INT, s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '20' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE o WITH ('connector' = 'blackhole') AS
SELECT window_end, {calls} FROM TABLE({window}) GROUP BY window_start, window_end;
"""
WINDOWS = {
    "hop": "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)",
    "cumulate": "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)",
}
CALLS = {
    "LISTAGG(s) AS l": False,
    "ARRAY_AGG(s) AS l": False,
    "COUNT(*) AS n, LISTAGG(s) AS l": False,
    "FIRST_VALUE(s) AS f": True,  # it goes by event time
    "COUNT(*) AS n, MIN(s) AS m": True,
    "LISTAGG(s, ',' ORDER BY s) AS l": True,
}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("calls", CALLS)
def test_who_shares_slices(window: str, calls: str) -> None:
    plan = plan_file(TABLE.format(calls=calls, window=WINDOWS[window]), file="p.sql").physical
    [spec] = (step.operator for step in plan.operators)
    assert isinstance(spec, WindowAggregateSpec)
    assert spec.window.shared_slices == CALLS[calls]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("rows_per_epoch", [None, 1])
def test_the_order_is_that_of_arrival(window: str, rows_per_epoch: int | None, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    rows = [("later", 7), ("sooner", 2), ("last", 8)]
    (tmp_path / "in/0.json").write_text(
        "".join(json.dumps({"k": 1, "s": s, "ts": f"2024-01-01 00:00:0{at}"}) + "\n" for s, at in rows)
    )
    calls = "FIRST_VALUE(s) AS f, LISTAGG(s) AS a, ARRAY_AGG(s) AS b"
    planned = plan_file(TABLE.format(calls=calls, window=WINDOWS[window]), file="p.sql")
    with collecting() as collected:
        run_here(planned, tmp_path, rows_per_epoch=rows_per_epoch)
        found = {end.second: values for end, *values in collected.folded("o")}
    assert found[10] == ["sooner", "later,sooner,last", ["later", "sooner", "last"]]
    assert found[5] == ["sooner", "sooner", ["sooner"]]
