"""`StateStore.scan_first` and `scan_between` against `scan_prefix`, with rows of the epoch over published ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_operators.plan import types as t
from sqlstream_operators.plan.state_schema import StateField, StateSchema, StateTable
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.memory import MemoryShardStore
from sqlstream_operators.state.shard_store import ShardStore
from sqlstream_operators.state.state_tables import StateTables
from sqlstream_operators.state.version import ShardVersion
from tests.examples import examples

SCHEMA = StateSchema(
    "s",
    "Test",
    "",
    (
        StateTable.of(
            "rows",
            "key",
            key=[StateField("k", t.VARCHAR, "k")],
            sub_key=[StateField("at", t.INTEGER, "at")],
            value=[StateField("n", t.BIGINT, "n")],
        ),
    ),
)
KEYS = [None, "", "a", "b", "\0"]
rows = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 9), st.integers(0, 99)), max_size=30)


def table(listed: list[tuple[Any, int, int]]) -> pa.Table:
    return pa.table(
        {
            "k": pa.array([k for k, _, _ in listed], pa.string()),
            "at": pa.array([at for _, at, _ in listed], pa.int32()),
            "n": pa.array([n for _, _, n in listed], pa.int64()),
        }
    )


def check(store: StateTables, most: list[int]) -> None:
    order = [3, 0, 4, 2, 1][: len(most)]
    keys = pa.table({"k": pa.array([KEYS[i] for i in order], pa.string())})
    found, sizes = store.scan_first("rows", keys, np.array(most, np.int64))
    expected = []
    for i, limit in zip(order, most, strict=True):
        mine = store.scan_prefix("rows", pa.table({"k": pa.array([KEYS[i]], pa.string())}))
        expected.append(mine.slice(0, limit).to_pylist())
    assert sizes.tolist() == [len(part) for part in expected]
    assert found.to_pylist() == [row for part in expected for row in part]
    check_between(store, most)


def check_between(store: StateTables, most: list[int]) -> None:
    """From the place of 3, or behind it, on and back to the ends of each key."""
    keys = [KEYS[i] for i in range(len(most))]
    parts = {key: store.scan_prefix("rows", pa.table({"k": pa.array([key], pa.string())})) for key in keys}
    [begins, at] = [store.places("rows", table([(key, 3, 0) for key in keys]), n) for n in (0, 1)]
    limits = np.array(most, np.int64)
    for behind in (0, 1):
        places = [place + b"\xff" * behind for place in at]
        ends = [place + b"\xff" for place in begins]
        found, sizes = store.scan_between("rows", list(zip(places, ends, strict=True)), limits)
        wanted = [
            [row for row in parts[key].to_pylist() if row["at"] >= 3 + behind][:limit]
            for key, limit in zip(keys, most, strict=True)
        ]
        assert (found.to_pylist(), sizes.tolist()) == (
            [r for part in wanted for r in part],
            list(map(len, wanted)),
        )
        found, sizes = store.scan_between(
            "rows", list(zip(begins, places, strict=True)), limits, backwards=True
        )
        wanted = [
            [row for row in parts[key].to_pylist() if row["at"] < 3 + behind][::-1][:limit][::-1]
            for key, limit in zip(keys, most, strict=True)
        ]
        assert (found.to_pylist(), sizes.tolist()) == (
            [r for part in wanted for r in part],
            list(map(len, wanted)),
        )


@settings(max_examples=examples(40))
@given(rows, rows, rows, st.lists(st.integers(0, 12), max_size=5))
def test_in_memory(
    published: list[tuple[Any, int, int]],
    written: list[tuple[Any, int, int]],
    deleted: list[tuple[Any, int, int]],
    most: list[int],
) -> None:
    store = MemoryShardStore(SCHEMA)
    store.put("rows", table(published))
    store.commit()
    check(store, most)
    store.put("rows", table(written))
    store.delete("rows", table(deleted))
    check(store, most)


def test_on_rocksdb(tmp_path: Path) -> None:
    checkpoint = CheckpointStore(str(tmp_path / "c"))
    version = ShardVersion.empty()

    def opened() -> ShardStore:
        return ShardStore.open(
            SCHEMA,
            0,
            1,
            128,
            version,
            checkpoint=checkpoint,
            local_dir=tmp_path / "l",
            epoch=version.version + 1,
        )

    with opened() as store:
        store.put("rows", table([(k, at, at) for k in KEYS for at in range(10)]))
        version = store.commit()
    with opened() as store:
        for most in ([0, 1, 9, 10, 11], [3]):
            check(store, most)
        store.delete("rows", table([("b", 0, 0), ("a", 1, 0)]))
        store.put("rows", table([("b", -1, 0), ("a", 0, 77)]))
        check(store, [3, 1, 1, 4, 0])


@pytest.mark.parametrize("most", [0, 5])
def test_of_a_key_without_rows_and_of_no_keys(most: int) -> None:
    store = MemoryShardStore(SCHEMA)
    check(store, [most])
    check(store, [])
