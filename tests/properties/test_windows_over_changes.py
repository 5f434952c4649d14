"""Windows over a source whose rows change: each change counts for the windows of its row's time that are open.

Judged by a model in Python over the changes and the epochs' watermarks.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.diagnostics import DiagnosticError
from tests.examples import examples
from tests.properties.in_process import run_here
from tests.properties.referee import Rows, assert_same
from tests.properties.test_window_emission import DELAY_S, START, WINDOWS, Window, shown
from tests.properties.updating import batch_of, collecting

Change = tuple[str, dict[str, Any]]
_BOUNDED = settings(max_examples=examples(6), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def table(*, keyed: bool, lateness_s: int = 0) -> str:
    key = "PRIMARY KEY (id) NOT ENFORCED, " if keyed else ""
    return (
        f"SET 'table.exec.emit.allow-lateness' = '{lateness_s} s';\n"
        f"CREATE TABLE t (id INT, k INT, v BIGINT, ts TIMESTAMP(3), {key}"
        f"WATERMARK FOR ts AS ts - INTERVAL '{DELAY_S}' SECOND) "
        "WITH ('connector' = 'filesystem', 'path' = 'input', 'format' = 'changelog-json');\n"
    )


def second_of(row: dict[str, Any]) -> int:
    return int((datetime.fromisoformat(row["ts"]) - START).total_seconds())


@st.composite
def changes(draw: st.DrawFn) -> list[Change]:
    """Rows come, change (also their time) and go, while time goes on; some changes are late."""
    now = 0
    there: dict[int, dict[str, Any]] = {}
    made: list[Change] = []
    for _ in range(draw(st.integers(0, 14))):
        now += draw(st.sampled_from([0, 1, 3, 8]))
        second = max(0, now - draw(st.sampled_from([0, 0, 1, 5, 16])))
        id_ = draw(st.integers(1, 3))
        row: dict[str, Any] = {"id": id_, "k": draw(st.sampled_from([1, None])), "v": draw(st.integers(0, 2))}
        row["ts"] = shown(second).isoformat(sep=" ")
        if id_ in there and draw(st.booleans()):
            made.append(("-D", there.pop(id_)))
            continue
        if id_ in there:
            made.append(("-U", there[id_]))
        made.append(("+U" if id_ in there else "+I", row))
        there[id_] = row
    return made


class Model:
    """How often each value counts for a window and key. What an earlier epoch closed is late.

    Rows with a primary key come to the window from the operator that makes them consistent.
    """

    def __init__(self, window: Window, lateness_s: int, *, early: bool) -> None:
        self.window, self.lateness_s, self.early = window, lateness_s, early
        self.values: dict[tuple[int, int | None], Counter[int]] = defaultdict(Counter)
        self.late: Counter[tuple[int, str]] = Counter()
        self.changes_late: Counter[int] = Counter()
        self.seen = -1_000

    def epoch(self, made: Sequence[Change]) -> None:
        closed = self.seen
        for kind, row in made:
            second, weight = second_of(row), 1 if kind in ("+I", "+U") else -1
            self.seen = max(self.seen, second - DELAY_S)
            for end in self.window.ends(second):
                if end + self.lateness_s <= closed:
                    self.late[end, json.dumps(row)] += weight
                    self.changes_late[end] += 1
                else:
                    self.values[end, row["k"]][row["v"]] += weight

    def answer(self, *, ended: bool) -> Rows:
        rows = []
        for (end, k), counts in self.values.items():
            values = [v for v, n in counts.items() for _ in range(n)]
            if values and (self.early or ended or end <= self.seen):
                start = shown(self.window.start(end))
                row = (start, shown(end), k, len(values), sum(values), max(values), len(set(values)))
                rows.append(row)
        return rows


def query(window: Window, *, early: bool = False) -> str:
    return (
        "SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS m, COUNT(DISTINCT v) AS d "
        f"FROM TABLE({window.sql}) GROUP BY window_start, window_end, k{' EMIT CHANGES' if early else ''}"
    )


def run(
    window: Window, made: list[Change], *, keyed: bool, early: bool, lateness_s: int, size: int, shards: int
) -> tuple[Model, list[EpochReport]]:
    """Run, comparing what is there with the model after each epoch."""
    model = Model(window, lateness_s, early=early)
    reports: list[EpochReport] = []
    read = 0
    with tempfile.TemporaryDirectory() as name, collecting() as collected:
        folder = Path(name)
        (folder / "input").mkdir()
        lines = [json.dumps({"op": kind, "data": row}) for kind, row in made]
        (folder / "input" / "0.json").write_text("".join(f"{line}\n" for line in lines))
        text = table(keyed=keyed, lateness_s=lateness_s)
        text += f"CREATE TABLE out WITH ('connector' = 'blackhole') AS {query(window, early=early)};\n"
        (folder / "p.sql").write_text(text)

        def compare(report: EpochReport) -> None:
            nonlocal read
            reports.append(report)
            rows = sum(report.rows_read.values())
            model.epoch(made[read : read + rows])
            read += rows
            assert_same(collected.folded("out"), model.answer(ended=read == len(made)))

        run_here(
            plan_file(folder / "p.sql"), folder, parallelism=shards, rows_per_epoch=size, on_epoch=compare
        )
        assert read == len(made)
        assert_same(collected.folded("out"), model.answer(ended=True))
    return model, reports


def change(kind: str, id_: int, v: int, second: int) -> Change:
    return kind, {"id": id_, "k": 1, "v": v, "ts": shown(second).isoformat(sep=" ")}


@given(
    window=st.sampled_from(WINDOWS),
    made=changes(),
    keyed=st.booleans(),
    early=st.booleans(),
    lateness_s=st.sampled_from([0, 0, 6]),
    size=st.integers(1, 6),
    shards=st.integers(1, 3),
)
# A row that was counted goes, or leaves for another window, after its window has closed.
@example(
    WINDOWS[0], [change("+I", 1, 1, 1), change("+I", 2, 2, 20), change("-D", 1, 1, 1)], False, False, 0, 1, 2
)
@example(
    WINDOWS[0],
    [change("+I", 1, 1, 1), change("+I", 2, 2, 20), change("-U", 1, 1, 1), change("+U", 1, 1, 22)],
    True,
    False,
    6,
    1,
    1,
)
@_BOUNDED
def test_each_change_counts_for_the_open_windows_of_its_row(
    window: Window,
    made: list[Change],
    keyed: bool,
    early: bool,
    lateness_s: int,
    size: int,
    shards: int,
) -> None:
    model, reports = run(
        window, made, keyed=keyed, early=early, lateness_s=lateness_s, size=size, shards=shards
    )
    reported = sum(report.dead_letters.get("late", 0) for report in reports)
    # Changes that cancel out within an epoch are not lost; every other late one is told of.
    assert reported <= sum(model.changes_late.values())
    assert reported > 0 or not any(model.late.values())
    if not keyed:
        assert not made or reports[-1].state_rows == 0


def test_a_late_deletion_is_a_dead_letter_that_says_so(tmp_path: Path) -> None:
    made = [change("+I", 1, 5, 1), change("+I", 2, 7, 30), change("+I", 3, 7, 31), change("-D", 1, 5, 1)]
    (tmp_path / "input").mkdir()
    lines = [json.dumps({"op": kind, "data": row}) for kind, row in made]
    (tmp_path / "input" / "0.json").write_text("\n".join(lines))
    (tmp_path / "p.sql").write_text(
        table(keyed=True) + f"CREATE TABLE out WITH ('connector' = 'blackhole') AS {query(WINDOWS[0])};"
    )
    with collecting() as collected:
        run_here(plan_file(tmp_path / "p.sql"), tmp_path, parallelism=1, rows_per_epoch=1, tasks=1)
        assert [row[3] for row in sorted(collected.folded("out"))] == [1, 2]
    [file] = (tmp_path / "state" / "dead-letter").glob("*.jsonl")
    [letter] = map(json.loads, file.read_text().splitlines())
    assert (letter["kind"], letter["source"]) == ("late", "t")
    gone = letter["row"] if isinstance(letter["row"], dict) else json.loads(letter["row"])
    assert (gone["-D"]["id"], gone["-D"]["v"]) == (1, 5)


@pytest.mark.parametrize("sets", ["GROUPING SETS ((k), ())", "ROLLUP (k)"])
def test_in_order_the_result_is_the_batch_over_what_is_left(sets: str, tmp_path: Path) -> None:
    made = [change("+I", n, n % 3, n) for n in range(12)]
    made += [change("-D", 10, 1, 10), change("-U", 11, 2, 11), change("+U", 11, 0, 11)]
    (tmp_path / "input").mkdir()
    lines = [json.dumps({"op": kind, "data": row}) for kind, row in made]
    (tmp_path / "input" / "0.json").write_text("\n".join(lines))
    text = (
        "SELECT window_start, window_end, k, COUNT(*) AS n, AVG(v) AS a, ARRAY_AGG(v) AS vs "
        f"FROM TABLE({WINDOWS[1].sql}) GROUP BY window_start, window_end, {sets}"
    )
    (tmp_path / "p.sql").write_text(
        table(keyed=True) + f"CREATE TABLE out WITH ('connector' = 'blackhole') AS {text};"
    )
    planned = plan_file(tmp_path / "p.sql")
    assert [sink.changelog for sink in planned.physical.sinks] == ["append"]
    with collecting() as collected:
        run_here(planned, tmp_path)
        path = str(tmp_path / "input" / "0.json")
        assert_same(collected.folded("out"), batch_of(to_duckdb(planned, lambda _: [path])))


def test_a_cascade_over_changes_is_given_once(tmp_path: Path) -> None:
    window = WINDOWS[0].sql
    inner = f"SELECT window_time, COUNT(*) AS n FROM TABLE({window}) GROUP BY window_start, window_end, window_time"
    outer = (
        "SELECT window_end, SUM(n) AS n FROM TABLE(TUMBLE(TABLE counts, DESCRIPTOR(window_time), INTERVAL '30' SECOND)) "
        "GROUP BY window_start, window_end"
    )
    path = tmp_path / "p.sql"
    path.write_text(
        table(keyed=True)
        + f"CREATE VIEW counts AS {inner};\nCREATE TABLE out WITH ('connector' = 'blackhole') AS "
        + f"{outer} EMIT ON WINDOW CLOSE;"
    )
    assert plan_file(path).physical.sinks[0].changelog == "append"


@pytest.mark.parametrize("emit", ["", " EMIT CHANGES"])
@pytest.mark.parametrize(
    ("source", "over"),
    [
        ("SELECT * FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) = 1", WINDOWS[0].sql),
        (
            f"SELECT * FROM TABLE({WINDOWS[0].sql}) QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) = 1",
            "",
        ),
    ],
)
def test_rows_that_the_query_takes_back_are_in_no_window(
    source: str, over: str, emit: str, tmp_path: Path
) -> None:
    path = tmp_path / "p.sql"
    given = f"TABLE({over.replace('TABLE t', 'TABLE last')})" if over else "last"
    path.write_text(
        table(keyed=True)
        + f"CREATE VIEW last AS {source};\nCREATE TABLE out WITH ('connector' = 'blackhole') AS "
        f"SELECT window_start, window_end, COUNT(*) AS n FROM {given} GROUP BY window_start, window_end{emit};"
    )
    with pytest.raises(DiagnosticError) as caught:
        plan_file(path)
    assert caught.value.diagnostics[0].code == "SQL072"
