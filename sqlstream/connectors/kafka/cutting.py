"""Which offsets an epoch reads of each partition, and how they are cut into splits."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from sqlstream.connectors.api import Split
from sqlstream.connectors.kafka.positions import Offsets, Part, lane

#: A range of fewer records, or of fewer bytes where those are known, is not worth a task of its own.
_FEWEST, _FEWEST_BYTES = 20_000, 4 << 20


def allotted(waiting: Mapping[Part, int], rows: int | None) -> dict[Part, int]:
    """How many offsets to read of each partition, no more than `rows` together.

    All get the same, and those that have less leave the rest to the others: one that lags does not hold up those that don't.

    >>> allotted({("t", 0): 100, ("t", 1): 3, ("t", 2): 50}, 63)
    {('t', 1): 3, ('t', 2): 30, ('t', 0): 30}
    """
    left = sum(waiting.values()) if rows is None else rows
    found: dict[Part, int] = {}
    ordered = sorted((n, part) for part, n in waiting.items() if n > 0)
    for number, (count, part) in enumerate(ordered):
        share = -(-left // (len(ordered) - number))
        found[part] = min(count, share)
        left -= found[part]
    return {part: count for part, count in found.items() if count}


def within_bytes(counts: Mapping[Part, int], sizes: Mapping[Part, float], most: int) -> dict[Part, int]:
    """The same counts, or fewer, so that they have no more than `most` bytes by the bytes per offset of each partition.

    All partitions get the same bytes, and at least one offset is read.

    >>> within_bytes({("t", 0): 100, ("t", 1): 100}, {("t", 0): 10.0, ("t", 1): 1.0}, 600)
    {('t', 1): 100, ('t', 0): 50}
    >>> within_bytes({("t", 0): 100}, {("t", 0): 1000.0}, 1)
    {('t', 0): 1}
    """
    heavy = {part: max(1, round(count * sizes[part])) for part, count in counts.items() if sizes[part] > 0}
    if sum(heavy.values()) <= most:
        return dict(counts)
    shares = allotted(heavy, most)
    found = {part: n for part, n in counts.items() if part not in heavy}
    found |= {part: min(counts[part], int(share / sizes[part])) for part, share in shares.items()}
    kept = {part: count for part, count in found.items() if count}
    return kept or {min(heavy, key=lambda part: sizes[part]): 1}


def pieces(begin: int, end: int, total: int, tasks: int, size: float = 0.0) -> list[tuple[int, int]]:
    """The ranges that [begin, end) is read in, of an epoch that reads `total` offsets with so many tasks.

    `size` is the bytes per offset, 0 if they are not known.

    >>> pieces(10, 100_010, 100_000, 4)
    [(10, 25010), (25010, 50010), (50010, 75010), (75010, 100010)]
    >>> pieces(0, 30_000, 100_000, 4)
    [(0, 30000)]
    >>> pieces(0, 30, 30, 4, 1e6)
    [(0, 7), (7, 15), (15, 22), (22, 30)]
    """
    count = end - begin
    fewest = min(_FEWEST, int(_FEWEST_BYTES / size) + 1) if size else _FEWEST
    number = max(1, min(round(tasks * count / total), count // fewest))
    bounds = [begin + count * i // number for i in range(number + 1)]
    return list(pairwise(bounds))


def splits_of(
    table: str, start: Offsets, counts: Mapping[Part, int], tasks: int, sizes: Mapping[Part, float]
) -> tuple[Split, ...]:
    """The splits of an epoch that reads `counts` offsets of each partition, from `start` on, with so many tasks.

    `sizes` are the bytes per offset of the partitions where they are known.
    """
    total = sum(counts.values())
    return tuple(
        Split(
            table,
            {"topic": part[0], "partition": part[1], "from": begin, "to": end},
            end - begin,
            lane=lane(part),
        )
        for part, count in sorted(counts.items())
        for begin, end in pieces(start[part], start[part] + count, total, max(tasks, 1), sizes.get(part, 0.0))
    )
