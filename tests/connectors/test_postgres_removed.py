"""A table of PostgreSQL that is taken out of a file, and its password with it."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

from sqlstream.cli.main import run_cli
from sqlstream.runtime.loop.committed_sinks import NAME
from tests.connectors.postgres_server import PASSWORD, USER, Database

HEAD = """
CREATE TABLE t (k INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE kept WITH ('connector' = 'duckdb', 'path' = 'o.duckdb') AS SELECT k, COUNT(*) AS n FROM t GROUP BY k;
"""


def said(*arguments: str | Path) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_cli([str(argument) for argument in arguments])
    return code, out.getvalue() + err.getvalue()


@pytest.fixture
def files(tmp_path: Path, database: Database) -> tuple[Path, Path, list[str]]:
    """The file, what it is with the table, and how it is run."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.json").write_text('{"k": 1}\n')
    file, before = tmp_path / "p.sql", tmp_path / "before.sql"
    port = database.server.port
    url = f"postgresql://127.0.0.1:{port}/{database.name}"
    before.write_text(
        f"{HEAD}CREATE TABLE gone WITH ('connector' = 'postgres', 'url' = '{url}', 'username' = '{USER}', "
        f"'password' = '{PASSWORD}') AS SELECT k FROM t;\n"
    )
    file.write_text(before.read_text())
    return file, before, ["--state-dir", str(tmp_path / "state")]


def test_it_is_let_go_where_it_has_all_it_should(
    files: tuple[Path, Path, list[str]], database: Database
) -> None:
    file, _, where = files
    assert said("run", file, *where)[0] == 0
    file.write_text(HEAD)
    (file.parent / "in/2.json").write_text('{"k": 2}\n')
    assert said("plan", file, *where)[0] == 0
    for _ in range(2):
        code, text = said("run", file, *where)
        assert code == 0, text
    assert database.rows("SELECT k FROM gone") == [(1,)]


def test_plan_says_that_it_is_needed_once_more(
    files: tuple[Path, Path, list[str]], database: Database
) -> None:
    """A run that broke off, or one of an older version, does not say whether the table has its last epoch."""
    file, before, where = files
    assert said("run", file, *where)[0] == 0
    (file.parent / "state" / NAME).unlink()
    file.write_text(HEAD)
    for command in ("plan", "run"):
        code, text = said(command, file, *where)
        assert code == 4, (command, text)
        assert "OPT007" in text
        assert "the password of `gone` is needed once more, and this file does not have it" in text
        assert PASSWORD not in text
    file.write_text(before.read_text())
    assert said("run", file, *where)[0] == 0
    file.write_text(HEAD)
    assert said("plan", file, *where)[0] == 0
    code, text = said("run", file, *where)
    assert code == 0, text
    assert database.rows("SELECT k FROM gone") == [(1,)]
