"""`--from` given several times: the states of the savepoints are put together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.cli.main import run_cli
from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest
from tests.properties.in_process import run_here

TABLE = "CREATE TABLE t (k INT, v INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
SINK = "CREATE TABLE {name} ({columns}) WITH ('connector' = 'duckdb', 'path' = '{path}.duckdb');\n"
COUNTS = ("counts", "k INT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED", "SELECT k, COUNT(*) FROM t GROUP BY k")
HIGHEST = (
    "highest",
    "p INT, m INT, PRIMARY KEY (p) NOT ENFORCED",
    "SELECT v % 2, MAX(v) FROM t GROUP BY v % 2",
)


def write(folder: Path, name: str, *sinks: tuple[str, str, str]) -> Path:
    file = folder / f"{name}.sql"
    text = "".join(
        SINK.format(name=sink, columns=columns, path=name) + f"INSERT INTO {sink} {query};\n"
        for sink, columns, query in sinks
    )
    file.write_text(TABLE + text)
    return file


def add(folder: Path, file: str, *numbers: int) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / f"in/{file}.json").write_text("".join(json.dumps({"k": n % 3, "v": n}) + "\n" for n in numbers))


@pytest.fixture
def two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Two pipelines over one folder, each with a savepoint; the second has read less."""
    add(tmp_path, "0", *range(9))
    for name, sink in (("b", HIGHEST), ("a", COUNTS)):
        run_here(plan_file(write(tmp_path, name, sink)), tmp_path, state=f".sqlstream/{name}")
        add(tmp_path, "1", *range(9, 12))
        assert run_cli(["savepoint", "create", str(tmp_path / f"{name}.sql"), "cut"]) == 0
    capsys.readouterr()
    return tmp_path


def test_plan_and_run(two: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    both = write(two, "both", COUNTS, HIGHEST)
    given = ["--from", f"{two}/.sqlstream/a@cut", "--from", f"{two}/.sqlstream/b@cut"]
    assert run_cli(["plan", str(both), *given, "--json"]) == 0
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [(s["verdict"], s["title"]) for s in shown["states"]] == [
        ("KEEP", "groups by k"),
        ("BACKFILL", "groups by v % 2"),
    ]
    assert (shown["exact"], shown["against"]["savepoint"]) == (True, "cut + cut")
    assert shown["against"]["state_dir"] == f"{two}/.sqlstream/a, {two}/.sqlstream/b"
    assert shown["notes"] == [
        f"`t` was read up to another place in `{two}/.sqlstream/b@cut` than in `{two}/.sqlstream/a@cut`: "
        "1 state of what that has of it is left out"
    ]
    # What runs is what the command line would run, but in this process.
    ran: list[Any] = []

    def run(request: RunRequest) -> Any:
        origin = request.origin
        ran.append(origin)
        run_here(plan_file(both), two, state=".sqlstream/both", origin=origin)
        raise KeyboardInterrupt

    monkeypatch.setattr("sqlstream.runtime.api.run_pipeline", run)
    run_cli(["run", str(both), *given])
    assert len(ran) == 1
    with duckdb.connect(str(two / "both.duckdb"), read_only=True) as con:
        assert sorted(con.sql("SELECT k, n FROM counts").fetchall()) == [(0, 4), (1, 4), (2, 4)]
        assert sorted(con.sql("SELECT p, m FROM highest").fetchall()) == [(0, 10), (1, 11)]


def test_one_is_named_twice(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = write(two, "both", COUNTS, HIGHEST)
    given = [f"{two}/.sqlstream/a@cut"] * 2
    for command in ("run", "plan"):
        assert run_cli([command, str(both), "--from", given[0], "--from", given[1]]) == 2
        assert "--from names a savepoint twice" in capsys.readouterr().err


def test_one_of_them_is_not_there(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = write(two, "both", COUNTS, HIGHEST)
    assert (
        run_cli(
            ["plan", str(both), "--from", f"{two}/.sqlstream/a@cut", "--from", f"{two}/.sqlstream/b@other"]
        )
        == 2
    )
    assert "error[SAV001]: there is no savepoint `other`" in capsys.readouterr().err
