"""`--from` given twice: click would take the last one, and the states of the first would be missing without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.cli.main import run_cli

TEXT = """CREATE TABLE t (k INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE o WITH ('connector' = 'blackhole') AS SELECT k, COUNT(*) AS n FROM t GROUP BY k;
"""


@pytest.mark.parametrize("command", ["run", "plan"])
def test_several_savepoints_are_refused(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.sql").write_text(TEXT)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.json").write_text('{"k": 1}\n')
    arguments = [command, str(tmp_path / "p.sql"), "--state-dir", str(tmp_path / "new")]
    assert run_cli([*arguments, "--from", "state@one", "--from", "other@two"]) == 2
    told = capsys.readouterr().err
    assert "state@one, other@two" in told
    assert "begins with one savepoint" in told
    assert not (tmp_path / "new").exists()
    # One is looked for, whatever becomes of it.
    assert run_cli([*arguments, "--from", f"{tmp_path}/state@one"]) == 2
    assert "error[SAV001]" in capsys.readouterr().err
