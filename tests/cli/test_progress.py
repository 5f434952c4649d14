from __future__ import annotations

import contextlib
import io
import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from sqlstream.cli.figures import epoch_line, lowest_watermark
from sqlstream.cli.live import LiveProgress
from sqlstream.cli.progress import TerminalProgress, TextLines
from sqlstream.planning import plan_file
from sqlstream.runtime.loop.epoch import Epoch
from sqlstream.runtime.loop.epoch_warnings import EpochWarnings, dead_letter_warning
from sqlstream.runtime.loop.progress import EpochReport, RunResult
from sqlstream.runtime.loop.restarts import Restart
from sqlstream.runtime.tasks.job import EpochOutcome, SourceOutcome
from sqlstream.storage.manifest import CommittedPart, EpochPlan, Manifest, RunInfo, SourceState
from sqlstream_operators.plan.watermarks import OUTSIDE, WATERMARK_MIN
from sqlstream_planner.diagnostics import Diagnostic
from tests.e2e.killing import ROOT

SQL = """
CREATE TABLE t (a INT) WITH ('connector' = 'datagen');
CREATE TABLE files WITH ('connector' = 'filesystem', 'path' = 'out/x', 'format' = 'json') AS SELECT a FROM t;
"""
PLAN = plan_file(SQL, file="p.sql").physical


RUN = RunInfo("r", "h", 1, "2024-01-01")


def report(
    epoch: int = 1,
    *,
    read: int = 3000,
    lag: int | None = 12_000,
    watermarks: Mapping[str, int] | None = None,
    ahead: int = 0,
    uncounted: Mapping[str, Mapping[str, int]] | None = None,
    bounded: bool = False,
    **dead: int,
) -> EpochReport:
    marks = watermarks or {"t": 1_704_067_200_000_000}
    facts = Epoch(
        EpochPlan(epoch, None, "l", RUN, "f", 1, ()),
        EpochOutcome({"t": SourceOutcome(read, ahead=ahead)}, {}, {}, uncounted=uncounted or {}),
        Manifest(
            epoch,
            None,
            "l",
            RUN,
            "f",
            "d",
            1,
            1,
            tuple(SourceState(name, "datagen", {}, applied=mark) for name, mark in marks.items()),
            sinks={"files": (CommittedPart(3000, {}),)},
            rows={"t": read},
            dead_letters=dead,
        ),
    )
    return EpochReport(facts, {"t": lag}, 10, 2048, {"plan": 0.5, "job": 1.0}, bounded=bounded)


def test_an_epoch_in_one_line() -> None:
    assert epoch_line(report(late=2), {"t"}, "20 %, 6 s left") == (
        "epoch 1  3,000 rows in 1.50 s  lag 12,000 rows (20 %, 6 s left)  2 late  watermark 2024-01-01 00:00:00  "
        "2,000 rows/s  state 10 rows, 2.0 KiB"
    )


def test_what_matters_most_is_in_the_first_80_columns() -> None:
    """Of a large run, too: the line of a terminal is cut."""
    large = report(123_456, late=20_000, read=12_500_000, lag=100_000_000)
    assert "lag 100,000,000 rows (1 %, 1.2 h left)" in epoch_line(large, {"t"}, "1 %, 1.2 h left")[:79]


def test_the_share_that_is_read_and_the_time_left() -> None:
    out = io.StringIO()
    progress = TextLines("p", PLAN, "state/p", out)
    progress.epoch(report(1, bounded=True))
    progress.epoch(report(2, bounded=True, lag=9_000))
    progress.epoch(report(3))
    progress.epoch(report(4, bounded=True, lag=None))
    lines = out.getvalue().splitlines()
    assert "lag 12,000 rows (20 %, 6 s left)" in lines[0]
    assert "lag 9,000 rows (40 %, 4 s left)" in lines[1]
    assert "lag 12,000 rows  " in lines[2], "a watched source has no end"
    assert "left" not in lines[3]


