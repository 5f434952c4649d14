"""Copies of dimension tables: by their content, checked when they are opened, downloaded once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sqlstream_operators.errors import StateError
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.dimension_copies import DimensionCopy, LocalCopies, keep

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


class Elsewhere(CheckpointStore):
    """A store of another machine."""

    downloads: list[str]

    @property
    def is_local(self) -> bool:
        return False

    def download(self, name: str, target: Path) -> None:
        self.downloads.append(name)
        super().download(name, target)


def kept(store: CheckpointStore, scratch: Path, rows: int) -> DimensionCopy:
    batches = pa.table({"id": range(rows), "name": [str(n) for n in range(rows)]}, SCHEMA).to_batches(3)
    return keep(store, SCHEMA, batches, scratch)


def test_the_same_rows_are_one_file(tmp_path: Path) -> None:
    store = CheckpointStore(str(tmp_path / "store"), sync=False)
    first, again, other = (kept(store, tmp_path, rows) for rows in (7, 7, 0))
    assert first == again
    assert store.list("dimensions") == sorted([first.name, other.name])
    assert (first.rows, first.bytes, other.rows) == (7, store.size(first.name), 0)
    assert DimensionCopy.from_json(first.to_json()) == first
    copies = LocalCopies()
    table = copies.table(store, first.name, {first.name}, tmp_path)
    assert table.column("id").to_pylist() == list(range(7))
    assert copies.table(store, first.name, {first.name}, tmp_path) is table
    assert copies.table(store, other.name, {other.name}, tmp_path).num_rows == 0
    assert copies.table(store, first.name, {first.name, other.name}, tmp_path) is not table
    assert not list(tmp_path.glob("*.arrows"))


def test_a_copy_of_another_machine_is_downloaded_once(tmp_path: Path) -> None:
    store = Elsewhere(str(tmp_path / "store"), sync=False)
    store.downloads = []
    first, second = kept(store, tmp_path, 3), kept(store, tmp_path, 4)
    cache = tmp_path / "cache"
    for _ in range(2):
        assert LocalCopies().table(store, first.name, {first.name}, cache).num_rows == 3
    assert store.downloads == [first.name]
    assert LocalCopies().table(store, second.name, {second.name}, cache).num_rows == 4
    assert [file.name for file in (cache / "dimensions").iterdir()] == [
        second.name.removeprefix("dimensions/")
    ]


@pytest.mark.parametrize("content", [None, b"", b"something else"])
def test_a_copy_that_is_gone_or_damaged_is_told(tmp_path: Path, content: bytes | None) -> None:
    store = CheckpointStore(str(tmp_path / "store"), sync=False)
    copy = kept(store, tmp_path, 3)
    if content is None:
        store.delete(copy.name)
    else:
        store.put(copy.name, content)
    with pytest.raises(StateError, match="is gone" if content is None else "another content"):
        LocalCopies().table(store, copy.name, {copy.name}, tmp_path)
