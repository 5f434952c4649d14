"""Temporary folders go with their process, whichever way it ends, and never before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from sqlstream.storage import run_folder, user_folder
from sqlstream.storage.run_folder import RunFolder
from sqlstream_operators.state.checkpoint_store import CheckpointStore

HOLD = """
import sys
from sqlstream.storage.run_folder import RunFolder
folder = RunFolder("held-")
(folder.path / "x").mkdir()
(folder.path / "x/y").write_text("z")
print(folder.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def test_a_folder_is_for_this_user_and_gone_when_it_is_closed() -> None:
    with RunFolder("x-") as folder:
        assert folder.path.name.startswith("x-")
        assert folder.path.stat().st_mode & 0o077 == 0
        (folder.path / "file").touch()
    assert not folder.path.exists()
    folder.close()


def test_the_folder_of_a_killed_process_is_swept_and_that_of_a_living_one_stays() -> None:
    with (
        RunFolder() as own,
        subprocess.Popen(
            [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process,
    ):
        assert process.stdout is not None
        other = Path(process.stdout.readline().strip())
        run_folder.sweep()
        assert (other / "x/y").exists(), "its process is there"
        assert own.path.exists()
        process.send_signal(signal.SIGKILL)
        process.wait()
        run_folder.sweep()
        assert not other.exists()
        assert own.path.exists()


def test_a_folder_whose_process_was_killed_while_it_made_it_is_swept() -> None:
    with RunFolder() as own:
        half = own.path.parent / "half"
        half.mkdir()
        run_folder.sweep()
        assert not half.exists()
        assert own.path.exists()


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place that stands for the system's files in memory."""
    place = tmp_path / "memory"
    place.mkdir()
    monkeypatch.setattr(user_folder, "_SHARED_MEMORY", place)
    monkeypatch.delenv("TMPDIR")
    return place


def test_a_folder_in_memory_is_for_this_user_and_swept(memory: Path) -> None:
    with RunFolder("x-", in_memory=True) as folder:
        assert folder.path.is_relative_to(memory)
        assert folder.path.stat().st_mode & 0o077 == 0
        half = folder.path.parent / "half"
        half.mkdir()
        run_folder.sweep()
        assert folder.path.exists()
        assert not half.exists()
    assert not folder.path.exists()


@pytest.mark.parametrize("why", ["small", "read-only", "missing", "TMPDIR"])
def test_a_folder_is_on_disk_where_memory_has_no_place_for_it(
    why: str, memory: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    match why:
        case "small":
            monkeypatch.setattr(run_folder, "_ROOM_BYTES", 1 << 62)
        case "read-only":
            monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != memory)
        case "missing":
            memory.rmdir()
        case _:
            monkeypatch.setenv("TMPDIR", str(tmp_path))
    with RunFolder("x-", in_memory=True) as folder:
        assert not folder.path.is_relative_to(memory)


def test_nothing_to_sweep() -> None:
    run_folder.sweep()


def test_what_killed_writers_left_in_the_store_is_swept(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "s", sync=False)
    store.put("a/b", b"1")
    (tmp_path / "s/a/.tmp-1").write_bytes(b"half")
    for name, age in (("new", 0), ("old", 7200)):
        file = tmp_path / f"s/.tmp-{name}"
        file.touch()
        os.utime(file, (file.stat().st_atime, file.stat().st_mtime - age))
    store.sweep_temporary()
    left = sorted(str(p.relative_to(tmp_path / "s")) for p in (tmp_path / "s").rglob("*") if p.is_file())
    assert left == [".tmp-new", "a/b"], "a driver that asks who runs may be writing at the top"
