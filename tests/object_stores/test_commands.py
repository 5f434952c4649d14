"""What the command line does with a pipeline that is in an object store: rows, state, savepoints and their copies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlstream.cli.main import run_cli
from sqlstream.planning import plan_file
from sqlstream_operators.state.object_files import ObjectFiles
from tests.object_stores.store_server import StoreServer
from tests.object_stores.stores import KINDS, running
from tests.properties.in_process import run_here


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[StoreServer]:
    yield from running(request)


class Commands:
    """`sqlstream` in this process."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd

    def __call__(self, *arguments: object, code: int | None = 0) -> str:
        self._capfd.readouterr()
        ended = run_cli([str(one) for one in arguments])
        shown = self._capfd.readouterr()
        assert code is None or ended == code, shown
        return shown.out + shown.err


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Commands:
    return Commands(capfd)


def written(folder: Path, server: StoreServer, *, login: bool) -> Path:
    """A pipeline's file, its rows in the store."""
    ObjectFiles(server.uri("all/in")).put(
        "1.json", b'{"k": "a", "v": 1}\n{"k": "b", "v": 2}\n{"k": "a", "v": 3}\n'
    )
    file = folder / "p.sql"
    file.write_text(
        "CREATE TABLE t (k STRING, v INT) WITH ('connector' = 'filesystem', 'format' = 'json', "
        f"'path' = '{server.uri('all/in', login=login)}');\n"
        "CREATE TABLE o (k STRING, n HUGEINT) WITH ('connector' = 'filesystem', 'format' = 'debezium-json', "
        f"'path' = '{server.uri('all/out', login=login)}');\n"
        "INSERT INTO o SELECT k, SUM(v) AS n FROM t GROUP BY k;\n"
    )
    return file


def test_commands(
    server: StoreServer, tmp_path: Path, command: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who logs in is in the environment, as the store's own tools have it."""
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    state = server.uri("all/state", login=False)
    file = written(tmp_path, server, login=False)
    where = ("--state-dir", state)
    run_here(plan_file(file), tmp_path, state_dir=state)
    [status] = [json.loads(line) for line in command("status", state, "--json").splitlines()]
    assert status["epoch"] == 1
    assert command("status", state).splitlines()[1].split()[:2] == ["state", "ended"], (
        "it is called as its folder is"
    )
    query = ("state", "query", file, "SELECT k, n FROM group_aggregate_1 ORDER BY k", "--csv", *where)
    assert command(*query) == "k,n\na,4\nb,2\n"
    command("savepoint", "create", file, "one", *where)
    command("savepoint", "export", file, "one", server.uri("all/copy", login=False), *where)
    new = server.uri("all/new", login=False)
    command("savepoint", "import", file, server.uri("all/copy", login=False), "two", "--state-dir", new)
    assert "savepoint two: epoch 1" in command("savepoint", "show", file, "two", "--state-dir", new)
    command("state", "check", file, *where)
    again = command("savepoint", "export", file, "one", server.uri("all/copy", login=False), *where, code=2)
    assert "is not empty" in again
    ObjectFiles(server.uri("all/in")).put("2.json", b'{"k": "b", "v": 5}\n')
    run_here(plan_file(file), tmp_path, state_dir=state)
    assert command(*query) == "k,n\na,4\nb,7\n"


def test_nobody_is_shown_who_logs_in(server: StoreServer, tmp_path: Path, command: Commands) -> None:
    file = written(tmp_path, server, login=True)
    for arguments in (
        ("explain", file),
        ("status", server.refused("all/state")),
        ("savepoint", "list", file, "--state-dir", server.refused("all/state")),
        ("run", file, "--state-dir", server.uri("x").replace("tests/", "elsewhere/", 1)),
        ("run", file, "--state-dir", server.refused("x")),
    ):
        shown = command(*arguments, code=None)
        assert server.secret not in shown
        assert "Traceback" not in shown
        assert shown.startswith("error[") == (arguments[0] != "explain"), shown
