"""Damaged files, changed queries, and two drivers on one directory."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import EpochPlan, Manifest
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import DiagnosticError
from tests.runtime.support import Crash, World, crash_at, manifests, rows_of, tumbling

TIMES = (1, 2, 13, 15, 16, 27, 28, 35, 31, 36, 43, 52, 57, 58, 61, 66, 72, 74)
EVENTS = rows_of(*((ts, "ab"[ts % 2]) for ts in TIMES))


def stopped_after(tmp_path: Path, epochs: int) -> World:
    world = World(tmp_path, list(EVENTS))
    world.run(max_epochs=epochs)
    return world


def refusal(world: World, **options: Any) -> DiagnosticError:
    before = world.files()
    visible = world.visible()
    with pytest.raises(DiagnosticError) as caught:
        world.run(**options)
    assert world.files() == before
    assert world.visible() == visible
    return caught.value


@pytest.mark.parametrize("cut", [0, 10, -1])
def test_a_truncated_last_manifest_stops_the_run(tmp_path: Path, cut: int) -> None:
    world = stopped_after(tmp_path, 2)
    file = world.state / "epochs" / "000002.manifest.json"
    content = file.read_bytes()
    file.write_bytes(content[: cut if cut >= 0 else len(content) // 2])
    error = refusal(world)
    assert (error.exit_code, error.diagnostics[0].code) == (4, "STA001")
    assert "000002.manifest.json" in error.diagnostics[0].message
    file.write_bytes(content)
    world.run()
    assert world.visible() == tumbling(EVENTS)


def test_an_edited_manifest_stops_the_run(tmp_path: Path) -> None:
    world = stopped_after(tmp_path, 2)
    file = world.state / "epochs" / "000002.manifest.json"
    file.write_text(file.read_text().replace('"seen": 27', '"seen": 28'))
    assert "checksum" in refusal(world).diagnostics[0].message


def test_a_damaged_older_manifest_is_not_needed(tmp_path: Path) -> None:
    world = stopped_after(tmp_path, 3)
    (world.state / "epochs" / "000002.manifest.json").write_text("{")
    world.run()
    assert world.visible() == tumbling(EVENTS)


def test_a_truncated_plan_is_given_up_and_its_input_read_by_the_next_epoch(tmp_path: Path) -> None:
    world = World(tmp_path, EVENTS)
    with pytest.raises(Crash):
        world.run(faults=crash_at("prepared", 2))
    plan = world.state / "epochs" / "000002.plan.json"
    plan.write_bytes(plan.read_bytes()[:100])
    world.run(max_epochs=1)
    assert [(n, m["void"]) for n, m in manifests(world.state).items()] == [(1, False), (2, True), (3, False)]
    world.run()
    assert world.visible() == tumbling(EVENTS)
    assert not list((world.folder / "out" / "staged").glob("*"))


def test_a_plan_on_another_parent_is_given_up(tmp_path: Path) -> None:
    """It was made behind an epoch that is not the last one: replayed, it would read again what epoch 2 has read."""
    world = World(tmp_path, EVENTS)
    with pytest.raises(Crash):
        world.run(faults=crash_at("planned", 3))
    journal = Journal(CheckpointStore(world.state))
    first, third = journal.plan(2), journal.plan(3)
    assert first is not None
    assert third is not None
    other = replace(third, parent=first.parent, sources=first.sources)
    (world.state / "epochs/000003.plan.json").write_bytes(other.to_bytes())
    world.run()
    assert manifests(world.state)[max(manifests(world.state))]["epoch"] > 3
    assert [report.epoch for report in world.reports if report.replayed] == []
    assert 3 not in {report.epoch for report in world.reports}, "its number is void"
    assert world.visible() == tumbling(EVENTS)


def test_the_first_epoch_can_be_given_up_too(tmp_path: Path) -> None:
    world = World(tmp_path, EVENTS)
    with pytest.raises(Crash):
        world.run(faults=crash_at("run", 1))
    world.run(shards=3)
    assert manifests(world.state)[max(manifests(world.state))]["parallelism"] == 3
    assert world.visible() == tumbling(EVENTS)


def test_a_damaged_state_file_stops_the_run_with_its_name(tmp_path: Path) -> None:
    world = stopped_after(tmp_path, 2)
    deltas = sorted((world.state / "state").rglob("*.delta"))
    assert deltas
    contents = {file: file.read_bytes() for file in deltas}
    for file in deltas:
        file.write_bytes(contents[file][:-3])
    import shutil

    shutil.rmtree(world.folder / "cache")
    with pytest.raises(DiagnosticError) as caught:
        world.run()
    assert (caught.value.exit_code, caught.value.diagnostics[0].code) == (4, "STA003")
    assert ".delta" in caught.value.diagnostics[0].message
    for file, content in contents.items():
        file.write_bytes(content)
    world.run()
    assert world.visible() == tumbling(EVENTS)


def test_a_lost_local_cache_is_built_again(tmp_path: Path) -> None:
    import shutil

    world = stopped_after(tmp_path, 2)
    shutil.rmtree(world.folder / "cache")
    world.run()
    assert world.visible() == tumbling(EVENTS)


# ------------------------------------------------------------------------------------- changed queries


def test_other_sources_are_refused(tmp_path: Path) -> None:
    world = stopped_after(tmp_path, 2)
    plan = world.plan
    moved = replace(plan, sources=(replace(plan.sources[0], connector="other"),))
    assert [d.code for d in refusal(world, plan=moved).diagnostics] == ["STA011"]


def test_a_changed_option_of_a_table_whose_meaning_is_not_known_is_refused(tmp_path: Path) -> None:
    world = stopped_after(tmp_path, 2)
    plan = world.plan
    written = replace(plan, sinks=(replace(plan.sinks[0], options={"path": "other"}),))
    assert [d.code for d in refusal(world, plan=written).diagnostics] == ["STA015"]
    read = replace(plan, sources=(replace(plan.sources[0], options={"path": "other"}),))
    [reported] = refusal(world, plan=read).diagnostics
    assert (reported.code, reported.notes[0]) == ("STA011", "path was not set and is 'other'")
    world.run()
    assert world.visible() == tumbling(EVENTS)


# ------------------------------------------------------------------------------------------ two drivers


def test_a_second_driver_is_told_who_runs(tmp_path: Path) -> None:
    world = World(tmp_path, EVENTS)
    inside, go_on = threading.Event(), threading.Event()

    def pause(point: str, epoch: int) -> None:
        if (point, epoch) == ("planned", 2):
            inside.set()
            assert go_on.wait(20)

    first = threading.Thread(target=lambda: world.run(faults=pause))
    first.start()
    try:
        assert inside.wait(20)
        with pytest.raises(DiagnosticError) as caught:
            world.run()
    finally:
        go_on.set()
        first.join()
    assert (caught.value.exit_code, caught.value.diagnostics[0].code) == (4, "STA002")
    assert "process" in caught.value.diagnostics[0].message
    assert world.visible() == tumbling(EVENTS)
    assert not (world.state / "run.lock").exists()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("point", ["planned", "run", "prepared"])
@pytest.mark.parametrize("shards", [2, 3])
@pytest.mark.parametrize("epochs", [1, None])
def test_a_driver_that_wakes_up_after_another_took_over_stops(
    tmp_path: Path, point: str, shards: int, epochs: int | None
) -> None:
    """The first driver is paused in epoch 2, without a beat; the second takes over, replaying or giving it up."""
    world = World(tmp_path, EVENTS)

    def take_over(at: str, epoch: int) -> None:
        if (at, epoch) == (point, 2):
            world.run(shards=shards, max_epochs=epochs, lease_beat_s=0.01)

    with pytest.raises(DiagnosticError) as caught:
        world.run(faults=take_over, lease_beat_s=1000)
    assert caught.value.diagnostics[0].code == "STA002"
    world.run(shards=shards)
    assert world.visible() == tumbling(EVENTS)


@pytest.mark.parametrize("point", ["planned", "run", "prepared"])
def test_a_driver_that_wakes_up_first_wins(tmp_path: Path, point: str) -> None:
    """The second driver takes over and is paused itself in the replay; the first publishes, the second stops."""
    world = World(tmp_path, EVENTS)
    caught: list[DiagnosticError] = []
    resumed = threading.Event()

    def second() -> None:
        def wait(at: str, epoch: int) -> None:
            if (at, epoch) == (point if point != "planned" else "run", 2):
                resumed.set()
                first_done.wait(20)

        try:
            world.run(faults=wait, lease_beat_s=0.01)
        except DiagnosticError as error:
            caught.append(error)

    first_done = threading.Event()
    other = threading.Thread(target=second)

    def paused(at: str, epoch: int) -> None:
        if (at, epoch) == (point, 2):
            other.start()
            assert resumed.wait(20)

    world.run(faults=paused, lease_beat_s=1000)
    first_done.set()
    other.join()
    assert [error.diagnostics[0].code for error in caught] == ["STA002"]
    assert world.run().outcome == "nothing new"
    assert world.visible() == tumbling(EVENTS)


@pytest.mark.parametrize("shards", [2, 3])
@pytest.mark.parametrize("epochs", [1, None])
def test_a_driver_that_is_paused_before_it_writes_a_plan_loses_nothing(
    tmp_path: Path, shards: int, epochs: int | None
) -> None:
    """It has looked at its sources; another one takes over, and goes on by one epoch or to the end."""
    world = World(tmp_path, EVENTS)
    create = Journal.create_plan

    def paused(journal: Journal, plan: EpochPlan) -> bool:
        if plan.epoch == 3 and not asleep:
            asleep.append(plan.epoch)
            world.run(shards=shards, max_epochs=epochs, lease_beat_s=0.01)
        return create(journal, plan)

    asleep: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "create_plan", paused)
        with pytest.raises(DiagnosticError) as caught:
            world.run(lease_beat_s=1000)
    assert asleep == [3]
    assert caught.value.diagnostics[0].code == "STA002"
    world.run(shards=shards)
    assert world.visible() == tumbling(EVENTS)


def test_a_driver_that_is_paused_before_it_gives_an_epoch_up_loses_nothing(tmp_path: Path) -> None:
    """The first driver is paused in epoch 2; the second can't replay it, and the first commits before it can say so."""
    world = World(tmp_path, EVENTS)
    publish = Journal.publish
    caught: list[DiagnosticError] = []
    about_to_void, committed = threading.Event(), threading.Event()

    def paused_publish(journal: Journal, manifest: Manifest) -> bool:
        if manifest.void:
            about_to_void.set()
            assert committed.wait(20)
        return publish(journal, manifest)

    def second() -> None:
        try:
            world.run(shards=3, lease_beat_s=0.01)
        except DiagnosticError as error:
            caught.append(error)

    other = threading.Thread(target=second)

    def paused(at: str, epoch: int) -> None:
        if (at, epoch) == ("run", 2):
            other.start()
            assert about_to_void.wait(20)
        if (at, epoch) == ("published", 2):
            committed.set()
            other.join()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "publish", paused_publish)
        world.run(faults=paused, lease_beat_s=1000)
    assert [error.diagnostics[0].code for error in caught] == ["STA002"]
    assert world.run().outcome == "nothing new"
    assert world.visible() == tumbling(EVENTS)