def test_a_source_without_a_watermark_holds_nothing_back() -> None:
    with_two = report(watermarks={"t": 1_704_067_200_000_000, "changes": WATERMARK_MIN})
    assert "watermark 2024-01-01 00:00:00  2,000 rows/s" in epoch_line(with_two, {"t"})
    assert "watermark none yet" in epoch_line(with_two, {"t", "changes"})
    assert "watermark" not in epoch_line(with_two, ())


def test_a_source_without_rows_holds_the_watermark() -> None:
    assert lowest_watermark([1, None, "end"]) == "none yet"
    assert lowest_watermark(["end", "end"]) == "end"


def test_dead_letters_add_up_and_are_found() -> None:
    out = io.StringIO()
    progress = TextLines("p", PLAN, "state/p", out)
    progress.epoch(report(1, late=2))
    progress.epoch(report(2, late=1, malformed=4))
    progress.finished(
        RunResult("exhausted", 2, 2, {"t": 6000}, {"files": 6000}, {"late": 3, "malformed": 4}, 3.0)
    )
    lines = out.getvalue().splitlines()
    assert "  2 late  2,000 rows/s" in lines[0]
    assert "  1 late  4 malformed  2,000 rows/s" in lines[1], "what this epoch had, not the run"
    assert lines[2:] == [
        "p: done, all input that is there is read, all results are committed",
        "  read   t  6,000 rows",
        "  wrote  files  6,000 rows  to out/x",
        "  epochs 2 in 3.0 s",
        "  dead   3 late, 4 malformed: kept in state/p/dead-letter",
        "  state  state/p",
    ]


def test_the_live_line_makes_way_for_rows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(sys, "stdout", terminal)
    with TerminalProgress("p", PLAN, "state", terminal) as progress:
        progress.phase("starting Spark")
        progress.epoch(report(1))
        sys.stdout.write("a row\n")
        progress.epoch(report(2))
        progress.finished(RunResult("stopped", 2, 2, {"t": 1}, {}, {}, 1.0))
    assert sys.stdout is terminal
    clear = "\r\x1b[K"
    parts = terminal.getvalue().split(clear)
    assert parts[1] == "p: starting Spark"
    assert parts[2].startswith("epoch 1")
    assert parts[3] == "a row\n"
    assert parts[4].startswith("epoch 2")
    assert parts[5].startswith("p: stopped, what was read is committed")


def test_figures_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    clock = iter([0.0, 2.0, 4.0, 40.0])
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "30")
    monkeypatch.setattr(sys, "stdout", terminal)
    with LiveProgress("p", PLAN, "state", terminal, clock=lambda: next(clock)) as progress:
        progress.phase("starting Spark")
        progress.epoch(report(1, malformed=2))
        progress.epoch(report(2, lag=0))
        sys.stdout.write("a row\n")
        progress.epoch(report(3, lag=None))
    screen = Screen()
    for piece, shown in zip(terminal.getvalue().split("\r"), range(9), strict=False):
        screen.write("\r" * bool(shown) + piece)
        if shown == 2:
            assert screen.shown == [
                "p: epoch 1  1,500 rows/s",
                "  read   t  3,000 rows  lag 12,000 rows",
                "  wrote  files  3,000 rows",
                "  state  10 rows, 2.0 KiB",
                "  dead   2 malformed",
            ]
        elif shown == 5:
            assert screen.shown[0] == "a row"
            assert screen.shown[1:3] == ["p: epoch 3  83 rows/s", "  read   t  9,000 rows"]
    assert screen.shown == ["a row"]


def test_a_low_terminal_has_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setenv("LINES", "8")
    with LiveProgress("p", PLAN, "state", terminal) as progress:
        progress.epoch(report(1))
    assert "\n" not in terminal.getvalue()
    assert "epoch 1  3,000 rows in" in terminal.getvalue()


