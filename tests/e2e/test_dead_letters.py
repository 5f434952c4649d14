"""Dead letters hold whole source rows, whatever the query reads of them, and nothing else is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sqlstream.planning import plan_file
from tests.properties.referee import Pipeline, assert_same

QUERY = (
    "SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
    "GROUP BY window_start, window_end"
)


def row(second: int, **values: Any) -> dict[str, Any]:
    return {"k": 1, "s": "x", "v": second, "ts": f"2024-01-01 00:00:{second:02d}.000", **values}


def test_late_rows_are_kept_whole(tmp_path: Path) -> None:
    data = [[row(1), row(45), row(2, s="late"), row(46)]]
    pipeline = Pipeline.create(tmp_path / "p", [QUERY], data, delay=5)
    pipeline.run(rows_per_epoch=1)
    letters = pipeline.dead_letters()
    assert [
        (x["kind"], x["window_end"][:19].replace("T", " "), x["row"]["s"], x["row"]["v"]) for x in letters
    ] == [("late", "2024-01-01 00:00:10", "late", 2)]
    assert sum(n for _, n in pipeline.output()) == 3


def test_a_late_row_that_is_malformed_where_the_query_does_not_look(tmp_path: Path) -> None:
    data = [[row(1), row(45), row(2, v="not a number"), row(46)]]
    pipeline = Pipeline.create(tmp_path / "p", [QUERY], data, delay=5)
    pipeline.run(rows_per_epoch=1)
    letters = pipeline.dead_letters()
    assert [(x["kind"], x["row"]["v"]) for x in letters] == [("late", "not a number")]
    assert sum(n for _, n in pipeline.output()) == 3


def test_malformed_late_and_timeless_rows_in_one_epoch(tmp_path: Path) -> None:
    good = [row(1), row(45), row(50)]
    pipeline = Pipeline.create(tmp_path / "p", [QUERY], [good, [row(3), row(51), row(52, ts=None)]], delay=5)
    broken = pipeline.folder / "input" / "001.json"
    broken.write_text(broken.read_text() + "{broken\n" + json.dumps(row(53, ts="no time")) + "\n")
    Pipeline(pipeline.folder, plan_file(pipeline.folder / "pipeline.sql")).run(rows_per_epoch=3)
    kinds = sorted(x["kind"] for x in pipeline.dead_letters())
    read = sum(n for _, n in pipeline.output())
    assert read + len(kinds) == 8
    assert kinds.count("malformed") == 2
    assert kinds.count("no-time") == 1
    malformed = [x for x in pipeline.dead_letters() if x["kind"] == "malformed"]
    assert sorted(x["line"] for x in malformed) == [4, 5]
    assert all(x["origin"].endswith("001.json") for x in malformed)


def test_a_restart_does_not_repeat_dead_letters(tmp_path: Path) -> None:
    data = [[row(1), row(45), row(2), row(46), row(3)]]
    pipeline = Pipeline.create(tmp_path / "p", [QUERY], data, delay=5)
    pipeline.run(rows_per_epoch=1, max_epochs=3)
    pipeline.run(rows_per_epoch=1)
    assert [x["row"]["v"] for x in pipeline.dead_letters()] == [2, 3]
    assert_same(
        pipeline.output(), [(e, n - 2 if str(e).endswith("10") else n) for e, n in pipeline.expected()]
    )
