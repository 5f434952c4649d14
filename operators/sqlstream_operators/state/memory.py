"""A sorted map of bytes in memory; and the twin of `ShardStore` over it, for tests of operators."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence

from sqlstream_operators.plan.state_schema import StateSchema

from .overlay import Overlay, Row, scan_each
from .state_tables import StateTables
from .version import ShardVersion


class MemoryBytes:
    """A sorted map of bytes in a dict and a sorted list."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self._sorted: list[bytes] = []

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See `SortedBytes.get_many`."""
        return [self.rows.get(key) for key in keys]

    def scan(self, first: bytes, last: bytes, most: int | None = None) -> tuple[list[bytes], list[bytes]]:
        """See `SortedBytes.scan`."""
        low, high = bisect.bisect_left(self._sorted, first), bisect.bisect_left(self._sorted, last)
        keys = self._sorted[low : high if most is None else min(low + most, high)]
        return keys, [self.rows[key] for key in keys]

    def measure(self, first: bytes, last: bytes, most: int | None = None) -> tuple[int, int]:
        """See `SortedBytes.measure`."""
        keys, values = self.scan(first, last, most)
        return len(keys), sum(map(len, keys)) + sum(map(len, values))

    def scan_many(
        self, ranges: Sequence[tuple[bytes, bytes]], most: Sequence[int] | None = None
    ) -> tuple[list[bytes], list[bytes], list[int]]:
        """See `SortedBytes.scan_many`."""
        return scan_each(self, ranges, most)

    def scan_back(self, first: bytes, last: bytes, most: int) -> tuple[list[bytes], list[bytes]]:
        """See `SortedBytes.scan_back`."""
        low, high = bisect.bisect_left(self._sorted, first), bisect.bisect_left(self._sorted, last)
        keys = self._sorted[max(low, high - most) : high]
        return keys, [self.rows[key] for key in keys]

    def seek(self, first: bytes, last: bytes) -> bytes | None:
        """See `SortedBytes.seek`."""
        at = bisect.bisect_left(self._sorted, first)
        return self._sorted[at] if at < len(self._sorted) and self._sorted[at] < last else None

    def edges(self, ranges: Sequence[tuple[bytes, bytes]], *, backwards: bool) -> list[Row | None]:
        """See `SortedBytes.edges`."""
        edges: list[Row | None] = []
        for first, last in ranges:
            keys, values = self.scan(first, last)
            edges.append((keys[-backwards], values[-backwards]) if keys else None)
        return edges

    def add(self, rows: Mapping[bytes, bytes]) -> None:
        """Add rows, over those with the same key."""
        self.rows.update(rows)
        self._sorted = sorted(self.rows)

    def apply(self, overlay: Overlay) -> None:
        """Apply an epoch's writes."""
        for first, last in overlay.ranges:
            for key in self.scan(first, last)[0]:
                del self.rows[key]
        for key, value in overlay.rows.items():
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value
        self._sorted = sorted(self.rows)


class MemoryShardStore(StateTables):
    """State in memory: `commit` makes the epoch's writes permanent, `abort` drops them."""

    def __init__(
        self, schema: StateSchema, shard: int = 0, shards: int = 1, max_parallelism: int = 128
    ) -> None:
        self._memory = MemoryBytes()
        super().__init__(schema, shard, shards, max_parallelism, self._memory)
        self.epoch = 0

    def commit(self) -> ShardVersion:
        """End the epoch; the version has exact counters and no files."""
        self._memory.apply(self.overlay)
        self.abort()
        self.epoch += 1
        rows = self._memory.rows
        size = sum(len(key) + len(value) for key, value in rows.items())
        return ShardVersion(self.epoch, rows=len(rows), bytes=size, schemas=self.schemas)

    def abort(self) -> None:
        """Drop the epoch's writes."""
        self.forget()
