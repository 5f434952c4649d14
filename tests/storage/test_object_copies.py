"""Copies of objects that this machine keeps: made once by many, and removed when nobody asks for them."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest

from sqlstream.storage import object_copies
from sqlstream.storage.object_copies import copied, sweep_copies


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the copies of this test are."""
    monkeypatch.setattr(object_copies, "user_directory", lambda: tmp_path)
    return tmp_path / "objects"


def kept(folder: Path) -> list[bytes]:
    """The copies that there are."""
    return sorted(one.read_bytes() for one in folder.iterdir() if one.suffix != ".lock")


def test_many_ask_and_one_downloads(folder: Path, tmp_path: Path) -> None:
    downloads: list[Path] = []

    def download(target: Path) -> None:
        downloads.append(target)
        time.sleep(0.05)
        target.write_bytes(b"content")

    def ask(number: int) -> None:
        copied("s3://b/x 7 1", 7, tmp_path / str(number), download)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(tmp_path / str(number)).read_bytes() for number in range(6)] == [b"content"] * 6
    assert len(downloads) == 1
    (tmp_path / "0").unlink()
    assert kept(folder) == [b"content"]


def test_another_version_is_another_copy(folder: Path, tmp_path: Path) -> None:
    copied("s3://b/x 1 1", 1, tmp_path / "a", lambda target: _written(target, b"1"))
    copied("s3://b/x 1 2", 1, tmp_path / "b", lambda target: _written(target, b"2"))
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "b").read_bytes()) == (b"1", b"2")


def test_a_download_that_fails_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    def fails(target: Path) -> None:
        target.write_bytes(b"half")
        raise ConnectionResetError("away")

    with pytest.raises(ConnectionResetError):
        copied("x", 4, tmp_path / "a", fails)
    assert kept(folder) == []
    copied("x", 4, tmp_path / "a", lambda target: _written(target, b"whole"))
    assert (tmp_path / "a").read_bytes() == b"whole"


def test_those_asked_for_longest_ago_go(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_copies, "_MOST", 1000)
    for number in range(3):
        copied(str(number), 300, tmp_path / str(number), lambda target: _written(target, b"x" * 300))
        _aged(folder, 10)
    copied("0", 300, tmp_path / "again", lambda target: pytest.fail("there is a copy"))
    copied("3", 300, tmp_path / "3", lambda target: _written(target, b"y" * 300))
    assert len(kept(folder)) == 3
    copied("0", 300, tmp_path / "once more", lambda target: pytest.fail("it was asked for just now"))
    copied("1", 300, tmp_path / "1 again", lambda target: _written(target, b"z" * 300))
    assert b"z" * 300 in kept(folder)
    assert all((tmp_path / str(n)).stat().st_size == 300 for n in range(4)), "whoever has one keeps it"
    copied("large", 600, tmp_path / "large", lambda target: _written(target, b"l" * 600))
    assert b"l" * 600 not in kept(folder)


def test_a_disk_that_is_full_of_copies(folder: Path, tmp_path: Path) -> None:
    copied("old", 5, tmp_path / "old", lambda target: _written(target, b"12345"))
    _aged(folder, 10)
    asked: list[Path] = []

    def full(target: Path) -> None:
        asked.append(target)
        if kept(folder)[:1] == [b"12345"]:
            raise OSError(errno.ENOSPC, "No space left on device")
        target.write_bytes(b"new")

    copied("new", 3, tmp_path / "new", full)
    assert (tmp_path / "new").read_bytes() == b"new"
    assert len(asked) == 2
    assert kept(folder) == []


def test_what_nobody_asks_for_is_swept(folder: Path, tmp_path: Path) -> None:
    sweep_copies()
    copied("a", 1, tmp_path / "a", lambda target: _written(target, b"1"))
    (folder / "x.0.half").write_bytes(b"2")
    sweep_copies()
    assert kept(folder) == [b"1", b"2"]
    _aged(folder, 7200)
    sweep_copies()
    assert kept(folder) == [b"1"]
    _aged(folder, 100_000)
    sweep_copies()
    assert list(folder.iterdir()) == []


def _written(target: Path, content: bytes) -> None:
    target.write_bytes(content)


def _aged(folder: Path, seconds: float) -> None:
    for one in folder.iterdir():
        then = one.stat().st_mtime - seconds
        os.utime(one, (then, then))
