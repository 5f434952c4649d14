"""A file that is given the state directory of another one: nothing of that state is dropped for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.cli.main import run_cli
from tests.faults.commands import COUNTS, pipeline, sqlstream

OTHER = """
CREATE TABLE x (z INT) WITH ('connector' = 'filesystem', 'path' = 'in2', 'format' = 'json');
CREATE TABLE y (z INT) WITH ('connector' = 'blackhole');
INSERT INTO y SELECT z FROM x;
"""


def test_a_file_that_has_nothing_to_do_with_a_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline(tmp_path)
    assert sqlstream(tmp_path, "run", "p.sql").returncode == 0
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in2").mkdir()
    (tmp_path / "in2/1.json").write_text('{"z": 1}\n')
    (tmp_path / "other.sql").write_text(OTHER)
    before = {file: file.read_bytes() for file in (tmp_path / ".sqlstream/p").rglob("*") if file.is_file()}
    for command in ("plan", "run"):
        assert run_cli([command, "other.sql", "--state-dir", ".sqlstream/p"]) == 4
        out = capsys.readouterr()
        assert "error[STA011]: the state is of another pipeline" in out.err
        assert "note: it reads t and writes o" in out.err
    assert before == {f: f.read_bytes() for f in (tmp_path / ".sqlstream/p").rglob("*") if f.is_file()}
    # What has a table in common may be an edit.
    (tmp_path / "edited.sql").write_text(COUNTS.replace("TABLE o", "TABLE p").replace("INTO o", "INTO p"))
    run_cli(["plan", "edited.sql", "--state-dir", ".sqlstream/p"])
    assert "another pipeline" not in capsys.readouterr().err
