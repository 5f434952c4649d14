"""Reading a version's files without RocksDB gives RocksDB's rows, byte for byte; all else is refused, or damage."""

from __future__ import annotations

import random
import shutil
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from obstore.store import LocalStore

from sqlstream_operators.errors import StateCorruptionError
from sqlstream_operators.plan import types as t
from sqlstream_operators.plan.state_schema import TIME, StateField, StateSchema, StateTable
from sqlstream_operators.state import object_clients, published_rows, rocks, shard_store, sst
from sqlstream_operators.state.cache import Cache, local_name, mapped
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.published_rows import PublishedRows
from sqlstream_operators.state.rocks import BLOB_MIN_VALUE_BYTES, MARKER
from sqlstream_operators.state.shard_store import ShardStore
from sqlstream_operators.state.snapshots import SnapshotPolicy
from sqlstream_operators.state.sst import TableFile, UnreadableTableError
from sqlstream_operators.state.version import ShardVersion
from tests.examples import seeds

ALWAYS = SnapshotPolicy(min_bytes=0, max_deltas=2, retained_deltas=1)
NEVER = SnapshotPolicy()
KEY, AT, VALUE = (StateField(n, type_, n) for n, type_ in (("k", t.BLOB), ("at", t.INTEGER), ("v", t.BLOB)))
SCHEMA = StateSchema(
    "s1",
    "Test",
    "tables that are next to each other",
    (
        StateTable.of("one", "key", key=[KEY], value=[VALUE]),
        StateTable.of("many", "key", key=[KEY], sub_key=[AT], value=[VALUE]),
        StateTable.of("windows", "time", key=[KEY], value=[VALUE]),
        StateTable.of("listed", "list", key=[KEY], value=[VALUE]),
    ),
)
Row = tuple[bytes, bytes]


def some_key(chance: random.Random) -> bytes:
    """Short ones and long ones, many of which share what they begin with."""
    shared = chance.choice([b"", b"\0", b"\0\0\xff", b"\xff" * 9, b"x" * 7, b"y" * 8, b"z" * 140])
    return shared + chance.randbytes(chance.choice([0, 1, 1, 2, 3, 9]))


def some_value(chance: random.Random) -> bytes | None:
    """None, short ones, ones whose length needs two bytes, and ones in a blob file."""
    return chance.choice(
        [None, b"", b"v" * chance.randrange(40), b"w" * 126, chance.randbytes(BLOB_MIN_VALUE_BYTES)]
    )


