"""The checkpoint store on what is no local folder, and how files get from one store into another."""

from __future__ import annotations

import os
import pickle
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from obstore.store import LocalStore

from sqlstream_operators.state import object_clients
from sqlstream_operators.state.checkpoint_store import CheckpointStore


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of a bucket, which is a folder here; a real server has tests/object_stores."""

    def opened(uri: str) -> LocalStore:
        found = urlsplit(uri)
        assert (found.scheme, found.query) == ("bucket", "region=x")
        return LocalStore(f"{tmp_path}/{found.netloc}{found.path}", mkdir=True)

    monkeypatch.setattr(object_clients, "opened", opened)
    return "bucket://remote/one?region=x"


remote = CheckpointStore


def test_files_of_a_bucket(tmp_path: Path, bucket: str) -> None:
    store = remote(bucket)
    assert not store.is_local
    assert store.list() == []
    local = tmp_path / "local"
    local.write_bytes(b"333")
    store.put("x/y.bin", b"1")
    store.put("x/y.bin", b"22")
    store.put("z", local)
    assert (tmp_path / "remote/one/x/y.bin").read_bytes() == b"22"
    assert (store.get("x/y.bin"), store.get("z")) == (b"22", b"333")
    assert store.list() == ["x/y.bin", "z"]
    assert store.list("x") == ["x/y.bin"]
    assert (store.size("z"), store.size("x"), store.exists("z"), store.exists("nope")) == (
        3,
        None,
        True,
        False,
    )
    with store.open("z") as opened:
        assert opened.read() == b"333"
    again: CheckpointStore = pickle.loads(pickle.dumps(store))
    again.download("x/y.bin", local)  # over what there is
    assert local.read_bytes() == b"22"
    below = store.below("x")
    assert (below.list(), below.get("y.bin")) == (["y.bin"], b"22")
    store.sweep_temporary()
    with pytest.raises(ValueError, match="is not local"):
        store.link("z", tmp_path / "linked")
    for _ in range(2):  # the second time it is there already
        store.move("z", "x/y.bin")
        assert (store.list(), store.get("x/y.bin")) == (["x/y.bin"], b"333")
    for _ in range(2):
        store.delete("x/y.bin")
        assert store.list() == []
    for number in range(3):
        store.put(f"f/{number}", b"1")
    store.delete_all(["f/0", "f/nope", "f/2"])
    assert store.list() == ["f/1"]
    for missing in (store.get, store.open):
        with pytest.raises(FileNotFoundError):
            missing("z")


def test_of_two_that_create_one_name_in_a_bucket_one_does(bucket: str) -> None:
    one, other = remote(bucket), remote(bucket)
    one.put_exclusive("m/1", b"mine")
    with pytest.raises(FileExistsError):
        other.put_exclusive("m/1", b"again")
    assert (other.get("m/1"), other.list()) == (b"mine", ["m/1"])


@pytest.mark.parametrize("source", ["local", "remote"])
@pytest.mark.parametrize("target", ["local", "remote"])
def test_a_file_is_taken_over_by_another_store(tmp_path: Path, bucket: str, source: str, target: str) -> None:
    def store(where: str, name: str) -> CheckpointStore:
        return CheckpointStore(tmp_path / name) if where == "local" else remote(bucket.replace("one", name))

    old, new = store(source, "from"), store(target, "to")
    old.put("a/x", b"one")
    new.put("b/y", b"what was there")
    for _ in range(2):
        new.copy_from(old, "a/x")
        new.copy_from(old, "a/x", "b/y")
        assert (new.list(), new.get("a/x"), new.get("b/y")) == (["a/x", "b/y"], b"one", b"one")
    old.put("a/x", b"two")
    assert new.get("a/x") == b"one"
    old.delete("a/x")
    assert new.get("b/y") == b"one"
    with pytest.raises(FileNotFoundError):
        new.copy_from(old, "a/x")
    assert new.get("a/x") == b"one", "what it had stays where there is nothing to take over"


def test_between_folders_of_a_disk_files_are_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = CheckpointStore(tmp_path / "from"), CheckpointStore(tmp_path / "to")
    old.put("x", b"one")
    new.put("f/y", b"what was there")
    seen: list[bytes] = []
    link = os.link

    def linked(source: Path, target: Path) -> None:
        link(source, target)
        seen.append(new.get("f/y"))

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", linked)
        new.copy_from(old, "x", "f/y")
    assert (seen, new.list()) == ([b"what was there"], ["f/y"]), "it is replaced in one step"
    assert (tmp_path / "to/f/y").samefile(tmp_path / "from/x")

    def refused(source: Path, target: Path) -> None:
        raise OSError(18, "another file system")

    monkeypatch.setattr(os, "link", refused)
    new.copy_from(old, "x", "f/z")
    assert new.get("f/z") == b"one"
    assert not (tmp_path / "to/f/z").samefile(tmp_path / "from/x")


@pytest.mark.parametrize("links", [True, False])
def test_a_local_path_holds_a_file_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    store = CheckpointStore(tmp_path / "store")
    store.put("x", b"one")
    if not links:

        def refused(source: Path, target: Path) -> None:
            raise OSError(18, "another file system")

        monkeypatch.setattr(os, "link", refused)
    store.download("x", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"one"
    store.link("x", tmp_path / "here")
    assert (tmp_path / "here").read_bytes() == b"one"
    assert (tmp_path / "here").is_symlink() is not links
    with pytest.raises(FileNotFoundError):
        store.link("nope", tmp_path / "there")
    assert not (tmp_path / "there").is_symlink()


def test_what_killed_writers_left_is_swept_but_not_what_somebody_writes_at_the_top(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.put("f/kept", b"1")
    left, new, old = (tmp_path / name for name in ("f/.tmp-a", ".tmp-b", ".tmp-c"))
    for path in (left, new, old):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 3700,) * 2)
    os.utime(new, (time.time() - 3500,) * 2)
    assert store.list() == ["f/kept"]
    store.sweep_temporary()
    assert [path.exists() for path in (left, new, old)] == [False, True, False]
    assert store.get("f/kept") == b"1"


def test_an_empty_file_can_be_opened(tmp_path: Path) -> None:
    """A file of no bytes can't be mapped into memory."""
    store = CheckpointStore(tmp_path)
    store.put("x", b"")
    store.put("y", b"1")
    with store.open("x") as empty, store.open("y") as other:
        assert (empty.read(), other.read()) == (b"", b"1")
    with pytest.raises(FileNotFoundError):
        store.open("z")


def test_a_local_folder_may_have_any_name(tmp_path: Path) -> None:
    for root in (tmp_path / "a?b", f"file://{tmp_path}/c"):
        store = CheckpointStore(root)
        store.below("sub/er").put("x", b"one")
        assert store.is_local
        assert store.list() == ["sub/er/x"]
    assert (tmp_path / "a?b/sub/er/x").read_bytes() == b"one"
