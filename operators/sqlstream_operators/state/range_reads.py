"""Reads of many ranges at once: what is published, by one iterator, with an epoch's writes on top."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from .overlay import Overlay, SortedBytes

Range = tuple[bytes, bytes]


def are_apart(ranges: Sequence[Range]) -> bool:
    """Whether ranges are sorted and have no key in common."""
    return all(before[1] <= after[0] for before, after in pairwise(ranges))


def read_ranges(
    below: SortedBytes, overlay: Overlay, ranges: Sequence[Range], most: Sequence[int] | None = None
) -> tuple[list[bytes], list[bytes], list[int]]:
    """The keys and values in each of some ranges, in order, and how many each has; only the first `most` of each.

    The ranges are sorted and have no key in common. Each row below costs a step of one iterator, and a range about a seek;
    only ranges that the epoch has written into are put together row by row.
    """
    touched = overlay.touched(ranges)
    if not any(touched):
        return below.scan_many(ranges, most)
    parts: list[Range] = []
    limits: list[int] = []
    counts: list[int] = []
    owns: list[list[bytes]] = []
    for number, (first, last) in enumerate(ranges):
        limit = _NO_LIMIT if most is None else most[number]
        own = overlay.keys(first, last) if touched[number] else []
        visible = overlay.visible(first, last) if touched[number] else [(first, last)]
        parts += visible
        # Each of the epoch's own rows may hide one below.
        limits += [limit + len(own)] * len(visible)
        counts.append(len(visible))
        owns.append(own)
    below_keys, below_values, sizes = below.scan_many(parts, limits)
    keys: list[bytes] = []
    values: list[bytes] = []
    found: list[int] = []
    part = at = 0
    for number, own in enumerate(owns):
        size = sum(sizes[part : part + counts[number]])
        part += counts[number]
        more_keys, more_values = below_keys[at : at + size], below_values[at : at + size]
        at += size
        if own:
            more_keys, more_values = overlay.merged(more_keys, more_values, own)
        limit = len(more_keys) if most is None else most[number]
        keys += more_keys[:limit]
        values += more_values[:limit]
        found.append(min(len(more_keys), limit))
    return keys, values, found


_NO_LIMIT = 1 << 62
