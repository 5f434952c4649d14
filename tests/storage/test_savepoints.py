"""Savepoints: made while a driver runs or not, never collected, copied whole, and independent of what they came from."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from unittest import mock

import pytest

from sqlstream.runtime.edits.savepoints.fork import Origin
from sqlstream.storage.garbage import RETAINED
from sqlstream.storage.journal import Journal
from sqlstream.storage.savepoint_copies import export_savepoint, import_savepoint, the_savepoint_in
from sqlstream.storage.savepoints import Savepoint, Savepoints
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import DiagnosticError
from tests.runtime.support import World, rows_of, tumbling

EVENTS = rows_of(*((n, "abc"[n % 3]) for n in range(60)))


def savepoints_of(world: World) -> Savepoints:
    return Savepoints(CheckpointStore(world.state, sync=False))


def code(raised: pytest.ExceptionInfo[DiagnosticError]) -> str:
    [diagnostic] = raised.value.diagnostics
    return diagnostic.code


def test_it_is_what_was_read_and_nothing_of_what_was_written(tmp_path: Path) -> None:
    world = World(tmp_path, EVENTS)
    world.run(max_epochs=3)
    savepoints = savepoints_of(world)
    made = savepoints.create("one", now=lambda: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    manifest = Journal(CheckpointStore(world.state)).manifest(3)
    assert (made.name, made.created, made.manifest.epoch) == ("one", "2026-01-02T03:04:05+00:00", 3)
    assert (made.manifest.states, made.manifest.sources) == (manifest.states, manifest.sources)
    assert not made.manifest.sinks
    assert savepoints.all() == (made,) == (savepoints.find("one"),)
    assert Savepoint.from_bytes("x", made.to_bytes()) == made
    assert savepoints.create(now=lambda: datetime(2026, 1, 2, tzinfo=UTC)).name == "20260102T000000-epoch-3"


def test_they_are_listed_by_epoch_whatever_the_clock_said(tmp_path: Path) -> None:
    world = World(tmp_path, EVENTS)
    savepoints = savepoints_of(world)
    made = []
    for name, year in (("x", 2030), ("c", 2020), ("b", 2026), ("a", 2010)):
        if name != "b":
            world.run(max_epochs=1)
        made.append(savepoints.create(name, now=partial(datetime, year, 1, 1, tzinfo=UTC)))
    assert [(s.name, s.manifest.epoch) for s in savepoints.all()] == [("x", 1), ("b", 2), ("c", 2), ("a", 3)]
    assert made[0].created > made[1].created


def test_making_one_writes_one_small_file(tmp_path: Path) -> None:
    """Whatever the state has: no file of it is read, copied or linked."""
    world = World(tmp_path, EVENTS)
    world.run(max_epochs=3)
    before = world.files()
    with (
        mock.patch.object(CheckpointStore, "copy_from", side_effect=AssertionError),
        mock.patch.object(CheckpointStore, "open", side_effect=AssertionError),
    ):
        made = savepoints_of(world).create("one")
    assert world.files() - before == {made.file}


def test_what_it_names_is_kept_as_long_as_it_is_there(tmp_path: Path) -> None:
    world = World(tmp_path, EVENTS)
    world.run(max_epochs=2)
    savepoints = savepoints_of(world)
    made = savepoints.create("kept")
    world.run(max_epochs=8, shards=3)  # writes all state anew, and collects as it goes
    assert made.files <= world.files()
    world.run(max_epochs=1, shards=3)  # lists and sweeps
    assert made.files <= world.files()
    savepoints.delete("kept")
    world.run(max_epochs=1, shards=3)
    assert not made.files & world.files() - {f"plans/{made.manifest.plan_digest}.json"}
    assert savepoints.all() == ()


def test_a_running_driver_finds_savepoints_that_are_made_meanwhile(tmp_path: Path) -> None:
    world = World(tmp_path, EVENTS)
    made: list[Savepoint] = []

    def now_and_then(point: str, epoch: int) -> None:
        if point == "committed" and epoch in (3, 5):
            made.append(savepoints_of(world).create(f"at-{epoch}"))

    world.run(faults=now_and_then)
    assert [one.manifest.epoch for one in made] == [3, 5]
    for one in made:
        assert one.files <= world.files()
    assert world.visible() == tumbling(EVENTS)


def test_an_epoch_that_is_collected_meanwhile_is_not_named(tmp_path: Path) -> None:
    """The driver commits many epochs between the look at the last one and the writing of the savepoint."""
    world = World(tmp_path, EVENTS)
    world.run(max_epochs=2)
    put = CheckpointStore.put_exclusive
    overtaken: list[str] = []

    def late(store: CheckpointStore, name: str, content: bytes) -> None:
        if name.startswith("savepoints/") and not overtaken:
            overtaken.append(name)
            world.run(max_epochs=RETAINED + 1)
        put(store, name, content)

    with mock.patch.object(CheckpointStore, "put_exclusive", late):
        made = savepoints_of(world).create("late")
    assert made.manifest.epoch == 2 + RETAINED + 1
    assert made.files <= world.files()
    assert overtaken[0] not in world.files()


def test_nothing_is_collected_while_a_savepoint_can_not_be_read(tmp_path: Path) -> None:
    world = World(tmp_path, EVENTS)
    world.run(max_epochs=2)
    savepoints = savepoints_of(world)
    made = savepoints.create("damaged")
    (world.state / made.file).write_text("{}")
    world.run(max_epochs=8, shards=3)
    assert made.files <= world.files()
    with pytest.raises(DiagnosticError) as raised:
        savepoints.all()
    assert code(raised) == "STA001"
    savepoints.delete("damaged")
    world.run(max_epochs=1, shards=3)
    assert not made.files <= world.files()


@pytest.mark.parametrize("name", ["", "a/b", "a@b", ".x", "-x", "x" * 101, "ä"])
def test_names_that_can_not_be(name: str, tmp_path: Path) -> None:
    with pytest.raises(DiagnosticError) as raised:
        Savepoints(CheckpointStore(tmp_path)).create(name)
    assert code(raised) == "SAV002"


def test_mistakes(tmp_path: Path) -> None:
    world = World(tmp_path, EVENTS)
    savepoints = savepoints_of(world)
    with pytest.raises(DiagnosticError) as raised:
        savepoints.create("one")
    assert code(raised) == "SAV003"
    world.run(max_epochs=1)
    savepoints.create("nightly")
    with pytest.raises(DiagnosticError) as raised:
        savepoints.create("nightly")
    assert code(raised) == "SAV002"
    for call in (savepoints.find, savepoints.delete):
        with pytest.raises(DiagnosticError) as raised:
            call("nihgtly")
        assert code(raised) == "SAV001"
        assert raised.value.diagnostics[0].help == "did you mean `nightly`?"


def test_export_and_import(tmp_path: Path) -> None:
    """A copy is whole: a run starts from it when the directory that it came from is gone."""
    world = World(tmp_path / "a", EVENTS)
    world.run(max_epochs=5)
    store = CheckpointStore(world.state, sync=False)
    made = Savepoints(store).create("one")
    exported = CheckpointStore(tmp_path / "exported", sync=False)
    export_savepoint(store, made, exported)
    assert the_savepoint_in(exported).manifest == made.manifest
    with pytest.raises(DiagnosticError) as raised:
        export_savepoint(store, made, exported)
    assert code(raised) == "SAV004"
    given = world.visible()
    world.state.rename(tmp_path / "gone")

    other = World(tmp_path / "b", EVENTS)
    there = CheckpointStore(other.state, sync=False)
    imported = import_savepoint(exported, there, "two")
    assert (imported.name, imported.manifest) == ("two", made.manifest)
    other.run(origin=Origin(there, imported))
    assert given + other.visible() == tumbling(EVENTS)


@pytest.mark.parametrize("harm", ["missing", "another"])
def test_a_copy_of_a_damaged_savepoint_is_refused(harm: str, tmp_path: Path) -> None:
    world = World(tmp_path / "a", EVENTS)
    world.run(max_epochs=5)
    store = CheckpointStore(world.state, sync=False)
    made = Savepoints(store).create("one")
    file = world.state / min(name for name in made.files if name.startswith("state/"))
    content = file.read_bytes()
    file.unlink()
    if harm == "another":
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    exported = CheckpointStore(tmp_path / "exported", sync=False)
    with pytest.raises(DiagnosticError) as raised:
        export_savepoint(store, made, exported)
    assert code(raised) == "SAV005"
    with pytest.raises(DiagnosticError) as raised:
        the_savepoint_in(exported)
    assert code(raised) == "SAV004"


def test_a_fork_and_its_origin_do_not_know_each_other(tmp_path: Path) -> None:
    world = World(tmp_path / "a", EVENTS)
    world.run(max_epochs=5)
    store = CheckpointStore(world.state, sync=False)
    made = Savepoints(store).create("one")
    given = world.visible()
    forks = [World(tmp_path / name, EVENTS) for name in ("b", "c")]
    for shards, fork in enumerate(forks, 1):
        fork.run(origin=Origin(store, made), max_epochs=2, shards=shards)
    world.run()
    for fork in forks:
        fork.run(origin=Origin(store, made))
        assert given + fork.visible() == tumbling(EVENTS)
    assert world.visible() == tumbling(EVENTS)
    journals = [Journal(CheckpointStore(w.state)) for w in (world, *forks)]
    lineages = {journal.manifest(journal.epochs()[1][-1]).lineage for journal in journals}
    assert len(lineages) == 3


def test_a_state_directory_that_has_a_state_is_not_replaced(tmp_path: Path) -> None:
    world = World(tmp_path / "a", EVENTS)
    world.run(max_epochs=2)
    store = CheckpointStore(world.state, sync=False)
    made = Savepoints(store).create("one")
    other = World(tmp_path / "b", EVENTS)
    other.run(max_epochs=1)
    before = other.files()
    with pytest.raises(DiagnosticError) as raised:
        other.run(origin=Origin(store, made))
    assert (code(raised), raised.value.exit_code) == ("SAV006", 4)
    assert other.files() == before