class World:
    """A shard with random epochs."""

    def __init__(self, root: Path, policy: SnapshotPolicy, seed: int) -> None:
        self.root, self.policy, self.chance = root, policy, random.Random(seed)
        self.checkpoint = CheckpointStore(root / "checkpoint", sync=False)
        self.version = ShardVersion.empty()

    def open(self, local: str = "cache", checkpoint: CheckpointStore | None = None) -> ShardStore:
        return ShardStore.open(
            SCHEMA,
            0,
            1,
            16,
            self.version,
            checkpoint=checkpoint or self.checkpoint,
            local_dir=self.root / local,
            epoch=self.version.version + 1,
            policy=self.policy,
        )

    def epoch(self, rows: int = 60) -> None:
        chance, number = self.chance, self.version.version + 1
        with self.open() as store:
            keys = [some_key(chance) for _ in range(rows)]
            values = pa.array([some_value(chance) for _ in keys], pa.binary())
            at = pa.array([chance.randrange(3) for _ in keys], pa.int32())
            times = [10 * number + chance.randrange(3) for _ in keys]
            everything = pa.table({"k": keys, "at": at, TIME: times, "v": values})
            for table in ("one", "many", "windows"):
                store.put(table, everything)
            store.load("listed", everything.select(["k", "v"]).slice(0, 9))
            some = everything.take(pa.array(chance.sample(range(rows), rows // 4)))
            store.delete("one", some)
            store.delete("many", store.scan_prefix("many", some.slice(0, 3)))
            if chance.random() < 0.6:
                store.delete_time("windows", None, times[0] - 10 * chance.randrange(3))
            self.version = store.commit()

    def by_rocksdb(self) -> list[Row]:
        """All rows of the version as RocksDB has them."""
        version = self.version

        def build(cache: Cache) -> None:
            cache.restore(version.snapshot, version.base_chain)
            cache.apply(version.deltas, version.base_chain)

        place = self.root / "rocksdb"
        shutil.rmtree(place, ignore_errors=True)
        cache = Cache.open(place, "x", self.checkpoint, version.chain, lambda cache, marker: False, build)
        try:
            return list(zip(*cache.rocks.scan(b"\0", b"\xfe"), strict=True))
        finally:
            cache.close()

    def by_files(self, first: bytes = b"\0", last: bytes = b"\xfe") -> list[Row]:
        pieces = PublishedRows(self.checkpoint, self.version).between(first, last)
        return [row for piece in pieces for row in zip(*piece.lists(), strict=True)]


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """RocksDB compacts early, so that tables are packed and in levels; whole tables are read from the files."""
    monkeypatch.setattr(rocks, "LEVEL0_TRIGGER", 4)
    monkeypatch.setattr(shard_store, "PACKED_ROWS", 1)


def same_rows(root: Path, policy: SnapshotPolicy, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(root, policy, seed)
    for _ in range(6):
        world.epoch()
        monkeypatch.setattr(published_rows, "PIECE_ROWS", world.chance.choice([16, 64, 1000]))
        rows = world.by_rocksdb()
        assert len(rows) > 50
        assert world.by_files() == rows
        bounds = sorted([b"\0", b"\1", *(key for key, _ in world.chance.sample(rows, 4)), b"\3\x80", b"\xfe"])
        for first, last in pairwise(bounds):
            assert world.by_files(first, last) == [row for row in rows if first <= row[0] < last]
        with world.open() as store:
            for table in SCHEMA.tables:
                packed = store.scan_all(table.name)
                assert packed.equals(super(ShardStore, store).scan_all(table.name))
                assert packed.num_rows


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("policy", [ALWAYS, NEVER], ids=["snapshots", "deltas"])
def test_the_rows_are_rocksdbs(
    tmp_path: Path, policy: SnapshotPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in seeds(1):
        same_rows(tmp_path / str(seed), policy, seed, monkeypatch)


@pytest.fixture
def world(tmp_path: Path) -> World:
    found = World(tmp_path, ALWAYS, 1)
    for _ in range(5):
        found.epoch()
    return found


@pytest.mark.usefixtures("eager")
def test_tables_hold_all_that_is_read(world: World) -> None:
    """Packed blocks and plain ones, deletions, blobs, deleted ranges: else the comparison would say little."""
    kinds: set[int] = set()
    packings: set[int] = set()
    ranges = 0
    for _ in range(8):
        world.epoch()
        for file in world.version.snapshot:
            if file.name.endswith(".sst"):
                content = mapped(world.checkpoint, file, ())
                table = TableFile(content)
                ranges += len(table.deleted_ranges)
                packings.update(content.to_pybytes()[end] for end in table.block_ends)
                entries = table.entries(b"\0", b"\xff\xff\xff")
                if entries is not None:
                    kinds.update(entries.kinds.tolist())
    assert kinds == {sst.DELETION, sst.VALUE, sst.BLOB}
    assert packings == {0, 4}
    assert ranges


def test_rows_that_are_written_in_the_epoch_are_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_store, "PACKED_ROWS", 1)
    with world.open() as store:
        before = store.scan_all("one").num_rows
        store.put("one", pa.table({"k": [b"new"], "v": [b"1"]}))
        assert store.scan_all("one").num_rows == before + 1
        store.forget()
        assert store.scan_all("one").num_rows == before


def test_damage_is_found_and_a_cache_that_is_whole_answers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_store, "PACKED_ROWS", 1)
    rows = world.by_files()
    with world.open() as store:
        wanted = store.scan_all("one")
    damaged = [file for file in world.version.state_files if file.name.endswith((".sst", ".blob", ".delta"))]
    assert {Path(file.name).suffix for file in damaged} == {".sst", ".blob", ".delta"}
    earlier = {delta.file.name for delta in world.version.earlier if delta.file is not None}
    for file in damaged:
        if file.name in earlier:
            continue
        path = Path(world.checkpoint.path(file.name))
        good = path.read_bytes()
        middle = len(good) // 2
        for bad in (good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :], good[:-1], None):
            path.unlink()
            if bad is not None:
                path.write_bytes(bad)
            with pytest.raises(StateCorruptionError):
                world.by_files()
            with world.open() as store:
                assert store.scan_all("one").equals(wanted)
            with pytest.raises(StateCorruptionError):
                world.open("elsewhere")
            path.write_bytes(good)
    assert world.by_files() == rows


def test_another_snapshot_than_the_manifests_is_damage(world: World) -> None:
    version = world.version
    for other in ("0" * 32, ""):
        with pytest.raises(StateCorruptionError):
            PublishedRows(world.checkpoint, _with_base(version, other))


def _with_base(version: ShardVersion, chain: str) -> ShardVersion:
    data = version.to_json() | {"base_chain": chain, "chain": chain, "deltas": []}
    return ShardVersion.from_json(data)


def test_what_only_rocksdb_can_read_is_read_by_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_store, "PACKED_ROWS", 1)
    with world.open() as store:
        wanted = [store.scan_all(table.name) for table in SCHEMA.tables]
    monkeypatch.setattr(sst, "_MAGIC", 0)
    with pytest.raises(UnreadableTableError):
        world.by_files()
    with world.open() as store:
        assert [store.scan_all(table.name) for table in SCHEMA.tables] == wanted


@pytest.mark.parametrize(
    "bytes_", [b"", b"x" * 60, b"\0" * 45 + (0x88E241B785F4CFF7).to_bytes(8, "little")], ids=len
)
def test_other_files_are_refused(bytes_: bytes) -> None:
    with pytest.raises(UnreadableTableError):
        TableFile(pa.py_buffer(bytes_))


def test_files_of_a_bucket_are_taken_from_the_cache(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a store that is not local: what this machine has of a snapshot is not fetched, unless it is damaged."""

    monkeypatch.setattr(object_clients, "opened", lambda uri: LocalStore(world.root / "checkpoint"))
    bucket = CheckpointStore("bucket://x")
    fetched: list[str] = []
    opened = CheckpointStore.open

    def watched(store: CheckpointStore, name: str) -> pa.NativeFile:
        fetched.append(name)
        return opened(store, name)

    monkeypatch.setattr(CheckpointStore, "open", watched)
    everything = world.by_files()
    snapshot = [file for file in world.version.snapshot if file.name.endswith((".sst", ".blob"))]
    assert len(fetched) == len(snapshot)
    fetched.clear()
    [slot] = (path for path in (world.root / "cache").iterdir() if (path / "db").exists())
    for damaged in (0, 1):
        if damaged:
            (slot / "db" / local_name(snapshot[0])).write_bytes(b"other")
        found = PublishedRows(bucket, world.version, [slot / "db"]).between(b"\0", b"\xfe")
        assert [row for piece in found for row in zip(*piece.lists(), strict=True)] == everything
        assert len(fetched) == damaged
    assert MARKER not in dict(everything)
