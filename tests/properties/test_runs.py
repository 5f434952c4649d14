"""The eighth invariant, runs: input that is cut over several runs, drained in the last one, gives what one run gives.

Each run reads the files that are there, in epochs of its own, with shards of its own; what DuckDB says of all rows is the
answer. Rows come out of order, but never later than the watermark allows, so none may be late, wherever the runs are cut.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import RunResult
from sqlstream.state.committed import find_committed
from sqlstream.state.open_windows import left_open
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.pipeline import Planned
from tests.examples import seeds
from tests.properties import test_interval_joins as in_time
from tests.properties.in_process import run_here
from tests.properties.referee import assert_same
from tests.properties.test_interval_joins import DELAY, HT, TABLES, Input, T, U, expected
from tests.properties.updating import collecting

CUMULATED = "TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND))"
SESSIONS = "TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '7' SECOND))"
BOTH = "(SELECT k, v, ts FROM t UNION ALL SELECT k, w, us FROM u)"

#: What waits for the watermark, beside the interval joins.
WINDOWS = {
    "tumble": f"SELECT k, window_start, COUNT(*) AS n, MIN(v) AS m FROM {T} GROUP BY k, window_start, window_end",
    "day": "SELECT window_start, COUNT(*) AS n, COUNT(DISTINCT k) AS d FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), "
    "INTERVAL '1' DAY)) GROUP BY window_start, window_end",
    "hop": f"SELECT k, window_end, SUM(v) AS s, COUNT(DISTINCT v) AS d FROM {HT} GROUP BY k, window_start, window_end",
    "cumulate": f"SELECT window_end, COUNT(*) AS n, MAX(v) AS m FROM {CUMULATED} GROUP BY window_start, window_end",
    "sessions": f"SELECT k, window_start, window_end, COUNT(*) AS n FROM {SESSIONS} GROUP BY k, window_start, window_end",
    "rows of sessions": f"SELECT k, v, ts, window_start, window_end FROM {SESSIONS}",
    "of both tables": f"SELECT window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE({BOTH}, DESCRIPTOR(ts), "
    "INTERVAL '10' SECOND)) GROUP BY window_start, window_end",
    "windows of windows": "SELECT window_end, SUM(n) AS s FROM TABLE(TUMBLE((SELECT window_time AS wt, COUNT(*) AS n FROM "
    f"{T} GROUP BY window_start, window_end, window_time), DESCRIPTOR(wt), INTERVAL '30' SECOND)) "
    "GROUP BY window_start, window_end",
    "best of windows": "SELECT window_end, k, n FROM (SELECT window_end, k, COUNT(*) AS n, ROW_NUMBER() OVER (PARTITION BY "
    f"window_start, window_end ORDER BY COUNT(*) DESC, k) AS rn FROM {T} GROUP BY k, window_start, window_end) "
    "WHERE rn <= 2",
    "over": "SELECT k, v, ts, COUNT(*) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '9' SECOND PRECEDING AND "
    "CURRENT ROW) AS n FROM t",
    "emit changes": f"SELECT k, window_end, COUNT(*) AS n FROM {U} GROUP BY k, window_start, window_end EMIT CHANGES",
    "asof": "SELECT t.k, t.v, t.ts, u.w FROM t ASOF LEFT JOIN u ON t.k = u.k AND t.ts > u.us",
    "asof, forward": "SELECT t.k, t.ts, u.us FROM t ASOF LEFT JOIN u ON t.k = u.k AND t.ts <= u.us",
}  # fmt: skip
#: Those that late rows may correct.
LATE = ("tumble", "day", "hop", "cumulate", "of both tables")
#: Joins in time of each kind that a watermark moves, and what is behind them.
JOINS = {name: in_time.QUERIES[name] for name in sorted(in_time.QUERIES)}


@dataclass(frozen=True)
class Cut:
    """What one run finds: how many rows of each table there are by then, how it reads and whether it drains."""

    rows: Mapping[str, int]
    rows_per_epoch: int | None
    shards: int
    drain: bool


def rows_in_order(chance: random.Random, span: int) -> list[tuple[int | None, int | None, float | None]]:
    """Rows (key, value, seconds) within a span of seconds, each less than DELAY behind the greatest time before it."""
    drawn = [
        (chance.randrange(span) + chance.choice([0, 0.001, 0.5]), chance.uniform(0, DELAY - 1))
        for _ in range(30)
    ]
    drawn.sort(key=lambda one: one[0] + one[1])
    # No two rows of one table with a time and key: ties of ASOF JOIN and OVER are no subject here.
    times = {at: None for at, _ in drawn}
    return [(chance.choice([1, 2, 3, None]), chance.choice([1, 2, 3, None]), at) for at in times]


def cuts(chance: random.Random, data: Input) -> list[Cut]:
    """Two to four runs; the last finds all rows and drains them."""
    count = chance.randrange(2, 5)
    found = {
        name: sorted(chance.randint(0, len(rows)) for _ in range(count - 1))
        for name, rows in (("t", data.t), ("u", data.u))
    }
    ends = [dict(zip(found, each, strict=True)) for each in zip(*found.values(), strict=True)]
    ends.append({"t": len(data.t), "u": len(data.u)})
    return [
        Cut(rows, chance.choice([None, 10, 20]), chance.choice([1, 2, 3]), drain=number == count - 1)
        for number, rows in enumerate(ends)
    ]


def run_all(folder: Path, planned: Planned, data: Input, runs: Iterable[Cut]) -> list[RunResult]:
    """Each run, once the files that it finds are there: one for each table that has more rows by then."""
    before = {"t": 0, "u": 0}
    results = []
    for number, cut in enumerate(runs):
        for name, lines in data.lines().items():
            (folder / name).mkdir(parents=True, exist_ok=True)
            fresh = lines[before[name] : cut.rows[name]]
            if fresh or not number:
                (folder / name / f"{number}.json").write_text("".join(f"{line}\n" for line in fresh))
            before[name] = cut.rows[name]
        results.append(
            run_here(
                planned, folder, parallelism=cut.shards, rows_per_epoch=cut.rows_per_epoch, drain=cut.drain
            )
        )
    return results


def planned_in(folder: Path, queries: Sequence[str], settings: str = "") -> Planned:
    sinks = (
        f"CREATE TABLE out_{n} WITH ('connector' = 'blackhole') AS {q};\n" for n, q in enumerate(queries)
    )
    (folder / "p.sql").write_text(settings + TABLES + "".join(sinks))
    return plan_file(folder / "p.sql")


@pytest.mark.parametrize(
    ("settings", "seed"),
    [
        *(("", seed) for seed in seeds(3)),
        *(("SET 'table.exec.emit.allow-lateness' = '4 s';\n", seed) for seed in seeds(1)),
    ],
)
def test_the_drained_result_of_any_runs_is_that_of_one(settings: str, seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    queries = {**WINDOWS, **{name: JOINS[name] for name in chance.sample(sorted(JOINS), 3)}}
    if settings:
        queries = {name: WINDOWS[name] for name in LATE}
    data = Input(rows_in_order(chance, 90), rows_in_order(chance, chance.choice([20, 90])))
    planned = planned_in(tmp_path, list(queries.values()), settings)
    runs = cuts(chance, data)
    with collecting() as collected:
        results = run_all(tmp_path, planned, data, runs)
        assert sum(sum(result.rows_read.values()) for result in results) == len(data.t) + len(data.u)
        assert not any(any(result.dead_letters.values()) for result in results), runs
        whole = expected(tmp_path, planned, data, runs[-1].rows, {f"out_{n}" for n in range(len(queries))})
        for number, name in enumerate(queries):
            try:
                assert_same(collected.folded(f"out_{number}"), whole[f"out_{number}"])
            except AssertionError as error:
                raise AssertionError(f"{name}, {runs}: {error}") from error
    assert left_open(find_committed(CheckpointStore(tmp_path / "state", sync=False))) == ()


def test_a_daily_window_over_two_runs(tmp_path: Path) -> None:
    """What was seen: the second run's rows of the same day were all late."""
    data = Input([(1, 1, 10), (1, 2, 20), (1, 3, 30), (1, 4, 40)], [])
    planned = planned_in(tmp_path, [WINDOWS["day"], WINDOWS["sessions"], WINDOWS["over"]])
    with collecting() as collected:
        first, second = run_all(
            tmp_path,
            planned,
            data,
            [Cut({"t": 2, "u": 0}, None, 2, drain=False), Cut({"t": 4, "u": 0}, None, 2, drain=False)],
        )
        assert not any(first.dead_letters.values())
        assert not any(second.dead_letters.values())
        assert collected.folded("out_0") == []
        day, sessions, over = left_open(find_committed(CheckpointStore(tmp_path / "state", sync=False)))
        assert (day.what, day.number, day.until_us) == ("window", 1, 1_704_153_600_000_000)
        assert (sessions.what, sessions.number) == (
            "session",
            2,
        )  # at 30 s and at 40 s; the watermark is at 34
        assert (over.what, over.number, over.until_us) == ("row", 1, 1_704_067_240_000_000)
        assert run_here(planned, tmp_path, drain=False).outcome == "nothing new"
        assert run_here(planned, tmp_path).outcome == "exhausted"
        [(_, rows, keys)] = collected.folded("out_0")
        assert (rows, keys) == (4, 1)
        assert run_here(planned, tmp_path).outcome == "nothing new"


