"""Windows that are given early (EMIT CHANGES) or corrected by late rows (allow-lateness), after every epoch.

Judged by a model in Python over the rows, the epochs' watermarks and the window of each row, not by the batch SQL.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream_planner.diagnostics import DiagnosticError
from tests.examples import examples
from tests.properties import updating
from tests.properties.in_process import run_here
from tests.properties.updating import check, collecting, plan

START = datetime(2024, 1, 1)
DELAY_S = 3
TABLE = """
CREATE TABLE t (k INT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'input', 'format' = 'json');
"""
_BOUNDED = settings(
    max_examples=examples(7),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@dataclass(frozen=True)
class Window:
    """A window function, and the ends (seconds) of the windows of a second."""

    sql: str
    size: int
    slide: int

    def ends(self, second: int) -> list[int]:
        if self.sql.startswith("CUMULATE"):
            cycle = second // self.size * self.size
            return [e for e in range(cycle + self.slide, cycle + self.size + 1, self.slide) if e > second]
        return [e for e in range(second + 1, second + self.size + 1) if (e - self.size) % self.slide == 0]

    def start(self, end: int) -> int:
        if self.sql.startswith("CUMULATE"):
            return (end - 1) // self.size * self.size
        return end - self.size


_OVER = "TABLE t, DESCRIPTOR(ts)"
WINDOWS = [
    Window(f"TUMBLE({_OVER}, INTERVAL '10' SECOND)", 10, 10),
    Window(f"HOP({_OVER}, INTERVAL '5' SECOND, INTERVAL '10' SECOND)", 10, 5),
    Window(f"CUMULATE({_OVER}, INTERVAL '5' SECOND, INTERVAL '15' SECOND)", 15, 5),
]


def shown(second: int) -> datetime:
    return START + timedelta(seconds=second)


class Model:
    """The rows that count for each window, by the watermarks of the epochs."""

    def __init__(self, window: Window, lateness_s: int, *, early: bool) -> None:
        self.window, self.lateness_s, self.early = window, lateness_s, early
        self.rows: dict[tuple[int, int | None], list[int]] = defaultdict(list)
        self.late = 0
        self.watermark = -1_000  # of the rows of earlier epochs: what is late
        self.seen = -1_000  # of all rows: what is given

    def epoch(self, rows: Sequence[dict[str, Any]]) -> None:
        self.watermark = self.seen
        for row in rows:
            second = int((datetime.fromisoformat(row["ts"]) - START).total_seconds())
            self.seen = max(self.seen, second - DELAY_S)
            # A window that ends at E is over when the watermark is at E - 1 ms.
            ends = self.window.ends(second)
            missed = [end for end in ends if end + self.lateness_s <= self.watermark]
            self.late += bool(missed)
            for end in ends:
                if end not in missed:
                    self.rows[end, row["k"]].append(row["v"])

    def answer(self, *, ended: bool) -> Counter[tuple[Any, ...]]:
        return Counter(
            (shown(self.window.start(end)), shown(end), k, len(values), max(values), len(set(values)))
            for (end, k), values in self.rows.items()
            if self.early or ended or end <= self.seen
        )


seconds = st.integers(0, 12)


@st.composite
def streams(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows whose time goes on, with some that are late."""
    now, found = 0, []
    for _ in range(draw(st.integers(0, 14))):
        now += draw(st.sampled_from([0, 1, 2, 4, 9]))
        second = max(0, now - draw(st.sampled_from([0, 0, 1, 4, 9, 17])))
        ts = shown(second).isoformat(sep=" ")
        found.append({"k": draw(st.sampled_from([1, 2, None])), "v": draw(st.integers(0, 2)), "ts": ts})
    return found


def rows_at(*seconds: int) -> list[dict[str, Any]]:
    return [{"k": 1, "v": n, "ts": shown(second).isoformat(sep=" ")} for n, second in enumerate(seconds)]


def query(window: Window, *, early: bool) -> str:
    return (
        "SELECT window_start, window_end, k, COUNT(*) AS n, MAX(v) AS m, COUNT(DISTINCT v) AS d "
        f"FROM TABLE({window.sql}) GROUP BY window_start, window_end, k{' EMIT CHANGES' if early else ''}"
    )


def run(
    window: Window, lateness_s: int, early: bool, rows: list[dict[str, Any]], size: int, shards: int
) -> list[EpochReport]:
    """Run, comparing what is there with the model after each epoch."""
    model = Model(window, lateness_s, early=early)
    reports: list[EpochReport] = []
    read = 0
    setting = f"SET 'table.exec.emit.allow-lateness' = '{lateness_s} s';\n"
    with (
        tempfile.TemporaryDirectory() as name,
        collecting() as collected,
        mock.patch.object(updating, "TABLE", setting + TABLE),
    ):
        folder = Path(name)
        planned = plan(folder, query(window, early=early), rows)

        def compare(report: EpochReport) -> None:
            nonlocal read
            reports.append(report)
            more = sum(report.rows_read.values())
            model.epoch(rows[read : read + more])
            read += more
            ended = report.watermarks["t"] == "end"
            assert Counter(map(tuple, collected.folded("out"))) == model.answer(ended=ended)
            if ended:
                assert report.state_rows == 0

        run_here(planned, folder, parallelism=shards, rows_per_epoch=size, on_epoch=compare)
        assert read == len(rows)
        assert sum(report.dead_letters.get("late", 0) for report in reports) == model.late
    return reports


