"""Rows that tasks leave in the checkpoint store for the driver, so that they never pass its memory at once.

A task writes its rows as Arrow IPC streams of bounded size under `staged/…` and reports only their names. A name has
the digest of the bytes in it: a retry that makes the same bytes writes the same file, one that does not writes
another, and what a manifest names never changes. Few rows cost no file at all: they travel inside the report and
the manifest, as Flink keeps small state inside a checkpoint's metadata.

What no retained manifest names is garbage; the runtime's collector sweeps `FOLDER`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlstream_operators.errors import StateError
from sqlstream_operators.plan.plain_data import PlainData, PlainRow, stored

from .checkpoint_store import CheckpointStore

if TYPE_CHECKING:
    import pyarrow as pa  # where manifests are read and nothing else, it would be most of the time

#: Where all staged files are, below the state directory.
FOLDER = "staged"
#: Streams of up to so many bytes travel in the report instead of a file (Flink's threshold is 20 KB).
INLINE_BYTES = 16 << 10
#: A file has about so many bytes of Arrow data before compression, a batch in it so many bytes and rows at most.
FILE_BYTES = 64 << 20
BATCH_BYTES = 8 << 20
BATCH_ROWS = 1 << 16
#: Batches of less are not compressed: it costs more than it saves.
_COMPRESS_FROM = 64 << 10


@dataclass(frozen=True, slots=True)
class StagedFile(PlainRow):
    """A file of staged rows: its name in the checkpoint store, its rows and its bytes."""

    name: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StagedRows(PlainData):
    """What a task staged: files in the order of its rows, or `inline` an IPC stream, or nothing of both."""

    rows: int = 0
    files: tuple[StagedFile, ...] = field(default=(), metadata=stored(if_default=False))
    inline: bytes | None = field(default=None, metadata=stored(if_default=False))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the files."""
        return tuple(file.name for file in self.files)


def stage(
    store: CheckpointStore,
    folder: str,
    task: str,
    table: pa.Table,
    *,
    inline_bytes: int = INLINE_BYTES,
    file_bytes: int = FILE_BYTES,
) -> StagedRows:
    """Keep the rows that `task` (unique in the epoch, the same in a retry) has for the driver.

    `folder` is one of the epoch's below FOLDER. With `inline_bytes=0` everything becomes files. The files are durable
    when this returns. Uses about `file_bytes` of memory beside the table.
    """
    if not table.num_rows:
        return StagedRows()
    if table.nbytes <= inline_bytes:
        blob = _encoded(table)
        if len(blob) <= inline_bytes:
            return StagedRows(table.num_rows, inline=blob)
    rows = _rows_of(file_bytes, table)
    files = []
    for number, start in enumerate(range(0, table.num_rows, rows)):
        piece = table.slice(start, rows)
        blob = _encoded(piece)
        name = f"{folder}/{task}-{number:04d}-{_digest(blob)}.arrows"
        store.put(name, blob)
        files.append(StagedFile(name, piece.num_rows, len(blob)))
    return StagedRows(table.num_rows, tuple(files))


def batches(store: CheckpointStore, staged: Iterable[StagedRows]) -> Iterator[pa.RecordBatch]:
    """The staged rows in order, a batch of at most BATCH_ROWS rows at a time, one file open at a time.

    Raises StateError for a file that is gone or damaged.
    """
    import pyarrow as pa

    for one in staged:
        if one.inline is not None:
            yield from _read(pa.BufferReader(one.inline), one.rows, "rows in a manifest")
        for file in one.files:
            where = store.path(file.name)
            try:
                source = store.open(file.name)
            except FileNotFoundError:
                raise StateError(
                    f"the staged rows in {where} are gone, though a manifest names them",
                    "restore this file from a copy of the state directory",
                ) from None
            with source:
                content = source.read_buffer()
                if _digest(content) != file.name.removesuffix(".arrows").rsplit("-", 1)[-1]:
                    raise _damaged(where, "it has another content than its name says")
                yield from _read(pa.BufferReader(content), file.rows, where)


def is_damaged(store: CheckpointStore, file: StagedFile) -> str | None:
    """What is wrong with a staged file; None: it has the content that its name says. Reads all of it."""
    try:
        content = store.get(file.name)
    except FileNotFoundError:
        return "is missing"
    whole = _digest(content) == file.name.removesuffix(".arrows").rsplit("-", 1)[-1]
    return None if whole else "has another content than its name says"


def _digest(content: bytes | pa.Buffer) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _read(source: pa.NativeFile, rows: int, where: str) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    found = 0
    try:
        with pa.ipc.open_stream(source, options=pa.ipc.IpcReadOptions(use_threads=False)) as reader:
            for batch in reader:
                found += batch.num_rows
                yield batch
    except (pa.ArrowInvalid, OSError) as error:
        raise _damaged(where, str(error)) from None
    if found != rows:
        raise _damaged(where, f"it has {found} rows instead of {rows}")


def _damaged(where: str, what: str) -> StateError:
    return StateError(
        f"the staged rows in {where} are damaged: {what}",
        "restore this file from a copy of the state directory",
    )


def _encoded(table: pa.Table) -> bytes:
    import pyarrow as pa

    compressed = table.nbytes >= _COMPRESS_FROM
    options = pa.ipc.IpcWriteOptions(compression="lz4" if compressed else None, use_threads=False)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=min(BATCH_ROWS, _rows_of(BATCH_BYTES, table)))
    blob: bytes = sink.getvalue().to_pybytes()
    return blob


def _rows_of(size: int, table: pa.Table) -> int:
    """How many rows of the table have about `size` bytes; at least one."""
    return max(1, size * int(table.num_rows) // max(int(table.nbytes), 1))
