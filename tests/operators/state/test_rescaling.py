"""State goes from any (shards, max_parallelism) to any other: every table is as it was, whatever its layout and keys."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream_operators.codec.keys import MAX_PARALLELISM, key_groups, shard_of
from sqlstream_operators.errors import StateCorruptionError, StateError
from sqlstream_operators.plan import types as t
from sqlstream_operators.plan.state_schema import TIME, StateField, StateSchema, StateTable
from sqlstream_operators.plan.types import SqlType
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.shard_store import ShardStore
from sqlstream_operators.state.version import ShardVersion
from tests.examples import examples
from tests.numbered_times import without_nanoseconds
from tests.operators.arrow_strategies import any_types, columns

Layout = tuple[int, int]
LAYOUTS = st.sampled_from([1, 2, 3, 12, 64, 127, 128, 129, 1000, MAX_PARALLELISM]).flatmap(
    lambda groups: st.tuples(st.integers(1, min(groups, 4)), st.just(groups))
)
N = StateField("n", t.BIGINT, "n")


def schema_of(types: Sequence[SqlType]) -> StateSchema:
    """A table of each layout whose keys have these types; one has no key at all, as a global aggregate."""
    key = [StateField(f"k{i}", type_, f"k{i}") for i, type_ in enumerate(types)]
    sub = [StateField("sub", t.INTEGER, "sub")]
    return StateSchema(
        "s",
        "Test",
        "",
        (
            StateTable.of("rows", "key", key=key, sub_key=sub, value=[N]),
            StateTable.of("windows", "time", key=key, value=[N]),
            StateTable.of("lists", "list", key=key, value=[N]),
            StateTable.of("global", "key", key=[], value=[N]),
        ),
    )


class State:
    """A state over all its shards, written epoch by epoch."""

    def __init__(self, root: Path, schema: StateSchema, layout: Layout) -> None:
        self.root, self.schema, self.layout = root, schema, layout
        self.checkpoint = CheckpointStore(root / "checkpoint", sync=False)
        self.versions: tuple[ShardVersion, ...] = ()
        self.epoch = 0

    def stores(self, layout: Layout, executor: str) -> list[ShardStore]:
        shards, groups = layout
        same = layout == self.layout and self.versions
        return [
            ShardStore.open(
                self.schema,
                shard,
                shards,
                groups,
                self.versions[shard] if same else self.versions or ShardVersion.empty(),
                checkpoint=self.checkpoint,
                local_dir=self.root / executor,
                epoch=self.epoch + 1,
                written_with=None if same or not self.versions else self.layout[1],
            )
            for shard in range(shards)
        ]

    def write(self, rows: pa.Table | None, layout: Layout, executor: str = "a") -> None:
        """An epoch with this layout, which writes `rows` (or nothing) to all tables."""
        published = []
        shards, groups = layout
        for shard, store in enumerate(self.stores(layout, executor)):
            with store:
                if rows is not None:
                    put(store, rows, shard, shards, groups)
                published.append(ShardVersion.from_json(store.commit().to_json()))
        self.versions, self.layout, self.epoch = tuple(published), layout, self.epoch + 1

    def content(self, executor: str = "z") -> dict[str, list[str]]:
        """All rows of all tables, as text in an order that does not depend on shards."""
        found: dict[str, list[str]] = {table.name: [] for table in self.schema.tables}
        for store in self.stores(self.layout, executor):
            with store:
                for name, rows in found.items():
                    rows += map(repr, without_nanoseconds(store.scan_all(name)).to_pylist())
        return {name: sorted(rows) for name, rows in found.items()}


def put(store: ShardStore, rows: pa.Table, shard: int, shards: int, groups: int) -> None:
    keys = [rows.column(f.name) for f in store.schema.table("rows").key]
    own = shard_of(key_groups(keys, groups, rows=rows.num_rows), shards, groups) == shard
    mine = rows.filter(pa.array(own))
    store.put("rows", mine)
    store.put("windows", mine)
    names = [f.name for f in store.schema.table("lists").key]
    store.put_lists("lists", mine.select(names), mine.select(["n"]), np.ones(mine.num_rows, np.int64))
    if int(shard_of(key_groups([], groups, rows=1), shards, groups)[0]) == shard:
        store.put("global", pa.table({"n": pa.array([7], pa.int64())}))


@st.composite
def keyed_rows(draw: st.DrawFn) -> tuple[list[SqlType], pa.Table]:
    types = draw(st.lists(any_types(), min_size=1, max_size=2))
    n = draw(st.integers(1, 12))
    made = [draw(columns(type_, n)) for type_ in types]
    table = {f"k{i}": column for i, column in enumerate(made)}
    return types, pa.table(
        {
            **table,
            "sub": pa.array(range(n), pa.int32()),
            TIME: pa.array([i % 3 - 1 for i in range(n)], pa.int64()),
            "n": pa.array(range(n), pa.int64()),
        }
    )


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(keyed_rows(), LAYOUTS, st.lists(LAYOUTS, min_size=1, max_size=3), st.booleans())
def test_any_layout_becomes_any_other(
    made: tuple[list[SqlType], pa.Table], first: Layout, layouts: list[Layout], alone: bool
) -> None:
    types, rows = made
    with tempfile.TemporaryDirectory() as root:
        state = State(Path(root), schema_of(types), first)
        state.write(rows, first)
        before = state.content()
        assert before["rows"]
        for layout in layouts:
            state.write(None if alone else rows, layout)
            assert state.content() == before
            assert sum(v.is_empty for v in state.versions) < len(state.versions)
        state.write(rows, state.layout, "other")  # every key is found where it is
        assert state.content() == before


TEXT_ROWS = pa.table(
    {
        "k0": pa.array([f"key {i}" for i in range(500)]),
        "sub": pa.array(range(500), pa.int32()),
        TIME: pa.array([i % 7 for i in range(500)], pa.int64()),
        "n": pa.array(range(500), pa.int64()),
    }
)


def written(root: Path, layout: Layout = (3, 128)) -> State:
    state = State(root, schema_of([t.VARCHAR]), layout)
    state.write(TEXT_ROWS, layout)
    return state


def test_the_rows_of_a_shard_are_those_of_its_new_groups(tmp_path: Path) -> None:
    state = written(tmp_path)
    state.write(None, (4, 30))
    groups = key_groups([TEXT_ROWS["k0"]], 30)
    for shard, store in enumerate(state.stores((4, 30), "z")):
        with store:
            mine = TEXT_ROWS.filter(pa.array(shard_of(groups, 4, 30) == shard))
            assert sorted(store.scan_all("rows")["k0"].to_pylist()) == sorted(mine["k0"].to_pylist())
            assert store.get("rows", mine)["n"].to_pylist() == mine["n"].to_pylist()
            times = store.scan_time("windows", 2, 5)[TIME].to_pylist()
            assert times == sorted(x for x in mine[TIME].to_pylist() if 2 <= x < 5)


def test_a_retry_elsewhere_has_the_same_content(tmp_path: Path) -> None:
    one, other = written(tmp_path / "1"), written(tmp_path / "2")
    for state, executor in ((one, "a"), (other, "b")):
        state.write(None, (2, 64), executor)
    assert [v.chain for v in one.versions] == [v.chain for v in other.versions]
    back = written(tmp_path / "3")
    back.write(None, (2, 128))
    assert {v.chain for v in back.versions}.isdisjoint(v.chain for v in one.versions)


def test_what_was_written_before_is_left_as_it_is(tmp_path: Path) -> None:
    state = written(tmp_path)
    before, layout, content = state.versions, state.layout, state.content()
    state.write(None, (1, 7))
    state.write(TEXT_ROWS.slice(0, 10), (2, 300))
    state.versions, state.layout = before, layout
    assert state.content("y") == content


def test_a_cache_from_before_the_first_row_gets_all_rows_of_what_was_rescaled(tmp_path: Path) -> None:
    """Not only those of the epochs since: of the others there is no delta."""
    state = State(tmp_path, schema_of([t.VARCHAR]), (2, 128))
    state.write(None, (2, 128), "old")
    assert all(version.is_empty for version in state.versions)
    state.write(TEXT_ROWS.slice(0, 20), (1, 128), "b")
    state.write(TEXT_ROWS.slice(20), (2, 128), "b")
    state.write(TEXT_ROWS.slice(0, 1), (2, 128), "b")
    assert state.content("old") == state.content("new")


def test_all_shards_are_needed_for_other_groups(tmp_path: Path) -> None:
    state = written(tmp_path)
    with pytest.raises(StateError, match="give all of them"):
        ShardStore.open(
            state.schema,
            0,
            3,
            64,
            state.versions[0],
            checkpoint=state.checkpoint,
            local_dir=tmp_path / "x",
            epoch=9,
            written_with=128,
        )


def test_a_key_in_a_group_that_is_not_its_own_is_damage(tmp_path: Path) -> None:
    """As when the max_parallelism that is said is not the one that the state was written with."""
    state = written(tmp_path)
    state.layout = (3, 200)
    with pytest.raises(StateCorruptionError, match="not in the key group that it hashes to"):
        state.write(None, (3, 64))


@pytest.mark.parametrize("layout", [(3, 128), (2, 77)])
def test_what_is_in_tables_that_the_query_no_longer_has_is_deleted(layout: Layout, tmp_path: Path) -> None:
    """Nothing keeps it up to date: should a later query have the table again, it is not there."""
    state = written(tmp_path)
    before, content = (state.versions, state.layout), state.content()
    whole = state.schema
    for absent in whole.tables:
        state.versions, state.layout = before
        state.schema = dataclasses.replace(whole, tables=tuple(t for t in whole.tables if t is not absent))
        state.write(None, layout)
        state.schema = whole
        assert state.content() == {**content, absent.name: []}
        assert not all(version.is_empty for version in state.versions)


@pytest.mark.parametrize("damage", ["delete", "flip"])
def test_damage_of_a_former_shard_is_told(tmp_path: Path, damage: str) -> None:
    state = written(tmp_path)
    name = sorted(state.versions[1].files())[0]
    path = tmp_path / "checkpoint" / name
    content: Any = path.read_bytes()
    path.unlink()
    if damage == "flip":
        path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(StateCorruptionError):
        state.write(None, (3, 64), "fresh")


@pytest.mark.parametrize(("before", "after"), [((2, 5), (3, 5)), ((3, 5), (2, 5)), ((3, 128), (127, 128))])
def test_layouts_whose_shards_share_a_single_group(before: Layout, after: Layout, tmp_path: Path) -> None:
    """Groups 0 to 4 in two shards are [0, 3) and [3, 5), in three [0, 2), [2, 4) and [4, 5): group 2 alone moves."""
    state = written(tmp_path, before)
    content = state.content()
    assert len(content["rows"]) == TEXT_ROWS.num_rows
    state.write(None, after)
    assert state.content() == content
    groups = key_groups([TEXT_ROWS["k0"]], after[1])
    for shard, store in enumerate(state.stores(after, "z")):
        with store:
            mine = TEXT_ROWS.filter(pa.array(shard_of(groups, *after) == shard))
            assert sorted(store.scan_all("rows")["k0"].to_pylist()) == sorted(mine["k0"].to_pylist())
