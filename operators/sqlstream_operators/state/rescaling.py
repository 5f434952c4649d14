"""A shard that is put together from shards of another number, or from keys that were in other key groups.

Where only the number of shards changes, key groups move as a whole. With another max_parallelism every key gets another
group, which is in its physical key: it is computed anew from the key, and may come from any shard.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sqlstream_operators.codec.binary import from_list, parts
from sqlstream_operators.codec.key_bytes import decode_columns
from sqlstream_operators.codec.keys import group_range, key_groups
from sqlstream_operators.errors import StateCorruptionError
from sqlstream_operators.plan.state_schema import StateSchema

from .cache import SEGMENTS, Cache
from .checkpoint_store import CheckpointStore
from .layout import StoredTable
from .segments import Segments
from .version import ShardVersion, digest_of

#: How folders are called in which shards are put together from others.
RESCALE_PREFIX = "rescale-"


@dataclass(frozen=True, slots=True)
class Rescaling:
    """What shard `shard` of `shards` is made of: versions of all former shards that may have rows of it, by their number.

    `written_with` is the max_parallelism of these, `version` stands for what comes out.
    """

    former: tuple[tuple[int, ShardVersion], ...]
    written_with: int
    max_parallelism: int
    groups: tuple[int, int]
    version: ShardVersion

    @classmethod
    def of(
        cls,
        versions: Sequence[ShardVersion],
        written_with: int,
        shard: int,
        shards: int,
        max_parallelism: int,
    ) -> Rescaling:
        """From the versions of all shards that there were. Raises StateCorruptionError if they don't belong together."""
        low, high = group_range(shard, shards, max_parallelism)
        former = []
        for i, version in enumerate(versions):
            first, last = group_range(i, len(versions), written_with)
            if written_with != max_parallelism or (first < high and low < last):
                former.append((i, version))
        what = f"rescale {len(versions)} {shard}/{shards}"
        if written_with != max_parallelism:
            what += f" groups {written_with} {max_parallelism}"
        merged = _merged([version for _, version in former], what)
        return cls(tuple(former), written_with, max_parallelism, (low, high), merged)

    @property
    def olds(self) -> tuple[ShardVersion, ...]:
        """The versions that it is made of."""
        return tuple(version for _, version in self.former)

    def rows(self, checkpoint: CheckpointStore, local_dir: Path) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """The keys, as they are in the new shard, and values of its rows, some thousands at a time."""
        low, high = self.groups
        for number, version in self.former:
            if version.is_empty:
                continue
            for keys, values in _rows(number, version, checkpoint, local_dir):
                keys, groups = self._regrouped(keys, version.schemas)
                own = np.flatnonzero((groups >= low) & (groups < high)).tolist()
                if own:
                    yield [keys[i] for i in own], [values[i] for i in own]

    def _regrouped(
        self, keys: list[bytes], schemas: Sequence[StateSchema]
    ) -> tuple[list[bytes], npt.NDArray[np.int64]]:
        """The keys with the groups that they have now, and these. They are sorted, so a table's stand together."""
        tables = stored_tables(schemas)
        indexes = np.fromiter((key[0] for key in keys), np.uint8, len(keys))
        bounds = [0, *(np.flatnonzero(np.diff(indexes)) + 1).tolist(), len(keys)]
        found: list[bytes] = []
        groups = []
        for start, end in pairwise(bounds):
            table = tables.get(keys[start][0])
            if table is None:
                raise StateCorruptionError("manifest", f"no schema has the table of index {keys[start][0]}")
            same = self.written_with == self.max_parallelism
            part = keys[start:end]
            more, own = (part, _groups(part, table)) if same else self._moved(part, table)
            found += more
            groups.append(own)
        return found, np.concatenate(groups) if groups else np.zeros(0, np.int64)

    def _moved(self, keys: list[bytes], table: StoredTable) -> tuple[list[bytes], npt.NDArray[np.int64]]:
        offsets, data = parts(from_list(keys))
        types = [field.type for field in table.spec.key]
        columns, _ = decode_columns(data, offsets[:-1] + table.header, offsets[1:], types)
        n = len(keys)
        before = key_groups(columns, self.written_with, rows=n)
        if not np.array_equal(before, _groups(keys, table)):
            raise StateCorruptionError(
                "state", f"a key of table {table.spec.name} is not in the key group that it hashes to"
            )
        groups = key_groups(columns, self.max_parallelism, rows=n).astype(np.int64)
        changed = data.copy()
        at = offsets[:-1] + table.header
        changed[at - 2] = groups >> 8
        changed[at - 1] = groups & 0xFF
        joined = changed.tobytes()
        return [joined[start:end] for start, end in pairwise(offsets.tolist())], groups


def stored_tables(schemas: Sequence[StateSchema]) -> dict[int, StoredTable]:
    """All tables that values of these schemas may be in, by their index."""
    order: dict[str, int] = {}
    found: dict[int, StoredTable] = {}
    for schema in schemas:
        for table in schema.tables:
            index = order.setdefault(table.name, len(order))
            found.setdefault(index, StoredTable(table, index, {}))
    return found


def _groups(keys: Sequence[bytes], table: StoredTable) -> npt.NDArray[np.int64]:
    """The groups that are in the keys of a table."""
    first, last = table.header - 2, table.header
    return np.fromiter((int.from_bytes(key[first:last], "big") for key in keys), np.int64, len(keys))


def _rows(
    number: int, version: ShardVersion, checkpoint: CheckpointStore, local_dir: Path
) -> Iterator[tuple[list[bytes], list[bytes]]]:
    """All rows of a version, in order, some thousands at a time; in a folder of its own, which is removed."""
    scratch = Path(tempfile.mkdtemp(prefix=f"{RESCALE_PREFIX}{number:05d}-", dir=local_dir))

    def build(cache: Cache) -> None:
        cache.restore(version.snapshot, version.base_chain)
        cache.apply(version.deltas, version.base_chain)

    segments = Segments(checkpoint, version.segments, scratch / SEGMENTS)
    try:
        cache = Cache.open(scratch, "old", checkpoint, version.chain, lambda cache, marker: False, build)
        try:
            for keys, values in cache.rocks.chunks(b"\x00", b"\xff"):
                yield keys, segments.values(values)
        finally:
            cache.close()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _merged(olds: Sequence[ShardVersion], what: str) -> ShardVersion:
    schemas: tuple[StateSchema, ...] = ()
    for old in olds:
        # All shards see the same queries in the same order, but an empty one may have seen none yet.
        if old.schemas[: len(schemas)] != schemas[: len(old.schemas)]:
            raise StateCorruptionError("manifest", "the shards of one version list different schemas")
        schemas = max(schemas, old.schemas, key=len)
    parts_ = [what, *(old.chain for old in olds)]
    return ShardVersion(
        max((old.version for old in olds), default=0),
        chain=digest_of("|".join(parts_).encode()),
        rows=sum(old.rows for old in olds),
        bytes=sum(old.bytes for old in olds),
        schemas=schemas,
    )
