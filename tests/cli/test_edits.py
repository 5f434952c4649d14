"""`sqlstream run` on a state directory that another text wrote: exit codes, messages and the line of the user's file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.cli.main import run_cli
from sqlstream.planning import plan_file
from tests.conftest import Sqlstream
from tests.properties.in_process import run_here

TEXT = """CREATE TABLE t (k INT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE counts (k INT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');
CREATE TABLE copies (k INT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');
INSERT INTO counts SELECT k, COUNT(*) FROM t GROUP BY k;
INSERT INTO copies SELECT k, v FROM t;
"""


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """The pipeline, after a run that read all that there is."""
    return ran(tmp_path, TEXT)


def ran(tmp_path: Path, text: str, **options: Any) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.json").write_text("".join(json.dumps({"k": n % 3, "v": n}) + "\n" for n in range(10)))
    file = tmp_path / "p.sql"
    file.write_text(text)
    planned = plan_file(file)
    run_here(planned, tmp_path, sql=planned.masked_sql, **options)
    return file


def run(file: Path, text: str) -> int:
    file.write_text(text)
    return run_cli(["run", str(file), "--state-dir", str(file.parent / "state")])


def test_another_answer_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keys that are forgotten are in the table and not in the state, so that their rows would be there twice."""
    text = TEXT.replace("GROUP BY k;", "GROUP BY k;  SET 'table.exec.state.ttl' = '1 d';")
    text = text.replace(", PRIMARY KEY (k) NOT ENFORCED", "")
    written = ran(tmp_path, text, wall_clock=lambda: 1_000_000.0)
    (tmp_path / "in/1.json").write_text('{"k": 7, "v": 1}\n')
    assert run(written, text) == 0  # today, long after that
    assert run(written, text.replace("COUNT(*) FROM", "MAX(v) FROM")) == 4
    reported = capsys.readouterr().err
    assert "error[STA014]: the table `counts` has the result of another query" in reported
    assert f"--> {written}:5:20" in reported
    assert "5 | INSERT INTO counts SELECT k, MAX(v) FROM t GROUP BY k;" in reported
    assert "= note: its column `n` was count(rows) and is max(v)" in reported
    assert "= note: the state has forgotten keys" in reported
    assert "nothing was changed" in reported
    assert "Something else" not in reported
    assert run(written, text) == 0


@pytest.mark.spark
def test_an_answer_in_the_state_is_brought_to_the_new_one(written: Path, sqlstream_here: Sqlstream) -> None:
    text = TEXT.replace("COUNT(*) FROM", "COUNT(*) * 10 FROM")
    written.write_text(text)
    done = sqlstream_here("run", str(written), "--state-dir", str(written.parent / "state"))
    assert done.returncode == 0, done.stderr
    assert "warning[STA017]: the table `counts` is reconciled with the result of another query" in done.stderr
    assert f"--> {written}:5:20" in done.stderr
    assert "counts: the full result, from the state" in done.stderr
    with duckdb.connect(str(written.parent / "out.duckdb"), read_only=True) as con:
        assert con.execute("FROM counts ORDER BY k").fetchall() == [(0, 40), (1, 30), (2, 30)]


def test_another_place_needs_a_word(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = "'path' = 'out', 'format' = 'json'"
    assert run(written, TEXT.replace(place, "'path' = 'out2', 'format' = 'csv'")) == 3
    reported = capsys.readouterr().err
    assert "error[STA013]: the table `copies` is written to another target than before" in reported
    assert f"--> {written}:4:14" in reported
    assert "--rewrite copies" in reported
    assert "--accept fresh:copies" in reported
    assert not (written.parent / "out2").exists()


def test_another_format_in_the_same_place_is_refused(
    written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(written, TEXT.replace("'path' = 'out', 'format' = 'json'", "'path' = 'out', 'format' = 'csv'"))
        == 4
    )
    reported = capsys.readouterr().err
    assert "error[STA015]: the table `copies` is written in another way than before" in reported
    assert f"--> {written}:4:14" in reported
    assert "= note: format was 'json' and is 'csv'" in reported


def test_another_source_is_refused(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(written.parent / "in", written.parent / "other")
    assert run(written, TEXT.replace("'path' = 'in'", "'path' = 'other'")) == 4
    reported = capsys.readouterr().err
    assert "error[STA011]: the table `t` has other data than before" in reported
    assert "= note: path was 'in' and is 'other'" in reported


def test_rows_from_now_on_are_told_of(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(written, TEXT.replace("SELECT k, v FROM t", "SELECT k, v + 1 FROM t WHERE v > 3")) == 0
    reported = capsys.readouterr().err
    assert "warning[STA016]: the table `copies` gets the rows of another query from now on" in reported
    assert f"--> {written}:6:20" in reported
    assert "rows that it has stay as they are" in reported
    assert "nothing new" in reported


def test_the_same_in_other_words_is_not(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "-- the same\n" + TEXT.replace(
        "SELECT k, COUNT(*) FROM t GROUP BY k", "select q.k, count(*) as c from t q group by 1"
    )
    assert run(written, text) == 0
    assert "STA0" not in capsys.readouterr().err
