"""The caches of state on this machine: made for this user only, and not for ever."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sqlstream.storage import local_cache
from sqlstream_planner.diagnostics import DiagnosticError
from tests.runtime.support import World, rows_of


def test_one_folder_a_state_directory() -> None:
    one, two = local_cache.default_directory("/a"), local_cache.default_directory("/b")
    assert one != two
    assert one == local_cache.default_directory("/a")
    assert one.parent == two.parent


def test_slots_of_other_shards_and_states_are_removed(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    local_cache.prepare(cache, "/s", ["w1"], 2)
    assert cache.stat().st_mode & 0o077 == 0
    for name in (
        "w1-00001-of-00002",
        "w1-00001-of-00003",
        "w9-00001-of-00002",
        "w1-00001-of-00002.scratch-00ff",
        "letters-x1",
        "rescale-00001-x",
        "spill",
        "other",
    ):
        (cache / name).mkdir()
    local_cache.prepare(cache, "/s", ["w1"], 2)
    assert {p.name for p in cache.iterdir() if p.is_dir()} == {
        "w1-00001-of-00002",
        "w1-00001-of-00002.scratch-00ff",
        "other",
    }


def test_caches_of_directories_that_are_gone_or_unused_are_removed(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    caches = {name: tmp_path / "caches" / name for name in ("mine", "used", "gone", "old", "remote")}
    for name, cache in caches.items():
        uri = {"gone": str(tmp_path / "nowhere"), "remote": "s3://bucket/x"}.get(name, str(state))
        local_cache.prepare(cache, uri, [], 1)
    os.utime(caches["old"] / "state-dir", (0, 0))
    local_cache.remove_unused(tmp_path / "caches", caches["mine"])
    assert {p.name for p in (tmp_path / "caches").iterdir()} == {"mine", "used", "remote"}


def test_a_rescale_leaves_one_cache_a_shard(tmp_path: Path) -> None:
    world = World(tmp_path, rows_of(*((n, "abc"[n % 3]) for n in range(30))))
    for shards in (2, 3, 1):
        world.run(shards=shards, max_epochs=2)
    slots = [p.name for p in (tmp_path / "cache").iterdir() if p.is_dir()]
    assert slots == ["w1-00000-of-00001"]


def test_the_folder_and_those_made_above_it_are_for_this_user_alone(tmp_path: Path) -> None:
    cache = tmp_path / "sqlstream-1" / "cache"
    local_cache.prepare(cache, "/s", [], 1)
    assert [p.stat().st_mode & 0o777 for p in (cache.parent, cache)] == [0o700, 0o700]
    cache.chmod(0o755)
    local_cache.prepare(cache, "/s", [], 1)
    assert cache.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("linked", ["sqlstream-1", "sqlstream-1/cache"])
def test_a_link_that_somebody_laid_is_not_followed(tmp_path: Path, linked: str) -> None:
    """In a folder that everybody can write, as the temporary folder is."""
    shared, elsewhere = tmp_path / "tmp", tmp_path / "elsewhere"
    (elsewhere / "cache").mkdir(parents=True)
    shared.mkdir()
    shared.chmod(0o1777)
    link = shared / linked
    link.parent.mkdir(exist_ok=True, parents=True)
    link.symlink_to(elsewhere if linked == "sqlstream-1" else elsewhere / "cache")
    with pytest.raises(PermissionError, match="symbolic link"):
        local_cache.prepare(shared / "sqlstream-1" / "cache", "/s", [], 1)
    assert not list((elsewhere / "cache").iterdir())


def test_a_folder_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "sqlstream-1").mkdir()
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    with pytest.raises(PermissionError, match=f"belongs to user {me}"):
        local_cache.prepare(shared / "sqlstream-1" / "cache", "/s", [], 1)


def test_a_run_says_so_in_words(tmp_path: Path) -> None:
    world = World(tmp_path, rows_of((1, "a")))
    (tmp_path / "other").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "other")
    with pytest.raises(DiagnosticError) as caught:
        world.run()
    assert caught.value.diagnostics[0].code == "ENV005"
    assert "symbolic link" in caught.value.diagnostics[0].message
