"""An epoch has one plan and one manifest: those that were written first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sqlstream.storage.journal import Journal
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from tests.storage.test_manifest import MANIFEST, PLAN


def test_the_first_plan_of_an_epoch_stays(tmp_path: Path) -> None:
    journal = Journal(CheckpointStore(tmp_path))
    assert journal.create_plan(PLAN)
    assert not journal.create_plan(replace(PLAN, run=replace(PLAN.run, run_id="other")))
    assert journal.plan(PLAN.epoch) == PLAN
    assert journal.create_plan(replace(PLAN, epoch=PLAN.epoch + 1))


def test_the_first_manifest_of_an_epoch_stays(tmp_path: Path) -> None:
    journal = Journal(CheckpointStore(tmp_path))
    assert journal.publish(MANIFEST)
    assert not journal.publish(replace(MANIFEST, run=replace(MANIFEST.run, run_id="other")))
    assert journal.manifest(MANIFEST.epoch) == MANIFEST


def test_what_is_begun_is_the_first_plan_after_the_last_manifest(tmp_path: Path) -> None:
    journal = Journal(CheckpointStore(tmp_path))
    assert (journal.begun(), journal.epochs()) == (None, ([], []))
    for epoch in (1, 2, 10, 11):
        journal.create_plan(replace(PLAN, epoch=epoch))
    assert journal.begun() == 1
    for epoch in (1, 2):
        journal.publish(replace(MANIFEST, epoch=epoch))
    assert (journal.begun(), journal.epochs()) == (10, ([1, 2, 10, 11], [1, 2]))
    journal.publish(replace(MANIFEST, epoch=11))
    assert journal.begun() is None


def test_replays_are_counted_and_forgotten(tmp_path: Path) -> None:
    journal = Journal(CheckpointStore(tmp_path))
    for count in range(3):
        assert journal.replays(4) == count
        journal.note_replay(4)
    assert (journal.replays(4), journal.replays(5)) == (3, 0)
    journal.forget_replays(4)
    assert journal.replays(4) == 0
