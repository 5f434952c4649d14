"""`--log-format` and `--log-level`: what a run writes to standard error."""

from __future__ import annotations

import io
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sqlstream.cli.log import Log
from sqlstream_planner.catalog.secrets import Secrets
from sqlstream_planner.diagnostics import Diagnostic
from tests.cli.command import Command

ROWS = """
CREATE TABLE t (n BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH (
  'connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE o WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json') AS SELECT n FROM t;
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sqlstream.toml").touch()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"n": 1, "ts": "2026-01-01 10:00:00"}\nno JSON\n')
    (tmp_path / "a.sql").write_text(ROWS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def events(text: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in text.splitlines()]
    for one in found:
        assert list(one)[:6] == ["time", "level", "event", "message", "pipeline", "epoch"]
        datetime.fromisoformat(one["time"])
    return found


def test_a_run_is_logged(project: Path, sqlstream: Command) -> None:
    code, out, err = sqlstream("run", "a.sql", "--log-format", "json")
    assert (code, out) == (0, "")
    epoch, end, warning = (one for one in events(err) if one["event"] != "phase")
    assert (epoch["event"], epoch["level"], epoch["pipeline"], epoch["epoch"]) == ("epoch", "info", "a", 1)
    assert (epoch["rows_read"], epoch["dead_letters"]) == ({"t": 2}, {"malformed": 1})
    assert epoch["message"].startswith("epoch 1  2 rows in ")
    assert (end["event"], end["outcome"], end["epoch"]) == ("end", "exhausted", 1)
    assert (warning["level"], warning["event"], warning["code"]) == ("warning", "diagnostic", "DAT006")
    # Beside the JSON of --json, which is a program's.
    (project / "in" / "b.json").write_text('{"n": 2, "ts": "2026-01-01 10:00:00"}\n')
    code, out, err = sqlstream("run", "a.sql", "--log-format=json", "--json")
    assert [one["event"] for one in map(json.loads, out.splitlines())] == ["epoch", "end"]
    assert [one["event"] for one in events(err) if one["event"] != "phase"] == ["epoch", "end"]


@pytest.mark.parametrize("form", ["json", "text"])
def test_levels(form: str, project: Path, sqlstream: Command) -> None:
    code, out, err = sqlstream("run", "a.sql", "--log-format", form, "--log-level", "warning")
    assert (code, out) == (0, "")
    assert "DAT006" in err
    assert "epoch 1 " not in err
    if form == "json":
        assert [one["level"] for one in events(err)] == ["warning"]
    (project / "in" / "b.json").write_text("no JSON\n")
    assert sqlstream("run", "a.sql", "--log-format", form, "--log-level", "error") == (0, "", "")


def test_errors(project: Path, sqlstream: Command) -> None:
    (project / "a.sql").write_text(
        ROWS.replace("SELECT n FROM t", "SELECT CAST('x' || n AS INT) AS n FROM t")
    )
    code, out, err = sqlstream("run", "a.sql", "--log-format", "json", "--log-level", "error")
    assert (code, out) == (1, "")
    [error] = events(err)
    assert (error["level"], error["event"], error["code"], error["pipeline"]) == (
        "error",
        "diagnostic",
        "DAT001",
        "a",
    )
    (project / "a.sql").write_text("SELEC 1")
    code, out, err = sqlstream("run", "a.sql", "--log-format", "json")
    assert (code, out) == (1, "")
    assert [(one["level"], one["pipeline"]) for one in events(err)] == [("error", None)]


def test_a_bug(project: Path, sqlstream: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise ZeroDivisionError("why")

    monkeypatch.setattr("sqlstream.cli.run.opened", fails)
    code, _, err = sqlstream("run", "a.sql", "--log-format", "json")
    assert code == 70
    assert [(one["event"], "ZeroDivisionError: why" in one["message"]) for one in events(err)] == [
        ("bug", True)
    ]


def test_passwords_are_masked() -> None:
    out = io.StringIO()
    log = Log("p", secrets=Secrets({"t.password": "hunter2"}), stream=out, clock=lambda: 0.25)
    log.write(
        "info",
        "phase",
        "opening s3://key:secret@bucket/a as hunter2",
        places=["p://u:pw@h", {"x": "hunter2"}],
    )
    log.diagnostics([Diagnostic("ENV005", "hunter2 is wrong", notes=("no hunter2",), help="not hunter2")])
    assert "hunter2" not in out.getvalue()
    assert "secret" not in out.getvalue()
    first, second = events(out.getvalue())
    assert first["time"] == "1970-01-01T00:00:00.250Z"
    assert first["message"] == "opening s3://key:***@bucket/a as ***"
    assert first["places"] == ["p://u:***@h", {"x": "***"}]
    assert second["message"] == "*** is wrong"


def test_the_epoch_is_the_last_that_is_committed_from_the_beginning(
    project: Path, sqlstream: Command
) -> None:
    """It was null until the run had committed one of its own."""
    code, _, err = sqlstream("run", "a.sql", "--log-format", "json")
    first = [one["epoch"] for one in events(err) if one["event"] in ("phase", "epoch")]
    assert (code, set(first[:-1]) <= {None}, first[-1]) == (0, True, 1)
    code, _, err = sqlstream("run", "a.sql", "--log-format", "json")
    assert (code, [one["epoch"] for one in events(err)][:1]) == (0, [1])
    (project / "a.sql").write_text(ROWS.replace("'json');\nCREATE TABLE o", "'csv');\nCREATE TABLE o"))
    code, _, err = sqlstream("run", "a.sql", "--log-format", "json")
    assert [(one["event"], one["epoch"]) for one in events(err)] == [("diagnostic", 1)]
