"""Random epochs, crashes, lost and lagging caches, rescales, snapshots, damage: always what a dict holds."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sqlstream_operators.codec.keys import key_groups, shard_of
from sqlstream_operators.errors import StateCorruptionError
from sqlstream_operators.plan import types as t
from sqlstream_operators.plan.state_schema import FOUND, TIME, StateField, StateSchema, StateTable
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.memory import MemoryShardStore
from sqlstream_operators.state.open_caches import OpenCaches
from sqlstream_operators.state.rocks import BLOB_MIN_VALUE_BYTES
from sqlstream_operators.state.shard_store import ShardStore
from sqlstream_operators.state.snapshots import SnapshotPolicy
from sqlstream_operators.state.state_tables import StateTables
from sqlstream_operators.state.version import ShardVersion

GROUPS = 12
SCHEMA = StateSchema(
    "state with a: name/..",
    "Test",
    "",
    (
        StateTable.of(
            "rows",
            "key",
            key=[StateField("who", t.VARCHAR, "who")],
            sub_key=[StateField("at", t.INTEGER, "at")],
            value=[StateField("n", t.BIGINT, "n")],
        ),
        StateTable.of(
            "windows",
            "time",
            key=[StateField("who", t.VARCHAR, "who")],
            value=[StateField("n", t.BIGINT, "n"), StateField("s", t.VARCHAR, "s")],
        ),
    ),
)
WHO = st.sampled_from([None, "", "a", "ab", "b\0", "é", "zz"])
AT = st.integers(-2, 2)
TIMES = st.integers(-3, 6)
BOUND = st.none() | TIMES

# One step of an epoch: what to do, and to which rows.
STEP = st.one_of(
    st.tuples(st.just("put"), st.lists(st.tuples(WHO, AT, st.integers(0, 99)), min_size=1, max_size=6)),
    st.tuples(st.just("delete"), st.lists(st.tuples(WHO, AT), min_size=1, max_size=3)),
    st.tuples(st.just("get"), st.lists(st.tuples(WHO, AT), min_size=1, max_size=4)),
    st.tuples(st.just("prefix"), st.lists(st.tuples(WHO), min_size=1, max_size=3)),
    st.tuples(
        st.just("put_time"), st.lists(st.tuples(TIMES, WHO, st.integers(0, 99)), min_size=1, max_size=6)
    ),
    st.tuples(st.just("append"), st.lists(st.tuples(TIMES, WHO, st.integers(0, 99)), min_size=1, max_size=6)),
    st.tuples(st.just("get_at"), st.lists(st.tuples(TIMES, WHO), min_size=1, max_size=6)),
    st.tuples(st.just("delete_at"), st.lists(st.tuples(TIMES, WHO), min_size=1, max_size=3)),
    st.tuples(st.just("delete_time"), st.tuples(BOUND, BOUND)),
    st.tuples(st.just("scan_time"), st.tuples(BOUND, BOUND)),
    st.tuples(st.just("has_time"), st.lists(TIMES, max_size=5)),
)
Rows = dict[tuple[Any, ...], int]


def columns(names: dict[str, pa.DataType], rows: list[tuple[Any, ...]]) -> pa.Table:
    parts = zip(*rows, strict=True) if rows else [()] * len(names)
    return pa.table(
        {name: pa.array(part, type_) for (name, type_), part in zip(names.items(), parts, strict=True)}
    )


KEY = {"who": pa.string(), "at": pa.int32()}
TIME_KEY = {TIME: pa.int64(), "who": pa.string()}


def owner(who: Any, shards: int, groups: int) -> int:
    return int(shard_of(key_groups([pa.array([who], pa.string())], groups), shards, groups)[0])


def text(n: int) -> str:
    """A text for a number: short for even ones, long enough for a blob for odd ones."""
    return str(n) * (1 if n % 2 == 0 else BLOB_MIN_VALUE_BYTES)


def within(time: int, low: int | None, high: int | None) -> bool:
    return (low is None or low <= time) and (high is None or time < high)


def play(store: StateTables, steps: list[Any], rows: Rows, windows: Rows, mine: Any) -> None:
    """Do the steps on the store and on the model's part of this shard, and compare every read."""
    for what, args in steps:
        if what == "put":
            own = [row for row in args if mine(row[0])]
            store.put("rows", columns({**KEY, "n": pa.int64()}, own))
            rows.update({(who, at): n for who, at, n in own})
        elif what == "delete":
            own = [row for row in args if mine(row[0])]
            store.delete("rows", columns(KEY, own))
            for key in own:
                rows.pop(key, None)
        elif what == "get":
            own = [row for row in args if mine(row[0])]
            got = store.get("rows", columns(KEY, own))
            assert got["n"].to_pylist() == [rows.get(key) for key in own]
            assert got[FOUND].to_pylist() == [key in rows for key in own]
        elif what == "prefix":
            own = [row for row in args if mine(row[0])]
            found = store.scan_prefix("rows", columns({"who": pa.string()}, own)).to_pylist()
            wanted = {key: n for key, n in rows.items() if (key[0],) in own}
            assert {(row["who"], row["at"]): row["n"] for row in found} == wanted
            assert len(found) == len(wanted)
        elif what in ("put_time", "append"):
            own = [row for row in args if mine(row[1]) and (what == "put_time" or row[:2] not in windows)]
            table = columns({**TIME_KEY, "n": pa.int64()}, own)
            table = table.append_column("s", pa.array([text(n) for _, _, n in own], pa.string()))
            (store.put if what == "put_time" else store.append)("windows", table)
            windows.update({(time, who): n for time, who, n in own})
        elif what == "get_at":
            own = [row for row in args if mine(row[1])]
            got = store.get("windows", columns(TIME_KEY, own))
            assert got["n"].to_pylist() == [windows.get(key) for key in own]
        elif what == "delete_at":
            own = [row for row in args if mine(row[1])]
            store.delete("windows", columns(TIME_KEY, own))
            for key in own:
                windows.pop(key, None)
        elif what == "delete_time":
            store.delete_time("windows", *args)
            for key in [key for key in windows if within(key[0], *args)]:
                del windows[key]
        elif what == "scan_time":
            found = store.scan_time("windows", *args).to_pylist()
            assert [row[TIME] for row in found] == sorted(row[TIME] for row in found)
            assert {(row[TIME], row["who"]): row["n"] for row in found} == {
                key: n for key, n in windows.items() if within(key[0], *args)
            }
            assert all(row["s"] == text(row["n"]) for row in found)
        else:
            times = {time for time, _ in windows}
            assert store.has_time("windows", np.array(args, np.int64)).tolist() == [x in times for x in args]


