"""What is kept, what is deleted, and what a user holds on to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sqlstream.storage.garbage import GarbageCollector, files_of, state_files
from sqlstream.storage.journal import Journal
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from tests.runtime.support import Crash, World, crash_at, rows_of

EVENTS = rows_of(*((n, "abc"[n % 3]) for n in range(40)))


def needed(world: World, retained: int) -> set[str]:
    """The state files that the last manifests name."""
    journal = Journal(CheckpointStore(world.state))
    _, epochs = journal.epochs()
    names: set[str] = set()
    for epoch in epochs[-retained:]:
        names |= state_files(journal.manifest(epoch))
    return names


@pytest.mark.parametrize("retained", [1, 3])
def test_only_what_retained_manifests_name_is_kept(tmp_path: Path, retained: int) -> None:
    world = World(tmp_path, EVENTS)
    world.run(max_epochs=8, retained_epochs=retained)
    files = world.files()
    assert sorted(f for f in files if f.endswith("manifest.json")) == [
        f"epochs/{n:06d}.manifest.json" for n in range(9 - retained, 9)
    ]
    assert len([f for f in files if f.endswith("plan.json")]) == retained
    assert {f for f in files if f.startswith("state/")} == needed(world, retained)
    assert len([f for f in files if f.startswith("plans/")]) == 1


def test_what_no_manifest_ever_named_goes_at_the_next_start(tmp_path: Path) -> None:
    world = World(tmp_path, EVENTS)
    world.run(max_epochs=2)
    orphan = world.state / "state" / "w1" / "00000-of-00002" / "00000009-ff.delta"
    orphan.write_bytes(b"x")
    plan = world.state / "plans" / "00.json"
    plan.write_bytes(b"x")
    half = world.state / "epochs" / ".tmp-0123"
    half.write_bytes(b"x")
    world.run(max_epochs=1)
    assert not orphan.exists()
    assert not half.exists()
    assert not plan.exists()
    assert {f for f in world.files() if f.startswith("state/")} == needed(world, 3)


def test_nothing_is_swept_while_an_epoch_is_under_way(tmp_path: Path) -> None:
    """A paused driver may still publish the epoch that was begun, so its files stay until that is decided."""
    world = World(tmp_path, EVENTS)
    with pytest.raises(Crash):
        world.run(faults=crash_at("prepared", 3))
    begun = {f for f in world.files() if "/00000003-" in f}
    assert begun
    with pytest.raises(Crash):
        world.run(faults=crash_at("run", 3))
    assert begun <= world.files()


def test_retention_must_keep_something(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one"):
        GarbageCollector(Journal(CheckpointStore(tmp_path)), retained=0)


def test_the_plan_of_the_next_epoch_is_kept_by_a_sweep(tmp_path: Path) -> None:
    """Another driver may have written it since: without it, what that driver does could not be replayed."""
    world = World(tmp_path, EVENTS)
    with pytest.raises(Crash):
        world.run(faults=crash_at("planned", 3))
    journal = Journal(CheckpointStore(world.state))
    GarbageCollector(journal, retained=1).sweep()
    plans, manifests = journal.epochs()
    assert (plans, manifests) == ([2, 3], [2])


class _FailingStore(CheckpointStore):
    """A store whose deletes fail from the `left`-th on."""

    left = 1 << 60

    def delete(self, name: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(5, "Input/output error")
        super().delete(name)


@pytest.mark.parametrize("left", range(3))
def test_every_manifest_that_is_left_names_files_that_exist(tmp_path: Path, left: int) -> None:
    """Wherever collecting breaks off: a manifest goes before anything that it alone names."""
    world = World(tmp_path, EVENTS)
    world.run(max_epochs=3)
    store = _FailingStore(world.state, sync=False)
    journal = Journal(store)
    before = journal.manifest(3)
    after = replace(before, epoch=4, parent=3, states=())  # all that was kept is needed no longer
    assert len(state_files(before)) > 2
    assert journal.publish(after)
    collector = GarbageCollector(journal, retained=1)
    collector.committed(before)
    store.left = left
    with pytest.raises(OSError, match="Input/output"):
        collector.committed(after)
    store.left = 1 << 60
    for epoch in journal.epochs()[1]:
        named = files_of(journal.manifest(epoch))
        assert all(store.exists(name) for name in named), epoch
