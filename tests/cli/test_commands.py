"""The command line without Spark: messages, exit codes, JSON, help, speed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

import sqlstream
from sqlstream.cli import main
from sqlstream.cli.main import COMMANDS, run_cli
from sqlstream.runtime.loop.stop import Interrupted

ROOT = Path(__file__).parent.parent.parent
PIPELINE = """\
CREATE TABLE t (a INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE out (a INT) WITH ('connector' = 'print');
INSERT INTO out SELECT {expression} FROM t;
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    file = tmp_path / "pipeline.sql"
    file.write_text(PIPELINE.format(expression="{{ var('column', 'a') }}"))
    return file


def test_a_good_pipeline(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["check", str(pipeline)]) == 0
    assert capsys.readouterr().out == f"{pipeline}: ok (1 source, 1 sink, 0 stateful operators)\n"


def test_a_mistake_shows_where_and_what(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipeline.write_text(PIPELINE.format(expression="aa"))
    assert run_cli(["check", str(pipeline)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert f"{pipeline}:4:24" in err
    assert "INSERT INTO out SELECT aa FROM t;" in err
    assert "help: did you mean `a`?" in err
    assert "\x1b" not in err


@pytest.mark.parametrize(
    "arguments", [["check", "--json"], ["explain", "--format", "json"], ["run", "--json"]], ids=lambda a: a[0]
)
def test_mistakes_as_json(pipeline: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    pipeline.write_text(PIPELINE.format(expression="aa, 1"))
    assert run_cli([*arguments, str(pipeline)]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is False
    assert document["diagnostics"][0]["span"] == {"file": str(pipeline), "line": 4, "column": 24, "length": 2}


def test_check_as_json(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["check", str(pipeline), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"ok": True, "file": str(pipeline), "diagnostics": []}


def test_colours(pipeline: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    pipeline.write_text(PIPELINE.format(expression="aa"))
    assert run_cli(["check", str(pipeline)]) == 1
    err = capsys.readouterr().err
    assert "\x1b[1;31merror" in err
    assert f"\x1b[1;31m{' ' * 24}^^\x1b[0m" in err


def test_variables(pipeline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["check", str(pipeline), "--var", "column=a + 1"]) == 0
    assert run_cli(["check", str(pipeline), "--var", "column=b"]) == 1
    assert run_cli(["check", str(pipeline), "--var", "column"]) == 2
    assert "--var column: not NAME=VALUE" in capsys.readouterr().err


def test_usage_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["chek"]) == 2
    assert run_cli(["check"]) == 2
    assert run_cli(["run", "x.sql", "--parallelism", "0"]) == 2
    capsys.readouterr()
    assert run_cli(["check", str(tmp_path / "no.sql")]) == 2
    assert "does not exist" in capsys.readouterr().err
    (tmp_path / "one.sql").write_text("")
    assert run_cli(["check", str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err


@pytest.mark.parametrize("format_", ["text", "json", "mermaid", "duckdb"])
def test_explain_is_stable(pipeline: Path, format_: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["explain", str(pipeline), "--format", format_]) == 0
    first = capsys.readouterr().out
    assert run_cli(["explain", str(pipeline), "--format", format_]) == 0
    assert capsys.readouterr().out == first
    assert first.strip()
    if format_ == "json":
        json.loads(first)


def test_our_own_mistakes(
    pipeline: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("boom")

    monkeypatch.delenv("SQLSTREAM_DEBUG", raising=False)
    monkeypatch.setattr("sqlstream.cli.check.plan", fail)
    assert run_cli(["check", str(pipeline)]) == 70
    err = capsys.readouterr().err
    assert "a bug of ours: ZeroDivisionError: boom" in err
    assert "Traceback" not in err
    monkeypatch.setenv("SQLSTREAM_DEBUG", "1")
    assert run_cli(["check", str(pipeline)]) == 70
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [(PermissionError(13, "Permission denied", "/x"), 1), (OSError(28, "No space left on device"), 5)],
)
def test_what_the_machine_refuses_is_no_bug_of_ours(
    pipeline: Path,
    error: OSError,
    code: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("sqlstream.cli.check.plan", fail)
    assert run_cli(["check", str(pipeline)]) == code
    assert f"{error.strerror}" in capsys.readouterr().err


def test_a_path_from_the_working_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pipelines").mkdir()
    file = tmp_path / "pipelines/p.sql"
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    for path in ("data", "data/*.json"):
        file.write_text(PIPELINE.format(expression="a").replace("'in'", f"'{path}'"))
        assert run_cli(["run", "pipelines/p.sql"]) == 1
        err = capsys.readouterr().err
        assert "error[PRJ005]" in err
        assert f"write 'path' = '../{path}'" in err


def test_an_interrupt(pipeline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sqlstream.cli.check.plan", interrupt)
    assert run_cli(["check", str(pipeline)]) == 130


def test_every_command_has_help_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for command in [[], *([name] for name in COMMANDS), ["golden", "check"], ["golden", "update"]]:
        assert run_cli([*command, "--help"]) == 0
        assert "Example: sqlstream " in " ".join(capsys.readouterr().out.split())


def test_the_list_of_commands_is_complete() -> None:
    folder = Path(main.__file__).parent
    modules = {
        f.stem.replace("_", "-")
        for f in folder.glob("*.py")
        if "click.command(" in f.read_text() or "\n@click.group(" in f.read_text()
    }
    assert modules - {"main"} == set(COMMANDS)
    context = click.Context(main.cli)
    assert main.cli.list_commands(context) == list(COMMANDS)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes(shell: str) -> None:
    page = (Path(__file__).parents[2] / "docs/getting-started.md").read_text(encoding="utf-8")
    assert f"_SQLSTREAM_COMPLETE={shell}_source sqlstream" in page

    def asked(mode: str, words: str) -> str:
        environment = {
            "_SQLSTREAM_COMPLETE": f"{shell}_{mode}",
            "COMP_WORDS": words if shell != "fish" else words.rpartition(" ")[0],
            "COMP_CWORD": words.rpartition(" ")[2] if shell == "fish" else str(words.count(" ")),
        }
        # As installed: the name of the program says which variable is looked at.
        command = [
            sys.executable,
            "-c",
            "import sys; sys.argv = ['sqlstream']; from sqlstream.__main__ import main; main()",
        ]
        done = subprocess.run(
            command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60
        )
        return done.stdout

    assert "sqlstream" in asked("source", "")
    assert {"status", "stop", "state"} <= set(re.findall(r"\w+", asked("complete", "sqlstream st")))
    assert "--metrics" in asked("complete", "sqlstream run --me")


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert sqlstream.__version__ == declared
    assert run_cli(["--version"]) == 0
    assert declared in capsys.readouterr().out


def _python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(ROOT / p) for p in (".", "planner", "operators"))
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True, check=True
    )


def test_check_loads_nothing_heavy(pipeline: Path) -> None:
    code = """
import sys
from sqlstream.cli.main import run_cli
assert run_cli(["check", sys.argv[1]]) == 0
print(sorted({m.partition(".")[0] for m in sys.modules}
             & {"pyspark", "duckdb", "pyarrow", "numpy", "pandas", "rocksdict", "rich"}))
"""
    assert _python(code, str(pipeline)).stdout.splitlines()[-1] == "[]"


def test_help_loads_no_planner() -> None:
    code = """
import sys
from sqlstream.cli.main import run_cli
assert run_cli(["--help"]) == 0
print("sqlglot" in sys.modules, "jinja2" in sys.modules)
"""
    assert _python(code).stdout.splitlines()[-1] == "False False"


def test_check_costs_little_more_than_loading_its_libraries(tmp_path: Path, pipeline: Path) -> None:
    """`check` takes about half a second on a common machine; here as a ratio, whatever the machine does."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(ROOT / p) for p in (".", "planner", "operators")),
        "PYTHONPYCACHEPREFIX": str(tmp_path / "bytecode"),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    commands = {
        "libraries": [sys.executable, "-c", "import click, jinja2, sqlglot"],
        "check": [sys.executable, "-m", "sqlstream", "check", str(pipeline)],
    }
    best = dict.fromkeys(commands, float("inf"))
    for _ in range(3):
        for name, command in commands.items():
            before = os.times()
            subprocess.run(command, env=environment, capture_output=True, check=True)
            after = os.times()
            spent = (
                after.children_user + after.children_system - before.children_user - before.children_system
            )
            best[name] = min(best[name], spent)
    assert best["check"] < 4 * best["libraries"], f"seconds of CPU: {best}"


def test_a_command_that_used_duckdb_ends_without_complaints() -> None:
    """DuckDB's binding writes to standard error of every object that nobody collects."""
    script = (
        "import sys, duckdb\n"
        "from sqlstream_operators.duck.session import DuckSession\n"
        "from sqlstream.cli.main import main\n"
        "duckdb.sql(\"SELECT map{'a': 1}\").fetchall()\n"
        "sys.argv = ['sqlstream', '--version']\n"
        "main()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_mistakes_of_tables_and_of_queries_are_told_together(
    pipeline: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a table's own mistakes leave to be seen of the queries is said, and no more."""
    pipeline.write_text(
        PIPELINE.format(expression="aa").replace("'format' = 'json'", "'formt' = 'json'")
        + "CREATE TABLE more (b INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json', 'x' = '1');\n"
        "INSERT INTO out SELECT b FROM more;\nINSERT INTO more SELECT 1 + 'x' FROM more;\nINSERT INTO nothing SELECT 1 AS c;"
    )
    assert run_cli(["check", "--json", str(pipeline)]) == 1
    reported = json.loads(capsys.readouterr().out)["diagnostics"]
    assert [(d["code"], d["message"].split("`")[1]) for d in reported] == [
        ("OPT002", "formt"),
        ("OPT002", "x"),
        ("SQL010", "aa"),
        ("TYP002", "+(INTEGER, VARCHAR)"),
        ("SQL013", "nothing"),
    ]
    pipeline.write_text(PIPELINE.format(expression="aa").replace("'print'", "'prnt'"))
    assert run_cli(["check", "--json", str(pipeline)]) == 1
    reported = json.loads(capsys.readouterr().out)["diagnostics"]
    assert [d["code"] for d in reported] == ["OPT001", "SQL010"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_second_signal_ends_with_its_own_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    """Whatever click makes of the error on its way."""

    def interrupted(*_: object, **__: object) -> None:
        raise Interrupted(number)

    monkeypatch.setattr("sqlstream.cli.check.load_project", interrupted)
    assert run_cli(["check", __file__]) == 128 + number
    assert "interrupted" in capsys.readouterr().err
