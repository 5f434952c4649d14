"""When sessions are given and which rows are late, after every epoch: EMIT CHANGES, allow-lateness, and neither.

Judged by a model in Python over the rows and the epochs' watermarks, not by the batch SQL.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sqlstream.runtime.loop.progress import EpochReport
from tests.examples import examples
from tests.properties import updating
from tests.properties.in_process import run_here
from tests.properties.updating import check, collecting, plan

START = datetime(2024, 1, 1)
DELAY_S = 3
GAP_S = 5
TABLE = """
CREATE TABLE t (k INT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '3' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'input', 'format' = 'json');
"""
SESSION = "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)"
_BOUNDED = settings(
    max_examples=examples(3),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
Found = tuple[int, int]  # the second of a row, and its value


def shown(second: int) -> datetime:
    return START + timedelta(seconds=second)


class Model:
    """The sessions of each key, by the watermarks of the epochs, in seconds.

    Sessions are one that overlap or touch: Flink's `TimeWindow.intersects` is `start <= other.end && end >= other.start`,
    and its `MergingWindowProcessFunction` drops a row if the window that it is merged into is late.
    """

    def __init__(self, lateness_s: int, *, early: bool, kept: bool) -> None:
        self.lateness_s, self.early, self.kept = lateness_s, early, kept
        self.open: list[tuple[int | None, list[Found]]] = []
        self.done: list[tuple[int | None, list[Found]]] = []
        self.late = 0
        self.watermark = -1_000  # of the rows of earlier epochs: what is late
        self.seen = -1_000  # of all rows: what is given

    def closed(self, rows: list[Found]) -> bool:
        # A row that comes at the watermark is in time, and meets a session that ends there.
        return max(rows)[0] + GAP_S + self.lateness_s < self.watermark

    def epoch(self, rows: Sequence[dict[str, Any]]) -> None:
        self.watermark = self.seen
        self.done += [s for s in self.open if self.closed(s[1])]
        self.open = [s for s in self.open if not self.closed(s[1])]
        for row in rows:
            second = int((datetime.fromisoformat(row["ts"]) - START).total_seconds())
            self.seen = max(self.seen, second - DELAY_S)
            found = [(second, row["v"])]
            apart = []
            for k, session in self.open:
                meets = min(session)[0] <= max(found)[0] + GAP_S and min(found)[0] <= max(session)[0] + GAP_S
                if k == row["k"] and meets:
                    found = [*session, *found]
                else:
                    apart.append((k, session))
            self.open = [*apart, (row["k"], found)]
        self.late += sum(len(s[1]) for s in self.open if self.closed(s[1]))
        self.open = [s for s in self.open if not self.closed(s[1])]

    def answer(self, *, ended: bool) -> Counter[tuple[Any, ...]]:
        given = [s for s in self.open if self.early or ended or max(s[1])[0] + GAP_S < self.seen]
        return Counter(
            (
                shown(min(rows)[0]),
                shown(max(rows)[0] + GAP_S),
                k,
                len(rows),
                max(v for _, v in rows),
                len({v for _, v in rows}) if self.kept else min(v for _, v in rows),
            )
            for k, rows in [*self.done, *given]
        )


@st.composite
def streams(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows whose time goes on, with some that are late."""
    now, found = 0, []
    for _ in range(draw(st.integers(0, 14))):
        now += draw(st.sampled_from([0, 1, 2, 5, 9]))
        second = max(0, now - draw(st.sampled_from([0, 0, 1, 5, 9, 17])))
        ts = shown(second).isoformat(sep=" ")
        found.append({"k": draw(st.sampled_from([1, 2, None])), "v": draw(st.integers(0, 2)), "ts": ts})
    return found


def rows_at(*seconds: int) -> list[dict[str, Any]]:
    return [{"k": 1, "v": n, "ts": shown(second).isoformat(sep=" ")} for n, second in enumerate(seconds)]


def query(*, early: bool, kept: bool = False) -> str:
    """`kept`: with an aggregate that needs the rows of a session one by one."""
    third = "COUNT(DISTINCT v)" if kept else "MIN(v)"
    return (
        f"SELECT window_start, window_end, k, COUNT(*) AS n, MAX(v) AS m, {third} AS d "
        f"FROM TABLE({SESSION}) GROUP BY window_start, window_end, k{' EMIT CHANGES' if early else ''}"
    )


