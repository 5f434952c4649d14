"""What conditions of joins say of how far apart in time rows are, what of it is kept, and what stays a regular join."""

from __future__ import annotations

import pytest

from sqlstream_planner.bind.script import bind_script
from sqlstream_planner.catalog.script import read_catalog
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.logical import Field, Join, Node, walk
from sqlstream_planner.rules import RULES, SETTLE, optimize
from sqlstream_planner.sql.parse import parse_file
from sqlstream_planner.streaming import IntervalJoin, RegularJoin
from sqlstream_planner.testing import CONNECTORS

TABLES = """
CREATE TABLE t (a INT, c INT, ts TIMESTAMP(3), z TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'rows');
CREATE TABLE u (b INT, us TIMESTAMP(3), zz TIMESTAMP_LTZ(3), WATERMARK FOR us AS us - INTERVAL '5' SECOND)
WITH ('connector' = 'rows');
CREATE TABLE x (zs TIMESTAMP_LTZ(3), WATERMARK FOR zs AS zs - INTERVAL '5' SECOND) WITH ('connector' = 'rows');
CREATE TABLE g (b INT, us TIMESTAMP(3), PRIMARY KEY (b) NOT ENFORCED, WATERMARK FOR us AS us - INTERVAL '5' SECOND)
WITH ('connector' = 'changes');
CREATE TABLE out_ (a INT) WITH ('connector' = 'print');
"""
SECOND, DAY = 1_000_000, 86_400_000_000
T = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
U = "TABLE(TUMBLE(TABLE u, DESCRIPTOR(us), INTERVAL '10' SECOND))"
CU = "TABLE(CUMULATE(TABLE u, DESCRIPTOR(us), INTERVAL '5' SECOND, INTERVAL '10' SECOND))"
CT = "TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND))"

#: ON -> the least and the greatest difference of the left's time and the right's, in seconds.
BOUNDS = {
    "ts = us": (0, 0),
    "ts BETWEEN us - INTERVAL '1:30' MINUTE TO SECOND AND us + INTERVAL '2' HOUR": (-90, 7200),
    "us BETWEEN ts AND ts + INTERVAL '1' MINUTE": (-60, 0),
    "ts >= us AND ts < us + INTERVAL '1' SECOND": (0, 0.999999),
    "us <= ts AND us > ts - INTERVAL '1' SECOND": (0, 0.999999),
    "ts - us <= INTERVAL '3' SECOND AND us - ts < INTERVAL '1' SECOND": (-0.999999, 3),
    "NOT ts > us + INTERVAL '2' SECOND AND NOT (us > ts)": (0, 2),
    "ts + 2 * INTERVAL '1' SECOND >= us AND us >= TIMESTAMPADD(SECOND, -3, ts)": (-2, 3),
    "ts = us AND a = b AND c > 1": (0, 0),
    "ts BETWEEN us - INTERVAL '9' SECOND AND us AND ts >= us - INTERVAL '4' SECOND": (-4, 0),
    "us + INTERVAL '1' SECOND - INTERVAL '3' SECOND = ts": (-2, -2),
    "us <= ts AND ts <= us + INTERVAL '1' MONTH": (0, 31 * 86_400),
    "ts >= us - INTERVAL '2' MONTH AND ts <= us - INTERVAL '1' MONTH": (-62 * 86_400, -28 * 86_400),
}
REGULAR = [
    "a = b",
    "ts >= us",
    "ts >= us AND us > us - INTERVAL '1' SECOND",
    "ts = us OR a = b",
    "ts IS NOT DISTINCT FROM us",
    "z = zz",
    "ts <> us AND a = b",
    "ts + a * INTERVAL '1' SECOND = us",
    "date_trunc('hour', ts) = date_trunc('hour', us)",
    "NOT ts = us",
    "ts = TIMESTAMP '2024-01-01 00:00:00' AND us = ts + INTERVAL '300000' YEAR",
]


def planned(query: str) -> list[Node]:
    script = parse_file(f"{TABLES}INSERT INTO out_ {query}")
    roots = bind_script(script, read_catalog(script, CONNECTORS)).roots
    return list(walk(optimize(roots, (*SETTLE, *RULES))))


def bound_of(query: str) -> tuple[float, float] | None:
    nodes = planned(query)
    (join,) = (n for n in nodes if isinstance(n, IntervalJoin | RegularJoin))
    return (
        (join.bound.lower_us / SECOND, join.bound.upper_us / SECOND)
        if isinstance(join, IntervalJoin)
        else None
    )


@pytest.mark.parametrize("on", BOUNDS)
def test_a_bound_follows(on: str) -> None:
    assert bound_of(f"SELECT a FROM t JOIN u ON {on}") == BOUNDS[on]
    assert bound_of(f"SELECT a FROM t, u WHERE {on}") == BOUNDS[on]
    assert bound_of(f"SELECT a FROM t FULL JOIN u ON {on}") == BOUNDS[on]


