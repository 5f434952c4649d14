"""A sorted map of bytes, and the writes of one epoch on top of it."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Protocol, TypeAlias

from .packed_rows import PackedRows

Row: TypeAlias = tuple[bytes, bytes]
"""A key and its value."""


class SortedBytes(Protocol):
    """A sorted map from bytes to bytes that does not change while it is read."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of sorted, distinct keys."""
        ...

    def scan(self, first: bytes, last: bytes, most: int | None = None) -> tuple[list[bytes], list[bytes]]:
        """The keys and values in [first, last), in order; only the first `most` of them."""
        ...

    def measure(self, first: bytes, last: bytes, most: int | None = None) -> tuple[int, int]:
        """How many rows there are in [first, last), counted up to `most`, and about how many bytes they have."""
        ...

    def scan_many(
        self, ranges: Sequence[tuple[bytes, bytes]], most: Sequence[int] | None = None
    ) -> tuple[list[bytes], list[bytes], list[int]]:
        """The keys and values in each of some ranges, and how many each has; only the first `most` of each.

        The ranges are sorted and have no key in common.
        """
        ...

    def scan_back(self, first: bytes, last: bytes, most: int) -> tuple[list[bytes], list[bytes]]:
        """The last `most` keys and values in [first, last), in order."""
        ...

    def seek(self, first: bytes, last: bytes) -> bytes | None:
        """The least key in [first, last)."""
        ...

    def edges(self, ranges: Sequence[tuple[bytes, bytes]], *, backwards: bool) -> list[Row | None]:
        """The first row (`backwards`: the last) of each range [first, last); None where it is empty."""
        ...


def scan_each(
    rows: SortedBytes, ranges: Sequence[tuple[bytes, bytes]], most: Sequence[int] | None
) -> tuple[list[bytes], list[bytes], list[int]]:
    """`SortedBytes.scan_many` by a scan of each range."""
    keys: list[bytes] = []
    values: list[bytes] = []
    sizes = []
    for number, (first, last) in enumerate(ranges):
        more_keys, more_values = rows.scan(first, last, None if most is None else most[number])
        keys += more_keys
        values += more_values
        sizes.append(len(more_keys))
    return keys, values, sizes


class Overlay:
    """The writes of one epoch: deleted ranges of the map below, and on top rows (None: deleted).

    Rows that were loaded at once stay packed, for the delta, until somebody reads where they are.
    """

    def __init__(self) -> None:
        #: The rows that are not packed, by their keys; None: deleted.
        self.single: dict[bytes, bytes | None] = {}
        self.loaded: list[PackedRows] = []
        self.ranges: list[tuple[bytes, bytes]] = []
        self._tables: set[int] = set()
        self._sorted: list[bytes] | None = None

    @property
    def rows(self) -> dict[bytes, bytes | None]:
        """All rows that were written, by their keys; None: deleted."""
        self._unpack(self.loaded)
        return self.single

    @property
    def empty(self) -> bool:
        """Whether nothing was written."""
        return not (self.single or self.loaded or self.ranges)

    def load(self, rows: PackedRows) -> None:
        """Write at least one row of a table; the map below has none of their keys, or none that no range deletes."""
        if rows.table in self._tables or any(part.table == rows.table for part in self.loaded):
            self.write(*rows.lists())
        else:
            self.loaded.append(rows)

    def write(self, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Put rows, or delete them (None)."""
        tables = set(map(itemgetter(0), keys))
        self._unpack([part for part in self.loaded if part.table in tables])
        self._tables |= tables
        self.single.update(zip(keys, values, strict=True))
        self._sorted = None

    def forget(self, first: bytes, last: bytes) -> None:
        """Drop the overlay's own rows in [first, last)."""
        for key in self.keys(first, last):
            del self.single[key]
        self._sorted = None

    def delete_range(self, first: bytes, last: bytes) -> None:
        """Delete all keys in [first, last), in the overlay and below."""
        self.forget(first, last)
        merged = []
        for low, high in self.ranges:
            if high < first or last < low:
                merged.append((low, high))
            else:
                first, last = min(low, first), max(high, last)
        self.ranges = sorted([*merged, (first, last)])

    def keys(self, first: bytes, last: bytes) -> list[bytes]:
        """The overlay's own keys in [first, last), sorted."""
        self.near(first, last)
        if self._sorted is None:
            self._sorted = sorted(self.single)
        low = bisect.bisect_left(self._sorted, first)
        return self._sorted[low : bisect.bisect_left(self._sorted, last)]

    def merged(
        self, keys: list[bytes], values: list[bytes], own: Sequence[bytes]
    ) -> tuple[list[bytes], list[bytes]]:
        """Rows of the map below with those of `own`, keys of the overlay's, on top, in order; deleted ones are gone."""
        merged = dict(zip(keys, values, strict=True))
        for key in own:
            value = self.single[key]
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = value
        ordered = sorted(merged)
        return ordered, [merged[key] for key in ordered]

    def near(self, first: bytes, last: bytes) -> Mapping[bytes, bytes | None]:
        """Rows that were written, those with keys in [first, last] among them."""
        if self.loaded:
            self._unpack([part for part in self.loaded if part.first <= last and first <= part.last])
        return self.single

    def _unpack(self, parts: Sequence[PackedRows]) -> None:
        if parts:
            self.loaded = [part for part in self.loaded if all(part is not one for one in parts)]
            for part in parts:
                self._tables.add(part.table)
                self.single.update(zip(*part.lists(), strict=True))
            self._sorted = None

    def edge(self, first: bytes, last: bytes, *, backwards: bool) -> Row | None:
        """The first (`backwards`: the last) of the overlay's own rows in [first, last), deletions skipped."""
        own = self.keys(first, last)
        for key in reversed(own) if backwards else own:
            value = self.single[key]
            if value is not None:
                return key, value
        return None

    def touches(self, first: bytes, last: bytes) -> bool:
        """Whether [first, last) may be otherwise than in the map below."""
        return not self.empty and (
            bool(self.keys(first, last)) or self.visible(first, last) != [(first, last)]
        )

    def touched(self, ranges: Sequence[tuple[bytes, bytes]]) -> list[bool]:
        """`touches` of each of some ranges, which are sorted."""
        if self.empty or not ranges:
            return [False] * len(ranges)
        own = self.keys(ranges[0][0], ranges[-1][1])
        touched = []
        for first, last in ranges:
            at = bisect.bisect_left(own, first)
            written = at < len(own) and own[at] < last
            touched.append(written or (bool(self.ranges) and self.visible(first, last) != [(first, last)]))
        return touched

    def hides(self, key: bytes) -> bool:
        """Whether a range deletes this key of the map below."""
        at = bisect.bisect_right(self.ranges, (key, b"\xff" * 8)) - 1
        return at >= 0 and self.ranges[at][0] <= key < self.ranges[at][1]

    def visible(self, first: bytes, last: bytes) -> list[tuple[bytes, bytes]]:
        """The parts of [first, last) that no range deletes."""
        out = []
        for low, high in self.ranges:
            if high <= first or last <= low:
                continue
            if first < low:
                out.append((first, low))
            first = high
        if first < last:
            out.append((first, last))
        return out
