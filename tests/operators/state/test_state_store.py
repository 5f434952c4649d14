"""The versioned store: reads, writes, versions, snapshots, damage, and the checkpoint store below it."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import itertools
import multiprocessing
import os
import pickle
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sqlstream_operators.errors import StateCorruptionError, StateError, StateSchemaError
from sqlstream_operators.plan import types as t
from sqlstream_operators.plan.state_schema import FOUND, TIME, StateField, StateSchema, StateTable
from sqlstream_operators.state.cache import fetch
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.delta import decode_delta, encode_delta
from sqlstream_operators.state.memory import MemoryShardStore
from sqlstream_operators.state.open_caches import OpenCaches
from sqlstream_operators.state.rocks import BLOB_MIN_VALUE_BYTES, RocksBytes
from sqlstream_operators.state.shard_store import ShardStore
from sqlstream_operators.state.snapshots import SnapshotPolicy
from sqlstream_operators.state.store import StateStore
from sqlstream_operators.state.version import ShardVersion, file_digest

SCHEMA = StateSchema(
    "s1",
    "Test",
    "a table of each layout",
    (
        StateTable.of(
            "sums",
            "key",
            key=[StateField("who", t.VARCHAR, "who")],
            sub_key=[StateField("at", t.INTEGER, "at")],
            value=[StateField("n", t.BIGINT, "n"), StateField("tags", t.array(t.VARCHAR), "tags")],
        ),
        StateTable.of(
            "windows",
            "time",
            key=[StateField("who", t.VARCHAR, "who")],
            value=[StateField("n", t.BIGINT, "n")],
        ),
    ),
)
LONG = "t" * BLOB_MIN_VALUE_BYTES  # a value with it is kept in a blob file
OFTEN = SnapshotPolicy(min_bytes=0, max_deltas=2, retained_deltas=2)


class Bench:
    """A checkpoint, some executors' disks, and the versions of one shard."""

    def __init__(self, root: Path, policy: SnapshotPolicy | None = None) -> None:
        self.root = root
        self.checkpoint = CheckpointStore(root / "checkpoint", sync=False)
        self.version = ShardVersion.empty()
        self.policy = policy

    def open(self, executor: str = "a", **changes: Any) -> ShardStore:
        version: ShardVersion = changes.pop("version", self.version)
        return ShardStore.open(
            changes.pop("schema", SCHEMA),
            0,
            1,
            128,
            version,
            checkpoint=self.checkpoint,
            local_dir=self.root / executor,
            epoch=changes.pop("epoch", version.version + 1),
            policy=self.policy,
            kept=changes.pop("kept", None),
        )

    def epoch(self, rows: pa.Table, executor: str = "a", kept: OpenCaches | None = None) -> None:
        with self.open(executor, kept=kept) as store:
            store.put("sums", rows)
            self.version = store.commit()


def sums(*rows: tuple[str | None, int, int], tag: str = "t") -> pa.Table:
    who, at, n = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            "who": pa.array(who, pa.string()),
            "at": pa.array(at, pa.int32()),
            "n": pa.array(n, pa.int64()),
            "tags": pa.array([[f"{tag}{i}"] for i in n], pa.list_(pa.string())),
        }
    )


def windows(*rows: tuple[int, str, int]) -> pa.Table:
    time, who, n = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {TIME: pa.array(time, pa.int64()), "who": pa.array(who, pa.string()), "n": pa.array(n, pa.int64())}
    )


def content(store: StateStore) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in store.scan_all("sums").select(["who", "at", "n"]).to_pylist()]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture(params=["rocks", "memory"])
def store(request: pytest.FixtureRequest, bench: Bench) -> Any:
    if request.param == "memory":
        yield MemoryShardStore(SCHEMA)
    else:
        with bench.open() as opened:
            yield opened


