"""Folders of sinks that lose what is in them, and pipelines that would read what they write."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import DiagnosticError
from tests.faults.commands import pipeline, sqlstream
from tests.properties.in_process import run_here

SQL = """
CREATE TABLE t (k STRING, v INT) WITH ('connector' = 'filesystem', 'path' = '{source}', 'format' = 'csv'{options});
CREATE TABLE o (k STRING, v INT) WITH ('connector' = '{connector}', 'path' = '{sink}'{format});
INSERT INTO o SELECT k, v FROM t;
"""


def sql(source: str = "in", sink: str = "out", connector: str = "filesystem", options: str = "") -> str:
    """A pipeline that copies rows."""
    format_ = ", 'format' = 'json'" if connector == "filesystem" else ""
    return SQL.format(source=source, sink=sink, connector=connector, options=options, format=format_)


def rows(folder: Path) -> list[int]:
    files = (folder / "out").glob("*.json")
    return sorted(json.loads(line)["v"] for file in files for line in file.read_text().splitlines())


def run(folder: Path) -> None:
    run_here(plan_file(sql(), file="p.sql"), folder)


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("lost", ["out", "out/.sqlstream"])
def test_a_folder_that_lost_what_it_had_is_refused(tmp_path: Path, lost: str, empty: bool) -> None:
    """Also if the last epoch wrote nothing, so that none of its files is missing."""
    pipeline(tmp_path, sql())
    run(tmp_path)
    if empty:
        (tmp_path / "in/2.csv").write_text("k,v\n")
        run(tmp_path)
    shutil.copytree(tmp_path / lost, tmp_path / "kept")
    shutil.rmtree(tmp_path / lost)
    (tmp_path / "in/3.csv").write_text("c,4\n")
    for _ in range(2):
        with pytest.raises(DiagnosticError) as caught:
            run(tmp_path)
        [diagnostic] = caught.value.diagnostics
        assert diagnostic.code == "STA030"
        assert "is gone, or its .sqlstream/owner.json" in diagnostic.message
    shutil.rmtree(tmp_path / lost, ignore_errors=True)
    shutil.move(tmp_path / "kept", tmp_path / lost)
    run(tmp_path)
    assert rows(tmp_path) == [1, 2, 3, 4]


def test_files_that_a_reader_took_away_are_not_missed(tmp_path: Path) -> None:
    pipeline(tmp_path, sql())
    run(tmp_path)
    for file in (tmp_path / "out").glob("*.json"):
        file.unlink()
    (tmp_path / "in/2.csv").write_text("c,4\n")
    run(tmp_path)
    assert rows(tmp_path) == [4]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (sql(sink="in"), ()),
        (sql(sink="in/out"), ()),
        (sql(sink="in/../in/a/b"), ()),
        (sql("i*", "in/out"), ()),
        (sql("in/**/*.json", "in/out"), ()),
        (sql("link", "in/out"), ()),
        (sql(sink="in/x.db", connector="duckdb"), ()),
        (sql("in/*.db", "in/x.db", "duckdb"), ()),
        (sql(sink="in/t", connector="delta").replace("'path' = 'in/t'", "'table-path' = 'in/t'"), ()),
        (sql(), ("--state-dir", "in/state")),
        (sql(options=", 'source.path.regex-pattern' = '.*json'", sink="in/out"), ()),
    ],
)
def test_what_a_source_would_read_of_its_own_pipeline(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
    options: tuple[str, ...],
) -> None:
    from sqlstream.cli.main import run_cli

    pipeline(tmp_path, text)
    (tmp_path / "link").symlink_to("in")
    monkeypatch.chdir(tmp_path)
    assert run_cli(["run", "p.sql", *options]) == 1
    printed = capsys.readouterr().err
    assert "error[SQL017]: source `t` would read what the pipeline writes" in printed
    assert "is where the source reads ('" in printed
    assert options or " --> p.sql:3:" in printed
    assert not (tmp_path / ".sqlstream").exists()


@pytest.mark.parametrize(
    "text",
    [
        sql("in", "in/_out"),
        sql("in/*.csv", "in/out"),
        sql("in", "in2"),
        sql("in/1.csv", "in"),
        sql(options=", 'source.path.regex-pattern' = '.*csv'", sink="in/out"),
    ],
)
@pytest.mark.sampled(3)
def test_neighbours_are_no_loop(tmp_path: Path, text: str) -> None:
    pipeline(tmp_path, text)
    for expected in ("done", "nothing new"):
        done = sqlstream(tmp_path, "run", "p.sql")
        assert (done.returncode, expected in done.stderr) == (0, True), done.stderr
