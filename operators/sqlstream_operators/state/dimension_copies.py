"""Copies of dimension tables in the checkpoint store: what the lookup joins of an epoch read, in whatever task.

A copy is one Arrow IPC stream, not compressed, so that a task maps it into memory and reads what it needs. Its name has
the digest of its bytes: a table that is as it was makes no other file, and what an epoch's plan names never changes. What
no retained manifest names is garbage; the runtime's collector sweeps `FOLDER`.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlstream_operators.errors import StateError
from sqlstream_operators.plan.plain_data import PlainRow

from .checkpoint_store import CheckpointStore
from .private_folder import make_private

if TYPE_CHECKING:
    import pyarrow as pa

#: Where all copies are, below the state directory.
FOLDER = "dimensions"
_READ = 8 << 20


@dataclass(frozen=True, slots=True)
class DimensionCopy(PlainRow):
    """A copy of a dimension table: its name in the checkpoint store, its rows and its bytes."""

    name: str
    rows: int
    bytes: int


def keep(
    store: CheckpointStore, schema: pa.Schema, batches: Iterable[pa.RecordBatch], scratch: Path
) -> DimensionCopy:
    """Copy rows into the store, under `scratch` first; durable when this returns. A batch is in memory at a time."""
    import pyarrow as pa

    rows = 0
    file = scratch / f"{uuid.uuid4().hex}.arrows"
    try:
        with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
            for batch in batches:
                rows += batch.num_rows
                writer.write_batch(batch)
        name, size = f"{FOLDER}/{_digest(file)}.arrows", file.stat().st_size
        if not is_whole(store, name):  # a damaged one would be read by all epochs to come
            store.put(name, file)
        return DimensionCopy(name, rows, size)
    finally:
        file.unlink(missing_ok=True)


def is_whole(store: CheckpointStore, name: str) -> bool:
    """Whether a copy is there and has the content that its name says. Reads all of it."""
    found = hashlib.sha256()
    try:
        with store.open(name) as source:
            while chunk := source.read(_READ):
                found.update(chunk)
    except FileNotFoundError:
        return False
    return f"{FOLDER}/{found.hexdigest()}.arrows" == name


class LocalCopies:
    """The copies that this process has open; those that are no longer looked at are closed."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], pa.Table] = {}

    def table(self, store: CheckpointStore, name: str, wanted: Collection[str], local_dir: Path) -> pa.Table:
        """The rows of a copy, mapped into memory. `wanted` are all copies of the epoch.

        From another machine it is downloaded once, to `local_dir`. Raises StateError for one that is gone or damaged.
        """
        found = self._open.get((store.uri, name))
        if found is None:
            for key in [key for key in self._open if key[0] == store.uri and key[1] not in wanted]:
                del self._open[key]
            found = self._open[store.uri, name] = _opened(store, name, wanted, local_dir)
        return found


def _opened(store: CheckpointStore, name: str, wanted: Collection[str], local_dir: Path) -> pa.Table:
    import pyarrow as pa

    try:
        if store.is_local:
            source = store.open(name)
        else:
            source = pa.memory_map(str(_downloaded(store, name, wanted, local_dir)))
    except FileNotFoundError:
        raise _wrong(store, name, "is gone, though an epoch's plan names it") from None
    content = source.read_buffer()
    if f"{FOLDER}/{hashlib.sha256(content).hexdigest()}.arrows" != name:
        raise _wrong(store, name, "has another content than its name says")
    with pa.ipc.open_stream(pa.BufferReader(content)) as reader:
        return reader.read_all()


def _downloaded(store: CheckpointStore, name: str, wanted: Collection[str], local_dir: Path) -> Path:
    """The file on this machine; others that no epoch looks at any more are deleted."""
    folder = make_private(local_dir) / FOLDER
    folder.mkdir(exist_ok=True)
    target = folder / name.rpartition("/")[2]
    if not target.exists():
        files = {one.rpartition("/")[2] for one in wanted}
        for old in folder.glob("*.arrows"):
            if old.name not in files:
                old.unlink(missing_ok=True)  # who has it mapped goes on reading it
        staged = folder / f"{os.getpid()}-{uuid.uuid4().hex}"
        try:
            store.download(name, staged)
            staged.replace(target)
        finally:
            staged.unlink(missing_ok=True)
    return target


def _digest(file: Path) -> str:
    found = hashlib.sha256()
    with file.open("rb") as source:
        while chunk := source.read(_READ):
            found.update(chunk)
    return found.hexdigest()


def _wrong(store: CheckpointStore, name: str, what: str) -> StateError:
    return StateError(
        f"the copy of a dimension table in {store.path(name)} {what}",
        "restore this file from a copy of the state directory",
    )
