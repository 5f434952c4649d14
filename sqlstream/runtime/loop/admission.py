"""Admission control: how many rows the next epoch may read, and how they are shared among the sources.

Bigger epochs cost less per row, smaller ones answer sooner. Without a fixed limit the number of rows moves
towards what takes the target time, by the rate that was measured. A replay is not affected: what an epoch
reads is in its plan.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from sqlstream.connectors.api import Limits
from sqlstream.storage.manifest import RowsCap

FIRST_ROWS = 500_000
LEAST_ROWS = 1_000
MOST_ROWS = 50_000_000
#: A task reads records of so small a part of its memory: they are there as bytes, as columns, and as what is made of them.
PART_OF_MEMORY = 8
DEFAULT_TARGET_S = 2.0
#: An epoch of so few rows is not planned smaller.
FEWEST_ROWS = 64
#: An epoch that did not fit into memory is planned anew with this part of its rows …
SMALLER = 4
#: … and twice as many are tried after so many epochs that did.
CALM_EPOCHS = 100


@dataclass(frozen=True, slots=True)
class Pace:
    """How a source moves through event time: where it is (µs), and how far a row takes it on average (µs > 0)."""

    at_us: int
    us_per_row: float

    @classmethod
    def between(cls, before_us: int, after_us: int, rows: int) -> Pace | None:
        """The pace over some rows, None if they are too few."""
        if rows <= 0 or after_us <= before_us:
            return None
        return cls(after_us, (after_us - before_us) / rows)


@dataclass(frozen=True, slots=True)
class Admission:
    """The rows that the next epoch may read: `fixed_rows`, or `rows`, which follows the measured rate.

    `overhead_s` is what an epoch takes however little it reads, as far as that is known: the least time of
    an epoch since one had at most a tenth of `most` rows, the most that an epoch has read, or since the smallest one that
    is planned took too long. `cap` is what memory allows, as far as that is known.
    """

    fixed_rows: int | None = None
    files: int | None = None
    target_s: float = DEFAULT_TARGET_S
    rows: int = FIRST_ROWS
    most: int = 0
    overhead_s: float = 0.0
    cap: RowsCap | None = None

    def capped(self, rows: int) -> Admission:
        """The admission after an epoch did not fit into memory and one of `rows` may.

        >>> Admission(rows=500_000).capped(125_000).limit
        125000
        """
        return replace(self, cap=RowsCap(rows))

    def after(self, rows: int, seconds: float) -> Admission:
        """The admission after an epoch that read `rows` in `seconds`: what time and what memory allow."""
        return replace(self._in_time(rows, seconds), cap=self._cap_after(rows))

    def _cap_after(self, rows: int) -> RowsCap | None:
        """What memory allows after an epoch of `rows`: more, once many epochs have had about as many as it allowed.

        >>> Admission(cap=RowsCap(1_000, CALM_EPOCHS - 1))._cap_after(900)
        RowsCap(rows=2000, epochs=0)
        """
        cap = self.cap
        if cap is None or rows < cap.rows // 2:
            return cap
        if cap.epochs + 1 < CALM_EPOCHS:
            return replace(cap, epochs=cap.epochs + 1)
        most = self.fixed_rows if self.fixed_rows is not None else MOST_ROWS
        return RowsCap(cap.rows * 2) if cap.rows * 2 < most else None

    def _in_time(self, rows: int, seconds: float) -> Admission:
        """What time allows after an epoch that read `rows` in `seconds`.

        The time of an epoch beyond its overhead is taken as proportional to its rows, which understates what
        a bigger one can read, so growth is bounded by 4 per step and settles; an epoch that read much less than
        it was allowed says nothing about bigger ones and changes nothing unless it was too slow already.
        Where the overhead is more than half of the target, smaller epochs would only read fewer rows in the
        same time: the target is twice the overhead then.

        >>> Admission(rows=1_000_000)._in_time(1_000_000, 4.0).rows
        500000
        >>> Admission(rows=1_000_000)._in_time(1_000_000, 0.1).rows
        4000000
        >>> Admission(rows=1_000, most=500_000)._in_time(1_000, 3.0).rows
        4000
        """
        if self.fixed_rows is not None or rows <= 0:
            return self
        overhead = min(self.overhead_s, seconds)
        # Where input has trickled in from the start, no epoch is small beside others.
        smallest = self.limit <= LEAST_ROWS and seconds > self.target_s
        if not overhead and (rows <= self.most // 10 or smallest):
            overhead = seconds
        target = max(self.target_s, 2 * overhead)
        wiser = replace(self, most=max(self.most, rows), overhead_s=overhead)
        if rows < self.rows // 2 and seconds <= target:
            return wiser
        wanted = int(rows * (target - overhead) / max(seconds - overhead, 1e-3))
        bounded = min(max(wanted, self.rows // 4), self.rows * 4)
        return replace(wiser, rows=min(max(bounded, LEAST_ROWS), MOST_ROWS))

    @property
    def limit(self) -> int:
        """Rows for the next epoch, over all sources."""
        wanted = self.fixed_rows if self.fixed_rows is not None else self.rows
        return wanted if self.cap is None else min(wanted, self.cap.rows)

    def _last(self, waiting: int) -> int:
        """Rows for the next epoch where nothing comes after the `waiting` ones: all of them, if that is not too many."""
        most = 2 * self.limit
        adapts = self.fixed_rows is None and self.cap is None
        return most if adapts and waiting <= most else self.limit

    def share(
        self,
        waiting: Mapping[str, int | None],
        tasks: int,
        paces: Mapping[str, Pace] | None = None,
        groups: Collection[frozenset[str]] = (),
        *,
        ends: bool = False,
        most_bytes: int | None = None,
    ) -> dict[str, Limits]:
        """What each source may plan, given how many rows roughly wait in each (None: unknown).

        `most_bytes` is what memory allows an epoch to read; sources share it as they share the rows.

        Where nothing comes after what waits (`ends`), a last epoch has up to twice the rows: a small one behind it would
        cost more than it saves.

        A source gets rows in proportion to what waits in it, or an equal part if that is not known. Sources
        of a group (they meet in an operator) share theirs so that they reach the same event time, as far as
        their `paces` are known: otherwise state piles up for the side that is ahead.

        >>> limits = Admission(fixed_rows=100).share({"a": 3_000, "b": 1_000}, 4)
        >>> limits["a"].rows, limits["b"].rows
        (75, 25)
        >>> Admission(rows=100).share({"a": 150}, 4, ends=True)["a"].rows
        200
        >>> limits = Admission(fixed_rows=100).share({"a": 3_000, "b": 1_000}, 4, most_bytes=1_000_000)
        >>> limits["a"].bytes, limits["b"].bytes
        (750000, 250000)
        """
        if not waiting:
            return {}
        known = {name: rows for name, rows in waiting.items() if rows is not None}
        limit = self._last(sum(known.values())) if ends and len(known) == len(waiting) else self.limit
        equal = limit // len(waiting)
        for_known = limit - equal * (len(waiting) - len(known))
        total = sum(known.values())
        shares = {
            name: equal if rows is None or not total else for_known * rows // total
            for name, rows in waiting.items()
        }
        for group in groups:
            going = {name: paces[name] for name in sorted(group & shares.keys()) if paces and name in paces}
            going = {name: pace for name, pace in going.items() if waiting[name] != 0}
            if len(going) > 1:
                shares |= aligned(sum(shares[name] for name in going), going, waiting)
        about = self.fixed_rows is None
        rows = {name: max(part, 1) for name, part in shares.items()}
        together = sum(rows.values())
        bytes_ = {name: most_bytes and max(most_bytes * part // together, 1) for name, part in rows.items()}
        return {
            name: Limits(rows=part, files=self.files, bytes=bytes_[name], tasks=tasks, about=about)
            for name, part in rows.items()
        }


def aligned(pool: int, paces: Mapping[str, Pace], waiting: Mapping[str, int | None]) -> dict[str, int]:
    """`pool` rows for sources so that all reach the same event time, or their ends.

    >>> aligned(100, {"a": Pace(at_us=0, us_per_row=1.0), "b": Pace(at_us=50, us_per_row=1.0)}, {})
    {'a': 75, 'b': 25}
    """

    def rows_until(time: float) -> dict[str, int]:
        rows = {}
        for name, pace in paces.items():
            until = max(0, int((time - pace.at_us) / pace.us_per_row))
            left = waiting.get(name)
            rows[name] = until if left is None else min(until, left)
        return rows

    low = float(min(pace.at_us for pace in paces.values()))
    high = max(pace.at_us + pool * pace.us_per_row for pace in paces.values())
    for _ in range(64):
        middle = (low + high) / 2
        if sum(rows_until(middle).values()) > pool:
            high = middle
        else:
            low = middle
    return rows_until(low)
