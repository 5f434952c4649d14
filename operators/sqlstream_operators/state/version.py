"""A version of one shard's state as plain data for the manifest: the immutable files it is made of."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

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
class StateFile:
    """One immutable file of the checkpoint store: its name there, its size in bytes, its digest."""

    name: str
    bytes: int
    digest: str

    def below(self, folder: str) -> StateFile:
        """The same file, as a store names it in which it is in this folder."""
        return replace(self, name=f"{folder}/{self.name}")

    def to_json(self) -> list[Any]:
        """Plain JSON data; `from_json` reads it back."""
        return [self.name, self.bytes, self.digest]

    @classmethod
    def from_json(cls, data: list[Any]) -> StateFile:
        """Read what `to_json` wrote."""
        name, size, digest = data
        return cls(name, size, digest)


@dataclass(frozen=True, slots=True)
class Segment:
    """A file of values that rows point to (`segments`): of which table, by its index, and the bytes of the values."""

    file: StateFile
    table: int
    bytes: int

    def to_json(self) -> list[Any]:
        """Plain JSON data; `from_json` reads it back."""
        return [self.file.to_json(), self.table, self.bytes]

    @classmethod
    def from_json(cls, data: list[Any]) -> Segment:
        """Read what `to_json` wrote."""
        file, table, size = data
        return cls(StateFile.from_json(file), table, size)


@dataclass(frozen=True, slots=True)
class Delta:
    """What one epoch changed: first the key ranges (hex, half-open) are deleted, then the file's rows are
    applied.

    `rows` is the number of keys in the file; there is no file if the epoch only deleted ranges.
    """

    epoch: int
    file: StateFile | None
    deleted_ranges: tuple[tuple[str, str], ...]
    rows: int

    def to_json(self) -> list[Any]:
        """Plain JSON data; `from_json` reads it back."""
        file = None if self.file is None else self.file.to_json()
        return [self.epoch, file, [list(range_) for range_ in self.deleted_ranges], self.rows]

    @classmethod
    def from_json(cls, data: list[Any]) -> Delta:
        """Read what `to_json` wrote."""
        epoch, file, ranges, rows = data
        return cls(
            epoch,
            None if file is None else StateFile.from_json(file),
            tuple((first, last) for first, last in ranges),
            rows,
        )

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
class ShardVersion:
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

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data; `from_json` reads it back."""
        snapshot = [file.to_json() for file in self.snapshot]
        segments = [segment.to_json() for segment in self.segments]
        return {
            "version": self.version,
            # A program that knows no segments would collect them: it must not find what it needs.
            **({"snapshot_and_segments": [snapshot, segments]} if segments else {"snapshot": snapshot}),
            "deltas": [delta.to_json() for delta in self.deltas],
            "earlier": [delta.to_json() for delta in self.earlier],
            "chain": self.chain,
            "base_chain": self.base_chain,
            "earlier_chain": self.earlier_chain,
            "rows": self.rows,
            "bytes": self.bytes,
            "schemas": [schema.to_json() for schema in self.schemas],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ShardVersion:
        """Read what `to_json` wrote."""
        snapshot, segments = data.get("snapshot_and_segments") or (data["snapshot"], ())
        return cls(
            version=data["version"],
            snapshot=tuple(StateFile.from_json(file) for file in snapshot),
            segments=tuple(Segment.from_json(segment) for segment in segments),
            deltas=tuple(Delta.from_json(delta) for delta in data["deltas"]),
            earlier=tuple(Delta.from_json(delta) for delta in data["earlier"]),
            chain=data["chain"],
            base_chain=data["base_chain"],
            earlier_chain=data["earlier_chain"],
            rows=data["rows"],
            bytes=data["bytes"],
            schemas=tuple(StateSchema.from_json(schema) for schema in data["schemas"]),
        )
