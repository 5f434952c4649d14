"""The segments of a version of a shard: the values that pointers in its rows stand for."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from sqlstream_operators.codec.binary import from_list, parts, replaced
from sqlstream_operators.errors import StateCorruptionError

from .cache import download, fetch
from .checkpoint_store import CheckpointStore
from .segment_file import TAG, SegmentReader, file_of, is_pointer, place_of, prefix_of
from .version import Segment, StateFile

Value = TypeVar("Value", bytes, bytes | None)

_OPEN_FILES = 256
_UNREADABLE = (ValueError, OSError, pa.ArrowException)


class Segments:
    """The segments of a version, each opened when something in it is read.

    Those of a store on this machine are read where they are. Of another store they are copied to `folder` once, verified;
    without a folder they are held in memory. Each value is compared with its checksum. Methods raise
    StateCorruptionError for a file that is damaged or missing.
    """

    def __init__(
        self, checkpoint: CheckpointStore, segments: Sequence[Segment], folder: Path | None = None
    ) -> None:
        self._checkpoint = checkpoint
        self._folder = None if checkpoint.is_local else folder
        self._files = {prefix_of(segment.file): segment.file for segment in segments}
        self._open: dict[bytes, SegmentReader] = {}

    def values(self, found: list[Value]) -> list[Value]:
        """Values, in the places of pointers what they stand for."""
        if not self._files:
            return found
        whole = list(found)
        prefix, reader = b"", None
        for row, value in enumerate(found):
            if is_pointer(value):
                if reader is None or file_of(value) != prefix:
                    prefix = file_of(value)
                    reader = self._reader(prefix)
                try:
                    whole[row] = reader.value(*place_of(value))
                except _UNREADABLE as error:
                    raise self._damaged(prefix, error) from error
        return whole

    def packed_values(self, found: pa.Array) -> pa.Array:
        """`values` of a large binary array."""
        if not self._files or not len(found):
            return found
        offsets, data = parts(found)
        candidates = np.flatnonzero(np.diff(offsets) >= len(TAG))
        head = data[offsets[:-1][candidates, None] + np.arange(len(TAG))]
        rows = candidates[(head == np.frombuffer(TAG, np.uint8)).all(axis=1)]
        if not len(rows):
            return found
        return replaced(found, rows, from_list(self.values(found.take(pa.array(rows)).to_pylist())))

    def keys(self, segment: Segment) -> list[bytes]:
        """The keys of the rows that a segment was written with."""
        prefix = prefix_of(segment.file)
        try:
            return self._reader(prefix).keys()
        except _UNREADABLE as error:
            raise self._damaged(prefix, error) from error

    def bring(self) -> None:
        """Copy what is not here yet; of a local store look whether all is there."""
        for file in self._files.values():
            if self._folder is not None:
                self._copied(self._folder, file)
            elif self._checkpoint.size(file.name) != file.bytes:
                raise StateCorruptionError(self._checkpoint.path(file.name), "is missing or cut off")

    def keep(self, file: StateFile, content: bytes) -> None:
        """Keep a segment that was just uploaded, so that it need not be fetched from afar."""
        if self._folder is not None:
            with self._staged(self._folder, file) as staged:
                staged.write_bytes(content)

    def sweep(self) -> None:
        """Remove the copies of segments that the version does not have."""
        if self._folder is None or not self._folder.exists():
            return
        kept = {file.digest for file in self._files.values()}
        for copy in self._folder.iterdir():
            if copy.name not in kept:
                copy.unlink(missing_ok=True)

    def forget(self) -> None:
        """Close all files."""
        self._open.clear()

    def _reader(self, prefix: bytes) -> SegmentReader:
        reader = self._open.get(prefix)
        if reader is None:
            if prefix not in self._files:
                raise StateCorruptionError(
                    "manifest", f"names no segment {prefix.hex()}, to which a row points"
                )
            if len(self._open) >= _OPEN_FILES:
                del self._open[next(iter(self._open))]
            try:
                reader = SegmentReader(self._content(self._files[prefix]))
            except _UNREADABLE as error:
                raise self._damaged(prefix, error) from error
            self._open[prefix] = reader
        return reader

    def _damaged(self, prefix: bytes, error: Exception) -> StateCorruptionError:
        return StateCorruptionError(self._checkpoint.path(self._files[prefix].name), str(error))

    def _content(self, file: StateFile) -> pa.Buffer:
        if self._folder is not None:
            return pa.memory_map(str(self._copied(self._folder, file))).read_buffer()
        if not self._checkpoint.is_local:
            return pa.py_buffer(fetch(self._checkpoint, file))
        try:
            with self._checkpoint.open(file.name) as source:
                return source.read_buffer()
        except FileNotFoundError:
            raise StateCorruptionError(self._checkpoint.path(file.name), "is missing") from None

    def _copied(self, folder: Path, file: StateFile) -> Path:
        copy = folder / file.digest
        if not copy.exists() or copy.stat().st_size != file.bytes:
            with self._staged(folder, file) as staged:
                download(self._checkpoint, file, staged)
        return copy

    @contextlib.contextmanager
    def _staged(self, folder: Path, file: StateFile) -> Iterator[Path]:
        """A file to write, which has its name when it is whole."""
        folder.mkdir(exist_ok=True)
        staged = folder / f"{file.digest}.{uuid.uuid4().hex}"
        try:
            yield staged
            staged.replace(folder / file.digest)
        finally:
            staged.unlink(missing_ok=True)
