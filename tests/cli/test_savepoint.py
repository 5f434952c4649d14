"""`sqlstream savepoint`, on a state directory that a run in this process has left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sqlstream.cli.main import run_cli
from tests.cli.summed import ran


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return ran(tmp_path, "a", "b")


def output_of(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> tuple[str, str]:
    assert run_cli(["savepoint", *map(str, arguments)]) == code
    shown = capsys.readouterr()
    return shown.out, shown.err


def test_create_list_show_delete(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = file.parent / ".sqlstream/p"
    assert output_of(capsys, "create", file, "one") == (f"savepoint one: epoch 1 of {state}\n", "")
    out, _ = output_of(capsys, "list", file)
    assert out.startswith("one  20")
    assert "epoch 1  2 rows of state" in out
    [listed] = [json.loads(line) for line in output_of(capsys, "list", file, "--json")[0].splitlines()]
    assert (listed["name"], listed["epoch"], listed["rows"]) == ("one", 1, 2)
    out, _ = output_of(capsys, "show", file, "one")
    assert "  INSERT INTO o SELECT k, SUM(v) FROM t GROUP BY k;" in out.splitlines()
    assert "  t (filesystem): segments 1, file 1, offset 0; read to the end" in out.splitlines()
    assert "      key k VARCHAR: k" in out.splitlines()
    shown = json.loads(output_of(capsys, "show", file, "one", "--json")[0])
    assert [source["watermark"] for source in shown["sources"]] == ["end"]
    assert [table["name"] for state in shown["states"] for table in state["tables"]] == ["acc"]
    assert output_of(capsys, "delete", file, "one")[0] == "savepoint one is deleted\n"
    assert output_of(capsys, "list", file) == ("", f"no savepoints in {state}\n")


def test_the_file_need_not_be_there_where_the_state_directory_is_given(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = file.parent / ".sqlstream/p"
    file.unlink()
    output_of(capsys, "create", file, "one", "--state-dir", state)
    assert "INSERT INTO o" in output_of(capsys, "show", file, "one", "--state-dir", state)[0]


def test_export_and_import(file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    output_of(capsys, "create", file, "one")
    output_of(capsys, "export", file, "one", tmp_path / "copy")
    out, _ = output_of(capsys, "import", file, tmp_path / "copy", "two", "--state-dir", tmp_path / "new")
    assert out == f"savepoint two is in {tmp_path / 'new'}\n"
    assert (
        "savepoint two: epoch 1" in output_of(capsys, "show", file, "two", "--state-dir", tmp_path / "new")[0]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "{file}", "onw"], "help: did you mean `one`?"),
        (["create", "{file}", "one"], "there is a savepoint `one` already"),
        (["create", "{file}", "a/b"], "a savepoint can't be called `a/b`"),
        (["delete", "{file}", "x"], "note: there is one"),
        (["export", "{file}", "one", "{folder}/in"], "is not empty"),
        (["import", "{file}", "{folder}/in"], "has no savepoint"),
        (["list", "{folder}/q.sql"], "does not exist"),
    ],
)
def test_mistakes(arguments: list[str], message: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output_of(capsys, "create", file, "one")
    given = [a.format(file=file, folder=file.parent) for a in arguments]
    out, err = output_of(capsys, *given, code=2)
    assert out == ""
    assert message in err
    assert "Traceback" not in err
