"""Caches that stay open between epochs: what is in memory only is read, and lost without harm; locks and folders may go."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlstream_operators.state.open_caches import OpenCaches
from tests.operators.state.test_state_store import SCHEMA, Bench, content, sums


@pytest.fixture
def kept() -> Iterator[OpenCaches]:
    caches = OpenCaches()
    yield caches
    caches.close()


@pytest.fixture
def bench(tmp_path: Path, kept: OpenCaches) -> Bench:
    made = Bench(tmp_path)
    for i in range(3):
        made.epoch(sums(("a", i, i)), kept=kept)
    return made


def at(bench: Bench, executor: str = "a", kept: OpenCaches | None = None) -> tuple[list[int], bool]:
    """What the state has there, and whether it needed to be built from the checkpoint."""
    with bench.open(executor, kept=kept) as store:
        return [row[1] for row in content(store)], store.rebuilt


def test_the_next_epoch_has_what_is_in_memory_only(bench: Bench, kept: OpenCaches) -> None:
    files = sorted(path.name for path in (bench.root / "a").glob("*/db/*.sst"))
    assert files == []
    assert at(bench, kept=kept) == ([0, 1, 2], False)
    kept.close()
    assert at(bench) == ([0, 1, 2], False)


def test_an_epoch_that_failed_is_not_kept(bench: Bench, kept: OpenCaches) -> None:
    with pytest.raises(ZeroDivisionError), bench.open(kept=kept):
        raise ZeroDivisionError
    assert at(bench) == ([0, 1, 2], False)  # nobody has the slot


def test_others_go_on_in_a_place_of_their_own_and_keep_it(bench: Bench, kept: OpenCaches) -> None:
    """A driver that was paused may hold its slots for long: the next one builds its own once, not in each epoch."""
    other = OpenCaches()
    try:
        assert at(bench, kept=other) == ([0, 1, 2], True)
        bench.epoch(sums(("b", 7, 7)), kept=other)
        assert at(bench, kept=other) == ([0, 1, 2, 7], False)
        assert len(list((bench.root / "a").glob("*.scratch-*"))) == 1
    finally:
        other.close()
    assert list((bench.root / "a").glob("*.scratch-*")) == []
    assert at(bench, kept=kept) == ([0, 1, 2, 7], False)  # the first one catches up


def test_a_folder_that_is_gone_is_built_again(bench: Bench, kept: OpenCaches) -> None:
    shutil.rmtree(bench.root / "a")
    assert at(bench, kept=kept) == ([0, 1, 2], True)
    shutil.rmtree(bench.root / "a")
    kept.close()
    assert not (bench.root / "a").exists()


def test_more_than_may_be_open_are_closed(bench: Bench) -> None:
    few = OpenCaches(most=1)
    try:
        for executor in "bc":
            assert at(bench, executor, few) == ([0, 1, 2], True)
        assert at(bench, "c") == ([0, 1, 2], False)  # its lock is free
        assert at(bench, "b", few) == ([0, 1, 2], False)
    finally:
        few.close()


def test_only_caches_of_these_states_stay_open(bench: Bench, kept: OpenCaches) -> None:
    kept.only({SCHEMA.state_id})
    assert not is_free(bench)
    kept.only({"another"})
    assert is_free(bench)


def is_free(bench: Bench) -> bool:
    """Whether nobody has the slot: else the state is built in a place of its own."""
    with bench.open() as store:
        return not store.rebuilt