@pytest.mark.parametrize("on", REGULAR)
def test_no_bound_follows(on: str) -> None:
    assert bound_of(f"SELECT a FROM t JOIN u ON {on}") is None


def test_the_clock_may_be_changed_on_a_day() -> None:
    assert bound_of("SELECT 1 FROM x JOIN x AS y ON x.zs <= y.zs AND x.zs >= y.zs - INTERVAL '1' HOUR") == (
        -3600,
        0,
    )
    assert bound_of("SELECT 1 FROM x JOIN x AS y ON x.zs <= y.zs AND x.zs >= y.zs - INTERVAL '1' DAY") == (
        -172800,
        0,
    )


@pytest.mark.parametrize(
    ("query", "bound"),
    [
        (f"SELECT a FROM {T} AS p JOIN {U} AS q ON p.window_end = q.window_end", (0, 0)),
        (f"SELECT a FROM {T} AS p JOIN {U} AS q ON p.window_start = q.window_start", (0, 0)),
        (f"SELECT a FROM {CT} AS p JOIN {CU} AS q ON p.window_start = q.window_start", (-5, 5)),
        (f"SELECT a FROM {T} AS p JOIN {CU} AS q ON p.window_end = q.window_start", (-10, -5)),
        (f"SELECT a FROM t JOIN {U} AS q ON ts >= window_start AND ts < window_end", (-10, -0.000001)),
        (
            f"SELECT a FROM (SELECT a, window_end AS e FROM {T} AS p) AS v JOIN {U} AS q ON v.e = q.window_time",
            (-0.001, -0.001),
        ),
        ("SELECT a FROM (SELECT a, ts AS w FROM t UNION ALL SELECT b, us FROM u) AS v JOIN u ON v.w = us", (0, 0)),
        ("SELECT a FROM (SELECT a, ts + INTERVAL '0' SECOND AS w FROM t) AS v JOIN u ON v.w = us", None),
        ("SELECT a FROM t JOIN g ON ts = g.us", None),
        ("SELECT a FROM (SELECT a, ts FROM t UNION ALL SELECT b, zz FROM u) AS v JOIN u ON v.ts = us", None),
        ("SELECT a FROM t JOIN (SELECT DISTINCT us FROM u) AS v ON ts = us", None),
    ],
)  # fmt: skip
def test_what_follows_the_watermark(query: str, bound: tuple[float, float] | None) -> None:
    assert bound_of(query) == bound


def fields(query: str) -> dict[str, Field]:
    """The fields of the join, as the binder gave them."""
    script = parse_file(f"{TABLES}INSERT INTO out_ {query}")
    nodes = walk(bind_script(script, read_catalog(script, CONNECTORS)).roots)
    joins = [n for n in nodes if isinstance(n, Join)]
    return {f.id: f for f in joins[-1].fields}


@pytest.mark.parametrize(
    ("kind", "delays"),
    [("JOIN", (3, 7)), ("LEFT JOIN", (3, None)), ("RIGHT JOIN", (None, 7)), ("FULL JOIN", (None, None))],
)
def test_how_late_times_are_behind_a_join(kind: str, delays: tuple[int | None, int | None]) -> None:
    found = fields(
        f"SELECT a FROM t {kind} u ON ts BETWEEN us - INTERVAL '3' SECOND AND us + INTERVAL '7' SECOND"
    )
    for id_, delay in zip(("ts", "us"), delays, strict=True):
        time = found[id_].time
        assert (time.delay_us if time is not None else None) == (
            delay * SECOND if delay is not None else None
        )
        assert time is None or (time.sources, time.direct) == (("t", "u"), False)


def test_delays_add_up() -> None:
    found = fields(
        "SELECT j.a FROM (SELECT a, us FROM t JOIN u ON us BETWEEN ts - INTERVAL '3' SECOND AND ts) AS j "
        "JOIN t AS k ON k.ts BETWEEN j.us - INTERVAL '2' SECOND AND j.us"
    )
    assert sorted(f.time.delay_us for f in found.values() if f.time is not None) == [3 * SECOND, 5 * SECOND]


def test_windows_behind_a_window_join() -> None:
    found = fields(f"SELECT a FROM {T} AS p JOIN {U} AS q ON p.window_end = q.window_end")
    assert sum(f.window is not None for f in found.values()) == 6
    assert [f.name for f in found.values() if f.time is not None] == ["window_time", "window_time"]
    found = fields(f"SELECT a FROM {CT} AS p JOIN {CU} AS q ON p.window_start = q.window_start")
    assert not any(f.window is not None for f in found.values())


def test_windows_over_a_join_without_a_bound_are_refused() -> None:
    with pytest.raises(DiagnosticError, match="is not known"):
        planned(
            "SELECT COUNT(*) FROM TABLE(TUMBLE((SELECT ts FROM t JOIN u ON a = b), DESCRIPTOR(ts), INTERVAL '1' MINUTE)) "
            "GROUP BY window_start, window_end"
        )
