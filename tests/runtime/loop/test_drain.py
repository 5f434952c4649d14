"""Draining: an epoch that was begun by a run which was not to drain, and a source that can't have more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runtime.support import Crash, World, crash_at, rows_of, tumbling

EVENTS = rows_of((1, "a"), (12, "b"), (25, "a"))


@pytest.mark.parametrize("point", ["planned", "run", "prepared", "published", "committed", "collected"])
def test_an_epoch_that_was_begun_without_draining_is_drained_after_its_replay(
    tmp_path: Path, point: str
) -> None:
    world = World(tmp_path, EVENTS)
    with pytest.raises(Crash):
        world.run(rows=100, drains=False, faults=crash_at(point, 1))
    world.run(rows=100)
    assert world.visible() == tumbling(EVENTS)
    assert world.run(rows=100).outcome == "nothing new"


@pytest.mark.parametrize("point", ["planned", "run", "prepared", "published", "committed", "collected"])
def test_a_drain_that_breaks_off_is_done_by_a_run_that_would_not_drain(tmp_path: Path, point: str) -> None:
    """What an epoch does stands in its plan."""
    world = World(tmp_path, EVENTS)
    with pytest.raises(Crash):
        world.run(rows=100, faults=crash_at(point, 1))
    world.run(rows=100, drains=False)
    assert world.visible() == tumbling(EVENTS)
    assert world.run(rows=100, drains=False).outcome == "nothing new"