def test_a_run_on_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text(
        "CREATE TABLE t (n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'csv');\n"
        "CREATE TABLE o WITH ('connector' = 'print') AS SELECT n FROM t;\n"
    )
    (tmp_path / "in").mkdir()
    for n in range(2):
        (tmp_path / "in" / f"{n}.csv").write_text(f"{n}\n")
    ours, theirs = pty.openpty()
    path = os.pathsep.join(str(ROOT / p) for p in (".", "planner", "operators"))
    command = [sys.executable, "-m", "sqlstream", "run", "a.sql", "--max-files-per-epoch", "1"]
    environment = {**os.environ, "PYTHONPATH": path, "TERM": "xterm", "LINES": "30", "COLUMNS": "100"}
    running = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=theirs, stderr=theirs)
    os.close(theirs)
    found = b""
    with contextlib.suppress(OSError):  # so a pseudo-terminal ends
        while piece := os.read(ours, 1 << 16):
            found += piece
    os.close(ours)
    assert running.wait(60) == 0, found
    screen = Screen()
    screen.write(found.decode().replace("\r\n", "\n"))
    assert "\x1b[A" in found.decode()
    assert "  read   t  2 rows" in found.decode()
    # Of all that was written over nothing is left.
    assert [line for line in screen.shown if line.startswith(("a: epoch", "  state  0"))] == []
    assert sum(line.startswith("+I") for line in screen.shown) == 2
    assert "a: done, all input that is there is read, all results are committed" in screen.shown


class Screen:
    """What a terminal shows of what is written to it, as far as a run moves its cursor."""

    def __init__(self) -> None:
        self.lines = [""]
        self._row = 0

    @property
    def shown(self) -> list[str]:
        return "\n".join(self.lines).rstrip().split("\n")

    def write(self, text: str) -> None:
        while text:
            if text.startswith("\x1b[K"):
                self.lines[self._row], text = "", text[3:]
            elif text.startswith("\x1b[A"):
                self._row, text = self._row - 1, text[3:]
            elif text[0] == "\n":
                self._row, text = self._row + 1, text[1:]
                self.lines += [""] * (self._row + 1 - len(self.lines))
            elif text[0] == "\r":
                text = text[1:]
            else:
                self.lines[self._row] += text[0]
                text = text[1:]


def test_changes_are_not_called_rows() -> None:
    """Three rows that change seven times each are 21 changes of a table, and 21 rows of none."""
    sql = """
    CREATE TABLE t (a INT) WITH ('connector' = 'datagen');
    CREATE TABLE counts (a INT, n BIGINT, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'duckdb', 'path' = 'x.db');
    CREATE TABLE one (a INT) WITH ('connector' = 'blackhole');
    INSERT INTO counts SELECT a, COUNT(*) FROM t GROUP BY a;
    INSERT INTO one SELECT a FROM t;
    """
    out = io.StringIO()
    progress = TextLines("p", plan_file(sql, file="p.sql").physical, "state/p", out)
    progress.finished(RunResult("exhausted", 2, 2, {"t": 1}, {"counts": 21, "one": 1}, {}, 3.0))
    lines = out.getvalue().splitlines()
    assert lines[1:4] == [
        "  read   t  1 row",
        "  wrote  counts  21 changes  to x.db",
        "         one          1 row  to blackhole",
    ]


def test_a_run_that_was_stopped_with_spark_says_which_epoch_is_done_again() -> None:
    out = io.StringIO()
    progress = TextLines("p", PLAN, "state/p", out)
    progress.finished(RunResult("stopped", 2, 2, {"t": 1}, {"files": 1}, {}, 3.0, unfinished=3))
    first = out.getvalue().splitlines()[0]
    assert first == "p: stopped in epoch 3, which the next run does again; all before it is committed"


def test_a_restart_says_what_failed_and_when_it_goes_on() -> None:
    out = io.StringIO()
    failed = (Diagnostic("ENV006", "table t in postgresql://db can't be written: refused"),)
    progress = TextLines("p", PLAN, "state/p", out)
    progress.restart(Restart(failed, 2, None, 1.5))
    progress.restart(Restart(failed, 3, 5, 60.0))
    assert out.getvalue().splitlines() == [
        "p: table t in postgresql://db can't be written: refused [ENV006]",
        "p: trying again in 1.5 s (attempt 2)",
        "p: table t in postgresql://db can't be written: refused [ENV006]",
        "p: trying again in 60 s (attempt 3 of 5)",
    ]


