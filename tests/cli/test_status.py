"""`sqlstream status` and `stop`: what they say of runs that live, have ended, failed, or were killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sqlstream.runtime.loop.outputs import Outputs
from sqlstream.state.overview import overview
from sqlstream.storage.run_status import read_status
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from tests.cli.command import Command
from tests.e2e.killing import ROOT

ROWS = """
CREATE TABLE t (n BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH (
  'connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE o WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json') AS SELECT n FROM t;
"""
ENDLESS = """
CREATE TABLE t (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '100');
CREATE TABLE o WITH ('connector' = 'blackhole') AS SELECT n FROM t;
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sqlstream.toml").touch()
    (tmp_path / "in").mkdir()
    lines = ['{"n": 1, "ts": "2026-01-01 10:00:00"}', '{"n": 2, "ts": "2026-01-01 10:07:00"}', "no JSON"]
    (tmp_path / "in" / "a.json").write_text("\n".join(lines))
    (tmp_path / "a.sql").write_text(ROWS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def started(folder: Path, text: str = ENDLESS) -> subprocess.Popen[str]:
    (folder / "b.sql").write_text(text)
    path = os.pathsep.join(str(ROOT / p) for p in (".", "planner", "operators"))
    return subprocess.Popen(
        [sys.executable, "-m", "sqlstream", "run", "b.sql"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.PIPE,
        text=True,
    )


def status(sqlstream: Command, *arguments: str) -> list[dict[str, Any]]:
    code, out, err = sqlstream("status", *arguments, "--json")
    assert (code, err) == (0, ""), err
    return [json.loads(line) for line in out.splitlines()]


def until(folder: Path, state: str) -> None:
    """Wait until the run of b.sql says so."""
    store, deadline = CheckpointStore(str(folder / ".sqlstream" / "b")), time.monotonic() + 60
    while (said := read_status(store)) is None or said.state != state:
        assert time.monotonic() < deadline, said
        time.sleep(0.1)


def test_a_damaged_one_does_not_hide_the_others(project: Path, sqlstream: Command) -> None:
    (project / "b.sql").write_text(ROWS.replace("'out'", "'out_b'"))
    assert [sqlstream("run", f"{name}.sql")[0] for name in "ab"] == [0, 0]
    for manifest in (project / ".sqlstream/a/epochs").iterdir():
        manifest.write_bytes(b"{")
    code, out, err = sqlstream("status")
    assert (code, err) == (4, "")
    _, first, second, problem, *_ = out.splitlines()
    assert (first.split(), second.split()[:3]) == (["a", "damaged"], ["b", "ended", "1"])
    assert problem.startswith("a: error[STA001]: ")
    code, out, err = sqlstream("status", "--json")
    assert (code, err) == (4, "")
    a, b = map(json.loads, out.splitlines())
    assert (a["state"], a["state_rows"], a["problems"][0]["code"]) == ("damaged", None, "STA001")
    assert (b["state"], b["state_rows"]) == ("ended", 0)


def test_a_run_that_has_ended(project: Path, sqlstream: Command) -> None:
    assert sqlstream("status") == (0, "no pipeline of this project was ever run\n", "")
    assert sqlstream("run", "a.sql")[0] == 0
    [found] = status(sqlstream, "a.sql")
    assert (found["pipeline"], found["state"], found["epoch"], found["lag"]) == ("a", "ended", 1, {"t": 0})
    assert (found["rows_read"], found["dead_letters"], found["problems"]) == ({"t": 3}, 1, [])
    assert found["watermarks"] == {"t": 1767262020000000}
    code, out, err = sqlstream("status")
    assert (code, err) == (0, "")
    head, line = out.splitlines()
    assert line.split()[:3] == ["a", "ended", "1"]
    assert head.index("epoch") + len("epoch") == line.index(" 1 ") + 2
    for place in (".sqlstream/a", ".sqlstream", "."):
        assert [one["epoch"] for one in status(sqlstream, place)] == [1]
    assert sqlstream("stop", "a.sql") == (0, "", f"a: no run is working on {project}/.sqlstream/a\n")


def test_a_run_that_has_failed(project: Path, sqlstream: Command) -> None:
    (project / "a.sql").write_text(
        ROWS.replace("SELECT n FROM t", "SELECT CAST('x' || n AS INT) AS n FROM t")
    )
    assert sqlstream("run", "a.sql")[0] == 1
    [found] = status(sqlstream)
    assert (found["state"], found["epoch"]) == ("failed", None)
    assert [problem["code"] for problem in found["problems"]] == ["DAT001"]
    _, out, _ = sqlstream("status")
    assert "a: error[DAT001]: " in out


def test_rows_that_no_epoch_gets_through_wait(
    project: Path, sqlstream: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that stays full: the rows that it holds up are the lag, by which alerts go."""

    def full(*_: object) -> None:
        raise DiagnosticError(Diagnostic("ENV005", "No space left on device"), exit_code=5)

    assert sqlstream("run", "a.sql")[0] == 0
    (project / "in" / "b.json").write_text('{"n": 3, "ts": "2026-01-01 10:08:00"}\n' * 7)
    monkeypatch.setattr(Outputs, "prepare", full)
    code, _, err = sqlstream("run", "a.sql", "--restart-attempts", "1", "--restart-delay", "10 ms")
    assert code == 5, err
    [found] = status(sqlstream, "a.sql")
    assert (found["state"], found["epoch"], found["lag"]) == ("failed", 1, {"t": 7})


def test_the_folder_of_a_sink_is_no_pipeline(project: Path, sqlstream: Command) -> None:
    """It has a folder of the same name as that of the states; seen in a project with its pipelines in a folder."""
    (project / "pipelines").mkdir()
    (project / "pipelines" / "c.sql").write_text(ROWS.replace("'in'", "'../in'"))
    assert sqlstream("run", "pipelines/c.sql")[0] == 0
    assert (project / "pipelines" / "out" / ".sqlstream").is_dir()
    assert [one["pipeline"] for one in status(sqlstream)] == ["c"]


def test_a_place_without_state(project: Path, sqlstream: Command) -> None:
    (project / "empty").mkdir()
    for command in ("status", "stop"):
        for place in ("nowhere", "empty", "a.sql"):
            code, out, err = sqlstream(command, place)
            assert (code, out) == (4, "")
            assert "error[STA033]: there is no state directory at " in err


@pytest.mark.kill
def test_a_run_that_lives_is_seen_and_stopped(project: Path, sqlstream: Command) -> None:
    process = started(project)
    try:
        until(project, "running")
        [found] = status(sqlstream, "b.sql")
        assert (found["state"], found["run"]["pid"]) == ("running", process.pid)
        assert found["epoch"] >= 1
        assert found["rows_per_second"] > 0
        code, out, err = sqlstream("stop", "b.sql", "--timeout", "0 s")
        assert (code, out) == (0, "")
        assert err.startswith(f"b: asked process {process.pid} on ")
        code, _, err = sqlstream("stop", "b.sql")
        assert code == 0
        assert err.endswith("b: stopped\n") or "no run is working" in err
        assert process.wait(30) == 0
    finally:
        process.kill()
    [found] = status(sqlstream, "b.sql")
    assert (found["state"], found["rows_per_second"], found["problems"]) == ("stopped", 0.0, [])
    assert not (project / ".sqlstream" / "b" / "stop.request").exists()


@pytest.mark.kill
def test_a_run_that_was_killed(project: Path, sqlstream: Command) -> None:
    process = started(project)
    until(project, "running")
    process.send_signal(signal.SIGKILL)
    process.wait()
    [found] = status(sqlstream, "b.sql")
    assert (found["state"], found["rows_per_second"]) == ("killed", 0.0)
    _, out, _ = sqlstream("status", "b.sql")
    assert f"b: process {process.pid} on " in out
    assert "gone without a word" in out
    assert sqlstream("stop", "b.sql")[2].endswith("is gone already\n")
    elsewhere = overview(CheckpointStore(str(project / ".sqlstream" / "b")), "b", host="elsewhere")
    assert elsewhere.state == "running", "nobody there knows"


@pytest.mark.kill
def test_a_run_that_does_not_stop_in_time(project: Path, sqlstream: Command) -> None:
    process = started(project)
    try:
        until(project, "running")
        process.send_signal(signal.SIGSTOP)
        code, _, err = sqlstream("stop", "b.sql", "--timeout", "300 ms")
        assert code == 5
        assert "has not ended within 0.3 s" in err
        process.send_signal(signal.SIGCONT)
        assert process.wait(30) == 0
    finally:
        process.kill()


@pytest.mark.kill
def test_a_request_to_stop_is_for_one_run(project: Path, sqlstream: Command) -> None:
    """Should the run have ended meanwhile, the next one does not hear of it."""
    folder = project / ".sqlstream" / "b"
    folder.mkdir(parents=True)
    (folder / "stop.request").write_text("another run")
    process = started(project, ENDLESS.replace("'rows-per-second' = '100'", "'number-of-rows' = '5'"))
    assert process.wait(60) == 0
    [found] = status(sqlstream, "b.sql")
    assert (found["state"], found["rows_read"]) == ("ended", {"t": 5})


@pytest.mark.parametrize("option", [("stop", "a.sql", "--timeout"), ("run", "a.sql", "--restart-delay")])
def test_a_time_has_a_unit(project: Path, sqlstream: Command, option: tuple[str, ...]) -> None:
    """20 were 20 ms."""
    code, _, err = sqlstream(*option, "20")
    assert code == 2
    assert "'20' has no unit; write '20 s' for seconds" in err
    assert sqlstream("run", "a.sql")[0] == 0
    assert sqlstream(*option, "0")[0] == 0
