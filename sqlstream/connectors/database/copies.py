"""Copies of tables in the state directory: what can't be read again as it was is copied once, and read from there.

What an epoch reads must be the same whenever it is read, also by another run after a crash. Copies are files of Arrow's,
with some ten thousand rows each, and an index, which is written last.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from sqlstream.connectors.api import CopiedPart, Limits, Split
from sqlstream_operators.errors import DataError
from sqlstream_operators.state.checkpoint_store import CheckpointStore

#: The folder of the state directory that copies are in, each in its own.
FOLDER = "copies"
#: A split of fewer rows costs more than it gains.
_FEWEST_ROWS = 10_000
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy that is complete: its id, and the rows and bytes of each file, which are numbered."""

    id: str
    files: tuple[tuple[int, int], ...]

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(rows for rows, _ in self.files)


def _file(id_: str, number: int) -> str:
    return f"{FOLDER}/{id_}/{number:06d}.arrow"


def _index(id_: str) -> str:
    return f"{FOLDER}/{id_}/index.json"


def new_id(owner: str) -> str:
    """The id of a copy that is begun; `owner` is the folder of its source."""
    return f"{quote(owner, safe='')}/{uuid.uuid4().hex}"


def folder_of(id_: str) -> str:
    """Where the files of a copy are."""
    return f"{FOLDER}/{id_}"


def finished(store: CheckpointStore, id_: str, parts: Sequence[CopiedPart]) -> Copy:
    """The copy that is complete with these parts, in their order, which are in its folder; no other file of it stays."""
    for number, part in enumerate(parts):
        store.move(part.name, _file(id_, number))
    store.put(_index(id_), json.dumps([(part.rows, part.bytes) for part in parts]).encode())
    wanted = {_index(id_), *(_file(id_, number) for number in range(len(parts)))}
    store.delete_all([name for name in store.list(folder_of(id_)) if name not in wanted])
    return Copy(id_, tuple((part.rows, part.bytes) for part in parts))


def content_of(rows: pa.Table) -> bytes:
    """The content of a file with these rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema, options=_OPTIONS) as writer:
        writer.write_table(rows)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def copy_of(store: CheckpointStore, id_: str) -> Copy | None:
    """The copy of an id; None if it is not there, or was never complete."""
    try:
        files = json.loads(store.get(_index(id_)))
    except FileNotFoundError:
        return None
    return Copy(id_, tuple((int(rows), int(size)) for rows, size in files))


def is_there(store: CheckpointStore, split: Mapping[str, Any]) -> bool:
    """Whether the files of a split are there."""
    return all(store.exists(_file(split["copy"], number)) for number, _, _ in split["files"])


def remove_all(store: CheckpointStore, owner: str) -> None:
    """Delete the copies of a source; the indexes first, so that what is left is no copy."""
    names = store.list(f"{FOLDER}/{quote(owner, safe='')}")
    indexes = [name for name in names if name.endswith(".json")]
    store.delete_all(indexes)
    store.delete_all([name for name in names if name not in indexes])


def next_splits(
    source: str, copy: Copy, file: int, row: int, limits: Limits
) -> tuple[tuple[Split, ...], int, int]:
    """What an epoch reads of a copy from a row of a file on, and where it goes on; behind the last file it is read."""
    taken: list[tuple[int, int, int]] = []
    rows = size = 0
    while file < len(copy.files):
        there, stored = copy.files[file]
        left = there - row if limits.rows is None else min(there - row, limits.rows - rows)
        if left <= 0 or (limits.bytes is not None and taken and size >= limits.bytes):
            break
        taken.append((file, row, row + left))
        rows += left
        size += stored * left // max(1, there)
        row += left
        if row == there:
            file, row = file + 1, 0
    return tuple(_splits(source, copy, taken, rows, limits.tasks)), file, row


def _splits(
    source: str, copy: Copy, taken: Sequence[tuple[int, int, int]], rows: int, tasks: int
) -> Iterator[Split]:
    each = max(_FEWEST_ROWS, -(-rows // max(1, tasks)))
    parts: list[list[int]] = []
    count = 0

    def made() -> Split:
        size = sum(copy.files[n][1] * (end - begin) // max(1, copy.files[n][0]) for n, begin, end in parts)
        return Split(source, {"copy": copy.id, "files": parts}, count, size)

    for number, begin, end in taken:
        while begin < end:
            some = min(end - begin, each - count)
            parts.append([number, begin, begin + some])
            begin += some
            count += some
            if count == each:
                yield made()
                parts, count = [], 0
    if parts:
        yield made()


def read_copy(store: CheckpointStore, split: Mapping[str, Any], columns: Sequence[str]) -> pa.Table:
    """The rows of a split, with these columns. Raises FileNotFoundError."""
    found = []
    for number, begin, end in split["files"]:
        with store.open(_file(split["copy"], number)) as file, pa.ipc.open_file(file) as reader:
            indices = [reader.schema.get_field_index(name) for name in columns]
            if -1 in indices:
                raise DataError(
                    f"the copy of the table has no column `{columns[indices.index(-1)]}`: it was declared after the table "
                    "was copied. Read the copy to its end without it, or begin anew with a new state directory"
                )
            if indices:
                file.seek(0)
                options = pa.ipc.IpcReadOptions(included_fields=indices)
                rows = pa.ipc.open_file(file, options=options).read_all().select(list(columns))
            else:
                rows = reader.read_all().select([])
        found.append(rows.slice(begin, end - begin))
    return pa.concat_tables(found)