@given(
    st.sampled_from(WINDOWS),
    st.sampled_from([0, 4, 30]),
    st.booleans(),
    streams(),
    st.integers(1, 5),
    st.integers(1, 3),
)
@example(WINDOWS[0], 10, False, rows_at(1, 14, 14, 2, 3, 26, 5, 4), 1, 2)
@example(WINDOWS[0], 10, True, rows_at(1, 14, 14, 2, 3, 26, 5, 4), 1, 2)
@_BOUNDED
def test_windows_are_given_as_the_query_says(
    window: Window, lateness_s: int, early: bool, rows: list[dict[str, Any]], size: int, shards: int
) -> None:
    run(window, lateness_s, early, rows, size, shards)


def test_a_late_row_corrects_a_window_that_was_given() -> None:
    """By hand: [0, 10) is given once 14 was read, corrected by the row at 2, and done when 23 is passed."""
    reports = run(WINDOWS[0], 10, False, rows_at(1, 14, 15, 2, 27, 3), 1, 1)
    assert [report.rows_written.get("out", 0) for report in reports] == [0, 1, 0, 2, 1, 1]
    assert sum(report.dead_letters.get("late", 0) for report in reports) == 1


EARLY = {
    "having": "SELECT window_end, k, SUM(v) AS s FROM TABLE({w}) GROUP BY window_end, k HAVING COUNT(*) > 1",
    "sets": "SELECT window_start, k, v, COUNT(*) AS n, GROUPING(k, v) AS g FROM TABLE({w}) "
    "GROUP BY window_start, window_end, ROLLUP (k, v)",
    "lists": "SELECT window_end, ARRAY_AGG(v) AS a, FIRST_VALUE(k) AS f, AVG(DISTINCT v) AS d "
    "FROM TABLE({w}) GROUP BY window_end",
    "within the window again": "SELECT window_end, MAX(n) AS m FROM (SELECT window_start, window_end, k, COUNT(*) AS n "
    "FROM TABLE({w}) GROUP BY window_start, window_end, k) AS c GROUP BY window_start, window_end",
    "windows counted": "SELECT n, COUNT(*) AS c FROM (SELECT window_start, window_end, COUNT(*) AS n FROM TABLE({w}) "
    "GROUP BY window_start, window_end) AS c GROUP BY n",
    "top of windows": "SELECT window_time, n FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n DESC, window_time) AS rn "
    "FROM (SELECT window_time, COUNT(*) AS n FROM TABLE({w}) GROUP BY window_start, window_end, window_time) AS c) "
    "AS r WHERE rn <= 2",
    "distinct": "SELECT window_end, k FROM TABLE({w}) GROUP BY window_end, k",
    "first rows": "SELECT window_end, k, v, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
    "ORDER BY v DESC, ts) AS rn FROM TABLE({w})) AS r WHERE rn <= 2",
    "last row of each key": "SELECT window_start, k, v FROM TABLE({w}) "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY ts DESC) = 1",
    "older spelling": "SELECT TUMBLE_START(ts, INTERVAL '10' SECOND) AS b, COUNT(*) AS n "
    "FROM t GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", EARLY)
def test_early_results_are_the_batch_over_the_rows_so_far(name: str, tmp_path: Path) -> None:
    rows = [
        {"k": [1, 2, None][n % 3], "v": n % 4, "ts": shown(n * 5 % 37).isoformat(sep=" ")} for n in range(24)
    ]
    table = TABLE.replace("'3' SECOND", "'60' SECOND")  # nothing is late
    with mock.patch.object(updating, "TABLE", table):
        for number, window in enumerate(WINDOWS[:1] if "{w}" not in EARLY[name] else WINDOWS):
            text = EARLY[name].format(w=window.sql) + " EMIT CHANGES"
            check(tmp_path / str(number), text, rows, rows_per_epoch=7)


def test_a_late_group_without_aggregates_is_one_more_row() -> None:
    """The keys of [0, 10) are given once 14 was read, and a late row brings a new one: no row is ever taken back."""
    rows = rows_at(1, 14, 15, 2, 40)
    rows[3]["k"] = 2
    text = f"SELECT window_end, k FROM TABLE({WINDOWS[0].sql}) GROUP BY window_start, window_end, k"
    setting = "SET 'table.exec.emit.allow-lateness' = '10 s';\n"
    with tempfile.TemporaryDirectory() as name, collecting() as collected:
        with mock.patch.object(updating, "TABLE", setting + TABLE):
            planned = plan(Path(name), text, rows)
        run_here(planned, Path(name), parallelism=1, rows_per_epoch=1, tasks=1)
        found = Counter(map(tuple, collected.folded("out")))
    assert found == {(shown(10), 1): 1, (shown(10), 2): 1, (shown(20), 1): 1, (shown(50), 1): 1}
    assert planned.physical.sinks[0].changelog == "append"


