"""A time that is far ahead of the clock must not make all later rows late."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream_planner.diagnostics import DiagnosticError
from tests.properties.in_process import run_here

NOW = 1_782_864_000  # 2026-07-01
SQL = """
CREATE TABLE t (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS {mark})
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json'{option});
CREATE TABLE o (day TIMESTAMP(3), n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');
INSERT INTO o SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY))
GROUP BY window_start, window_end;
"""


def run(folder: Path, *times: str, option: str = "", mark: str = "ts") -> list[EpochReport]:
    """Count rows of these times by day, one an epoch, when the clock says `NOW`."""
    (folder / "in").mkdir(parents=True)
    for n, time in enumerate(times):
        row = {"k": "a", "ts": time}
        (folder / f"in/{n}.json").write_text(json.dumps(row) + "\n")
    reports: list[EpochReport] = []
    planned = plan_file(SQL.format(option=option, mark=mark), file="p.sql")
    run_here(
        planned,
        folder,
        rows_per_epoch=1,
        parallelism=1,
        on_epoch=reports.append,
        wall_clock=lambda: float(NOW),
    )
    return reports


def late(reports: list[EpochReport]) -> int:
    return sum(report.dead_letters.get("late", 0) for report in reports)


def days(folder: Path) -> dict[str, int]:
    found: dict[str, Any] = {}
    for file in (folder / "out").glob("*.json"):
        for line in file.read_text().splitlines():
            row = json.loads(line)
            found[row["day"]] = row["n"]
    return found


TIMES = ("2026-06-28 10:00:00", "2099-01-01 00:00:00", "2026-06-28 11:00:00", "2026-06-30 09:00:00")


@pytest.mark.parametrize("mark", ["ts", "ts - INTERVAL '5' SECOND", "CASE WHEN k = 'a' THEN ts END"])
def test_a_row_in_2099_does_not_move_the_watermark(tmp_path: Path, mark: str) -> None:
    reports = run(tmp_path, *TIMES, mark=mark)
    assert late(reports) == 0
    assert [dict(report.ahead) for report in reports if report.rows_read["t"]] == [{}, {"t": 1}, {}, {}]
    assert days(tmp_path)["2026-06-28 00:00:00"] == 2


def test_it_is_counted_where_it_stands_beside_others(tmp_path: Path) -> None:
    """The greatest time of a split that is not ahead counts."""
    (tmp_path / "in").mkdir()
    rows = [{"k": "a", "ts": time} for time in TIMES[:3]]
    (tmp_path / "in/0.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "in/1.json").write_text(json.dumps({"k": "a", "ts": "2026-06-27 00:00:00"}) + "\n")
    reports: list[EpochReport] = []
    planned = plan_file(SQL.format(option="", mark="ts"), file="p.sql")
    run_here(planned, tmp_path, rows_per_epoch=3, on_epoch=reports.append, wall_clock=lambda: float(NOW))
    assert reports[0].ahead == {"t": 1}
    assert reports[0].watermarks["t"] == (NOW - 2 * 86_400 - 46_800) * 1_000_000  # 2026-06-28 11:00
    assert late(reports) == 1


def test_how_far_is_an_option_and_off_is_possible(tmp_path: Path) -> None:
    assert late(run(tmp_path / "off", *TIMES, option=", 'scan.watermark.max-ahead' = '0 s'")) == 2
    soon = ("2026-06-28 10:00:00", "2026-07-01 02:00:00", "2026-06-28 11:00:00")
    assert late(run(tmp_path / "a", *soon)) == 1, "two hours ahead are within a day"
    assert late(run(tmp_path / "b", *soon, option=", 'scan.watermark.max-ahead' = '1 h'")) == 0


def test_the_documented_way_back(tmp_path: Path) -> None:
    """A state directory whose watermark is in 2099 starts over with the guard, and the late rows are counted."""
    assert late(run(tmp_path, *TIMES, option=", 'scan.watermark.max-ahead' = '0 s'")) == 2
    for name in ("state", "out", "in"):
        shutil.rmtree(tmp_path / name)
    assert late(run(tmp_path, *TIMES)) == 0
    assert days(tmp_path)["2026-06-28 00:00:00"] == 2


def test_the_option_is_of_tables_that_are_read() -> None:
    with pytest.raises(DiagnosticError) as refused:
        plan_file(SQL.format(option=", 'scan.watermark.max-ahed' = '1 h'", mark="ts"), file="p.sql")
    assert refused.value.diagnostics[0].help == "did you mean 'scan.watermark.max-ahead'?"


def test_the_guard_and_the_timeout_are_no_part_of_the_state(tmp_path: Path) -> None:
    def identities(option: str) -> tuple[set[str], set[str]]:
        physical = plan_file(SQL.format(option=option, mark="ts"), file="p.sql").physical
        return {s.identity for s in physical.sources}, {s.state_id for s in physical.states}

    more = ", 'scan.watermark.max-ahead' = '1 h', 'scan.watermark.idle-timeout' = '5 s'"
    assert identities("") == identities(more)
