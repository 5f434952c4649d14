"""After an edit that keeps a state, its local cache is found by what it holds, and not built again."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from sqlstream_operators.state.shard_store import ShardStore
from sqlstream_operators.state.version import ShardVersion
from tests.operators.state.test_state_store import OFTEN, SCHEMA, Bench, content, sums

KEPT = dataclasses.replace(SCHEMA, state_id="s2")


@pytest.fixture(params=["deltas", "snapshot"])
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Bench:
    """Some epochs of `s1`, with and without a snapshot before them."""
    made = Bench(tmp_path, OFTEN if request.param == "snapshot" else None)
    for i in range(6):
        made.epoch(sums(("a", i, i)))
    assert bool(made.version.snapshot) == (request.param == "snapshot")
    return made


def opened(bench: Bench, version: ShardVersion | None = None) -> ShardStore:
    """The state `s2`, which goes on with what `s1` had."""
    version = version or bench.version
    return ShardStore.open(
        KEPT,
        0,
        1,
        128,
        version,
        checkpoint=bench.checkpoint,
        local_dir=bench.root / "a",
        epoch=version.version + 1,
        policy=bench.policy,
    )


def test_it_goes_on_with_the_cache_of_the_other_state(bench: Bench) -> None:
    with opened(bench) as store:
        assert not store.rebuilt
        assert [at for _, at, _ in content(store)] == list(range(6))
        store.put("sums", sums(("b", 1, 1)))
        version = store.commit()
    for number in range(7, 12):  # and so on, with snapshots among them
        with opened(bench, version) as store:
            assert not store.rebuilt
            store.put("sums", sums(("b", number, number)))
            version = store.commit()
    with opened(Bench(bench.root, bench.policy), version) as store:
        assert [row[:2] for row in content(store)] == [
            *(("a", at) for at in range(6)),
            *(("b", at) for at in (1, *range(7, 12))),
        ]


def test_one_that_lags_behind_catches_up(tmp_path: Path) -> None:
    bench = Bench(tmp_path, OFTEN)
    for i in range(6):
        bench.epoch(sums(("a", i, i)), "elsewhere" if i == 5 else "a")
    with opened(bench) as store:
        assert not store.rebuilt
        assert [at for _, at, _ in content(store)] == list(range(6))


def test_both_go_on_for_themselves(bench: Bench) -> None:
    """Where another state of the new plan goes on with the old one too."""
    with opened(bench) as kept, bench.open() as store:
        assert not store.rebuilt
        assert content(store) == content(kept)
        kept.put("sums", sums(("b", 1, 1)))
        version = kept.commit()
    for number in range(8):
        bench.epoch(sums(("c", number, number)))
    with opened(bench, version) as kept, bench.open() as store:
        assert not store.rebuilt
        assert not kept.rebuilt
        assert [who for who, *_ in content(kept)] == ["a"] * 6 + ["b"]
        assert [who for who, *_ in content(store)] == ["a"] * 6 + ["c"] * 8


def test_a_broken_one_is_passed_over(bench: Bench) -> None:
    for file in (bench.root / "a" / "s1-00000-of-00001" / "db").iterdir():
        file.write_bytes(b"rubbish")
    with opened(bench) as store:
        assert store.rebuilt
        assert [at for _, at, _ in content(store)] == list(range(6))


def test_what_another_task_has_open_is_left_to_it(bench: Bench) -> None:
    with bench.open() as first, opened(bench) as second:
        assert second.rebuilt
        assert content(first) == content(second)
    with bench.open() as store:
        assert not store.rebuilt


def test_what_holds_something_else_is_built_again(bench: Bench) -> None:
    kept = bench.version
    bench.epoch(sums(("z", 9, 9)))
    with bench.open() as store:
        assert len(content(store)) == 7  # the cache is ahead of what was kept
    with opened(bench, kept) as store:
        assert store.rebuilt
        assert [at for _, at, _ in content(store)] == list(range(6))
