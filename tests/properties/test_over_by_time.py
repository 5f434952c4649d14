"""OVER by event time: what is given once is DuckDB's answer over all rows that were not late, however the input is cut."""

from __future__ import annotations

import datetime as dt
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.properties import test_rescaled_runs as rescaled
from tests.properties.in_process import run_here
from tests.properties.referee import assert_same
from tests.properties.updating import batch, collecting, plan

#: How far behind the latest time of former epochs a row is late; the table's watermark says so.
DELAY = dt.timedelta(seconds=100)
START = dt.datetime(2024, 1, 1)

W = "WINDOW w AS (PARTITION BY k ORDER BY ts)"
QUERIES = {
    "running": "SELECT k, v, SUM(v) OVER w AS a, COUNT(*) OVER w AS b, AVG(v) OVER w AS c, MIN(s) OVER w AS d, "
    "MAX(d) OVER w AS e, "
    "BOOL_OR(b) OVER w AS f, SUM(v) FILTER (WHERE s = 'a') OVER w AS g, "
    "MAX(v, 2) OVER w AS h, REGR_COUNT(v, k) OVER w AS i, "
    "REGR_SXY(v, k) OVER w AS j FROM t " + W,
    "running rows": "SELECT v, SUM(v) OVER (ORDER BY ts ROWS UNBOUNDED PRECEDING) AS a, COUNT(v) OVER (ORDER BY ts "
    "GROUPS UNBOUNDED "
    "PRECEDING) AS b FROM t",
    "numbers": "SELECT k, v, ROW_NUMBER() OVER w AS a, RANK() OVER w AS b, DENSE_RANK() OVER w AS c FROM t " + W,
    "former": "SELECT k, v, LAG(v) OVER w AS a, LAG(s, 2, 'z') OVER w AS b, LAST_VALUE(s) OVER w AS c FROM t " + W,
    "last rows": "SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY ts ROWS 2 PRECEDING) AS a, COUNT(*) OVER "
    "(PARTITION BY k ORDER BY ts "
    "ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING) AS b FROM t",
    "last minute": "SELECT k, COUNT(*) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING "
    "AND CURRENT ROW) AS a, "
    "MAX(v) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '30' SECOND PRECEDING AND INTERVAL '10' SECOND PRECEDING) AS b FROM t",
    "in an order of their own": "SELECT k, LIST(v ORDER BY v DESC) OVER w AS a, ROW_NUMBER(ORDER BY v) OVER (PARTITION BY k "
    "ORDER BY ts ROWS 2 PRECEDING) AS b FROM t " + W,
    "last groups": "SELECT v, COUNT(*) OVER (ORDER BY ts GROUPS 1 PRECEDING EXCLUDE TIES) AS a FROM t",
    "all of them": "SELECT k, ARRAY_AGG(v) OVER w AS a, COUNT(DISTINCT v) OVER w AS b, FIRST_VALUE(v) OVER w AS c, "
    "MEDIAN(v) OVER w AS d "
    "FROM t " + W,
    "of everything kind": "SELECT k, LAG(v) OVER w AS a, SUM(v) OVER w AS b, COUNT(*) OVER (PARTITION BY k ORDER BY "
    "ts RANGE BETWEEN "
    "INTERVAL '20' SECOND PRECEDING AND CURRENT ROW) AS c FROM t " + W,
    "then by value": "SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts, v DESC) AS a FROM t",
    "a filter above": "SELECT k, v FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) % 2 = 1",
    "over OVER": "SELECT k, a, LAG(a) OVER (PARTITION BY k ORDER BY ts) AS b FROM (SELECT ts, k, SUM(v) OVER (ORDER "
    "BY ts) AS a FROM t)",
    "in windows": "SELECT k, v, SUM(v) OVER x AS a, LEAD(v) OVER x AS b, NTILE(2) OVER x AS c, COUNT(*) OVER "
    "(PARTITION BY window_end) "
    "AS d FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) WINDOW x AS (PARTITION BY window_start, "
    "window_end, k "
    "ORDER BY v)",
    "over windows": "SELECT window_end, n, SUM(n) OVER (ORDER BY window_time) AS a FROM (SELECT window_end, "
    "window_time, COUNT(*) AS n "
    "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, window_time)",
    "windows over it": "SELECT window_start, MAX(a) AS m FROM TABLE(TUMBLE((SELECT ts, SUM(v) OVER (ORDER BY ts) AS "
    "a FROM t), "
    "DESCRIPTOR(ts), INTERVAL '20' SECOND)) GROUP BY window_start, window_end",
    "groups of it": "SELECT k, MAX(a) AS m FROM (SELECT k, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS a FROM "
    "t) GROUP BY k",
}  # fmt: skip
#: Of these a row that is late for one window may be in time for another.
_OTHERWISE_LATE = {"in windows", "over windows"}

