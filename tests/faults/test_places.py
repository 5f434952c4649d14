"""Places that can't be: URIs of nothing, paths with a zero byte, files where folders should be."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.cli.main import run_cli
from sqlstream_operators.state import object_clients
from tests.faults.commands import COUNTS, pipeline, sqlstream

Captured = pytest.CaptureFixture[str]
COMMANDS = (["run", "p.sql"], ["plan", "p.sql"], ["state", "list", "p.sql"], ["savepoint", "list", "p.sql"])


@pytest.mark.parametrize("place", ["http://x/y", "foo://x", "file://state/x", "a\0b", ""])
@pytest.mark.parametrize("command", COMMANDS)
def test_state_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, command: list[str], place: str
) -> None:
    pipeline(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run_cli([*command, "--state-dir", place]) == 2
    printed = capsys.readouterr().err
    assert "error[PRJ006]: " in printed
    assert "file:///" in printed


@pytest.mark.parametrize("place", ["p.sql", "p.sql/x", "p.sql/x/y", "file://{here}/p.sql", "/dev/null/x"])
@pytest.mark.parametrize(
    "command", [*COMMANDS, ["savepoint", "create", "p.sql", "x"], ["state", "check", "p.sql"]]
)
def test_a_file_is_no_state_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, command: list[str], place: str
) -> None:
    pipeline(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run_cli([*command, "--state-dir", place.format(here=tmp_path)]) == 2
    printed = capsys.readouterr().err
    assert "error[PRJ006]: " in printed
    assert f" {'/dev/null' if 'dev' in place else tmp_path / 'p.sql'} is a file\n" in printed


def test_a_state_directory_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """A run makes it, so it is no mistake; but it may be a typo."""
    pipeline(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run_cli(["plan", "p.sql", "--state-dir", "typo"]) == 0
    assert "no state yet in typo, which is not there: a run makes it\n" in capsys.readouterr().out
    (tmp_path / "typo").mkdir()
    assert run_cli(["plan", "p.sql", "--state-dir", "typo"]) == 0
    assert "no state yet in typo\n" in capsys.readouterr().out


def test_one_that_can_not_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Nobody listens there."""
    pipeline(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(object_clients, "RETRY_S", 0.3)
    place = "s3://key:not-shown@bucket/x?endpoint_override=127.0.0.1:1&scheme=http&region=x"
    for command in COMMANDS:
        assert run_cli([*command, "--state-dir", place]) == 5
        printed = capsys.readouterr().err
        assert "error[ENV005]" in printed
        assert "not-shown" not in printed


@pytest.mark.parametrize("path", ["file://in", "file://in/x.csv", "in\0x"])
@pytest.mark.parametrize("table", ["in", "out"])
def test_paths_of_tables(tmp_path: Path, capsys: Captured, path: str, table: str) -> None:
    sink = "'filesystem', 'path' = 'out', 'format' = 'json')"
    sql = COUNTS.replace("'print')", sink).replace("SUM(v)", "v").replace(" GROUP BY k", "")
    (tmp_path / "p.sql").write_text(sql.replace(f"'path' = '{table}'", f"'path' = '{path}'"))
    assert run_cli(["check", str(tmp_path / "p.sql")]) == 1
    printed = capsys.readouterr().err
    assert "error[OPT003]: `path` can't be '" in printed


def test_where_savepoints_are_copied_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    pipeline(tmp_path)
    assert sqlstream(tmp_path, "run", "p.sql").returncode == 0
    monkeypatch.chdir(tmp_path)
    assert run_cli(["savepoint", "create", "p.sql", "one"]) == 0
    for place, code in {
        "p.sql": "SAV004",
        "p.sql/x": "SAV004",
        "/dev/null": "SAV004",
        "in": "SAV004",
        "": "PRJ006",
        "http://x/y": "PRJ006",
    }.items():
        assert run_cli(["savepoint", "export", "p.sql", "one", place]) == 2
        assert f"error[{code}]: " in capsys.readouterr().err
    assert run_cli(["savepoint", "export", "p.sql", "one", "/proc/x"]) == 5
    printed = capsys.readouterr().err
    assert "error[ENV005]: " in printed
    assert "/proc/x/" in printed
    assert ".sqlstream" not in printed
    for place, code in {"p.sql": "SAV004", "in": "SAV004", "none": "SAV004", "foo://x": "PRJ006"}.items():
        assert run_cli(["savepoint", "import", "p.sql", place, "two"]) == 2
        assert f"error[{code}]: " in capsys.readouterr().err
    for name in ("1", "007"):
        assert run_cli(["savepoint", "create", "p.sql", name]) == 2
        assert "a number names an epoch" in capsys.readouterr().err
