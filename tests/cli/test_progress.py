from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sqlstream.cli.progress import (
    TerminalProgress,
    TextLines,
    dead_letter_warning,
    epoch_line,
    lowest_watermark,
)
from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import EpochReport, RunResult
from sqlstream.runtime.loop.restarts import Restart
from sqlstream_planner.diagnostics import Diagnostic

SQL = """
CREATE TABLE t (a INT) WITH ('connector' = 'datagen');
CREATE TABLE files WITH ('connector' = 'filesystem', 'path' = 'out/x', 'format' = 'json') AS SELECT a FROM t;
"""
PLAN = plan_file(SQL, file="p.sql").physical


def report(epoch: int = 1, **dead: int) -> EpochReport:
    return EpochReport(
        epoch=epoch,
        rows_read={"t": 3000},
        rows_written={"files": 3000},
        dead_letters=dead,
        watermarks={"t": 1_704_067_200_000_000},
        lag={"t": 12_000},
        state_rows=10,
        state_bytes=2048,
        seconds={"plan": 0.5, "job": 1.0},
    )


def test_an_epoch_in_one_line() -> None:
    assert epoch_line(report(), {"late": 2}, {"t"}) == (
        "epoch 1  3,000 rows in 1.50 s  2,000 rows/s  watermark 2024-01-01 00:00:00  lag 12,000  "
        "state 10 rows, 2.0 KiB  2 late"
    )


def test_a_source_without_a_watermark_holds_nothing_back() -> None:
    with_two = replace(report(), watermarks={"t": 1_704_067_200_000_000, "changes": None})
    assert "watermark 2024-01-01 00:00:00  lag" in epoch_line(with_two, {}, {"t"})
    assert "watermark none yet" in epoch_line(with_two, {}, {"t", "changes"})
    assert "watermark" not in epoch_line(with_two, {}, ())


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
    assert lines[1].endswith("3 late  4 malformed")
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
    assert dead_letter_warning({"late": 0}, 5, "s") is None
    some = dead_letter_warning({"malformed": 2, "no-time": 1, "late": 0}, 10, "s/")
    assert some is not None
    assert (some.code, some.severity) == ("DAT006", "warning")
    assert (
        some.message == "3 of 10 rows that were read could not be counted (2 malformed, 1 without event time)"
    )
    assert some.notes == ("they are kept in s/dead-letter",)
    whole = dead_letter_warning({"malformed": 1_000}, 1_000, "s")
    assert whole is not None
    assert whole.message.startswith("all 1,000 rows that were read could not be counted")