def test_rows_that_wait_say_for_which_watermark(tmp_path: Path) -> None:
    """A row of a join up to where a partner of it can come, not to the end of those that are kept together with it."""
    start = 1_704_067_200
    queries = {
        "SELECT t.k, t.v, u.w FROM t JOIN u ON t.k = u.k AND u.us BETWEEN t.ts - INTERVAL '10' SECOND "
        "AND t.ts + INTERVAL '20' SECOND": (2, 60),  # of t that at 40 s, of u that at 33 s
        "SELECT t.k, t.v, u.w FROM t LEFT JOIN u ON t.k = u.k AND t.ts = u.us": (2, 40),  # the time is a key
        WINDOWS["over"]: (1, 40),
        WINDOWS["asof"]: (1, 40),
        WINDOWS["asof, forward"]: (3, None),  # the next row of u may come at any time
    }
    data = Input([(1, 1, 1), (1, 2, 5), (1, 3, 40)], [(1, 1, 0), (1, 2, 33)])
    planned = planned_in(tmp_path, list(queries))
    with collecting():
        run_all(tmp_path, planned, data, [Cut({"t": 3, "u": 2}, None, 2, drain=False)])
    found = left_open(find_committed(CheckpointStore(tmp_path / "state", sync=False)))
    assert [(one.number, one.until_us and one.until_us / 1_000_000 - start) for one in found] == [
        *queries.values()
    ]