def test_an_epoch_reads_its_own_writes(store: Any) -> None:
    store.put("sums", sums(("a", 1, 10), (None, 2, 20), ("a", 1, 11)))
    found = store.get("sums", sums(("a", 1, 0), ("b", 1, 0), (None, 2, 0), ("a", 1, 0)))
    assert found["n"].to_pylist() == [11, None, 20, 11]
    assert found["tags"].to_pylist() == [["t11"], None, ["t20"], ["t11"]]
    assert found[FOUND].to_pylist() == [True, False, True, True]
    store.delete("sums", sums(("a", 1, 0)))
    assert store.get("sums", sums(("a", 1, 0)))[FOUND].to_pylist() == [False]
    assert content(store) == [(None, 2, 20)]


def test_tables_of_no_rows(store: Any) -> None:
    empty = sums()
    store.put("sums", empty)
    store.delete("sums", empty)
    assert store.get("sums", empty).num_rows == 0
    assert store.scan_prefix("sums", empty).num_rows == 0
    assert store.scan_all("sums").schema == empty.schema
    assert store.has_time("windows", np.array([], np.int64)).tolist() == []
    assert store.scan_time("windows", None, None).column_names == [TIME, "who", "n"]
    with pytest.raises(KeyError, match="no table"):
        store.get("nothing", empty)
    with pytest.raises(ValueError, match="not ordered by time"):
        store.scan_time("sums", 0, 1)


def test_times_are_ordered_and_deleted_by_range(store: Any) -> None:
    low, high = -(2**63), 2**63 - 1
    store.put("windows", windows((5, "a", 1), (low, "b", 2), (-5, "a", 3), (high, "c", 4), (0, "a", 5)))
    assert store.scan_time("windows", None, None)[TIME].to_pylist() == [low, -5, 0, 5, high]
    assert store.scan_time("windows", -5, 5)[TIME].to_pylist() == [-5, 0]
    assert store.has_time("windows", np.array([0, 1, high, 0, low])).tolist() == [
        True,
        False,
        True,
        True,
        True,
    ]
    store.delete_time("windows", None, 0)
    assert store.scan_time("windows", None, None)[TIME].to_pylist() == [0, 5, high]
    store.put("windows", windows((-5, "z", 9)))
    store.delete_time("windows", 5, 6)
    assert store.scan_time("windows", None, high)["n"].to_pylist() == [9, 5]
    assert store.has_time("windows", np.array([low, -5, 5])).tolist() == [False, True, False]
    assert store.scan_time("windows", 3, 3).num_rows == 0
    store.delete_time("windows", 3, 2)
    assert store.scan_time("windows", None, None).num_rows == 3


def test_a_prefix_finds_all_sub_keys(store: Any) -> None:
    store.put("sums", sums(("a", 2, 1), ("a", -1, 2), ("ab", 0, 3), ("", 0, 4), ("b", 7, 5)))
    found = store.scan_prefix("sums", pa.table({"who": ["a", "", "c", "a"]}))
    assert sorted(found["n"].to_pylist()) == [1, 2, 4]
    assert found.filter(pa.compute.equal(found["who"], "a"))["at"].to_pylist() == [-1, 2]


def test_versions_are_read_again(bench: Bench) -> None:
    bench.epoch(sums(("a", 1, 1), ("b", 1, 2)))
    with bench.open() as store:
        store.delete("sums", sums(("a", 1, 0)))
        store.put("windows", windows((7, "a", 1), (8, "a", 2)))
        bench.version = store.commit()
    assert bench.version.rows == 3
    with bench.open() as store:
        store.delete_time("windows", None, 8)
        assert store.scan_time("windows", None, None)["n"].to_pylist() == [2]
        bench.version = store.commit()
    for executor in ("a", "new"):
        with bench.open(executor) as store:
            assert content(store) == [("b", 1, 2)]
            assert store.scan_time("windows", None, None)["n"].to_pylist() == [2]
            assert store.rebuilt == (executor == "new")
    assert bench.version.rows == 2
    assert ShardVersion.from_json(bench.version.to_json()) == bench.version


