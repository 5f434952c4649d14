"""How files of the checkpoint store reach the disk, and locks of caches that are swept while they are taken."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sqlstream_operators.state import cache
from sqlstream_operators.state.checkpoint_store import CheckpointStore


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done to files and folders, in order."""
    done: list[str] = []

    def name(handle: int) -> str:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        return (
            "folder"
            if path.is_dir()
            else f"{'new' if path.name.startswith('.tmp-') else path.name}: {path.read_text()}"
        )

    def spied(what: Callable[..., str], real: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:
            done.append(what(*arguments))
            return real(*arguments)

        return called

    monkeypatch.setattr(os, "fsync", spied(lambda handle: f"sync {name(handle)}", os.fsync))
    monkeypatch.setattr(os, "link", spied(lambda *_: "name it", os.link))
    monkeypatch.setattr(Path, "replace", spied(lambda *_: "name it", Path.replace))
    return done


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, steps: list[str]) -> None:
    store = CheckpointStore(tmp_path)
    store.put("a/x", b"one")
    assert steps == ["sync new: one", "name it", "sync folder"]
    steps.clear()
    store.put_exclusive("a/y", b"two")
    assert steps == ["sync new: two", "name it", "sync folder"]
    steps.clear()
    (tmp_path / "local").write_text("three")
    store.put("a/z", tmp_path / "local")
    assert steps == ["sync new: three", "name it", "sync folder"]
    steps.clear()
    store.move("a/z", "b/z")
    assert steps == ["name it", "sync folder"]


def test_scratch_is_not_synced(tmp_path: Path, steps: list[str]) -> None:
    CheckpointStore(tmp_path, sync=False).put("x", b"one")
    assert steps == ["name it"]


def test_neither_scratch_nor_handles_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, opened = CheckpointStore(tmp_path), _open_files()
    store.put("a/x", b"one")
    store.put_exclusive("a/y", b"two")
    with pytest.raises(FileExistsError):
        store.put_exclusive("a/y", b"three")
    monkeypatch.setattr(Path, "replace", _full)
    with pytest.raises(OSError, match="No space"):
        store.put("a/z", b"four")
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["x", "y"]
    assert _open_files() == opened


def _full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_told_with_the_name_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = CheckpointStore(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _full)
        with pytest.raises(OSError, match="No space") as caught:
            store.put("a/x", b"one")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path / "a/x"))
    with pytest.raises(FileNotFoundError) as missing:
        store.put("a/x", tmp_path / "nope")
    assert Path(missing.value.filename) == tmp_path / "nope", "an error that names a file keeps its name"


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_lock_that_is_swept_while_it_is_taken_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the opening of the file and the lock another task removes the slot: the lock would be on nothing."""
    slot = tmp_path / "slot"
    flock = fcntl.flock
    opened = _open_files()

    def swept(handle: int, how: int) -> None:
        (slot / "lock").unlink()
        slot.rmdir()
        flock(handle, how)

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", swept)
        assert cache._try_lock(slot) is None
    assert _open_files() == opened
    handle = cache._try_lock(slot)
    assert handle is not None
    assert cache._try_lock(slot) is None, "it is taken"
    os.close(handle)


def test_a_link_that_was_made_although_its_answer_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS sends the request again, and the second one finds the name taken: by this writer."""
    store = CheckpointStore(tmp_path, sync=False)
    link = os.link

    def twice(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", twice)
    store.put_exclusive("a/y", b"one")
    assert store.get("a/y") == b"one"
    with pytest.raises(FileExistsError):
        store.put_exclusive("a/y", b"one")  # the same bytes of another writer
    assert store.list() == ["a/y"]
