"""Values that are in segments are read as they were written, whatever happened to the cache, the shards and the segments."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqlstream_operators.codec.keys import key_groups, shard_of
from sqlstream_operators.errors import StateCorruptionError
from sqlstream_operators.plan import types as t
from sqlstream_operators.plan.state_schema import StateField, StateSchema, StateTable
from sqlstream_operators.state import segment_file, segment_writing
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.packed_rows import PackedRows
from sqlstream_operators.state.published import PublishedShard
from sqlstream_operators.state.published_rows import PublishedRows
from sqlstream_operators.state.segment_file import SegmentReader, cut_up, encode_segment, place_of
from sqlstream_operators.state.shard_store import ShardStore
from sqlstream_operators.state.snapshots import SnapshotPolicy
from sqlstream_operators.state.version import ShardVersion

GROUPS = 16
OFTEN = SnapshotPolicy(min_bytes=0, max_deltas=2, retained_deltas=1)
K, V = StateField("k", t.BIGINT, "k"), StateField("v", t.VARCHAR, "v")
NAME = StateField("row", t.BLOB, "row")
ROWS = StateTable.of("rows", "key", key=[K], sub_key=[NAME], value=[V])
SCHEMA = StateSchema("s", "Test", "", (ROWS, StateTable.of("one", "key", key=[K], value=[V])))


class FarStore(CheckpointStore):
    """A store that nothing knows to be on this machine."""

    @property
    def is_local(self) -> bool:
        """Not."""
        return False


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments of a few rows, in blocks of one or two, and whole tables read from the files."""
    monkeypatch.setattr(segment_file, "MIN_BYTES", 1000)
    monkeypatch.setattr(segment_file, "MAX_BYTES", 3000)
    monkeypatch.setattr(segment_file, "BLOCK_BYTES", 200)
    monkeypatch.setattr(segment_writing, "SLACK_BYTES", 0)
    monkeypatch.setattr("sqlstream_operators.state.shard_store.PACKED_ROWS", 1)


class World:
    """The shards of a state, and the rows that it must have."""

    def __init__(self, root: Path, seed: int, *, far: bool = False) -> None:
        self.root, self.chance, self.epoch, self.cache = root, random.Random(seed), 0, 0
        self.checkpoint = (FarStore if far else CheckpointStore)(root / "checkpoint", sync=False)
        self.versions = [ShardVersion.empty()]
        self.rows: Counter[tuple[int, str]] = Counter()
        self.one: dict[int, str] = {}

    def open(self, shard: int, shards: int = 0) -> ShardStore:
        same = shards in (0, len(self.versions))
        return ShardStore.open(
            SCHEMA,
            shard,
            shards or len(self.versions),
            GROUPS,
            self.versions[shard] if same else self.versions,
            checkpoint=self.checkpoint,
            local_dir=self.root / f"cache{self.cache}",
            epoch=self.epoch + 1,
            policy=OFTEN,
        )

    def step(self, shards: int) -> None:
        """An epoch over so many shards: rows come, rows of some keys go; it is run twice, as by a retry."""
        chance = self.chance
        new = [(chance.randrange(12), "x" * chance.randrange(400)) for _ in range(chance.choice([0, 3, 30]))]
        gone = chance.sample(range(12), chance.choice([0, 1, 6]))
        put = {chance.randrange(20): "y" * chance.randrange(500) for _ in range(9)}
        made = []
        for shard in range(shards):
            attempts = []
            for _ in range(2):
                with self.open(shard, shards) as store:
                    self.write(store, shard, shards, gone, new, put)
                    attempts.append(ShardVersion.from_json(store.commit().to_json()))
            if shards == len(self.versions):
                assert attempts[0].state_files[-1:] == attempts[1].state_files[-1:]
                assert attempts[0].segments == attempts[1].segments
            made.append(attempts[1])
        self.versions, self.epoch = made, self.epoch + 1
        self.rows = Counter({row: n for row, n in self.rows.items() if row[0] not in gone}) + Counter(new)
        self.one |= put

    @staticmethod
    def write(
        store: ShardStore,
        shard: int,
        shards: int,
        gone: list[int],
        new: list[tuple[int, str]],
        put: dict[int, str],
    ) -> None:
        def own(keys: list[int], values: list[str]) -> pa.Table:
            rows = pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(values, pa.string())})
            mine = shard_of(key_groups([rows.column("k")], GROUPS, rows=len(rows)), shards, GROUPS) == shard
            return rows.filter(pa.array(mine))

        store.delete_prefix("rows", own(gone, [""] * len(gone)))
        rows = own([k for k, _ in new], [v for _, v in new])
        rows = rows.take(pa.array(store.key_order("rows", rows)))
        store.append_runs("rows", rows.append_column("row", store.new_names(len(rows)).cast(pa.binary())))
        store.put("one", own(list(put), list(put.values())))

    def assert_read(self) -> None:
        """By key, whole, without RocksDB, and by a reader who is not the run."""
        found: list[list[dict[str, Any]]] = [[], [], []]
        one: dict[int, str] = {}
        keys = pa.table({"k": pa.array(range(12), pa.int64())})
        shards = len(self.versions)
        for shard, version in enumerate(self.versions):
            mine = shard_of(key_groups([keys.column("k")], GROUPS, rows=12), shards, GROUPS) == shard
            with self.open(shard) as store:
                found[0] += store.scan_prefix("rows", keys.filter(pa.array(mine))).to_pylist()
                one |= {row["k"]: row["v"] for row in store.scan_all("one").to_pylist()}
                whole = store.range_of("rows")
                for piece in PublishedRows(self.checkpoint, version).between(*whole):
                    found[1] += store.unpacked("rows", piece).to_pylist()
            reader = PublishedShard(
                SCHEMA, shard, shards, GROUPS, version, checkpoint=self.checkpoint, folder=self.root
            )
            found[2] += reader.tables(reader.rows_in([whole])).scan_all("rows").to_pylist()
        for rows in found:
            assert Counter((row["k"], row["v"]) for row in rows) == self.rows
        assert one == self.one


