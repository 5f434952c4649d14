"""Looking keys up in a published version gives what its run reads: over snapshots, deltas and deleted ranges alike."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from sqlstream_operators.codec.keys import key_groups, shard_of
from sqlstream_operators.errors import StateCorruptionError
from sqlstream_operators.plan import types as t
from sqlstream_operators.plan.state_schema import TIME, StateField, StateSchema, StateTable
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.memory import MemoryBytes
from sqlstream_operators.state.published import PublishedShard, pages
from sqlstream_operators.state.rocks import BLOB_MIN_VALUE_BYTES
from sqlstream_operators.state.shard_store import ShardStore
from sqlstream_operators.state.snapshots import SnapshotPolicy
from sqlstream_operators.state.version import ShardVersion

WHO = StateField("who", t.VARCHAR, "who")
SCHEMA = StateSchema(
    "s1",
    "Test",
    "a table of each layout",
    (
        StateTable.of("one", "key", key=[WHO], value=[StateField("text", t.VARCHAR, "text")]),
        StateTable.of("many", "key", key=[WHO], sub_key=[StateField("at", t.INTEGER, "at")]),
        StateTable.of("windows", "time", key=[WHO], value=[StateField("n", t.BIGINT, "n")]),
    ),
)
POLICIES = {
    "deltas": SnapshotPolicy(),
    "snapshots": SnapshotPolicy(min_bytes=0, max_deltas=2, retained_deltas=1),
}
NAMES = [f"k{n}" for n in range(40)]


def written(root: Path, policy: SnapshotPolicy, epochs: int = 9) -> tuple[CheckpointStore, ShardVersion]:
    """A version of shard 1 of 2 after some epochs that put and delete."""
    checkpoint = CheckpointStore(root / "checkpoint", sync=False)
    chance, version = random.Random(1), ShardVersion.empty()
    own = [
        name
        for name in NAMES
        if shard_of(key_groups([pa.array([name])], 128, rows=1), 2, 128).tolist() == [1]
    ]
    for epoch in range(1, epochs + 1):
        with ShardStore.open(
            SCHEMA,
            1,
            2,
            128,
            version,
            checkpoint=checkpoint,
            local_dir=root / "cache",
            epoch=epoch,
            policy=policy,
        ) as store:
            some = chance.sample(own, 8)
            long = "x" * (BLOB_MIN_VALUE_BYTES * chance.randrange(3))
            store.put("one", pa.table({"who": some, "text": [f"{epoch}{long}" for _ in some]}))
            store.delete("one", pa.table({"who": chance.sample(own, 3)}))
            at = pa.array([chance.randrange(3) for _ in some], pa.int32())
            store.put("many", pa.table({"who": some, "at": at}))
            gone = store.scan_prefix("many", pa.table({"who": chance.sample(own, 2)}))
            store.delete("many", gone)
            times = [epoch * 10 + chance.randrange(3) for _ in some]
            store.put("windows", pa.table({TIME: times, "who": some, "n": [epoch] * len(some)}))
            store.delete_time("windows", None, epoch * 10 - 30)
            version = store.commit()
    return checkpoint, version


def shard_of_version(root: Path, checkpoint: CheckpointStore, version: ShardVersion) -> PublishedShard:
    folder = root / "reader"
    folder.mkdir(exist_ok=True)
    return PublishedShard(SCHEMA, 1, 2, 128, version, checkpoint=checkpoint, folder=folder)


@pytest.mark.parametrize("policy", POLICIES)
def test_keys_are_what_a_scan_has_of_them(tmp_path: Path, policy: str) -> None:
    checkpoint, version = written(tmp_path, POLICIES[policy])
    assert bool(version.snapshot) == (policy == "snapshots")
    shard = shard_of_version(tmp_path, checkpoint, version)
    empty = shard.tables(MemoryBytes())
    with shard.whole() as whole:
        for table in ("one", "many"):
            everything = whole.scan_all(table)
            assert everything.num_rows > 5
            for who in dict.fromkeys(everything.column("who").to_pylist()):
                found = shard.rows_in(empty.ranges_of(table, pa.table({"who": [who]})))
                wanted = everything.filter(pa.compute.equal(everything.column("who"), who))
                assert shard.tables(found).scan_all(table).equals(wanted)
                assert len(found.rows) == wanted.num_rows
        windows = whole.scan_all("windows")
        for time in sorted(set(windows.column(TIME).to_pylist())):
            found = shard.rows_in([empty.range_of("windows", time, time + 1)])
            assert shard.tables(found).scan_all("windows").equals(whole.scan_time("windows", time, time + 1))
        assert not shard.rows_in([empty.range_of("windows", 0, 40)]).rows  # ranges that were deleted


@pytest.mark.sampled(2)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("rows", [1, 2, 3, 7, 1000])
def test_pages_are_all_rows_once_and_no_key_is_in_two(tmp_path: Path, rows: int, policy: str) -> None:
    checkpoint, version = written(tmp_path, POLICIES[policy])
    shard = shard_of_version(tmp_path, checkpoint, version)
    with shard.whole() as whole:
        for table in ("one", "many", "windows"):
            parts = [part.scan_all(table) for part in pages(shard, whole, table, rows)]
            assert pa.concat_tables(parts).equals(whole.scan_all(table))
            if table != "windows":
                owners = [set(part.column("who").to_pylist()) for part in parts]
                assert sum(map(len, owners)) == len(set().union(*owners))


@pytest.mark.parametrize("how", ["gone", "shorter", "other"])
def test_damage_is_an_error_that_names_the_file(tmp_path: Path, how: str) -> None:
    """Blocks of a snapshot's files are in this process's cache: `test_rocks_damage` has what is damaged inside of them."""
    checkpoint, version = written(tmp_path, POLICIES["snapshots"])
    shutil.rmtree(tmp_path / "cache")
    deltas = [delta.file for delta in version.deltas if delta.file is not None]
    assert deltas
    everything = [(b"\x00", b"\xff")]
    shard = shard_of_version(tmp_path, checkpoint, version)
    tables = [file for file in version.snapshot if file.name.endswith(".sst") and how != "other"]
    for file in (*deltas, *tables):
        path = Path(checkpoint.path(file.name))
        good = path.read_bytes()
        path.unlink()
        if how == "shorter":
            path.write_bytes(good[:-1])
        elif how == "other":
            middle = len(good) // 3
            path.write_bytes(good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :])
        with pytest.raises(StateCorruptionError, match=str(tmp_path / "checkpoint")):
            shard.rows_in(everything)
        path.unlink(missing_ok=True)
        path.write_bytes(good)
    assert shard.rows_in(everything).rows


def test_nothing_is_left_behind_or_written(tmp_path: Path) -> None:
    checkpoint, version = written(tmp_path, POLICIES["snapshots"])
    before = {path: path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()}
    shard = shard_of_version(tmp_path, checkpoint, version)
    shard.rows_in([(b"\x00", b"\xff")])
    assert not list((tmp_path / "reader").iterdir())
    with shard.whole():
        pass
    assert {p: p.read_bytes() for p in (tmp_path / "checkpoint").rglob("*") if p.is_file()} == before
