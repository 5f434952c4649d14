"""A file of the state is damaged while the machine has all of it in its cache: runs go on, and nothing spreads it."""

from __future__ import annotations

import itertools
import re
import shutil
from pathlib import Path

import pytest

from sqlstream.cli.main import run_cli
from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream_planner.diagnostics import DiagnosticError
from tests.faults.commands import pipeline

Captured = pytest.CaptureFixture[str]
SQL = """
CREATE TABLE t (k STRING, v INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'csv');
CREATE TABLE o (k STRING, s BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO o SELECT k, SUM(v) FROM t GROUP BY k;
"""


def run(folder: Path, cache: str = "cache") -> None:
    planned = plan_file(folder / "p.sql")
    run_pipeline(
        RunRequest(
            planned.physical,
            state_dir=folder / "state",
            base_dir=folder,
            local_dir=folder / cache,
            runner=InProcessRunner(1),
            parallelism=2,
            sync=False,
            sql=planned.masked_sql,
        )
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three epochs and a savepoint `one`."""
    pipeline(tmp_path, SQL)
    for number in range(2, 5):
        run(tmp_path)
        (tmp_path / f"in/{number}.csv").write_text(f"k,v\na,{number}\nc,1\n")
    monkeypatch.chdir(tmp_path)
    assert cli("savepoint", "create", "p.sql", "one") == 0
    return tmp_path


def cli(*arguments: str) -> int:
    return run_cli([*arguments, "--state-dir", "state"])


def damage(file: Path, how: str) -> None:
    content = file.read_bytes()
    file.unlink()
    if how == "flipped":
        middle = len(content) // 2
        file.write_bytes(content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :])
    elif how == "short":
        file.write_bytes(content[:-1])


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kind", "how"),
    [
        *itertools.product(
            ["state/*/*/*.delta", "plans/*.json", "plans/*.sql"], ["flipped", "short", "gone"]
        ),
        ("sources/*/000000.json", "flipped"),
        ("sources/*/000000.json", "gone"),
        ("sources/*/000002.json", "gone"),
    ],
)
def test_it_is_told_by_who_looks_and_not_copied(folder: Path, capsys: Captured, kind: str, how: str) -> None:
    assert cli("state", "check", "p.sql") == 0
    assert cli("state", "check", "p.sql", "--at", "one") == 0
    assert "all are what was written" in capsys.readouterr().out
    file = min((folder / "state").glob(kind))
    damage(file, how)
    for at in ((), ("--at", "one")):
        assert cli("state", "check", "p.sql", *at) == 4
        printed = capsys.readouterr().err
        assert re.search(r"error\[STA00[13]\]: ", printed)
        assert file.name in printed
    assert cli("savepoint", "export", "p.sql", "one", "copy") == 4
    printed = capsys.readouterr().err
    assert "error[SAV005]: " in printed
    assert file.name in printed


@pytest.mark.sampled(2)
@pytest.mark.parametrize("how", ["flipped", "short", "gone"])
@pytest.mark.parametrize("kind", ["*.json", "*.sql"])
def test_the_next_run_writes_plans_anew(folder: Path, kind: str, how: str) -> None:
    [file] = (folder / "state/plans").glob(kind)
    good = file.read_bytes()
    damage(file, how)
    run(folder)
    assert file.read_bytes() == good
    assert cli("state", "check", "p.sql") == 0
    assert cli("savepoint", "show", "p.sql", "one") == 0


@pytest.mark.parametrize("how", ["flipped", "short", "gone"])
def test_another_machine_says_which_file(folder: Path, how: str) -> None:
    file = min((folder / "state/state").rglob("*.delta"))
    good = file.read_bytes()
    damage(file, how)
    shutil.copytree(folder / "cache", folder / "kept")
    with pytest.raises(DiagnosticError) as caught:
        run(folder, "elsewhere")
    [diagnostic] = caught.value.diagnostics
    assert (caught.value.exit_code, diagnostic.code) == (4, "STA003")
    assert file.name in diagnostic.message
    run(folder)  # where the cache is, it goes on
    file.unlink(missing_ok=True)
    file.write_bytes(good)
    (folder / "in/9.csv").write_text("z,1\n")
    run(folder, "elsewhere")