def test_empty_is_exact(bench: Bench) -> None:
    bench.epoch(sums(("a", 1, 1)))
    bench.epoch(sums(("a", 1, 2)))  # an unread overwrite: counted twice
    assert bench.version.rows >= 1
    with bench.open() as store:
        store.delete("sums", sums(("a", 1, 0)))
        bench.version = store.commit()
    assert (bench.version.rows, bench.version.bytes, bench.version.is_empty) == (0, 0, True)
    with bench.open() as store:
        store.put("windows", windows((1, "a", 1)))
        store.delete_time("windows", None, None)
        bench.version = store.commit()
    assert bench.version.is_empty


def test_an_epoch_without_changes_writes_nothing(bench: Bench) -> None:
    bench.epoch(sums(("a", 1, 1)))
    before = bench.version
    with bench.open() as store:
        bench.version = store.commit()
    assert bench.version.version == 2
    assert bench.version.files() == before.files()
    assert bench.version.chain == before.chain


def test_what_was_not_committed_is_gone(bench: Bench) -> None:
    bench.epoch(sums(("a", 1, 1)))
    with bench.open() as store:
        store.put("sums", sums(("a", 1, 99)))
    with bench.open() as store:
        store.put("sums", sums(("a", 1, 98)))
        store.commit()  # committed, but never published: the manifest was not written
    with bench.open() as store:
        assert content(store) == [("a", 1, 1)]
        assert not store.rebuilt
        store.commit()
        with pytest.raises(StateError, match="committed once"):
            store.commit()


def test_a_retry_writes_the_same_files(bench: Bench) -> None:
    bench.epoch(sums(("a", 1, 1)))
    versions = []
    for executor, order in (("a", 1), ("b", -1)):
        with bench.open(executor) as store:
            rows = [sums(("x", 1, 1)), sums(("y", 2, 2))]
            for part in rows[::order]:
                store.put("sums", part)
            versions.append(store.commit())
    assert versions[0] == versions[1]
    assert len(bench.checkpoint.list("state")) == 2


def test_a_lagging_cache_catches_up_by_deltas(tmp_path: Path) -> None:
    bench = Bench(tmp_path, SnapshotPolicy(min_bytes=0, max_deltas=3, retained_deltas=4))
    for i in range(9):
        bench.epoch(sums(("a", i, i)), "lagging" if i == 6 else "a")
    assert bench.version.snapshot
    assert len(bench.version.earlier) == 4  # some were dropped, and what the cache lacks was not
    assert bench.version.base_chain != bench.version.chain
    with bench.open("lagging") as store:
        assert [at for _, at, _ in content(store)] == list(range(9))
        assert not store.rebuilt


def test_a_cache_that_is_ahead_or_of_another_history_is_rebuilt(bench: Bench) -> None:
    bench.epoch(sums(("a", 1, 1)))
    old = bench.version
    bench.epoch(sums(("a", 1, 2)))
    bench.epoch(sums(("a", 1, 3)))
    with bench.open(version=old, epoch=2) as store:
        assert content(store) == [("a", 1, 1)]
        assert store.rebuilt
        store.put("sums", sums(("b", 1, 1)))
        other = store.commit()
    bench.version = other
    bench.epoch(sums())
    with bench.open() as store:
        assert content(store) == [("a", 1, 1), ("b", 1, 1)] or content(store) == [("b", 1, 1), ("a", 1, 1)]


def test_two_tasks_at_once_agree(bench: Bench) -> None:
    """Speculation: the second finds the cache locked and works in a directory of its own."""
    bench.epoch(sums(("a", 1, 1)))
    with bench.open() as first, bench.open() as second:
        assert second.rebuilt
        for store in (first, second):
            assert content(store) == [("a", 1, 1)]
            store.put("sums", sums(("b", 1, 2)))
        assert first.commit() == second.commit()
    assert [path.name for path in (bench.root / "a").iterdir()] == ["s1-00000-of-00001"]


