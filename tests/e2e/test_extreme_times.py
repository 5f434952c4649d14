"""Event times at the ends of what a timestamp can be: dead letters, whatever is made of the time; all else is as without."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sqlstream.planning import plan_file
from tests.properties.referee import Pipeline, assert_same


def windowed(window: str) -> str:
    return (
        "SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS total "
        f"FROM TABLE({window}) GROUP BY window_start, window_end, k"
    )


PAIRS = "SELECT a.v AS v, b.v AS w FROM t AS a {0} t AS b ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '2' SECOND AND a.ts"
QUERIES = {
    "tumble": windowed("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)"),
    "tumble of years": windowed("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '36500' DAY)"),
    "hop": windowed("HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '15' SECOND)"),
    "hop with gaps": windowed("HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '5' SECOND)"),
    "cumulate": windowed("CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)"),
    "session": windowed("SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '3' SECOND)"),
    "session, all rows": "SELECT window_start, window_end, k, ARRAY_AGG(v ORDER BY v) AS vs FROM TABLE(SESSION(TABLE t "
    "PARTITION BY k, DESCRIPTOR(ts), INTERVAL '3' SECOND)) GROUP BY window_start, window_end, k",
    "values of a window": "SELECT window_end, ARRAY_AGG(v ORDER BY v) AS vs "
    "FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '15' SECOND)) GROUP BY window_start, window_end",
    "best of a window": "SELECT window_end, k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
    "ORDER BY v DESC) AS r FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE r <= 2",
    "interval join": PAIRS.format("JOIN"),
    "outer interval join": PAIRS.format("LEFT JOIN"),
    "over": "SELECT k, v, SUM(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '4' SECOND PRECEDING "
    "AND CURRENT ROW) AS total FROM t",
    "over rows": "SELECT k, v, LAG(v) OVER (PARTITION BY k ORDER BY ts, v) AS former FROM t",
    "no time at all": "SELECT k, v FROM t WHERE v > 3",
}
FAR = [
    "290309-12-22 (BC) 00:00:00",
    "290000-01-01 (BC) 00:00:00",
    "10000-01-01 00:00:00",
    "294247-01-10 04:00:54.775806",
    "294247-01-10 04:00:54.775",
    "0002-12-31 (BC) 23:59:59.999999",
    "infinity",
    "-infinity",
]


def rows() -> list[dict[str, Any]]:
    start = datetime(2024, 1, 1)
    return [
        {"k": n % 3, "s": "x", "v": n, "ts": str(start + timedelta(seconds=n * 7 % 11 + n))}
        for n in range(40)
    ]


def made(folder: Path, data: list[list[dict[str, Any]]]) -> Pipeline:
    return Pipeline.create(folder, list(QUERIES.values()), data, delay=12)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """The rows that are near, and what becomes of them alone."""
    pipeline = made(tmp_path_factory.mktemp("near") / "alone", [rows()])
    pipeline.run(rows_per_epoch=1000)
    return pipeline


@pytest.mark.parametrize("rows_per_epoch", [9, 1000])
def test_rows_that_are_far_away_change_nothing_of_the_others(
    tmp_path: Path, alone: Pipeline, rows_per_epoch: int
) -> None:
    good = rows()
    far = [{"k": n % 3, "s": "far", "v": 100 + n, "ts": ts} for n, ts in enumerate(FAR)]
    mixed = list(good)
    for n, one in enumerate(far):
        mixed.insert(3 + 6 * n, one)
    beside = made(tmp_path / "beside", [mixed])
    result = beside.run(rows_per_epoch=rows_per_epoch)
    assert dict(result.dead_letters) == {"no-time": len(FAR)}
    letters = beside.dead_letters()
    assert sorted(letter["row"]["v"] for letter in letters) == [row["v"] for row in far]
    assert {letter["row"]["s"] for letter in letters} == {"far"}
    assert {letter["reason"] for letter in letters} == {"the event time ts is not within the years 0 to 9999"}
    for number, name in enumerate(QUERIES, 1):
        expected = alone.output(number)
        assert expected, name
        assert_same(beside.output(number), expected)


def test_the_first_and_the_last_time_that_is_near(tmp_path: Path) -> None:
    near = ["0001-01-01 (BC) 00:00:00", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"]
    data = [[{"k": n, "s": "x", "v": n, "ts": ts} for n, ts in enumerate(near)]]
    pipeline = Pipeline.create(
        tmp_path / "p", [QUERIES["no time at all"].replace("v > 3", "v >= 0")], data, delay=12
    )
    assert not pipeline.run().dead_letters
    assert sorted(v for _, v in pipeline.output()) == [0, 1, 2]
    windows = [
        QUERIES[name] for name in ("tumble", "tumble of years", "hop", "cumulate", "session", "interval join")
    ]
    pipeline = Pipeline.create(tmp_path / "q", windows, data, delay=12)
    assert not pipeline.run().dead_letters


@pytest.mark.parametrize(
    "declared",
    [
        "ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND",
        "ms BIGINT, ts AS CAST(TO_TIMESTAMP_LTZ(ms, 3) AS TIMESTAMP), WATERMARK FOR ts AS ts",
        "ms BIGINT, ts AS CAST(TO_TIMESTAMP_LTZ(ms, 3) AS TIMESTAMP), WATERMARK FOR ts AS LEAST(ts, ts + INTERVAL '1' DAY)",
    ],
)
def test_times_that_are_computed(tmp_path: Path, declared: str) -> None:
    (tmp_path / "in.json").write_text(
        "".join(
            f'{{"ms": {ms}, "k": {n}}}\n'
            for n, ms in enumerate([0, 5000, 9_000_000_000_000_000, 20_000, 6000])
        )
    )
    (tmp_path / "p.sql").write_text(
        f"CREATE TABLE t (k INT, {declared}) WITH ('connector' = 'filesystem', 'path' = 'in.json', 'format' = 'json');\n"
        "CREATE TABLE out_1 WITH ('connector' = 'filesystem', 'path' = 'out_1', 'format' = 'parquet') AS "
        "SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
        "GROUP BY window_start, window_end;\n"
    )
    pipeline = Pipeline(tmp_path, plan_file(tmp_path / "p.sql"))
    result = pipeline.run()
    assert dict(result.dead_letters) == {"no-time": 1}
    assert [letter["row"] for letter in pipeline.dead_letters()] == [{"k": 2, "ms": 9_000_000_000_000_000}]
    assert 3 in [n for _, n in pipeline.output()]