@pytest.mark.parametrize("early", [True, False])
def test_a_row_without_a_time_is_kept_as_a_dead_letter(early: bool) -> None:
    """It belongs to no window, and is not lost silently."""
    rows: list[dict[str, Any]] = [*rows_at(1, 2), {"k": 1, "v": 3, "ts": None}, *rows_at(40)]
    with (
        tempfile.TemporaryDirectory() as name,
        collecting() as collected,
        mock.patch.object(updating, "TABLE", "SET 'table.exec.emit.allow-lateness' = '5 s';\n" + TABLE),
    ):
        folder, letters = Path(name), Counter[str]()
        run_here(
            plan(folder, query(WINDOWS[1], early=early), rows),
            folder,
            rows_per_epoch=2,
            on_epoch=lambda report: letters.update(report.dead_letters),
        )
        assert letters == {"no-time": 1}
        assert sum(row[3] for row in collected.folded("out")) == 2 * 3  # each row is in two windows


@pytest.mark.parametrize("early", [True, False])
def test_a_later_run_corrects_nothing_that_was_done(early: bool) -> None:
    """At the end of the input all windows are done, with their lateness; what a later run finds for them is late."""
    setting = "SET 'table.exec.emit.allow-lateness' = '10 s';\n"
    with (
        tempfile.TemporaryDirectory() as name,
        collecting() as collected,
        mock.patch.object(updating, "TABLE", setting + TABLE),
    ):
        folder, letters = Path(name), Counter[str]()
        planned = plan(folder, query(WINDOWS[0], early=early), rows_at(1, 14, 14))

        def again() -> Counter[tuple[Any, ...]]:
            run_here(planned, folder, on_epoch=lambda report: letters.update(report.dead_letters))
            return Counter((row[1], row[3]) for row in map(tuple, collected.folded("out")))

        first = {(shown(10), 1): 1, (shown(20), 2): 1}
        assert again() == first
        more = "".join(json.dumps(row) + "\n" for row in rows_at(16, 5, 25, 47))
        (folder / "input" / "more.json").write_text(more)
        # [10, 20) would have taken rows until 30 s; [20, 30) takes them until 40 s, and nothing was read after 14 s.
        assert again() == {**first, (shown(30), 1): 1, (shown(50), 1): 1}
        assert letters == {"late": 2}


@pytest.mark.parametrize("size", [None, 3])
def test_early_results_over_windows_that_are_given_once(size: int | None, tmp_path: Path) -> None:
    """A window over closed windows: their results come in the epoch in which they close."""
    inner = (
        f"SELECT window_time, COUNT(*) AS n FROM TABLE({WINDOWS[0].sql}) "
        "GROUP BY window_start, window_end, window_time EMIT ON WINDOW CLOSE"
    )
    outer = (
        f"SELECT window_end, SUM(n) AS s, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE ({inner}), DESCRIPTOR(window_time), "
        "INTERVAL '30' SECOND)) GROUP BY window_start, window_end EMIT CHANGES"
    )
    rows = rows_at(*range(0, 100, 4))
    with mock.patch.object(updating, "TABLE", TABLE):
        reports = check(tmp_path, outer, rows, rows_per_epoch=size, every=False)
    assert reports[-1].state_rows == 0
    if size is not None:
        assert sum(report.rows_written.get("out", 0) > 0 for report in reports) > 4  # results came early


RANKED = (
    f"SELECT {{columns}} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v DESC, k) AS rn "
    f"FROM TABLE({WINDOWS[0].sql})) WHERE rn <= 3"
)


@pytest.mark.parametrize("size", [None, 3])
def test_windows_behind_the_best_of_windows_go_by_their_window(size: int | None, tmp_path: Path) -> None:
    ranked = RANKED.format(columns="k, v, window_time AS wt")
    query = (
        f"SELECT window_end, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE ({ranked}), DESCRIPTOR(wt), INTERVAL '30' SECOND)) "
        "GROUP BY window_start, window_end"
    )
    with mock.patch.object(updating, "TABLE", TABLE):
        check(tmp_path, query, rows_at(*range(0, 100, 2)), rows_per_epoch=size, every=False)


def test_their_own_time_is_over_when_they_come(tmp_path: Path) -> None:
    """The watermark has passed it: smaller windows over it took all of them for late."""
    ranked = RANKED.format(columns="k, v, ts")
    query = (
        f"SELECT window_end, COUNT(*) AS c FROM TABLE(TUMBLE(TABLE ({ranked}), DESCRIPTOR(ts), INTERVAL '2' SECOND)) "
        "GROUP BY window_start, window_end"
    )
    with pytest.raises(DiagnosticError, match="the watermark has passed `ts`"):
        plan_file(f"{TABLE}CREATE TABLE o WITH ('connector' = 'blackhole') AS {query};", file="p.sql")