def _hold(root: str, version: ShardVersion, ready: Any) -> None:
    bench = Bench(Path(root))
    bench.version = version
    with bench.open() as store:
        store.put("sums", sums(("z", 1, 1)))
        ready.set()
        multiprocessing.Event().wait(60)


def test_a_killed_task_leaves_no_lock(bench: Bench) -> None:
    bench.epoch(sums(("a", 1, 1)))
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=_hold, args=(str(bench.root), bench.version, ready))
    process.start()
    try:
        assert ready.wait(30)
        with bench.open() as store:
            assert store.rebuilt
            assert content(store) == [("a", 1, 1)]
    finally:
        process.kill()
        process.join()
    with bench.open() as store:
        assert not store.rebuilt
        assert content(store) == [("a", 1, 1)]


def test_snapshots_are_incremental_and_files_are_collectable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, OFTEN)
    seen: list[frozenset[str]] = []
    uploads: Counter[str] = Counter()
    put = CheckpointStore.put

    def counted(store: CheckpointStore, name: str, content: bytes | Path) -> None:
        uploads[name] += name.endswith(".sst")
        put(store, name, content)

    monkeypatch.setattr(CheckpointStore, "put", counted)
    for i in range(24):
        bench.epoch(sums(*((f"k{i}", at, i) for at in range(50))))
        names = frozenset(file.name for file in bench.version.snapshot if file.name.endswith(".sst"))
        if names and (not seen or seen[-1] != names):
            seen.append(names)
    assert len(seen) >= 3
    assert any(left & right for left, right in itertools.pairwise(seen))
    assert max(uploads.values()) == 1, "what a snapshot has is not uploaded for the next one"
    for name in set(bench.checkpoint.list()) - bench.version.files():
        bench.checkpoint.delete(name)
    with bench.open("new") as store:
        assert len(content(store)) == 1200


def test_digests_of_earlier_versions_are_still_understood(bench: Bench) -> None:
    bench.epoch(sums(("a", 1, 1)))
    (delta,) = bench.version.deltas
    assert delta.file is not None
    content_of = bench.checkpoint.get(delta.file.name)
    earlier = hashlib.blake2b(content_of, digest_size=16).hexdigest()
    assert file_digest(content_of) != earlier
    assert file_digest(content_of, like=earlier) == earlier
    assert fetch(bench.checkpoint, dataclasses.replace(delta.file, digest=earlier)) == content_of
    with pytest.raises(StateCorruptionError, match="digest differs"):
        fetch(bench.checkpoint, dataclasses.replace(delta.file, digest=earlier[::-1]))


@pytest.mark.parametrize("damage", ["flip", "truncate", "delete", "grow", "empty"])
def test_damage_of_any_file_is_an_error_and_never_a_wrong_result(tmp_path: Path, damage: str) -> None:
    bench = Bench(tmp_path, dataclasses.replace(OFTEN, new_bytes_per_delta_byte=100))  # LONG packs well
    for i in range(5):
        bench.epoch(sums(*((f"k{i}", at, i) for at in range(20)), tag=LONG))
    assert bench.version.snapshot
    assert bench.version.deltas
    with bench.open():  # this machine's cache catches up before anything is damaged
        pass
    needed = {file.name for file in bench.version.snapshot}
    needed |= {delta.file.name for delta in bench.version.deltas if delta.file is not None}
    kinds = set()
    for i, name in enumerate(sorted(needed)):
        kinds.add(Path(name).suffix or Path(name).name.split("-")[1])
        path = bench.root / "checkpoint" / name
        good = path.read_bytes()
        _damage(path, good, damage)
        with pytest.raises(StateCorruptionError) as caught, bench.open(f"new-{i}"):
            pass
        assert Path(name).name in caught.value.file
        assert "savepoint" in caught.value.help
        with bench.open() as store:  # this machine's cache is whole: it needs none of the files
            assert len(content(store)) == 100
        path.write_bytes(good)
    assert {".sst", ".blob", ".delta", "CURRENT", "MANIFEST"} <= kinds
    with bench.open("new-0") as store:
        assert len(content(store)) == 100