@pytest.mark.parametrize(("seed", "far"), [(0, False), (1, True), (2, False)])
def test_rows_are_read_as_they_were_written(tmp_path: Path, seed: int, far: bool) -> None:
    """With the cache, without one, with another number of shards; and old segments are given up."""
    world = World(tmp_path, seed, far=far)
    given_up = 0
    for number in range(12):
        before = world.versions
        if world.chance.random() < 0.2:
            world.cache += 1
        world.step(2 if number >= 9 else 1)
        world.assert_read()
        for old, new in zip(before, world.versions, strict=False):
            given_up += len(set(old.segments) - set(new.segments))
            kept = sum(segment.bytes for segment in new.segments)
            assert kept <= 2 * new.bytes + 2 * 12_000  # two epochs' rows may wait to be given up
    assert given_up


def test_a_state_without_rows_has_no_segments(tmp_path: Path) -> None:
    world = World(tmp_path, 0)
    new = [(n, "x" * 300) for n in range(12)]
    for gone in ([], list(range(12))):
        with world.open(0) as store:
            world.write(store, 0, 1, gone, [] if gone else new, {})
            version = store.commit()
        assert bool(version.segments) == bool(version.rows) == (not gone)
        world.versions, world.epoch = [version], world.epoch + 1


@pytest.mark.parametrize("left", [0, 3, 7])
def test_what_lives_in_a_segment_outlives_it(tmp_path: Path, left: int) -> None:
    world = World(tmp_path, 0)
    gone = [n for n in range(12) if n != left]
    segments = []
    for number in range(4):
        with world.open(0) as store:
            new = [] if number else [(n, f"{n:0300d}") for n in range(12)]
            world.write(store, 0, 1, gone if number == 1 else [], new, {})
            world.versions = [store.commit()]
        world.epoch += 1
        segments.append(len(world.versions[0].segments))
    assert segments[0] > segments[-1]
    assert world.versions[0].segments in ((), world.versions[0].segments[-1:])
    world.rows = Counter({(left, f"{left:0300d}"): 1})
    world.assert_read()
    world.cache += 1
    world.assert_read()


@pytest.mark.parametrize("far", [False, True], ids=["local", "far"])
@pytest.mark.parametrize("damage", ["changed", "cut off", "missing"])
def test_damage_is_told(tmp_path: Path, damage: str, far: bool) -> None:
    world = World(tmp_path, 1, far=far)
    with world.open(0) as store:
        world.write(store, 0, 1, [], [(n, f"{n:0200d}") for n in range(12)], {})
        version = store.commit()
    world.versions, world.epoch = [version], 1
    world.rows = Counter({(n, f"{n:0200d}"): 1 for n in range(12)})
    world.assert_read()
    if far:  # what is wrong with a copy is found, and the copy made again
        [copy, *_] = (tmp_path / "cache0").rglob("segments/*")
        copy.write_bytes(bytes(copy.stat().st_size))
        world.assert_read()
    for segment in version.segments:
        path = tmp_path / "checkpoint" / segment.file.name
        content = path.read_bytes()
        if damage == "missing":
            path.unlink()
        else:
            path.write_bytes(content[:-9] if damage == "cut off" else bytes(len(content)))
    world.cache += 1
    with pytest.raises(StateCorruptionError, match="segments/"):
        world.assert_read()


def test_programs_that_know_no_segments_find_no_snapshot(tmp_path: Path) -> None:
    world = World(tmp_path, 1)
    with world.open(0) as store:
        world.write(store, 0, 1, [], [(1, "x" * 900), (2, "y" * 900)], {})
        version = store.commit()
    assert version.segments
    assert "snapshot" not in version.to_json()
    assert ShardVersion.from_json(version.to_json()) == version
    assert "snapshot" in ShardVersion.empty().to_json()


def test_a_segment_has_what_pointers_say() -> None:
    values = [b"", b"a" * 5000, b"b", b"c" * 150, b"d" * 90, b""]
    keys = [bytes([7, n]) for n in range(len(values))]
    rows = PackedRows(pa.array(keys, pa.large_binary()), pa.array(values, pa.large_binary()))
    pieces = list(cut_up(rows))
    assert [len(piece) for piece in pieces] == [2, 4]
    for piece in (rows, *pieces):
        content, pointers = encode_segment(piece)
        reader = SegmentReader(pa.py_buffer(content))
        assert reader.keys() == piece.keys.to_pylist()
        assert [reader.value(*place_of(p)) for p in pointers.to_pylist()] == piece.values.to_pylist()
        assert encode_segment(piece)[0] == content