def run(
    lateness_s: int, early: bool, kept: bool, rows: list[dict[str, Any]], size: int, shards: int
) -> list[EpochReport]:
    """Run, comparing what is there with the model after each epoch."""
    model = Model(lateness_s, early=early, kept=kept)
    reports: list[EpochReport] = []
    read = 0
    setting = f"SET 'table.exec.emit.allow-lateness' = '{lateness_s} s';\n"
    with (
        tempfile.TemporaryDirectory() as name,
        collecting() as collected,
        mock.patch.object(updating, "TABLE", setting + TABLE),
    ):
        folder = Path(name)
        planned = plan(folder, query(early=early, kept=kept), rows)

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
    st.sampled_from([0, 0, 4, 30]),
    st.booleans(),
    st.booleans(),
    streams(),
    st.integers(1, 5),
    st.integers(1, 3),
)
@example(0, False, True, rows_at(1, 14, 14, 6, 3, 26, 5, 4), 1, 2)
@example(0, True, False, rows_at(1, 14, 14, 6, 3, 26, 5, 4), 1, 2)
@example(10, True, False, rows_at(1, 14, 14, 6, 3, 26, 5, 4), 1, 2)
@_BOUNDED
def test_sessions_are_given_as_the_query_says(
    lateness_s: int, early: bool, kept: bool, rows: list[dict[str, Any]], size: int, shards: int
) -> None:
    run(lateness_s, early, kept, rows, size, shards)


@pytest.mark.parametrize("kept", [False, True])
def test_sessions_that_touch_are_one(kept: bool) -> None:
    """By hand: a row exactly the gap after another is of its session, as Flink's `TimeWindow.intersects` has it; one
    that comes later makes one of two sessions.
    """
    reports = run(0, False, kept, rows_at(0, 5, 11, 30, 45), 5, 1)
    assert reports[-1].rows_written == {"out": 4}
    reports = run(0, True, kept, rows_at(0, 6, 3, 30), 1, 1)  # [0, 5) and [6, 11) go, [0, 11) comes
    assert [report.rows_written.get("out", 0) for report in reports] == [1, 1, 3, 1]


@pytest.mark.parametrize("kept", [False, True])
def test_a_row_that_is_late_by_itself_counts_for_an_open_session(kept: bool) -> None:
    """By hand: when the watermark is at 11, [2, 7) is over, but a row at 2 meets [6, 11), which is not."""
    reports = run(0, False, kept, rows_at(6, 14, 2, 40), 1, 1)
    assert sum(report.dead_letters.get("late", 0) for report in reports) == 0
    reports = run(0, False, kept, rows_at(6, 15, 2, 40), 1, 1)
    assert sum(report.dead_letters.get("late", 0) for report in reports) == 1


