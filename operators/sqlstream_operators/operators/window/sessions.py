"""Sessions as arithmetic on int64 µs: which rows and open sessions of a partition are one session.

A session is [first, last + gap). Two that overlap or touch are one: so Flink's `TimeWindow.intersects` has it, where the
end of the one may be the start of the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .windows import Int64s


@dataclass(frozen=True, slots=True)
class Sessions:
    """Sessions or rows by the number of their partition, and the times of their first and last rows."""

    part: Int64s
    first: Int64s
    last: Int64s


def merged(pieces: Sessions, gap_us: int) -> tuple[Sessions, Int64s]:
    """The sessions that pieces of any order make, by partition and time, and for each piece which it is in.

    >>> two = Sessions(np.array([0, 0]), np.array([5, 0]), np.array([5, 0]))
    >>> merged(two, 5)[0].last.tolist(), merged(two, 4)[1].tolist()
    ([5], [1, 0])
    """
    if not len(pieces.part):
        return pieces, pieces.part
    order = np.lexsort((pieces.last, pieces.first, pieces.part))
    part, first, last = pieces.part[order], pieces.first[order], pieces.last[order]
    # The latest end so far within a partition: ranks of ends, shifted so that a later partition's are greater.
    ends, rank = np.unique(last, return_inverse=True)
    so_far = ends[np.maximum.accumulate(rank + part * len(ends)) - part * len(ends)]
    begins = np.ones(len(order), bool)
    begins[1:] = (part[1:] != part[:-1]) | (first[1:] - so_far[:-1] > gap_us)
    starts = np.flatnonzero(begins)
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(begins) - 1
    return Sessions(part[starts], first[starts], np.maximum.reduceat(last, starts)), number


def numbered_by(part: Int64s, base: Int64s) -> tuple[Int64s, Int64s]:
    """A number for each row, counting on from its partition's `base` in the order of rows, and the partitions' next ones.

    >>> [found.tolist() for found in numbered_by(np.array([1, 0, 1]), np.array([0, 7]))]
    [[7, 0, 8], [1, 9]]
    """
    counts = np.bincount(part, minlength=len(base)).astype(np.int64)
    order = np.argsort(part, kind="stable")
    within = np.arange(len(part)) - np.repeat(np.cumsum(counts) - counts, counts)
    numbers = np.empty(len(part), np.int64)
    numbers[order] = base[part[order]] + within
    return numbers, base + counts