Rows = Sequence[Mapping[str, Any]]


def row(seconds: float | None, k: Any, v: Any, s: Any) -> dict[str, Any]:
    ts = None if seconds is None else (START + dt.timedelta(seconds=seconds)).isoformat(sep=" ")
    return {"k": k, "v": v, "s": s, "d": v, "b": None if v is None else v > 1, "ts": ts}


def in_time(data: Rows, size: int) -> list[Mapping[str, Any]]:
    """The rows that are not late where each epoch reads `size` rows."""
    found: list[Mapping[str, Any]] = []
    mark: dt.datetime | None = None
    for first in range(0, len(data), size):
        epoch = data[first : first + size]
        times = [dt.datetime.fromisoformat(r["ts"]) for r in epoch if r["ts"] is not None]
        found += [
            r
            for r in epoch
            if r["ts"] is not None and (mark is None or dt.datetime.fromisoformat(r["ts"]) > mark)
        ]
        if times:
            mark = max(t - DELAY for t in (*times, *([mark + DELAY] if mark is not None else [])))
    return found


def check(folder: Path, query: str, data: Rows, size: int, shards: int) -> list[int]:
    """Nothing that was given goes, and in the end it is the answer; how many rows there were after each epoch."""
    planned = plan(folder, query, data)
    counts: list[int] = []
    with collecting() as collected:
        run_here(
            planned,
            folder,
            parallelism=shards,
            rows_per_epoch=size,
            on_epoch=lambda _: counts.append(len(collected.folded("out"))),
        )
        assert_same(collected.folded("out"), batch(folder, planned, in_time(data, size)))
    return counts


DATA = [
    row(None if n % 19 == 7 else n * 9 + (n * 37 % 80) - 40, (1, 2, None)[n % 3], n * 7 % 5, "abc"[n % 3])
    for n in range(48)
]
DATA[20] = DATA[19]


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.sampled(5)
def test_every_row_is_given_once(tmp_path: Path, name: str) -> None:
    planned = plan(tmp_path / "plan", QUERIES[name], DATA)
    assert [s.changelog for s in planned.physical.sinks] == [
        "retract" if name == "groups of it" else "append"
    ]
    counts = check(tmp_path, QUERIES[name], DATA, 6, 2)
    assert counts[1] < counts[-2] <= counts[-1]


_times = st.none() | st.integers(0, 400).map(float) | st.sampled_from([10.0005, 10.0006, 10.001])
_rows = st.lists(
    st.builds(
        row,
        _times,
        st.sampled_from([None, 1, 2]),
        st.sampled_from([None, 0, 1, 2]),
        st.sampled_from(["a", "b", None]),
    ),
    max_size=24,
)


@settings(
    max_examples=examples(6),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    st.sampled_from(sorted(QUERIES.keys() - _OTHERWISE_LATE - {"windows over it"})),
    _rows,
    st.integers(2, 9),
    st.integers(1, 3),
)
def test_late_rows_are_left_out(name: str, data: Rows, size: int, shards: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check(Path(folder), QUERIES[name], data, size, shards)


@pytest.mark.parametrize("name", ["of everything kind", "in windows", "numbers"])
@pytest.mark.sampled(2)
def test_runs_that_are_rescaled(name: str, tmp_path: Path) -> None:
    layouts = [(2, 128), (3, 64), (4, 5)]
    data = [r for r in DATA if r["ts"] is not None]
    rescaled.check(tmp_path, QUERIES[name], data, layouts, epochs=2, rows_per_epoch=6, every=False)


def test_late_rows_are_kept_as_dead_letters(tmp_path: Path) -> None:
    data = [row(n, 1, 1, "a") for n in (0, 500, 1, 450, None, 600)]
    planned = plan(tmp_path, QUERIES["running"], data)
    with collecting() as collected:
        result = run_here(planned, tmp_path, rows_per_epoch=2)
        assert len(collected.folded("out")) == 4
    assert result.dead_letters == {"late": 1, "no-time": 1}
