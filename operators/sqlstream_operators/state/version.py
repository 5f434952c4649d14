"""A version of one shard's state as plain data for the manifest: the immutable files it is made of."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlstream_operators.plan.plain_data import PlainData, PlainRow
from sqlstream_operators.plan.state_schema import StateSchema

_CHUNK = 4 << 20
_EARLIER_DIGEST = 32
#: In the name of a file, the state and the shard that wrote it.
_WRITER = re.compile(r"(?:^|/)state/([^/]+)/(\d{5}-of-\d{5})/")


def digest_of(content: bytes) -> str:
    """blake2b-128 of the bytes, in hex: names what is small."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def file_digest(content: bytes | memoryview | Path, like: str = "") -> str:
    """The first 160 bits of SHA-256, in hex, of what is in a file or will be.

    Processors have instructions for it: 1.15 GB/s, where Python's blake2b does 0.38. State of earlier versions
    has blake2b-128: with `like`, a digest of a file, it is computed as that one was.
    """
    old = len(like) == _EARLIER_DIGEST
    hasher = hashlib.blake2b(digest_size=_EARLIER_DIGEST // 2) if old else hashlib.sha256()
    if not isinstance(content, Path):
        hasher.update(content)
    else:
        with content.open("rb") as source:
            while chunk := source.read(_CHUNK):
                hasher.update(chunk)
    return hasher.hexdigest()[:40]


@dataclass(frozen=True, slots=True)
class StateFile(PlainRow):
    """One immutable file of the checkpoint store: its name there, its size in bytes, its digest."""

    name: str
    bytes: int
    digest: str

    def below(self, folder: str) -> StateFile:
        """The same file, as a store names it in which it is in this folder."""
        return replace(self, name=f"{folder}/{self.name}")


@dataclass(frozen=True, slots=True)
class Segment(PlainRow):
    """A file of values that rows point to (`segments`): of which table, by its index, and the bytes of the values."""

    file: StateFile
    table: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Delta(PlainRow):
    """What one epoch changed: first the key ranges (hex, half-open) are deleted, then the file's rows are
    applied.

    `rows` is the number of keys in the file; there is no file if the epoch only deleted ranges.
    """

    epoch: int
    file: StateFile | None
    deleted_ranges: tuple[tuple[str, str], ...]
    rows: int

    @property
    def size(self) -> int:
        """The bytes of the file, and a little for the ranges."""
        return (0 if self.file is None else self.file.bytes) + 64 * len(self.deleted_ranges)


def chain_after(chain: str, delta: Delta) -> str:
    """The identity of the content after `delta` was applied to the content identified by `chain`."""
    parts = [chain, "" if delta.file is None else delta.file.digest]
    parts.extend(f"{first}-{last}" for first, last in delta.deleted_ranges)
    return digest_of("|".join(parts).encode())


@dataclass(frozen=True, slots=True)
class ShardVersion(PlainData):
    """The state of one shard after an epoch: `snapshot`, and after it `deltas` in order. Version 0 is empty.

    version: the epoch that made it. chain: identifies the content by how it came about: the same history
    has the same chain on every machine. base_chain: the chain of the snapshot. earlier: the deltas just
    before the snapshot, for caches that lag behind it. schemas: all the schemas that values here may have
    been written with; a value begins with its index. segments: what rows point to, the oldest first. rows,
    bytes: live rows, and bytes of keys and values, approximately; both are 0 if and only if no row lives.
    """

    version: int
    snapshot: tuple[StateFile, ...] = ()
    deltas: tuple[Delta, ...] = ()
    earlier: tuple[Delta, ...] = ()
    chain: str = ""
    base_chain: str = ""
    earlier_chain: str = ""
    rows: int = 0
    bytes: int = 0
    schemas: tuple[StateSchema, ...] = field(default=())
    segments: tuple[Segment, ...] = ()

    @property
    def writers(self) -> tuple[str, ...]:
        """The local caches of the tasks that wrote the files, `<state>-<shard>-of-<shards>`, the last one first.

        They are of other states where the query was edited since.
        """
        deltas = (delta.file for delta in reversed((*self.earlier, *self.deltas)))
        found = (_WRITER.search(file.name) for file in (*deltas, *self.snapshot) if file is not None)
        return tuple(dict.fromkeys(f"{m[1]}-{m[2]}" for m in found if m))

    def below(self, folder: str, version: int) -> ShardVersion:
        """The same content under another number, where its files are in this folder of the store."""

        def moved(deltas: tuple[Delta, ...]) -> tuple[Delta, ...]:
            return tuple(replace(d, file=d.file and d.file.below(folder)) for d in deltas)

        return replace(
            self,
            version=version,
            snapshot=tuple(file.below(folder) for file in self.snapshot),
            segments=tuple(replace(s, file=s.file.below(folder)) for s in self.segments),
            deltas=moved(self.deltas),
            earlier=moved(self.earlier),
        )

    @classmethod
    def empty(cls) -> ShardVersion:
        """Version 0: no rows."""
        return cls(0)

    @property
    def is_empty(self) -> bool:
        """Whether no row lives in it (exact)."""
        return self.rows == 0

    @property
    def snapshot_bytes(self) -> int:
        """The bytes of the snapshot's files."""
        return sum(file.bytes for file in self.snapshot)

    @property
    def delta_bytes(self) -> int:
        """The bytes of the deltas after the snapshot."""
        return sum(delta.size for delta in self.deltas)

    def files(self) -> frozenset[str]:
        """The names of all files in the checkpoint store that this version needs; others may be collected."""
        return frozenset(file.name for file in self.state_files)

    @property
    def state_files(self) -> tuple[StateFile, ...]:
        """The files that this version needs, with their sizes and digests."""
        deltas = (*self.deltas, *self.earlier)
        segments = (segment.file for segment in self.segments)
        return (*self.snapshot, *segments, *(delta.file for delta in deltas if delta.file is not None))

    @classmethod
    def stored_form(cls, data: dict[str, Any]) -> dict[str, Any]:
        """A program that knows no segments would collect them: it must not find what it needs."""
        if not data["segments"]:
            del data["segments"]
            return data
        return {"snapshot_and_segments": [data.pop("snapshot"), data.pop("segments")], **data}

    @classmethod
    def read_form(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """The other way round."""
        if "snapshot_and_segments" not in data:
            return data
        snapshot, segments = data["snapshot_and_segments"]
        return {**data, "snapshot": snapshot, "segments": segments}
