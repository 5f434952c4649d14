"""Dead letters hold whole source rows, whatever the query reads of them, and nothing else is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import EpochReport
from tests.properties.referee import Pipeline, assert_same

QUERY = (
    "SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
    "GROUP BY window_start, window_end"
)


def row(second: int, **values: Any) -> dict[str, Any]:
    return {"k": 1, "s": "x", "v": second, "ts": f"2024-01-01 00:00:{second:02d}.000", **values}


def times(letter: dict[str, Any]) -> tuple[str, str, int]:
    return letter["window_start"][11:], letter["window_end"][11:], letter["windows"]


def over(window: str, aggregate: str = "COUNT(*)") -> str:
    return f"SELECT window_end, {aggregate} AS n FROM TABLE({window}) GROUP BY window_start, window_end"


HOP = "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '1' DAY)"


@pytest.mark.parametrize("aggregate", ["COUNT(*)", "ARRAY_AGG(v)"], ids=["slices", "windows"])
def test_a_row_that_misses_many_windows_is_one_letter(tmp_path: Path, aggregate: str) -> None:
    """The row at 2 s is in 86,400 windows, of which those that end up to 40 s (the watermark) are closed."""
    data = [[row(1), row(45), row(2), row(46), row(2, s="twin"), row(2, s="twin")]]
    pipeline = Pipeline.create(tmp_path / "p", [over(HOP, aggregate)], data, delay=5)
    pipeline.run(rows_per_epoch=2)
    letters = pipeline.dead_letters()
    assert [(x["row"]["s"], *times(x)) for x in letters] == [
        ("x", "00:00:03", "00:00:40", 38),
        ("twin", "00:00:03", "00:00:41", 39),
        ("twin", "00:00:03", "00:00:41", 39),
    ]
    assert letters[0]["window_start"][:10] == "2023-12-31"


def test_windows_of_a_letter_at_the_ends_of_a_cycle_and_over_elements(tmp_path: Path) -> None:
    cumulate = "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)"
    elements = (
        "SELECT window_end, COUNT(e) AS n FROM (SELECT * FROM t CROSS JOIN UNNEST(a) AS u (e)) AS x "
        "GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)"
    ).replace("window_end", "TUMBLE_END(ts, INTERVAL '10' SECOND) AS window_end")
    data = [[row(1, a=[1]), row(25, a=[]), row(2, a=[4, 5, 6]), row(13, a=[7, 7])]]
    pipeline = Pipeline.create(tmp_path / "p", [over(cumulate), elements], data, delay=5)
    pipeline.run(rows_per_epoch=1)
    found = sorted((x["operator"], x["row"]["v"], *times(x)) for x in pipeline.dead_letters())
    assert found == [
        ("window_aggregate_1", 2, "00:00:00", "00:00:20", 4),
        ("window_aggregate_1", 13, "00:00:00", "00:00:20", 2),
        ("window_aggregate_2", 2, "00:00:00", "00:00:10", 1),
        ("window_aggregate_2", 13, "00:00:10", "00:00:20", 1),
    ]


def test_the_driver_counts_letters_and_gets_none(tmp_path: Path) -> None:
    """Tasks stage them: what the driver keeps in the manifest are names of files and figures."""
    late = [row(2, v=n) for n in range(500)]
    pipeline = Pipeline.create(tmp_path / "p", [QUERY], [[row(1), row(45)], late], delay=5)
    reports: list[EpochReport] = []
    pipeline.run(rows_per_epoch=2, on_epoch=reports.append, max_epochs=1)
    pipeline.run(on_epoch=reports.append)
    assert [dict(report.dead_letters) for report in reports] == [{}, {"late": 500}]
    state = pipeline.folder / "state"
    manifest = json.loads((state / "epochs" / "000002.manifest.json").read_text())
    assert len(manifest["dead_letter_files"]) >= 1
    assert all(
        name.startswith("staging/dead-letter/epoch-000002-0-") for name in manifest["dead_letter_files"]
    )
    assert not list((state / "staging" / "dead-letter").iterdir())
    assert sorted(x["row"]["v"] for x in pipeline.dead_letters()) == list(range(500))
    assert not list((pipeline.folder / "cache").glob("letters-*"))


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


TUMBLED = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
BOUNDS = "window_start, window_end"


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT window_end, COUNT(*) AS n FROM {TUMBLED} GROUP BY {BOUNDS}",
        f"SELECT window_end, COUNT(*) AS n FROM (SELECT {BOUNDS}, k FROM {TUMBLED}) GROUP BY {BOUNDS}",
        f"SELECT window_end, COUNT(*) AS n FROM (SELECT {BOUNDS}, window_time FROM {TUMBLED}) GROUP BY {BOUNDS}",
        f"SELECT window_end, ARRAY_AGG(u) AS n FROM (SELECT {BOUNDS}, v * 2 AS u FROM {TUMBLED}) GROUP BY {BOUNDS}",
        f"SELECT window_end, COUNT(e) AS n FROM (SELECT {BOUNDS}, e FROM "
        f"(SELECT * FROM {TUMBLED}) AS y CROSS JOIN UNNEST(a) AS u (e)) AS x GROUP BY {BOUNDS}",
        "SELECT window_end, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v) AS rn "
        f"FROM (SELECT {BOUNDS}, v FROM {TUMBLED})) WHERE rn <= 2",
        "SELECT window_end, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v) AS rn "
        f"FROM (SELECT {BOUNDS}, v FROM (SELECT {BOUNDS}, v, k FROM {TUMBLED}) UNION ALL "
        f"SELECT {BOUNDS}, k FROM {TUMBLED} WHERE FALSE)) WHERE rn <= 2",
    ],
    ids=["plain", "projected", "window time", "computed", "unnest", "top-n", "union"],
)
def test_the_event_time_of_a_letter_is_the_rows_own(tmp_path: Path, query: str) -> None:
    """Also where the query has left it out before the rows are found late."""
    data = [[row(1, a=[1]), row(45, a=[2]), row(12, a=[3, 4]), row(46, a=[5])]]
    pipeline = Pipeline.create(tmp_path / "p", [query], data, delay=5)
    pipeline.run(rows_per_epoch=1)
    found = [(x["event_time"], x["window_end"], x["row"]["v"]) for x in pipeline.dead_letters()]
    assert found == [("2024-01-01 00:00:12", "2024-01-01 00:00:20", 12)]
