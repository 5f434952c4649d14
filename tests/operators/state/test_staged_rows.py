from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from obstore.store import LocalStore

from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import StateError
from sqlstream_operators.state import object_clients, staged_rows
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.staged_rows import FOLDER, StagedRows, batches, stage


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(tmp_path, sync=False)


def _table(rows: int, text: str = "some text that is not short") -> pa.Table:
    return pa.table({"n": range(rows), "s": [None if i % 7 == 0 else f"{text} {i}" for i in range(rows)]})


def _again(staged: StagedRows) -> StagedRows:
    """As a manifest keeps it."""
    return StagedRows.from_json(json.loads(json.dumps(staged.to_json())))


def _rows(store: CheckpointStore, *staged: StagedRows) -> pa.Table:
    return pa.Table.from_batches(list(batches(store, [_again(one) for one in staged])))


def test_few_rows_make_no_file(store: CheckpointStore) -> None:
    staged = stage(store, f"{FOLDER}/x/000001", "0-00000", _table(10))
    assert staged.files == ()
    assert store.list() == []
    assert _rows(store, staged) == _table(10)


def test_no_rows_make_nothing(store: CheckpointStore) -> None:
    staged = stage(store, f"{FOLDER}/x/000001", "0-00000", _table(0))
    assert staged == StagedRows()
    assert list(batches(store, [staged])) == []
    assert store.list() == []


def test_rows_come_back_in_order_in_batches_of_bounded_size(store: CheckpointStore) -> None:
    table = _table(200_000)
    staged = stage(store, f"{FOLDER}/x/000001", "0-00000", table, file_bytes=1 << 20)
    assert len(staged.files) > 5
    assert store.list() == sorted(staged.names) == list(staged.names)
    assert [store.size(file.name) for file in staged.files] == [file.bytes for file in staged.files]
    assert max(file.bytes for file in staged.files) < 1 << 20
    found = _rows(store, staged, stage(store, f"{FOLDER}/x/000001", "0-00001", _table(3)))
    assert found.slice(0, 200_000).combine_chunks() == table.combine_chunks()
    assert found.num_rows == 200_003
    whole = stage(store, f"{FOLDER}/x/000002", "0-00000", pa.table({"n": range(300_000)}))
    sizes = [batch.num_rows for batch in batches(store, [whole])]
    assert max(sizes) <= staged_rows.BATCH_ROWS
    assert sum(sizes) == 300_000


def test_batches_of_wide_rows_are_short(store: CheckpointStore) -> None:
    wide = pa.table({"s": ["x" * 100_000] * 500})
    sizes = [b.nbytes for b in batches(store, [stage(store, f"{FOLDER}/x/1", "t", wide)])]
    assert len(sizes) >= 5
    assert max(sizes) <= staged_rows.BATCH_BYTES + 100_000


def test_a_retry_writes_the_same_files(store: CheckpointStore) -> None:
    """Values that a query computes, with NULLs in them, give the same bytes again."""
    sql = (
        "SELECT i, CASE WHEN i % 3 > 0 THEN 'v' || i END AS s, CASE WHEN i % 5 > 0 THEN i * 1.5 END AS d, "
        "CASE WHEN i % 2 > 0 THEN [i, NULL] END AS l FROM range(50000) t(i)"
    )
    first = stage(store, f"{FOLDER}/x/000001", "1-00003", DuckSession().query(sql))
    before = {name: store.get(name) for name in first.names}
    assert before
    again = stage(store, f"{FOLDER}/x/000001", "1-00003", DuckSession().query(sql))
    assert again == first
    assert {name: store.get(name) for name in store.list()} == before


def test_other_rows_never_take_the_place_of_a_file(store: CheckpointStore) -> None:
    first = stage(store, f"{FOLDER}/x/000001", "0-00000", _table(10_000))
    stage(store, f"{FOLDER}/x/000001", "0-00000", _table(10_001))
    assert _rows(store, first) == _table(10_000)


def test_a_file_that_is_gone(store: CheckpointStore) -> None:
    staged = stage(store, f"{FOLDER}/x/000001", "0-00000", _table(10_000))
    store.delete(staged.names[0])
    with pytest.raises(StateError, match=r"staged rows in .*0-00000-0000.* are gone"):
        list(batches(store, [staged]))


@pytest.mark.parametrize("keep", [0, 10, 1000, 5000])
def test_a_file_that_is_cut_off(store: CheckpointStore, keep: int) -> None:
    staged = stage(store, f"{FOLDER}/x/000001", "0-00000", _table(10_000))
    (name,) = staged.names
    store.put(name, store.get(name)[:keep])
    with pytest.raises(StateError, match="are damaged"):
        list(batches(store, [staged]))


def test_a_file_that_ends_between_two_batches(store: CheckpointStore) -> None:
    staged = stage(store, f"{FOLDER}/x/000001", "0-00000", _table(100_000))
    (name,) = staged.names
    out = pa.BufferOutputStream()
    some = next(iter(batches(store, [staged])))
    with pa.ipc.new_stream(out, some.schema) as writer:
        writer.write_batch(some)
    store.put(name, out.getvalue().to_pybytes())
    with pytest.raises(StateError, match="another content than its name says"):
        list(batches(store, [staged]))


def test_rows_in_a_store_that_is_not_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_clients, "opened", lambda uri: LocalStore(tmp_path))
    store = CheckpointStore("bucket://b/state")
    staged = stage(store, f"{FOLDER}/x/000001", "0-00000", _table(100_000), file_bytes=1 << 20)
    assert len(staged.files) > 1
    assert _rows(store, staged).combine_chunks() == _table(100_000).combine_chunks()
    store.delete(staged.names[1])
    with pytest.raises(StateError, match="are gone"):
        list(batches(store, [staged]))