def _damage(path: Path, good: bytes, damage: str) -> None:
    middle = len(good) // 2
    bad = {
        "flip": good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :],
        "truncate": good[:-1],
        "grow": good + b"\0",
        "empty": b"",
    }
    if damage == "delete":
        path.unlink()
    else:
        path.write_bytes(bad[damage])


@pytest.mark.parametrize("kind", ["sst", "blob"])
def test_a_damaged_cache_is_rebuilt(bench: Bench, kind: str) -> None:
    rows = sums(*((f"k{i:04}", at, i) for i in range(200) for at in range(5)), tag=LONG)
    bench.epoch(rows)
    with bench.open():
        pass
    with bench.open():
        pass
    files = list((bench.root / "a").rglob(f"*.{kind}"))
    assert files
    for file in files:
        good = file.read_bytes()
        file.write_bytes(good[:200] + bytes(byte ^ 0xFF for byte in good[200:1200]) + good[1200:])
    with bench.open() as store:
        found = store.get("sums", rows)
        assert store.rebuilt
        assert found.select(["n", "tags"]).equals(rows.select(["n", "tags"]))
        assert store.scan_all("sums").num_rows == 1000


@pytest.mark.parametrize("pattern", ["rewritten", "queue"])
def test_large_values_that_are_dead_leave_the_disk(tmp_path: Path, pattern: str) -> None:
    rows, value, live = 500, b"v" * 2000, 1_000_000
    largest = 0
    for epoch in range(60):
        store = RocksBytes(tmp_path)
        first = epoch * rows if pattern == "queue" else 0
        keys = [b"\0\0\0" + i.to_bytes(4, "big") for i in range(first, first + rows)]
        gone = [b"\0\0\0" + i.to_bytes(4, "big") for i in range(first - rows, first) if i >= 0]
        store.apply((), [*gone, *keys], [*[None] * len(gone), *[value] * rows], str(epoch))
        store.flush()
        store.settle()
        store.close()
        largest = max(largest, sum(file.stat().st_size for file in tmp_path.glob("*.blob")))
    # 60 MB were written, and a dozen epochs are let be before files are looked into.
    assert live < largest < 25 * live


def test_a_damaged_copy_of_the_last_delta_is_fetched_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CheckpointStore, "is_local", False)
    bench.epoch(sums(("old", 1, 1)))
    bench.epoch(sums(("new", 1, 1)))
    pending = next((bench.root / "a").rglob("pending"))
    (copy,) = pending.iterdir()
    copy.write_bytes(b"rubbish")
    with bench.open() as store:
        assert not store.rebuilt
        assert content(store) == [("new", 1, 1), ("old", 1, 1)]


def test_no_copy_of_the_last_delta_beside_a_checkpoint_on_the_same_machine(bench: Bench) -> None:
    bench.epoch(sums(("a", 1, 1)))
    assert not list((bench.root / "a").rglob("pending"))
    with bench.open() as store:
        assert content(store) == [("a", 1, 1)]


def test_a_cache_full_of_rubbish_is_rebuilt(bench: Bench) -> None:
    bench.epoch(sums(("a", 1, 1)))
    with bench.open():
        pass
    for file in (bench.root / "a" / "s1-00000-of-00001" / "db").iterdir():
        file.write_bytes(b"rubbish")
    with bench.open() as store:
        assert content(store) == [("a", 1, 1)]
        assert store.rebuilt


def _rescaled(
    root: Path, checkpoint: CheckpointStore, olds: Sequence[ShardVersion], shards: int, epoch: int
) -> list[ShardVersion]:
    out = []
    for shard in range(shards):
        with ShardStore.open(
            SCHEMA, shard, shards, 128, olds, checkpoint=checkpoint, local_dir=root / "r", epoch=epoch
        ) as store:
            out.append(store.commit())
    return out