def read(store: StateTables) -> tuple[Rows, Rows]:
    rows = {(row["who"], row["at"]): row["n"] for row in store.scan_all("rows").to_pylist()}
    windows = {(row[TIME], row["who"]): row["n"] for row in store.scan_all("windows").to_pylist()}
    return rows, windows


class Store(RuleBasedStateMachine):
    """The published versions of all shards, against the model's two dicts."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="state-"))
        self.checkpoint = CheckpointStore(self.root / "checkpoint", sync=False)
        self.versions = [ShardVersion.empty()]
        self.groups = GROUPS
        self.rows: Rows = {}
        self.windows: Rows = {}
        self.epoch = 0
        self.fresh = 0
        #: Of those that keep their caches open from epoch to epoch.
        self.kept = {executor: OpenCaches(most) for executor, most in (("a", 100), ("b", 1))}

    def teardown(self) -> None:
        try:
            for executor in "ac":
                assert self._read_all(executor) == (self.rows, self.windows)
        finally:
            for caches in self.kept.values():
                caches.close()
            shutil.rmtree(self.root)

    def _open(
        self,
        shard: int,
        shards: int,
        version: Any,
        executor: str,
        policy: SnapshotPolicy,
        groups: int | None = None,
    ) -> ShardStore:
        return ShardStore.open(
            SCHEMA,
            shard,
            shards,
            groups or self.groups,
            version,
            checkpoint=self.checkpoint,
            local_dir=self.root / executor,
            epoch=self.epoch + 1,
            policy=policy,
            written_with=self.groups,
            kept=self.kept.get(executor),
        )

    def _read_all(self, executor: str) -> tuple[Rows, Rows]:
        rows: Rows = {}
        windows: Rows = {}
        for shard, version in enumerate(self.versions):
            with self._open(shard, len(self.versions), version, executor, SnapshotPolicy()) as store:
                more, more_windows = read(store)
            rows.update(more)
            windows.update(more_windows)
        return rows, windows

    @initialize(seeded=st.booleans())
    def first_epoch(self, seeded: bool) -> None:
        """Mostly start from some rows: most of what can go wrong needs rows that were published before."""
        if seeded:
            put = [(who, at, 1) for who in ("a", "ab", None) for at in (-1, 1)]
            put_time = [(time, who, 2) for time in (-2, 0, 1, 4) for who in ("a", "é")]
            steps = [("put", put), ("put_time", put_time)]
            self.run_epoch(steps, ["a", "b", "c", "a", "b", "c"], "no", False, None, 100, 2)

    @rule(
        steps=st.lists(STEP, min_size=1, max_size=6),
        executors=st.lists(st.sampled_from("abc"), min_size=6, max_size=6),
        crash=st.sampled_from(["no", "no", "no", "before commit", "after commit"]),
        retry=st.booleans(),
        rescale=st.none() | st.tuples(st.integers(1, 6), st.sampled_from([GROUPS, GROUPS, 7, 300])),
        max_deltas=st.sampled_from([0, 1, 3, 100]),
        keep=st.sampled_from([0, 2, 16]),
    )
    def epoch_rule(
        self,
        steps: list[Any],
        executors: list[str],
        crash: str,
        retry: bool,
        rescale: tuple[int, int] | None,
        max_deltas: int,
        keep: int,
    ) -> None:
        self.run_epoch(steps, executors, crash, retry, rescale, max_deltas, keep)

    def run_epoch(
        self,
        steps: list[Any],
        executors: list[str],
        crash: str,
        retry: bool,
        rescale: tuple[int, int] | None,
        max_deltas: int,
        keep: int,
    ) -> None:
        policy = SnapshotPolicy(min_bytes=1 << 20, max_deltas=max_deltas, retained_deltas=keep)
        shards, groups = rescale or (len(self.versions), self.groups)
        published = []
        rows: Rows = {}
        windows: Rows = {}
        for shard in range(shards):
            start: Any = tuple(self.versions) if rescale else self.versions[shard]

            def mine(who: Any, shard: int = shard) -> bool:
                return owner(who, shards, groups) == shard

            attempts: list[ShardVersion] = []
            for executor in [executors[shard]] * (2 if crash != "no" else 1) + (["d"] if retry else []):
                own = {key: n for key, n in self.rows.items() if mine(key[0])}
                own_windows = {key: n for key, n in self.windows.items() if mine(key[1])}
                with self._open(shard, shards, start, executor, policy, groups) as store:
                    play(store, steps, own, own_windows, mine)
                    assert read(store) == (own, own_windows)
                    if crash == "before commit" and not attempts:
                        crash = "no"
                        continue
                    attempts.append(store.commit())
            assert len({version.chain for version in attempts}) == 1
            assert len({version.deltas[-1:] for version in attempts}) == 1
            final = attempts[-1]
            assert final.is_empty == (not own and not own_windows)
            assert (final.bytes == 0) == final.is_empty
            published.append(ShardVersion.from_json(final.to_json()))
            rows.update(own)
            windows.update(own_windows)
        self.versions, self.rows, self.windows = published, rows, windows
        self.groups = groups
        self.epoch += 1

    @rule(executor=st.sampled_from("abcd"))
    def lose_a_disk(self, executor: str) -> None:
        shutil.rmtree(self.root / executor, ignore_errors=True)

    @rule(executor=st.sampled_from("ab"))
    def end_a_process(self, executor: str) -> None:
        self.kept[executor].close()

    @rule(executor=st.sampled_from("ab"))
    def kill_a_process(self, executor: str) -> None:
        """What it had in memory only is lost, and it leaves the slots that it had open as they are on the disk."""
        slots = [cache.slot for cache in self.kept[executor]._open.values()]
        for slot in slots:
            shutil.copytree(slot / "db", slot / "killed")
        self.kept[executor].close()
        for slot in slots:
            shutil.rmtree(slot / "db")
            (slot / "killed").rename(slot / "db")

    @rule()
    def collect_garbage(self) -> None:
        needed = frozenset().union(*(version.files() for version in self.versions))
        for name in set(self.checkpoint.list()) - needed:
            self.checkpoint.delete(name)

    @rule(pick=st.integers(0, 1 << 30), damage=st.sampled_from(["flip", "truncate", "delete"]))
    def damage_a_file(self, pick: int, damage: str) -> None:
        names = sorted(frozenset().union(*(version.files() for version in self.versions)))
        if not names:
            return
        path = self.root / "checkpoint" / names[pick % len(names)]
        good = path.read_bytes()
        at = pick % len(good)
        if damage == "delete":
            path.unlink()
        else:
            path.write_bytes(
                good[:at] + (bytes([good[at] ^ 0x40]) + good[at + 1 :] if damage == "flip" else b"")
            )
        self.fresh += 1
        try:
            found = self._read_all(f"fresh{self.fresh}")
        except StateCorruptionError:
            pass
        else:  # only a delta from before the snapshot can be missing without harm
            earlier = {d.file.name for v in self.versions for d in v.earlier if d.file is not None}
            assert names[pick % len(names)] in earlier
            assert found == (self.rows, self.windows)
        path.write_bytes(good)

    @rule(executor=st.sampled_from("abcd"))
    def read_everything(self, executor: str) -> None:
        assert self._read_all(executor) == (self.rows, self.windows)

    @invariant()
    def counters_say_whether_there_are_rows(self) -> None:
        empty = not self.rows and not self.windows
        assert all(version.is_empty for version in self.versions) == empty


Store.TestCase.settings = settings(
    max_examples=20,
    stateful_step_count=10,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@pytest.mark.search
class TestStore(Store.TestCase):  # type: ignore[misc, valid-type]
    """The state machine; raise max_examples to search longer."""


class Twin(RuleBasedStateMachine):
    """The in-memory twin, against the same model: it is what operators are tested on."""

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryShardStore(SCHEMA, max_parallelism=GROUPS)
        self.rows: Rows = {}
        self.windows: Rows = {}

    @rule(steps=st.lists(STEP, max_size=6), commit=st.booleans())
    def run_epoch(self, steps: list[Any], commit: bool) -> None:
        rows, windows = dict(self.rows), dict(self.windows)
        play(self.store, steps, rows, windows, lambda who: True)
        if commit:
            version = self.store.commit()
            self.rows, self.windows = rows, windows
            assert version.rows == len(rows) + len(windows)
        else:
            self.store.abort()
        assert read(self.store) == (self.rows, self.windows)


Twin.TestCase.settings = settings(max_examples=25, stateful_step_count=10, deadline=None)


class TestTwin(Twin.TestCase):  # type: ignore[misc, valid-type]
    """The state machine of the twin."""