def test_a_late_row_is_told_with_the_session_that_it_alone_would_be(tmp_path: Path) -> None:
    with mock.patch.object(updating, "TABLE", TABLE), collecting():
        planned = plan(tmp_path, query(early=False), rows_at(6, 40, 2))
    with collecting():
        run_here(planned, tmp_path, rows_per_epoch=1)
    [letter] = [
        json.loads(line)
        for file in (tmp_path / "state" / "dead-letter").glob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    assert (letter["kind"], letter["source"], letter["windows"]) == ("late", "t", 1)
    assert (letter["window_start"], letter["window_end"]) == ("2024-01-01 00:00:02", "2024-01-01 00:00:07")
    assert letter["event_time"] == "2024-01-01 00:00:02"
    assert letter["row"] == {"k": 1, "v": 2, "ts": "2024-01-01 00:00:02"}


def test_groups_that_are_the_sessions_keep_no_rows() -> None:
    """Which of the two operators runs follows from the query alone; the other tests are of both."""

    def kinds(sql: str) -> list[str]:
        with tempfile.TemporaryDirectory() as name, mock.patch.object(updating, "TABLE", TABLE):
            return [state.operator for state in plan(Path(name), sql, []).physical.states]

    assert kinds(query(early=False)) == kinds(query(early=True)) == ["session_aggregate"]
    assert kinds(query(early=False, kept=True)) == ["session_windows", "window_aggregate"]
    groups = f"FROM TABLE({SESSION}) GROUP BY window_start, window_end"
    assert kinds(f"SELECT COUNT(*) AS n {groups}") == ["session_windows", "window_aggregate"]
    assert kinds(f"SELECT MIN_BY(v, ts) AS n {groups}, k") == ["session_windows", "window_aggregate"]
    assert kinds(f"SELECT MIN_BY(v, ts) AS n {groups}, k EMIT CHANGES") == ["session_aggregate"]
    some = f"SELECT COUNT(*) AS n FROM TABLE({SESSION}) WHERE v > 1 GROUP BY window_end, k"
    assert kinds(some) == ["session_windows", "window_aggregate"]


EARLY = {
    "rows": "SELECT window_start, window_end, k, v FROM TABLE({w})",
    "having": "SELECT window_end, k, SUM(v) AS s FROM TABLE({w}) GROUP BY window_end, k HAVING COUNT(*) > 1",
    "sets": "SELECT window_start, k, v, COUNT(*) AS n, GROUPING(k, v) AS g FROM TABLE({w}) "
    "GROUP BY window_start, window_end, ROLLUP (k, v)",
    "lists": "SELECT window_end, ARRAY_AGG(v) AS a, MIN_BY(k, ts) AS f, AVG(DISTINCT v) AS d, MEDIAN(v) AS m "
    "FROM TABLE({w}) GROUP BY window_end",
    "in the order of time": "SELECT window_start, window_end, k, FIRST_VALUE(v) AS f, LAST_VALUE(v) AS l "
    "FROM TABLE({w}) GROUP BY window_start, window_end, k",
    "within the window again": "SELECT window_end, MAX(n) AS m FROM (SELECT window_start, window_end, k, COUNT(*) AS n "
    "FROM TABLE({w}) GROUP BY window_start, window_end, k) AS c GROUP BY window_start, window_end",
    "sessions counted": "SELECT n, COUNT(*) AS c FROM (SELECT window_start, window_end, k, COUNT(*) AS n FROM TABLE({w}) "
    "GROUP BY window_start, window_end, k) AS c GROUP BY n",
    "some of the rows": "SELECT window_start, window_end, k, COUNT(*) AS n FROM TABLE({w}) WHERE v > 0 "
    "GROUP BY window_start, window_end, k",
    "first rows": "SELECT window_end, k, v, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k "
    "ORDER BY v DESC, ts) AS rn FROM TABLE({w})) AS r WHERE rn <= 2",
    "last row of each session": "SELECT window_start, k, v FROM TABLE({w}) "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY ts DESC) = 1",
    "older spelling": "SELECT SESSION_START(ts, INTERVAL '5' SECOND) AS b, SESSION_END(ts, INTERVAL '5' SECOND) AS e, "
    "SESSION_ROWTIME(ts, INTERVAL '5' SECOND) AS r, k, COUNT(*) AS n FROM t GROUP BY SESSION(ts, INTERVAL '5' SECOND), k",
}
AT_CLOSE = {
    **{
        name: EARLY[name] for name in ("rows", "sets", "in the order of time", "first rows", "older spelling")
    },
    "sessions joined": "SELECT a.window_start, a.k, a.n, b.v FROM (SELECT window_start, window_end, k, COUNT(*) AS n "
    "FROM TABLE({w}) GROUP BY window_start, window_end, k) AS a JOIN TABLE({w}) AS b ON a.window_start = b.window_start "
    "AND a.window_end = b.window_end AND a.k = b.k",
    "windows of sessions": "SELECT window_end, SUM(n) AS s FROM TABLE(TUMBLE(TABLE (SELECT window_time, k, COUNT(*) AS n "
    "FROM TABLE({w}) GROUP BY window_start, window_end, window_time, k), DESCRIPTOR(window_time), INTERVAL '15' SECOND)) "
    "GROUP BY window_start, window_end",
    "sessions of windows": "SELECT window_start, window_end, SUM(n) AS s FROM TABLE(SESSION(TABLE (SELECT window_time, k, "
    "COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECOND)) GROUP BY window_start, window_end, "
    "window_time, k) PARTITION BY k, DESCRIPTOR(window_time), INTERVAL '6' SECOND)) GROUP BY window_start, window_end, k",
    "sessions of sessions": "SELECT window_start, window_end, SUM(n) AS s FROM TABLE(SESSION(TABLE (SELECT window_time, k, "
    "COUNT(*) AS n FROM TABLE({w}) GROUP BY window_start, window_end, window_time, k), DESCRIPTOR(window_time), "
    "INTERVAL '3' SECOND)) GROUP BY window_start, window_end",
    "rows in windows of sessions": "SELECT k, v, window_end FROM TABLE(TUMBLE(TABLE (SELECT window_time, k, v "
    "FROM TABLE({w})), DESCRIPTOR(window_time), INTERVAL '15' SECOND))",
}


def _rows() -> list[dict[str, Any]]:
    return [
        {"k": [1, 2, None][n % 3], "v": n % 4, "ts": shown(n * 5 % 37 * 2).isoformat(sep=" ")}
        for n in range(30)
    ]


@pytest.mark.parametrize("name", EARLY)
@pytest.mark.sampled(3)
def test_early_results_are_the_batch_over_the_rows_so_far(name: str, tmp_path: Path) -> None:
    table = TABLE.replace("'3' SECOND", "'90' SECOND")  # nothing is late
    with mock.patch.object(updating, "TABLE", table):
        check(tmp_path, EARLY[name].format(w=SESSION) + " EMIT CHANGES", _rows(), rows_per_epoch=7)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", AT_CLOSE)
def test_what_is_given_at_the_close_is_the_batch_in_the_end(name: str, tmp_path: Path) -> None:
    rows = sorted(_rows(), key=lambda row: row["ts"])
    with mock.patch.object(updating, "TABLE", TABLE):
        reports = check(tmp_path, AT_CLOSE[name].format(w=SESSION), rows, rows_per_epoch=4, every=False)
    # A join of sessions is a regular one, which keeps its rows.
    assert reports[-1].state_rows == 0 or name == "sessions joined"
    assert sum(report.rows_written.get("out", 0) > 0 for report in reports) > 2  # on the way, not at the end
