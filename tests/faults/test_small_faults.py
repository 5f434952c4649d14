"""Copies that are links, folders that everyone may read, names that are too long, stores out of reach, leftovers."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sqlstream.cli.known_errors import known
from sqlstream.cli.main import run_cli
from sqlstream.storage.savepoint_copies import export_savepoint, import_savepoint
from sqlstream.storage.savepoints import Savepoints
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import DiagnosticError
from tests.faults.commands import COUNTS, ENVIRONMENT, pipeline, sqlstream, started
from tests.runtime.support import World, rows_of


def inodes(folder: Path) -> set[int]:
    return {path.stat().st_ino for path in folder.rglob("*") if path.is_file()}


def exported(world: World, folder: Path) -> tuple[CheckpointStore, CheckpointStore]:
    store = CheckpointStore(world.state, sync=False)
    target = CheckpointStore(folder, sync=False)
    export_savepoint(store, Savepoints(store).create("one"), target)
    return store, target


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, rows_of(*((n * 4, "ab"[n % 2]) for n in range(10))))
    world.run()
    return world


def test_what_leaves_or_enters_a_state_directory_is_a_copy(world: World, tmp_path: Path) -> None:
    _, target = exported(world, tmp_path / "exported")
    assert not inodes(world.state) & inodes(tmp_path / "exported")
    import_savepoint(target, CheckpointStore(tmp_path / "other", sync=False))
    assert not inodes(tmp_path / "other") & inodes(tmp_path / "exported")


def test_an_export_that_was_broken_off_goes_on(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(Exception):
        pass

    folder = tmp_path / "exported"
    put, made = CheckpointStore.put, list[str]()

    def broken(store: CheckpointStore, name: str, content: bytes | Path) -> None:
        if store.uri == str(folder) and len(made) == 2:
            (folder / f"{name}.x").parent.mkdir(parents=True, exist_ok=True)
            (folder / Path(name).parent / ".tmp-left").write_bytes(b"half")
            raise KilledError
        if store.uri == str(folder):
            made.append(name)
        put(store, name, content)

    monkeypatch.setattr(CheckpointStore, "put", broken)
    with pytest.raises(KilledError):
        exported(world, folder)
    monkeypatch.undo()
    store, target = CheckpointStore(world.state, sync=False), CheckpointStore(folder, sync=False)
    export_savepoint(store, Savepoints(store).find("one"), target)
    assert not list(folder.rglob(".tmp-*"))
    assert import_savepoint(target, CheckpointStore(tmp_path / "other", sync=False)).name == "one"
    with pytest.raises(DiagnosticError, match="is not empty"):
        export_savepoint(store, Savepoints(store).find("one"), target)


def test_a_state_directory_is_for_its_user_alone(tmp_path: Path) -> None:
    pipeline(tmp_path)
    there = tmp_path / "there"
    there.mkdir(mode=0o755)
    for name in ("deep/new", "there"):
        assert sqlstream(tmp_path, "run", "p.sql", "--state-dir", name).returncode == 0
    assert stat.S_IMODE((tmp_path / "deep/new").stat().st_mode) == 0o700
    assert stat.S_IMODE(there.stat().st_mode) == 0o755, "whoever made it knows why"


LONG = COUNTS.replace(
    "CREATE TABLE o (k STRING, s BIGINT) WITH ('connector' = 'print');",
    "CREATE TABLE o (k STRING, s BIGINT) PARTITIONED BY (k) WITH ('connector' = 'filesystem', 'path' = 'out', "
    "'format' = 'json');",
).replace("SELECT k, SUM(v) FROM t GROUP BY k", "SELECT k, v FROM t")


@pytest.mark.parametrize(("value", "fits"), [("x" * 253, True), ("x" * 254, False), ("/" * 85, False)])
def test_values_of_partitions_that_are_too_long_for_a_name(tmp_path: Path, value: str, fits: bool) -> None:
    pipeline(tmp_path, LONG, f"k,v\n{value},1\n")
    done = sqlstream(tmp_path, "run", "p.sql")
    assert (done.returncode == 0) == fits, done.stderr
    if not fits:
        assert "a value of the partition column k makes a folder's name of" in done.stderr
        assert "LEFT(k, 60)" in done.stderr
        assert "bug" not in done.stderr


@pytest.mark.parametrize(
    "command", [["state", "list", "p.sql"], ["savepoint", "list", "p.sql"], ["plan", "p.sql"]]
)
def test_an_object_store_that_can_not_be_reached(
    tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """pyarrow says it with an OSError of its own, without a number."""
    pipeline(tmp_path)
    monkeypatch.chdir(tmp_path)
    reason = "When listing objects under key 'x' in bucket 'b': AWS Error NETWORK_CONNECTION during ListObjectsV2 operation"

    def unreachable(*_: object, **__: object) -> None:
        raise OSError(f"{reason}: curlCode: 7, Couldn't connect to server")

    for name in ("list", "get", "exists", "size"):
        monkeypatch.setattr(CheckpointStore, name, unreachable)
    assert run_cli([*command, "--state-dir", str(tmp_path / "state")]) == 5
    reported = capsys.readouterr().err
    assert f"error[ENV005]: a file can't be read or written: {reason}" in reported
    assert "bug" not in reported


def test_an_error_of_the_system_keeps_its_own_words() -> None:
    assert known(OSError(17, "File exists")) is None


KILLED = """
import os, signal, sys
from pathlib import Path
from sqlstream.connectors.filesystem.file_ranges import Workspace
from sqlstream.storage.run_folder import RunFolder
with Workspace() as work:
    work.new_file().write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_driver_leaves_is_swept(tmp_path: Path) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    environment = {**ENVIRONMENT, "TMPDIR": str(scratch)}
    subprocess.run([sys.executable, "-c", KILLED], env=environment, check=False, timeout=60)
    left = [path for path in scratch.rglob("*") if path.is_file() and path.read_bytes() == b"half"]
    assert len(left) == 1
    pipeline(tmp_path)
    done = started(tmp_path, "run", "p.sql", environment=environment)
    assert done.returncode == 0, done.stderr
    assert not left[0].exists()
    [own] = scratch.iterdir()
    assert own.name.startswith("sqlstream-")


def test_a_query_of_the_state_leaves_nothing(tmp_path: Path) -> None:
    pipeline(tmp_path)
    assert sqlstream(tmp_path, "run", "p.sql", "--state-dir", "state").returncode == 0
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    environment = {**ENVIRONMENT, "TMPDIR": str(scratch)}
    done = started(tmp_path, "state", "list", "p.sql", "--state-dir", "state", environment=environment)
    assert done.returncode == 0, done.stderr
    assert not [p for p in scratch.rglob("*") if p.is_file() and p.name not in (".gate", ".alive")]
