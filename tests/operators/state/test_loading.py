"""Loading a whole table writes what putting its rows writes, byte for byte, and is seen by whatever follows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_operators.plan import types as t
from sqlstream_operators.plan.state_schema import FOUND, TIME, StateField, StateSchema, StateTable
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.shard_store import ShardStore
from sqlstream_operators.state.version import ShardVersion
from tests.examples import examples
from tests.operators.arrow_strategies import any_types, columns

WHO = StateField("who", t.VARCHAR, "who")
N = StateField("n", t.BIGINT, "n")
SCHEMA = StateSchema(
    "s1",
    "Test",
    "a table of each layout",
    (
        StateTable.of("one", "key", key=[WHO], value=[N]),
        StateTable.of("windows", "time", key=[WHO], value=[N]),
        StateTable.of("listed", "list", key=[WHO], value=[N]),
    ),
)
ONE = pa.table({"who": ["b", "a", None, "b", ""], "n": [1, 2, 3, 4, None]})
WINDOWS = pa.table({TIME: [5, -1, 5], "who": ["a", "a", None], "n": [1, 2, 3]})
LISTED = pa.table({"who": ["b", "a", "b"], "n": [3, 2, 1]})


def open_store(root: Path, schema: StateSchema, version: ShardVersion) -> ShardStore:
    return ShardStore.open(
        schema,
        0,
        1,
        16,
        version,
        checkpoint=CheckpointStore(root / "checkpoint", sync=False),
        local_dir=root / "cache",
        epoch=version.version + 1,
    )


def committed(
    schema: StateSchema, *epochs: Callable[[ShardStore], None]
) -> tuple[ShardVersion, list[pa.Table]]:
    """The version after some epochs, and all rows as the next one reads them."""
    with tempfile.TemporaryDirectory() as folder:
        version = ShardVersion.empty()
        for epoch in epochs:
            with open_store(Path(folder), schema, version) as store:
                epoch(store)
                version = store.commit()
        with open_store(Path(folder), schema, version) as store:
            return version, [store.scan_all(table.name) for table in schema.tables]


@settings(deadline=None, max_examples=examples(15))
@given(st.data())
def test_a_loaded_table_is_written_as_one_that_was_put(data: st.DataObject) -> None:
    types = [data.draw(any_types()) for _ in range(3)]
    fields = [StateField(f"c{i}", type_, f"c{i}") for i, type_ in enumerate(types)]
    table = StateTable.of("rows", "key", key=fields[:1], sub_key=fields[1:2], value=fields[2:])
    schema = StateSchema("s", "Test", "", (table,))
    count = data.draw(st.integers(0, 12))
    rows = pa.table({field.name: data.draw(columns(field.type, count)) for field in fields})
    again = data.draw(st.lists(st.integers(0, max(count - 1, 0)), max_size=2 * count))
    rows = rows.take(pa.array(again, pa.int64()))
    [loaded] = committed(schema, lambda store: store.load("rows", rows))[:1]
    [put] = committed(schema, lambda store: store.put("rows", rows))[:1]
    assert loaded == put
    assert loaded.is_empty == (not again)


def put_all(store: ShardStore) -> None:
    store.put("one", ONE)
    store.put("windows", WINDOWS)
    store.load("listed", LISTED)


def load_all(store: ShardStore) -> None:
    for name, rows in {"windows": WINDOWS, "one": ONE, "listed": LISTED}.items():
        store.load(name, rows)


def load_two(store: ShardStore) -> None:
    store.load("windows", WINDOWS)
    store.load("one", ONE)
    assert store.overlay.loaded
    assert len(store.overlay.loaded) == 2


def put_two(store: ShardStore) -> None:
    store.put("one", ONE)
    store.put("windows", WINDOWS)


def test_several_tables_are_one_delta_in_their_order() -> None:
    assert committed(SCHEMA, load_two) == committed(SCHEMA, put_two)
    assert committed(SCHEMA, load_all) == committed(SCHEMA, put_all)


@pytest.mark.parametrize(
    "follows",
    [
        lambda store: store.put("one", pa.table({"who": ["a", "c"], "n": [7, 8]})),
        lambda store: store.delete("one", pa.table({"who": ["a", "c"]})),
        lambda store: store.load("one", pa.table({"who": ["a", "c"], "n": [7, 8]})),
        lambda store: store.delete_time("windows", 0, None),
        lambda store: [store.scan_all("one"), store.delete_time("windows", None, 0)],
    ],
)
def test_what_follows_in_the_epoch_sees_what_was_loaded(follows: Callable[[ShardStore], None]) -> None:
    def loads(store: ShardStore) -> None:
        load_two(store)
        follows(store)

    def puts(store: ShardStore) -> None:
        put_two(store)
        follows(store)

    assert committed(SCHEMA, loads) == committed(SCHEMA, puts)
    before = [lambda store: store.put("one", pa.table({"who": ["x"], "n": [0]}))]
    load_over: list[Callable[[ShardStore], None]] = [
        lambda store: store.load("one", ONE),
        lambda store: store.load("windows", WINDOWS),
        follows,
    ]
    put_over: list[Callable[[ShardStore], None]] = [
        lambda store: store.put("one", ONE),
        lambda store: store.put("windows", WINDOWS),
        follows,
    ]
    assert committed(SCHEMA, *before, *load_over) == committed(SCHEMA, *before, *put_over)


def test_a_loaded_table_is_read_in_its_epoch(tmp_path: Path) -> None:
    with open_store(tmp_path, SCHEMA, ShardVersion.empty()) as store:
        assert store.has_time("windows", np.array([5])).tolist() == [False]
        load_two(store)
        assert store.has_rows()
        assert store.has_time("windows", np.array([5, 6])).tolist() == [True, False]
        found = store.get("one", pa.table({"who": ["b", "c", None]}))
        assert found.to_pydict() == {"n": [4, None, 3], FOUND: [True, False, True]}


def test_names_of_rows_are_new_in_every_epoch_and_the_same_in_a_retry(tmp_path: Path) -> None:
    table = StateTable.of(
        "rows",
        "key",
        key=[StateField("k", t.BIGINT, "k")],
        sub_key=[StateField("row", t.BLOB, "row")],
        value=[StateField("n", t.BIGINT, "n")],
    )
    schema = StateSchema("s", "Test", "", (table,))
    version, names = ShardVersion.empty(), []
    for _ in range(3):
        tried = []
        for attempt in ("a", "b"):
            with open_store(tmp_path / attempt, schema, version) as store:
                own = pa.concat_arrays([store.new_names(2), store.new_names(3)]).cast(pa.binary())
                store.append("rows", pa.table({"k": [1, 1, 2, 1, 2], "row": own, "n": [1, 2, 3, 4, 5]}))
                tried.append((own.to_pylist(), store.commit()))
        assert tried[0] == tried[1]
        names += tried[0][0]
        version = tried[0][1]
    assert len(set(names)) == len(names) == version.rows == 15


def test_many_keys_that_are_looked_for_among_few_rows(tmp_path: Path) -> None:
    """The table is read instead of looking for each key: the same rows come, and in their order."""
    with open_store(tmp_path, SCHEMA, ShardVersion.empty()) as store:
        store.put("one", pa.table({"who": ["a", "c", "e", None], "n": [1, 2, 3, 4]}))
        version = store.commit()
    few = pa.table({"who": pa.array(["e", "b", "a", None])})
    many = pa.table({"who": pa.array(["e", "b", "a", None, *(f"x{n % 100}" for n in range(500))])})
    with open_store(tmp_path, SCHEMA, version) as store:
        found = store.scan_prefix("one", many)
        assert found.num_rows == 3
        assert found.equals(store.scan_prefix("one", few))


def named(store: ShardStore, keys: list[int | None], values: list[str | None]) -> pa.Table:
    """Rows that only come, in the order of the state, with their names."""
    rows = pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(values, pa.string())})
    rows = rows.take(pa.array(store.key_order("rows", rows)))
    return rows.append_column("row", store.new_names(len(rows)).cast(pa.binary()))


def test_runs_are_read_as_the_rows_that_they_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside rows that were written one by one, in the same epoch and later, from RocksDB and from a version's files."""
    monkeypatch.setattr("sqlstream_operators.state.state_tables._RUN_ROWS", 3)
    monkeypatch.setattr("sqlstream_operators.state.shard_store.PACKED_ROWS", 1)
    table = StateTable.of(
        "rows",
        "key",
        key=[StateField("k", t.BIGINT, "k")],
        sub_key=[StateField("row", t.BLOB, "row")],
        value=[StateField("v", t.VARCHAR, "v")],
    )
    schema = StateSchema("s", "Test", "", (table,))
    every: list[dict[str, Any]] = []
    version = ShardVersion.empty()
    for epoch in range(3):
        with open_store(tmp_path, schema, version) as store:
            old = named(store, [2, 4], [f"single {epoch}", None])
            store.append("rows", old)
            keys = [2, 1, None, 2, 2, 2, 1, 2, 2, 2]
            new = named(store, keys, [None if n == 3 else f"{epoch} {n}" for n in range(len(keys))])
            store.append_runs("rows", new)
            every += [*old.to_pylist(), *new.to_pylist()]
            assert_reads(store, every)
            version = store.commit()
        with open_store(tmp_path, schema, version) as store:
            assert_reads(store, every)
    # 2 single rows per epoch, and runs of 3, 3 and 1 rows of key 2 and one each of the others
    assert version.rows == 3 * (2 + 5)
    with open_store(tmp_path, schema, version) as store:
        gone = [row for row in every if row["k"] in (2, None)]
        assert store.delete_prefix("rows", pa.table({"k": pa.array([2, None, 9], pa.int64())})) == len(gone)
        version = store.commit()
    assert version.rows == 3 * 2
    with open_store(tmp_path, schema, version) as store:
        assert_reads(store, [row for row in every if row not in gone])