def test_rescaling_keeps_every_row_once(bench: Bench) -> None:
    rows = sums(*((f"k{i}", 0, i) for i in range(300)))
    with bench.open() as store:
        store.put("sums", rows)
        store.put("windows", windows(*((i % 7, f"k{i}", i) for i in range(300))))
        bench.version = store.commit()
    olds = [bench.version]
    for epoch, shards in enumerate((3, 5, 2, 1), start=2):
        olds = _rescaled(bench.root, bench.checkpoint, olds, shards, epoch)
        assert sum(old.rows for old in olds) == 600
    with bench.open("z", version=olds[0]) as store:
        assert sorted(store.scan_all("sums")["n"].to_pylist()) == list(range(300))
        assert sorted(store.scan_all("windows")["n"].to_pylist()) == list(range(300))


def test_a_row_of_another_shard_is_refused(tmp_path: Path) -> None:
    store = MemoryShardStore(SCHEMA, 0, 64)
    with pytest.raises(StateError, match="came to the shard of groups 0 to 1"):
        store.put("sums", sums(*((f"k{i}", 0, i) for i in range(50))))


def test_values_of_an_older_schema_are_read_lazily(bench: Bench) -> None:
    bench.epoch(sums(("a", 1, 1)))
    sums_table, windows_table = SCHEMA.tables
    value = [StateField("renamed", t.BIGINT, "n"), StateField("extra", t.DOUBLE, "extra")]
    changed = StateTable.of("sums", "key", key=sums_table.key, sub_key=sums_table.sub_key, value=value)
    schema = StateSchema("s1", "Test", "", (windows_table, changed))
    with bench.open(schema=schema) as store:
        row = store.get("sums", sums(("a", 1, 0))).to_pylist()
        assert row == [{"renamed": 1, "extra": None, FOUND: True}] or row == [
            {"extra": None, "renamed": 1, FOUND: True}
        ]
        new = pa.table({"who": ["b"], "at": pa.array([1], pa.int32()), "renamed": [2], "extra": [0.5]})
        store.put("sums", new)
        bench.version = store.commit()
    assert len(bench.version.schemas) == 2
    with bench.open(schema=schema) as store:
        got = {row["who"]: (row["renamed"], row["extra"]) for row in store.scan_all("sums").to_pylist()}
        assert got == {"a": (1, None), "b": (2, 0.5)}
    other = StateTable.of("sums", "key", key=sums_table.key, value=value)
    with pytest.raises(StateSchemaError, match="another key"):
        bench.open(schema=StateSchema("s1", "Test", "", (other,)))


def test_the_manifest_is_checked(bench: Bench) -> None:
    bench.epoch(sums(("a", 1, 1)))
    bench.epoch(sums(("a", 1, 2)))
    data = bench.version.to_json()
    data["deltas"] = data["deltas"][1:]
    with pytest.raises(StateCorruptionError, match="do not lead to it"):
        bench.open(version=ShardVersion.from_json(data))
    with pytest.raises(StateError, match="can't start from version 2"):
        bench.open(epoch=2)


