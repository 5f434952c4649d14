"""Joins in time against DuckDB: what is given is never wrong, at the end it is all there, and no state is left."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream_operators.plan.interval_join_spec import IntervalJoinSpec
from sqlstream_operators.plan.spec import OperatorStep
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.pipeline import Planned
from tests.duckdb_batch import empty_duckdb
from tests.examples import examples
from tests.properties.in_process import run_here
from tests.properties.referee import Rows, assert_same
from tests.properties.updating import collecting, fetched

DELAY = 6
TABLES = "".join(
    f"CREATE TABLE {t} (k INT, {v} INT, {ts} TIMESTAMP(3), WATERMARK FOR {ts} AS {ts} - INTERVAL '{DELAY}' SECOND) "
    f"WITH ('connector' = 'filesystem', 'path' = '{t}', 'format' = 'json');\n"
    for t, v, ts in (("t", "v", "ts"), ("u", "w", "us"))
)
TUMBLED = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR({}), INTERVAL '10' SECOND))"
HOPPED = "TABLE(HOP(TABLE {}, DESCRIPTOR({}), INTERVAL '5' SECOND, INTERVAL '10' SECOND))"
T, U = TUMBLED.format("t", "ts"), TUMBLED.format("u", "us")
HT, HU = HOPPED.format("t", "ts"), HOPPED.format("u", "us")
SAME = "a.window_start = b.window_start AND a.window_end = b.window_end"
SOON = "b.ts > a.ts AND b.ts <= a.ts + INTERVAL '5' SECOND"
NEAR = "us BETWEEN ts - INTERVAL '3' SECOND AND ts + INTERVAL '4' SECOND"
COUNTED_T = f"SELECT k, window_start, window_end, COUNT(*) AS n FROM {T} GROUP BY k, window_start, window_end"
COUNTED_U = f"SELECT k, window_start, window_end, SUM(w) AS s FROM {U} GROUP BY k, window_start, window_end"
EXTREMES = (
    f"SELECT window_start, window_end, window_time, MAX(v) AS most, MIN(v) AS least FROM {T} "
    "GROUP BY window_start, window_end, window_time"
)
EXTREMES_BY_KEY = EXTREMES.replace("SELECT ", "SELECT k, ").replace("BY ", "BY k, ")
WITHIN = "ts BETWEEN window_end - INTERVAL '10' SECOND AND window_end"

#: Joins whose pairs are given as soon as both rows are there, and nothing else is.
AT_ONCE = {
    "inner": f"SELECT t.k, v, w, ts, us FROM t JOIN u ON t.k = u.k AND {NEAR}",
    "before": "SELECT v, w FROM t JOIN u ON t.k = u.k AND ts < us AND us <= ts + INTERVAL '5' SECOND AND v <> w",
    "long before": "SELECT v, w FROM t JOIN u ON t.k = u.k AND us BETWEEN ts + INTERVAL '7' SECOND "
    "AND ts + INTERVAL '9' SECOND",
    "one time": "SELECT v, w FROM t JOIN u ON ts = us",
    "one time and key": "SELECT v, w, t.k FROM t JOIN u ON t.k = u.k AND ts = us AND v < 3",
    "no key": f"SELECT v, w FROM t JOIN u ON {NEAR} AND v < w",
    "WHERE": f"SELECT v, w FROM t, u WHERE t.k = u.k AND {NEAR}",
    "difference": "SELECT v, w FROM t JOIN u ON t.k = u.k AND ts - us <= INTERVAL '2' SECOND "
    "AND us - ts < INTERVAL '4' SECOND",
    "semi": f"SELECT * FROM t SEMI JOIN u ON t.k = u.k AND {NEAR}",
    "semi with a condition": f"SELECT * FROM t SEMI JOIN u ON t.k = u.k AND {NEAR} AND v < w",
    "exists": f"SELECT v, ts FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND {NEAR})",
    "with itself": f"SELECT a.v, b.v AS bv FROM t AS a JOIN t AS b ON a.k = b.k AND {SOON}",
    "never": "SELECT v, w FROM t JOIN u ON ts = us AND ts > us",
}
#: Joins by the greatest or least value of a window, before whose exchange rows are left out.
BEST = {
    "best of a window": f"SELECT k, v, ts, window_end FROM t JOIN ({EXTREMES}) AS m ON v = most AND {WITHIN}",
    "best, on the right": f"SELECT k, v, most FROM ({EXTREMES}) AS m JOIN t ON {WITHIN} AND most = v AND k > 0",
    "least by key": f"SELECT t.k, v, ts FROM t JOIN ({EXTREMES_BY_KEY}) AS m ON t.k = m.k AND v = least "
    "AND ts >= window_start AND ts < window_end",
    "best of its own window": f"SELECT a.k, a.v, b.most FROM {T} AS a JOIN ({EXTREMES}) AS b ON {SAME} AND a.v = b.most",
    "least, semi": f"SELECT a.k, a.v, a.ts FROM {T} AS a SEMI JOIN ({EXTREMES_BY_KEY}) AS b ON a.k = b.k AND {SAME} "
    "AND a.v = b.least",
    "best and least": f"SELECT k, ts, v FROM t JOIN ({EXTREMES}) AS m ON v = most AND v = least AND {WITHIN}",
    "best of some": f"SELECT v, ts FROM t JOIN (SELECT window_end, MAX(v) FILTER (v < 3) AS m FROM {T} "
    f"GROUP BY window_start, window_end HAVING COUNT(*) > 1) AS m ON v = m AND {WITHIN}",
    "best of a window before": f"SELECT v, ts FROM t JOIN ({EXTREMES}) AS m ON v = most AND ts BETWEEN window_time + "
    "INTERVAL '2' SECOND AND window_time + INTERVAL '5' SECOND",
    "best of several windows": f"SELECT v, ts, window_end FROM t JOIN ({EXTREMES}) AS m ON v = most AND ts BETWEEN "
    "window_end - INTERVAL '25' SECOND AND window_end + INTERVAL '3' SECOND",
}
QUERIES = {
    **AT_ONCE,
    "left": f"SELECT t.k, v, w, ts, us FROM t LEFT JOIN u ON t.k = u.k AND {NEAR}",
    "left, long before": "SELECT v, w FROM t LEFT JOIN u ON t.k = u.k AND us <= ts - INTERVAL '7' SECOND "
    "AND us > ts - INTERVAL '9' SECOND",
    "left, long after": "SELECT v, w FROM t LEFT JOIN u ON t.k = u.k AND us BETWEEN ts + INTERVAL '5' SECOND "
    "AND ts + INTERVAL '5' SECOND",
    "right": f"SELECT v, w, us FROM t RIGHT JOIN u ON t.k = u.k AND {NEAR} AND v > 1",
    "full": f"SELECT t.k, v, w FROM t FULL JOIN u ON t.k = u.k AND {NEAR}",
    "full with a condition": f"SELECT v, w FROM t FULL JOIN u ON t.k = u.k AND {NEAR} AND v < w",
    "full of one time": "SELECT v, w FROM t FULL JOIN u ON ts = us",
    "anti": f"SELECT * FROM t ANTI JOIN u ON t.k = u.k AND {NEAR}",
    "anti with a condition": f"SELECT * FROM t ANTI JOIN u ON t.k = u.k AND {NEAR} AND v < w",
    "anti with itself": f"SELECT a.v FROM t AS a ANTI JOIN t AS b ON a.k = b.k AND {SOON}",
    "not exists": f"SELECT v, ts FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND {NEAR} AND w < v)",
    "windows": f"SELECT a.k, a.v, b.w, a.window_end FROM {T} AS a JOIN {U} AS b ON a.k = b.k AND {SAME}",
    "windows, left": f"SELECT a.k, a.v, b.w, a.window_start FROM {T} AS a LEFT JOIN {U} AS b "
    f"ON a.k = b.k AND {SAME} AND v < w",
    "windows, full": f"SELECT a.v, b.w FROM {HT} AS a FULL JOIN {HU} AS b ON a.k = b.k AND {SAME}",
    "windows, anti": f"SELECT a.k, a.v, a.window_end FROM {HT} AS a ANTI JOIN {HU} AS b ON a.k = b.k AND {SAME}",
    "windows, not exists": f"SELECT a.k, a.v FROM {T} AS a WHERE NOT EXISTS "
    f"(SELECT 1 FROM {U} AS b WHERE a.k = b.k AND {SAME})",
    "windows, semi": f"SELECT a.k, a.v FROM {T} AS a SEMI JOIN {U} AS b ON {SAME} AND v = w",
    "windows of one table": f"SELECT a.v, b.v AS bv FROM {T} AS a JOIN {T} AS b ON {SAME} AND a.k < b.k",
    "counts": f"SELECT a.k, a.n, b.s FROM ({COUNTED_T}) AS a JOIN ({COUNTED_U}) AS b ON a.k = b.k AND {SAME}",
    "counts, full": f"SELECT a.k, a.n, b.s FROM ({COUNTED_T}) AS a FULL JOIN ({COUNTED_U}) AS b ON a.k = b.k AND {SAME}",
    "rows and counts": f"SELECT t.v, b.s FROM t LEFT JOIN ({COUNTED_U}) AS b ON t.k = b.k AND ts >= window_start "
    "AND ts < window_end",
    "counts of windows": f"SELECT a.window_end, COUNT(*) AS n, SUM(b.w) AS s FROM {T} AS a JOIN {U} AS b "
    f"ON a.k = b.k AND {SAME} GROUP BY a.window_start, a.window_end",
    "most of a window": f"SELECT * FROM (SELECT a.window_end, a.k, a.n, b.s, ROW_NUMBER() OVER "
    "(PARTITION BY a.window_start, a.window_end ORDER BY a.n DESC, a.k, b.s) AS rn "
    f"FROM ({COUNTED_T}) AS a JOIN ({COUNTED_U}) AS b ON a.k = b.k AND {SAME}) AS r WHERE rn <= 2",
    "windows behind": f"SELECT window_end, k, COUNT(*) AS n, MAX(w) AS m FROM TABLE(TUMBLE((SELECT t.k, w, ts "
    f"FROM t JOIN u ON t.k = u.k AND {NEAR}), DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k",
    "windows behind, of the other time": f"SELECT window_end, COUNT(*) AS n FROM TABLE(HOP((SELECT w, us FROM t JOIN u ON "
    f"t.k = u.k AND {NEAR}), DESCRIPTOR(us), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end",
    "windows behind a left": f"SELECT window_end, COUNT(*) AS n, COUNT(w) AS m FROM TABLE(TUMBLE((SELECT w, ts "
    f"FROM t LEFT JOIN u ON t.k = u.k AND {NEAR}), DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end",
    "windows behind an anti": f"SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE((SELECT v, ts FROM t ANTI JOIN u "
    f"ON t.k = u.k AND {NEAR}), DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end",
    "windows behind WHERE": "SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE((SELECT us FROM t AS a, u, t AS b WHERE "
    "a.k = u.k AND a.ts = us AND a.k = b.k AND b.ts BETWEEN us AND us + INTERVAL '3' SECOND AND a.v > 0), DESCRIPTOR(us), "
    "INTERVAL '10' SECOND)) GROUP BY window_start, window_end",
    "best, with all": f"SELECT k, v, most FROM t LEFT JOIN ({EXTREMES}) AS m ON v = most AND {WITHIN}",
    "best of another table": f"SELECT w, us FROM u JOIN ({EXTREMES}) AS m ON w = most AND us BETWEEN window_start "
    "AND window_end",
    "best of all windows": f"SELECT v FROM t JOIN ({EXTREMES_BY_KEY}) AS m ON v = most AND {WITHIN}",
    "joined again": f"SELECT j.v, j.w, c.v AS cv FROM (SELECT t.k AS k, v, w, ts FROM t JOIN u "
    f"ON t.k = u.k AND {NEAR}) AS j LEFT JOIN t AS c ON c.k = j.k AND c.ts BETWEEN j.ts AND j.ts + INTERVAL '2' SECOND",
    "three in one window": f"SELECT a.v, b.w, c.v AS cv FROM {T} AS a JOIN {U} AS b ON a.k = b.k AND {SAME} "
    "JOIN " + T + " AS c ON c.window_start = b.window_start AND c.window_end = b.window_end AND c.v = b.w",
    **BEST,
}  # fmt: skip


@dataclass(frozen=True)
class Input:
    """Rows (key, value, seconds) of the tables, in the order in which they come."""

    t: Sequence[tuple[int | None, int | None, float | None]]
    u: Sequence[tuple[int | None, int | None, float | None]]

    def lines(self) -> dict[str, list[str]]:
        return {
            "t": [json.dumps({"k": k, "v": v, "ts": _time(at)}) for k, v, at in self.t],
            "u": [json.dumps({"k": k, "w": w, "us": _time(at)}) for k, w, at in self.u],
        }


def _time(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return (datetime(2024, 1, 1) + timedelta(seconds=seconds)).isoformat(" ", "milliseconds")


def plan(folder: Path, queries: Sequence[str], data: Input) -> Planned:
    for name, lines in data.lines().items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "0.json").write_text("".join(f"{line}\n" for line in lines))
    sinks = (
        f"CREATE TABLE out_{n} WITH ('connector' = 'blackhole') AS {q};\n" for n, q in enumerate(queries)
    )
    (folder / "p.sql").write_text(TABLES + "".join(sinks))
    return plan_file(folder / "p.sql")


def expected(
    folder: Path, planned: Planned, data: Input, read: Mapping[str, int], wanted: Collection[str]
) -> dict[str, Rows]:
    """What the referee gives for the first lines of each table, by the sinks that are wanted."""
    (folder / "prefix").mkdir(exist_ok=True)
    for name, lines in data.lines().items():
        found = lines[: read[name]]
        (folder / "prefix" / f"{name}.json").write_text("".join(f"{line}\n" for line in found))
    script = to_duckdb(planned, lambda source: [str(folder / "prefix" / f"{source.name}.json")])
    with empty_duckdb() as con:
        for _, view in script.sources:
            con.execute(view)
        return {sink: fetched(con, text) for sink, text in script.sinks if sink in wanted}


def check(
    folder: Path, names: Sequence[str], data: Input, *, rows_per_epoch: int, layouts: Sequence[int] = (2,)
) -> None:
    """What is given after every epoch is part of the answer; pairs are there as soon as their rows are.

    `layouts` are the shards of one run after the other, each of two epochs but the last.
    """
    planned = plan(folder, [QUERIES[name] for name in names], data)
    called = {f"out_{n}": name for n, name in enumerate(names)}
    all_read = {name: len(lines) for name, lines in data.lines().items()}
    everything = expected(folder, planned, data, all_read, called)
    at_once = [sink for sink, name in called.items() if name in AT_ONCE]
    read: Counter[str] = Counter()
    last: list[EpochReport] = []
    with collecting() as collected:

        def compare(report: EpochReport) -> None:
            read.update(report.rows_read)
            last[:] = [report]
            assert set(report.dead_letters) <= {"no-time"}
            for sink, rows in everything.items():
                wrong = Counter(map(repr, collected.folded(sink))) - Counter(map(repr, rows))
                assert not wrong, f"after {dict(read)} of {called[sink]}: {wrong}"
            if at_once:
                for sink, rows in expected(folder, planned, data, read, at_once).items():
                    assert_same(collected.folded(sink), rows)

        for number, shards in enumerate(layouts):
            end = None if number == len(layouts) - 1 else 2
            run_here(
                planned,
                folder,
                parallelism=shards,
                rows_per_epoch=rows_per_epoch,
                on_epoch=compare,
                max_epochs=end,
            )
        for sink, rows in everything.items():
            try:
                assert_same(collected.folded(sink), rows)
            except AssertionError as error:
                raise AssertionError(f"{called[sink]}: {error}") from error
    assert not last or last[0].state_rows == 0


ROWS = Input(
    [(1, 1, 1), (1, 2, 5), (2, 3, 6), (None, 4, 8), (1, 5, None), (1, 1, 5), (3, 6, 12), (1, 1, 10), (1, 1, 10), (2, 9, 13),
     (2, 2, 30), (1, 0, 27), (1, None, 50), (3, 1, 61)],
    [(1, 4, 2), (1, 1, 8), (2, 2, 5), (3, 3, 12), (None, 4, 13), (1, 5, None), (1, 2, 10), (1, 2, 10), (2, 7, 19),
     (2, 3, 29), (1, 8, 60), (3, None, 62)],
)  # fmt: skip

_SOME = 4
GROUPS = [sorted(QUERIES)[n::_SOME] for n in range(_SOME)]


@pytest.mark.parametrize("shards", [2, 1])
@pytest.mark.parametrize("names", GROUPS, ids=[f"{g[0]} …" for g in GROUPS])
@pytest.mark.sampled(2)
def test_every_join(tmp_path: Path, names: list[str], shards: int) -> None:
    check(tmp_path, names, ROWS, rows_per_epoch=10, layouts=(shards,))


#: Four rows per epoch of each. The second closes what the watermark of the first, 12.999 s, lets it close; the third has the
#: last partners that may still come, and a row once more.
LAST = Input(
    [
        (1, 1, 9.5),
        (1, 2, 13),
        (1, 3, 9),
        (2, 7, 18.999),
        *[(4, n, 15 + n) for n in range(4)],
        (2, 7, 18.999),
        (1, 8, 19),
    ],
    [
        (1, 4, 3),
        (3, 5, 4),
        (3, 6, 5),
        (1, 6, 18.999),
        *[(5, n, 15 + n) for n in range(4)],
        (1, 5, 13.2),
        (1, 1, 13),
    ],
)
AT_THE_LAST_MOMENT = [
    "anti",
    "full",
    "full of one time",
    "left",
    "one time",
    "semi",
    "semi with a condition",
    "windows behind",
    "windows behind a left",
]


def test_the_last_partners(tmp_path: Path) -> None:
    check(tmp_path, AT_THE_LAST_MOMENT, LAST, rows_per_epoch=8)


def test_every_join_is_one_in_time(tmp_path: Path) -> None:
    names = sorted(QUERIES)
    planned = plan(tmp_path, [QUERIES[name] for name in names], ROWS)
    steps = [
        s.operator.kind
        for stage in planned.physical.stages
        for s in stage.steps
        if isinstance(s, OperatorStep)
    ]
    assert "join" not in steps
    assert IntervalJoinSpec.kind in steps


_SMALL = st.none() | st.integers(0, 3)


@st.composite
def sides(draw: st.DrawFn) -> list[tuple[int | None, int | None, float | None]]:
    """Rows that come later than others of a later time by less than the watermark allows."""
    rows = draw(
        st.lists(
            st.tuples(
                _SMALL,
                _SMALL,
                st.integers(0, 90),
                st.sampled_from([0, 0.001, 0.5]),
                st.integers(0, DELAY - 1),
            ),
            max_size=12,
        )
    )
    rows = sorted(rows, key=lambda row: row[2] + row[3] + row[4])
    found: list[tuple[int | None, int | None, float | None]] = [
        (k, v, at + part) for k, v, at, part, _ in rows
    ]
    if draw(st.integers(0, 3)) == 0:
        found.insert(draw(st.integers(0, len(found))), (draw(_SMALL), draw(_SMALL), None))
    return found


inputs = st.builds(Input, sides(), sides())


@settings(
    max_examples=examples(3),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@example(["anti with itself", "full", "windows behind a left"], ROWS, 3, [2, 1, 3])
@given(
    st.lists(st.sampled_from(sorted(QUERIES)), min_size=1, max_size=4, unique=True),
    inputs,
    st.integers(2, 12),
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
)
def test_random_rows(names: list[str], data: Input, rows_per_epoch: int, layouts: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check(Path(folder), names, data, rows_per_epoch=rows_per_epoch, layouts=layouts)


@pytest.mark.parametrize("name", sorted(BEST))
def test_what_is_not_the_best_of_its_window_is_not_kept(tmp_path: Path, name: str) -> None:
    """Of ten rows of one window at most two, the greatest and the least, can have a partner."""
    data = Input([(1, v, 1 + v / 10) for v in range(10)], [])
    planned = plan(tmp_path, [QUERIES[name]], data)
    reports: list[EpochReport] = []
    run_here(planned, tmp_path, on_epoch=reports.append, max_epochs=1, rows_per_epoch=10)
    assert reports[0].state_rows <= 3  # one of them is the aggregate's


def test_rows_that_the_aggregate_has_missed_say_nothing_of_the_others(tmp_path: Path) -> None:
    """The watermark is at 10.5 s when the last rows come: the first window is closed, without what is late for it."""
    data = Input(
        [(1, 5, 1), (1, 3, 16.5), (1, 0, 2), (1, 0, 3), (1, 5, 10.7), (1, 9, 8), (1, 7, 15), (1, 7, 25)], []
    )
    planned = plan(tmp_path, [QUERIES["best of several windows"]], data)
    reports: list[EpochReport] = []
    with collecting() as collected:
        run_here(planned, tmp_path, rows_per_epoch=4, on_epoch=reports.append)
        given = [(v, at.second) for v, at, end in collected.folded("out_0") if end.second == 10]
    assert sorted(given) == [(5, 1), (5, 10)]
    assert sum(report.dead_letters.get("late", 0) for report in reports) == 2


def test_late_rows_are_told_of_that_others_of_their_window_beat(tmp_path: Path) -> None:
    """The watermark is at 10.5 s when the last rows come: what is of 10.2 s is late for the join, not for its window."""
    data = Input([(1, 5, 1), (1, 3, 16.5), (1, 2, 10.2), (1, 1, 10.3), (1, 7, 15), (1, 1, 17)], [])
    for number, name in enumerate(("best of a window", "best of a window before", "least by key")):
        planned = plan(tmp_path / str(number), [QUERIES[name]], data)
        reports: list[EpochReport] = []
        run_here(planned, tmp_path / str(number), rows_per_epoch=2, on_epoch=reports.append)
        assert [report.dead_letters.get("late", 0) for report in reports] == [0, 2, 0]


def letters(folder: Path) -> list[dict[str, object]]:
    found = [
        json.loads(line) for f in (folder / "state").rglob("*.jsonl") for line in f.read_text().splitlines()
    ]
    return sorted(found, key=lambda letter: str(letter["row"]))


def test_a_late_row_is_a_dead_letter_and_in_no_pair(tmp_path: Path) -> None:
    """The watermark is at 100 - 6 s, of both tables, when the last rows come."""
    data = Input(
        [(1, 1, 50), (1, 2, 100), (1, 3, 94), (1, 4, 95)], [(1, 5, 93), (1, 6, 100), (1, 7, 94), (1, 8, 95)]
    )
    names = ["full", "anti", "windows, left"]
    planned = plan(tmp_path, [QUERIES[name] for name in names], data)
    reports: list[EpochReport] = []
    with collecting() as collected:
        run_here(planned, tmp_path, rows_per_epoch=4, on_epoch=reports.append)
        full, anti = ([row[-2:] for row in collected.folded(f"out_{n}")] for n in (0, 1))
        windows = [(v, w) for _, v, w, _ in collected.folded("out_2")]
    assert sum(report.dead_letters.get("late", 0) for report in reports) == 2 * 2
    assert sorted(full, key=str) == sorted([(1, None), (2, 6), (4, 5), (4, 8)], key=str)
    assert [v for v, _ in anti] == [1]
    assert sorted(windows, key=str) == sorted(
        [(1, None), (2, 6), (3, 5), (3, 7), (3, 8), (4, 5), (4, 7), (4, 8)], key=str
    )
    kept = letters(tmp_path)
    assert {letter["event_time"] for letter in kept} == {"2024-01-01 00:01:34"}
    assert all("may be gone: the watermark is" in str(letter["reason"]) for letter in kept)


def test_rows_that_come_when_the_input_has_ended_have_missed_no_partner(tmp_path: Path) -> None:
    """State is gone at the end of the input; what could be a partner of what was in it is late then."""
    names = ["inner", "left"]
    data = Input([(1, 1, 10), (1, 2, 20)], [(1, 5, 8), (1, 6, 21)])
    planned = plan(tmp_path, [QUERIES[name] for name in names], data)
    with collecting() as collected:
        assert run_here(planned, tmp_path).outcome == "exhausted"
        more = Input([(1, 3, 24), (1, 4, 28)], [(1, 7, 24), (1, 8, 30)])
        for name, lines in more.lines().items():
            (tmp_path / name / "1.json").write_text("".join(f"{line}\n" for line in lines))
        result = run_here(planned, tmp_path)
        assert dict(result.dead_letters) == {"late": 2 * 2}
        assert sorted(row[1:3] for row in collected.folded("out_0")) == [(1, 5), (2, 6), (4, 8)]
        assert sorted(row[1:3] for row in collected.folded("out_1")) == [(1, 5), (2, 6), (4, 8)]