def test_dead_letters_are_warned_of() -> None:
    assert dead_letter_warning({"late": 0}, 5, "s", {}) is None
    some = dead_letter_warning({"malformed": 2, "no-time": 1, "late": 0}, 10, "s/", {"t": {"op": 1}})
    assert some is not None
    assert (some.code, some.severity) == ("DAT006", "warning")
    assert (
        some.message == "3 of 10 rows that were read could not be counted (2 malformed, 1 without event time)"
    )
    assert some.notes == ("they are kept in s/dead-letter",)
    whole = dead_letter_warning({"malformed": 1_000}, 1_000, "s", {})
    assert whole is not None
    assert whole.message.startswith("all 1,000 rows that were read could not be counted")
    only = dead_letter_warning({"malformed": 1}, 1, "s", {})
    assert only is not None
    assert only.message == "the only row that was read could not be counted (1 malformed)"


def test_a_row_that_is_late_for_two_operators_is_one_row() -> None:
    found = dead_letter_warning({"late": 4}, 3, "s", {"t": {"by_a": 2, "by_b": 2}})
    assert found is not None
    assert found.message == "at least 2 of 3 rows that were read could not be counted (4 late)"
    assert found.notes[0] == "a row is a dead letter for each operator that can't count it: 4 in all"


TIMED = plan_file(
    """
    CREATE TABLE t (a INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
    CREATE TABLE files WITH ('connector' = 'filesystem', 'path' = 'out/x', 'format' = 'json') AS
    SELECT a, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY a, window_start;
    """,
    file="p.sql",
).physical


def test_rows_that_are_ahead_of_the_clock_are_told_once() -> None:
    reported: list[Diagnostic] = []
    warnings = EpochWarnings(TIMED, reported.append)
    warnings.epoch(report(1, ahead=1))
    warnings.epoch(report(2, ahead=5))
    assert [d.code for d in reported] == ["DAT010"]
    assert reported[0].message == "1 row of `t` is more than 1 day ahead of the clock"


def test_rows_that_come_to_no_operator_are_counted_beside_those_of_operators() -> None:
    found = dead_letter_warning({"no-time": 5}, 9, "state", {"t": {OUTSIDE: 2, "window": 3}})
    assert found is not None
    assert found.message == "5 of 9 rows that were read could not be counted (5 without event time)"
    reported: list[Diagnostic] = []
    EpochWarnings(TIMED, reported.append).epoch(report(1, uncounted={"t": {OUTSIDE: 3_000}}))
    assert reported == [], "they are not late"


def test_an_epoch_whose_rows_are_mostly_late_is_told_at_once() -> None:
    reported: list[Diagnostic] = []
    warnings = EpochWarnings(TIMED, reported.append)
    warnings.epoch(report(1, uncounted={"t": {"window": 1_500}}))
    assert reported == [], "half of them"
    warnings.epoch(report(2, uncounted={"t": {"window": 1_501, "other": 20}}))
    warnings.epoch(report(3, uncounted={"t": {"window": 3_000}}))
    assert [d.code for d in reported] == ["DAT013"]
    one = EpochWarnings(TIMED, reported.append)
    for epoch in range(3):
        one.epoch(report(epoch, uncounted={"t": {"window": 1}}, read=1))
    assert [d.code for d in reported] == ["DAT013"] * 2, "epochs of one row each"
    assert reported[0].message == "most rows of `t` are late: 1,501 of 3,000 rows in epoch 2"
    assert "its watermark is 2024-01-01 00:00:00" in reported[0].notes[0]


def test_an_operator_that_reads_a_table_twice_has_no_more_late_rows_than_were_read() -> None:
    reported: list[Diagnostic] = []
    EpochWarnings(TIMED, reported.append).epoch(report(2, uncounted={"t": {"interval_join_1": 6_000}}))
    assert reported[0].message == "most rows of `t` are late: 3,000 of 3,000 rows in epoch 2"