def assert_reads(store: ShardStore, every: list[dict[str, Any]]) -> None:
    def of(*keys: int | None) -> list[dict[str, Any]]:
        return sorted((row for row in every if row["k"] in keys), key=lambda row: str(row["row"]))

    def sorted_(rows: pa.Table) -> list[dict[str, Any]]:
        return sorted(rows.select(["k", "v", "row"]).to_pylist(), key=lambda row: str(row["row"]))

    assert sorted_(store.scan_all("rows")) == of(1, 2, 4, None)
    keys = pa.table({"k": pa.array([2, None, 7, 1], pa.int64())})
    assert sorted_(store.scan_prefix("rows", keys)) == of(2, None, 1)
    first, sizes = store.scan_first("rows", keys, np.array([5, 1, 2, 1]))
    assert sizes.tolist() == [min(n, len(of(k))) for n, k in ((5, 2), (1, None), (2, 7), (1, 1))]
    in_order = store.scan_prefix("rows", keys).to_pylist()
    by_key = {k: [row for row in in_order if row["k"] == k] for k in (2, None, 1)}
    assert first.to_pylist() == [*by_key[2][:5], *by_key[None][:1], *by_key[1][:1]]
    ranges = store.ranges_of("rows", keys.slice(0, 1))
    last, sizes = store.scan_between("rows", ranges, np.array([4]), backwards=True)
    assert last.to_pylist() == by_key[2][-4:]
    for which in (0, -1):
        [edge] = store.ends("rows", keys.slice(0, 1), last=which == -1).to_pylist()[:1] or [None]
        assert edge == (by_key[2][which] if by_key[2] else None)