def test_delta_files_are_deterministic_and_checked() -> None:
    rows: dict[bytes, bytes | None] = {b"b": b"2", b"a": None, b"": b"", b"c" * 300: b"x" * 70_000}
    file = encode_delta(rows)
    assert file == encode_delta(dict(reversed(rows.items())))
    keys, values = decode_delta(file)
    assert dict(zip(keys, values, strict=True)) == rows
    assert keys == sorted(rows)
    assert decode_delta(encode_delta({})) == ([], [])
    for bad in (b"", b"something else entirely", file[:20]):
        with pytest.raises(ValueError, match="delta file"):
            decode_delta(bad)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_checkpoint_store_keeps_files(tmp_path: Path, scheme: str) -> None:
    checkpoint = CheckpointStore(f"{scheme}{tmp_path}/a")
    assert checkpoint.list() == []
    checkpoint.put("x/y.bin", b"1")
    checkpoint.put("x/y.bin", b"22")
    local = tmp_path / "local"
    local.write_bytes(b"333")
    checkpoint.put("z", local)
    assert checkpoint.get("x/y.bin") == b"22"
    assert checkpoint.list() == ["x/y.bin", "z"]
    assert checkpoint.list("x") == ["x/y.bin"]
    assert (checkpoint.size("z"), checkpoint.exists("x"), checkpoint.exists("nope")) == (3, False, False)
    again: CheckpointStore = pickle.loads(pickle.dumps(checkpoint))
    again.download("z", local)
    assert local.read_bytes() == b"333"
    checkpoint.delete("z")
    checkpoint.delete("z")
    with pytest.raises(FileNotFoundError):
        checkpoint.get("z")
    again.put_exclusive("m/1.json", b"first")
    with pytest.raises(FileExistsError):
        checkpoint.put_exclusive("m/1.json", b"second")
    assert checkpoint.get("m/1.json") == b"first"
    assert checkpoint.list("m") == ["m/1.json"]
    checkpoint.put("n/1.json", b"older")
    for _ in range(2):  # the second time it is there already
        checkpoint.move("m/1.json", "n/1.json")
        assert checkpoint.list("m") == []
        assert checkpoint.get("n/1.json") == b"first"


def test_a_lost_local_disk_is_no_loss(tmp_path: Path) -> None:
    bench = Bench(tmp_path, OFTEN)
    for i in range(8):
        shutil.rmtree(bench.root / "a", ignore_errors=True)
        bench.epoch(sums(("a", i, i)))
    with bench.open() as store:
        assert [n for _, _, n in content(store)] == list(range(8))


@pytest.mark.parametrize("how", ["gone", "short"])
def test_a_file_that_the_store_lost_comes_back_with_the_next_snapshot(tmp_path: Path, how: str) -> None:
    """The cache has it; a snapshot that named it again without looking could not be restored anywhere."""
    bench = Bench(tmp_path, OFTEN)
    for epoch in range(20):
        bench.epoch(sums(("a", epoch, epoch), tag=LONG))
    kept = [file for file in bench.version.snapshot if file.name.endswith((".sst", ".blob"))]
    for file in kept:
        path = tmp_path / "checkpoint" / file.name
        content = path.read_bytes()
        path.unlink()
        if how == "short":
            path.write_bytes(content[:-1])
    before = bench.version.snapshot
    for epoch in range(20, 30):
        bench.epoch(sums(("a", epoch, epoch), tag=LONG))
    assert {f.name for f in kept} & {f.name for f in bench.version.snapshot}, "none of them was kept"
    assert before != bench.version.snapshot
    with bench.open("another") as store:
        assert content_of(store) == [("a", epoch, epoch) for epoch in range(30)]


def test_damage_of_the_cache_that_is_met_in_the_background_is_mended(tmp_path: Path) -> None:
    """RocksDB tells of it when it is closed, after a compaction: the epoch's work is done by then."""
    bench = Bench(tmp_path, OFTEN)
    for epoch in range(20):
        bench.epoch(sums(("a", epoch, epoch), tag=LONG))
    for path in (tmp_path / "a").rglob("*.blob"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    for epoch in range(20, 30):
        bench.epoch(sums(("a", epoch, epoch), tag=LONG))
    for executor in ("a", "another"):
        with bench.open(executor) as store:
            assert content_of(store) == [("a", epoch, epoch) for epoch in range(30)]


def content_of(store: StateStore) -> list[tuple[Any, ...]]:
    return sorted(content(store))


def test_a_full_disk_is_that_of_the_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(source))

    (tmp_path / "file").write_bytes(b"x")
    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(OSError, match="No space left") as raised:
        CheckpointStore(tmp_path / "copy").put("state/x", tmp_path / "file")
    assert raised.value.filename == str(tmp_path / "copy/state/x")
