"""The epoch loop without Spark: progress, the end of input, restarts, and a crash after every step."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.runtime.loop.stop import StopFlag
from sqlstream_operators.plan.watermarks import WATERMARK_MAX
from tests.runtime.support import Crash, World, crash_at, manifests, rows_of, tumbling

EVENTS = rows_of(
    (1, "a"), (2, "b"), (3, "a"), (11, "a"), (12, "b"), (25, "a"), (26, "a"), (31, "b"), (47, "c"), (48, "c")
)


def test_bounded_input_closes_all_windows_in_its_last_epoch(tmp_path: Path) -> None:
    world = World(tmp_path, EVENTS)
    result = world.run()
    assert result.outcome == "exhausted"
    assert (result.epochs, result.last_epoch) == (4, 4)
    assert result.rows_read == {"bid": 10}
    assert world.visible() == tumbling(EVENTS)
    assert world.reports[-1].state_rows == 0
    assert world.reports[-1].watermarks == {"bid": "end"}
    assert world.dead_letters() == []


def test_nothing_new_runs_no_epoch(tmp_path: Path) -> None:
    world = World(tmp_path, EVENTS)
    world.run()
    before = world.files()
    result = world.run()
    assert (result.outcome, result.epochs, result.last_epoch) == ("nothing new", 0, 4)
    assert world.files() == before
    assert world.visible() == tumbling(EVENTS)


def test_no_input_at_all(tmp_path: Path) -> None:
    world = World(tmp_path, [])
    result = world.run()
    assert (result.outcome, result.epochs, result.last_epoch) == ("nothing new", 0, None)


def test_a_later_run_counts_new_windows_and_keeps_rows_of_closed_ones(tmp_path: Path) -> None:
    world = World(tmp_path, list(EVENTS))
    world.run()
    more = rows_of((45, "late"), (49, "late"), (50, "new"), (61, "new"))
    world.rows.extend(more)
    result = world.run()
    assert result.outcome == "exhausted"
    assert result.dead_letters == {"late": 2}
    assert world.visible() == tumbling(EVENTS) + tumbling(more[2:])
    letters = world.dead_letters()
    assert [letter["kind"] for letter in letters] == ["late", "late"]
    assert letters[0]["window_end"].endswith("00.00005")
    # Everything is closed again, and the resume watermark has moved on.
    source = max(manifests(world.state).items())[1]["sources"][0]
    assert source["applied"] == WATERMARK_MAX
    assert source["resume"] == 70 - 1


def test_rows_that_are_late_within_a_run_are_kept_and_counted(tmp_path: Path) -> None:
    events = rows_of((1, "a"), (25, "a"), (26, "a"), (3, "late"), (27, "a"), (40, "a"))
    world = World(tmp_path, events)
    result = world.run()
    assert result.dead_letters == {"late": 1}
    assert world.visible() == tumbling([e for e in events if e.k != "late"])
    (letter,) = world.dead_letters()
    assert (letter["source"], letter["row"]) == ("bid", {"n": 3})


def test_exhaustion_that_shows_only_afterwards_gives_a_flush_epoch(tmp_path: Path) -> None:
    world = World(tmp_path, list(EVENTS[:6]))
    world.the_source.bounded = False
    world.run(max_epochs=2)
    world.the_source.bounded = True
    result = world.run()
    assert (result.outcome, result.epochs, result.rows_read) == ("exhausted", 1, {"bid": 0})
    assert world.visible() == tumbling(EVENTS[:6])


def test_windows_close_in_the_epoch_that_reads_past_them_and_no_empty_one_runs(tmp_path: Path) -> None:
    stop = StopFlag()
    world = World(tmp_path, rows_of((1, "a"), (2, "a"), (25, "a")), bounded=False)
    ends: list[int] = []

    class Source(type(world.the_source)):  # type: ignore[misc]
        def plan(self, position, limits):  # type: ignore[no-untyped-def]
            if self.plans == 6:
                stop.request()
            return super().plan(position, limits)

    world.the_source = Source(world.rows, bounded=False)
    result = world.run(stop=stop, rows=10)
    ends.extend(report.state_rows for report in world.reports)
    assert result.outcome == "stopped"
    assert result.epochs == 1  # The watermark 25 closes [0, 10). Nothing can close [20, 30).
    assert world.visible() == tumbling(world.rows[:2])
    # It goes on where it stopped.
    world.rows.extend(rows_of((26, "a"), (41, "a")))
    world.the_source = Source(world.rows, bounded=True)
    world.the_source.plans = 100
    assert world.run().outcome == "exhausted"
    assert world.visible() == tumbling(world.rows)


POINTS = ["planned", "run", "prepared", "published", "committed", "collected"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("epoch", [1, 2, 4])
def test_a_crash_after_any_step_changes_nothing(tmp_path: Path, point: str, epoch: int) -> None:
    events = rows_of(*((ts, "ab"[ts % 2]) for ts in (1, 2, 15, 16, 3, 27, 29, 31, 33, 48)))
    whole = World(tmp_path / "whole", events)
    whole.run()
    broken = World(tmp_path / "broken", events)
    with pytest.raises(Crash):
        broken.run(faults=crash_at(point, epoch))
    result = broken.run()
    assert result.outcome in ("exhausted", "nothing new")
    assert broken.visible() == whole.visible()
    assert broken.dead_letters() == whole.dead_letters()
    assert broken.files() == whole.files()
    assert not list((broken.folder / "out" / "staged").glob("*"))
    if point in ("planned", "run", "prepared"):
        assert [report.epoch for report in broken.reports if report.replayed] == [epoch]


@pytest.mark.parametrize("point", ["planned", "run", "prepared"])
def test_a_begun_epoch_that_can_not_be_replayed_is_given_up(tmp_path: Path, point: str) -> None:
    """After a crash the run goes on with other shards: the epoch's number is void, its input read by the
    next.
    """
    events = rows_of(*((ts, "ab"[ts % 2]) for ts in (1, 2, 15, 16, 3, 27, 29, 31, 33, 48)))
    whole = World(tmp_path / "whole", events)
    whole.run()
    broken = World(tmp_path / "broken", events)
    with pytest.raises(Crash):
        broken.run(faults=crash_at(point, 2))
    with pytest.raises(Crash):
        broken.run(shards=3, faults=crash_at("voided", 2))
    assert manifests(broken.state)[2]["void"]
    broken.run(shards=3)
    assert broken.visible() == whole.visible()
    assert [{**x, "epoch": 0} for x in broken.dead_letters()] == [
        {**x, "epoch": 0} for x in whole.dead_letters()
    ]
    assert not list((broken.folder / "out" / "staged").glob("*"))


def test_the_number_of_shards_stays_unless_it_is_asked_for(tmp_path: Path) -> None:
    world = World(tmp_path, EVENTS)
    world.run(shards=3, max_epochs=1)
    world.run(shards=None, max_epochs=1)
    assert manifests(world.state)[2]["parallelism"] == 3
    world.run(shards=5)
    assert manifests(world.state)[4]["parallelism"] == 5
    assert world.visible() == tumbling(EVENTS)
