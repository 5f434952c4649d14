"""`StateStore.ends`: always the first and last row that a scan of the same prefixes gives, whatever was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_operators.plan import types as t
from sqlstream_operators.plan.state_schema import TIME, StateField, StateSchema, StateTable
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.memory import MemoryShardStore
from sqlstream_operators.state.shard_store import ShardStore
from sqlstream_operators.state.store import StateStore
from sqlstream_operators.state.version import ShardVersion
from tests.examples import examples

WHO = [StateField("who", t.VARCHAR, "who")]
AT = [StateField("at", t.INTEGER, "at")]
N = [StateField("n", t.BIGINT, "n")]
SCHEMA = StateSchema(
    "ends",
    "Test",
    "",
    (
        StateTable.of("by_key", "key", key=WHO, sub_key=AT, value=N),
        StateTable.of("by_time", "time", key=WHO, sub_key=AT, value=N),
        StateTable.of("no_key", "key", sub_key=AT, value=N),
    ),
)
TABLES = [table.name for table in SCHEMA.tables]
NAMES = [None, "", "a", "a\0", "b"]
ROW = st.tuples(st.integers(0, 2), st.sampled_from(NAMES), st.none() | st.integers(-1, 2))
STEP = st.one_of(
    st.tuples(st.just("put"), st.lists(ROW, min_size=1, max_size=8)),
    st.tuples(st.just("put"), st.lists(ROW, min_size=1, max_size=8)),
    st.tuples(st.just("delete"), st.lists(ROW, min_size=1, max_size=8)),
    st.tuples(
        st.just("delete_time"), st.tuples(st.none() | st.integers(0, 2), st.none() | st.integers(0, 3))
    ),
)
Steps = list[tuple[str, Any]]


def rows(values: list[tuple[Any, ...]]) -> pa.Table:
    time, who, at = zip(*values, strict=True) if values else ((), (), ())
    return pa.table(
        {
            TIME: pa.array(time, pa.int64()),
            "who": pa.array(who, pa.string()),
            "at": pa.array(at, pa.int32()),
            "n": pa.array(range(len(values)), pa.int64()),
        }
    )


def play(store: StateStore, steps: Steps) -> None:
    """Do the steps to every table, and compare every end after each."""
    for what, values in steps:
        for table in TABLES:
            if what == "put":
                store.put(table, rows(values))
            elif what == "delete":
                store.delete(table, rows(values))
            elif table == "by_time":
                store.delete_time(table, *values)
            compare(store, table)


def compare(store: StateStore, table: str) -> None:
    requested = rows([(time, who, None) for time in range(3) for who in NAMES])
    own = [name for name in (TIME, "who") if name in SCHEMA.table(table).key_columns]
    firsts: dict[tuple[Any, ...], dict[str, Any]] = {}
    lasts: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in store.scan_prefix(table, requested).to_pylist():
        key = tuple(row[name] for name in own)
        firsts.setdefault(key, row)
        lasts[key] = row
    for last, wanted in ((False, firsts), (True, lasts)):
        found = store.ends(table, requested, last=last)
        assert found.column_names == [*SCHEMA.table(table).key_columns, "n"]
        listed = found.to_pylist()
        assert len(listed) == len(wanted)
        assert {tuple(row[name] for name in own): row for row in listed} == wanted


@settings(max_examples=examples(20))
@given(st.lists(st.lists(STEP, max_size=6), max_size=4))
def test_ends_are_those_of_a_scan(epochs: list[Steps]) -> None:
    store = MemoryShardStore(SCHEMA)
    for steps in epochs:
        play(store, steps)
        store.commit()


@settings(max_examples=examples(6))
@given(st.lists(st.lists(STEP, max_size=6), max_size=4))
def test_ends_on_rocksdb(tmp_path_factory: pytest.TempPathFactory, epochs: list[Steps]) -> None:
    base: Path = tmp_path_factory.mktemp("store")
    checkpoint = CheckpointStore(base / "checkpoint", sync=False)
    version = ShardVersion.empty()
    for epoch, steps in enumerate(epochs, start=1):
        with ShardStore.open(
            SCHEMA, 0, 1, 128, version, checkpoint=checkpoint, local_dir=base / "local", epoch=epoch
        ) as store:
            play(store, steps)
            version = store.commit()


def test_an_end_passes_all_deletions_of_the_epoch() -> None:
    store = MemoryShardStore(SCHEMA)
    store.put("by_key", rows([(0, "a", at) for at in range(6)]))
    store.commit()
    store.delete("by_key", rows([(0, "a", at) for at in (0, 1, 2, 5)]))
    key = rows([(0, "a", None), (0, "b", None), (0, "a", None)])
    assert store.ends("by_key", key, last=False).column("at").to_pylist() == [3]
    assert store.ends("by_key", key, last=True).column("at").to_pylist() == [4]
    store.put("by_key", rows([(0, "a", 9), (0, "a", None)]))
    assert store.ends("by_key", key, last=False).column("at").to_pylist() == [None]
    assert store.ends("by_key", key, last=True).column("at").to_pylist() == [9]
