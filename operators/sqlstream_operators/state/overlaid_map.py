"""A sorted map of bytes that does not change, and the writes of the running epoch over it, as one."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from itertools import repeat

import numpy as np

from .overlay import Overlay, Row, SortedBytes


class OverlaidMap:
    """What an epoch sees: its own writes, the `overlay`, over the rows that were there, the `base`."""

    def __init__(self, base: SortedBytes) -> None:
        self.base = base
        self.overlay = Overlay()
        self.rows_changed = 0
        self.bytes_changed = 0
        # What this epoch learned about the map below: the sizes of rows that are there.
        self._sizes: dict[bytes, int] = {}
        self._scanned: tuple[bytes, bytes, list[bytes], list[bytes]] | None = None

    def scan_bytes(self, first: bytes, last: bytes) -> tuple[list[bytes], list[bytes]]:
        """The keys and values in [first, last), the epoch's own writes included."""
        keys: list[bytes] = []
        values: list[bytes] = []
        for low, high in self.overlay.visible(first, last):
            more_keys, more_values = self._scan_base(low, high)
            keys, values = (more_keys, more_values) if not keys else (keys + more_keys, values + more_values)
        own = self.overlay.keys(first, last)
        return self.overlay.merged(keys, values, own) if own else (keys, values)

    def changed(self) -> tuple[int, int]:
        """How many more live rows, and bytes of them, there are than below the overlay.

        Exact, but that a row put over one that this epoch has not read counts as new.
        """
        overlay, sizes = self.overlay, self._sizes
        hidden: set[bytes] = set()
        for first, last in overlay.ranges:
            hidden.update(overlay.keys(first, last))
        written, values = list(overlay.single), list(overlay.single.values())
        present = written
        if None in values:
            unread = [k for k, v in zip(written, values, strict=True) if v is None and k not in sizes]
            self._learn(sorted(key for key in unread if key not in hidden))
            present = [k for k, v in zip(written, values, strict=True) if v is not None]
        rows = self.rows_changed + len(present) + sum(map(len, overlay.loaded))
        size = self.bytes_changed + sum(map(len, present)) + sum(map(len, filter(None, values)))
        size += sum(part.size for part in overlay.loaded)
        if sizes:
            # The rows below that were read and are written: those with a size are there, and are replaced.
            below = [key for key in written if key not in hidden] if hidden else written
            before = np.fromiter(map(sizes.get, below, repeat(-1)), np.int64, len(below))
            lengths = np.fromiter(map(len, below), np.int64, len(below))
            replaced = before >= 0
            rows -= int(np.count_nonzero(replaced))
            size -= int(before[replaced].sum() + lengths[replaced].sum())
        return rows, size

    def forget(self) -> None:
        """Drop the epoch's writes and what it learned."""
        self.overlay = Overlay()
        self.rows_changed = self.bytes_changed = 0
        self._sizes = {}
        self._scanned = None

    def has_rows(self) -> bool:
        """Whether any row lives, the epoch's own writes included (exact)."""
        if self.overlay.loaded or any(value is not None for value in self.overlay.single.values()):
            return True
        return self._any(b"\x00", b"\xff")

    def _any(self, first: bytes, last: bytes) -> bool:
        own = self.overlay.keys(first, last)
        if any(self.overlay.rows[key] is not None for key in own):
            return True
        for low, high in self.overlay.visible(first, last):
            key = self.base.seek(low, high)
            while key is not None:
                if key not in self.overlay.rows:
                    return True
                key = self.base.seek(key + b"\x00", high)
        return False

    def _edges(self, ranges: list[tuple[bytes, bytes]], *, backwards: bool) -> list[Row | None]:
        """The first (`backwards`: last) row of each range, the epoch's own writes included."""
        overlay = self.overlay
        below = self.base.edges(ranges, backwards=backwards)
        if overlay.empty:
            return below
        edges: list[Row | None] = []
        for (first, last), row in zip(ranges, below, strict=True):
            if row is not None and (row[0] in overlay.rows or overlay.hides(row[0])):
                row = self._visible_edge(first, last, backwards=backwards)
            own = overlay.edge(first, last, backwards=backwards)
            if row is None or (own is not None and (own[0] > row[0]) == backwards):
                row = own
            edges.append(row)
        return edges

    def _visible_edge(self, first: bytes, last: bytes, *, backwards: bool) -> Row | None:
        """The first (`backwards`: last) row below in [first, last) that the overlay leaves as it is."""
        ranges = self.overlay.visible(first, last)
        for low, high in reversed(ranges) if backwards else ranges:
            [row] = self.base.edges([(low, high)], backwards=backwards)
            while row is not None and row[0] in self.overlay.rows:
                low, high = (low, row[0]) if backwards else (row[0] + b"\x00", high)
                [row] = self.base.edges([(low, high)], backwards=backwards)
            if row is not None:
                return row
        return None

    def _learn(self, keys: list[bytes]) -> list[bytes | None]:
        values = self.base.get_many(keys) if keys else []
        if values.count(None) < len(values):
            found = zip(keys, values, strict=True)
            self._sizes.update((key, len(value)) for key, value in found if value is not None)
        return values

    def _fetch(self, keys: list[bytes]) -> list[bytes | None]:
        """The values of sorted, distinct keys, the epoch's own writes included."""
        overlay = self.overlay
        if overlay.empty or not keys:
            return self._learn(keys)
        own = overlay.near(keys[0], keys[-1])
        below = [key for key in keys if key not in own and not overlay.hides(key)]
        found = dict(zip(below, self._learn(below), strict=True))
        return [found[key] if key in found else own.get(key) for key in keys]

    def _scan_base(self, first: bytes, last: bytes) -> tuple[list[bytes], list[bytes]]:
        """The rows below in [first, last); a part of the range that was scanned last is not read again."""
        known = self._scanned_part(first, last)
        if known is not None:
            return known
        keys, values = self.base.scan(first, last)
        self._scanned = (first, last, keys, values)
        return keys, values

    def _measured(self, first: bytes, last: bytes) -> tuple[int, int]:
        """How many rows there are below in [first, last), and about how many bytes they have."""
        known = self._scanned_part(first, last)
        if known is None:
            return self.base.measure(first, last)
        keys, values = known
        return len(keys), sum(map(len, keys)) + sum(map(len, values))

    def _scanned_part(self, first: bytes, last: bytes) -> tuple[list[bytes], list[bytes]] | None:
        """The rows below in [first, last), if it is a part of the range that was scanned last."""
        if self._scanned is None:
            return None
        low, high, keys, values = self._scanned
        if first < low or high < last:
            return None
        part = slice(bisect.bisect_left(keys, first), bisect.bisect_left(keys, last))
        return keys[part], values[part]

    def _one_by_one(
        self, ranges: Sequence[tuple[bytes, bytes]], most: Sequence[int], *, backwards: bool = False
    ) -> tuple[list[bytes], list[bytes], list[int]]:
        """`read_ranges` of ranges in any order, or of the last rows of each (`backwards`)."""
        found_keys: list[bytes] = []
        found_values: list[bytes] = []
        sizes: list[int] = []
        for (first, last), rows in zip(ranges, most, strict=True):
            if self.overlay.touches(first, last):
                keys, values = self.scan_bytes(first, last)
                part = slice(max(len(keys) - rows, 0), None) if backwards else slice(rows)
                keys, values = keys[part], values[part]
            elif backwards:
                keys, values = self.base.scan_back(first, last, rows)
            else:
                keys, values = self.base.scan(first, last, rows)
            found_keys += keys
            found_values += values
            sizes.append(len(keys))
        return found_keys, found_values, sizes
