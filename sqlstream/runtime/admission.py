"""Admission control: how many rows the next epoch may read, and how they are shared among the sources.

Bigger epochs cost less a row, smaller ones answer sooner. Without a fixed limit the number of rows moves
towards what takes the target time, by the rate that was measured. A replay is not affected: what an epoch
reads is in its plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlstream.connectors.api import Limits

FIRST_ROWS = 200_000
LEAST_ROWS = 1_000
MOST_ROWS = 50_000_000
DEFAULT_TARGET_S = 2.0


@dataclass(frozen=True, slots=True)
class Admission:
    """The rows that the next epoch may read: `fixed_rows`, or `rows`, which follows the measured rate."""

    fixed_rows: int | None = None
    files: int | None = None
    target_s: float = DEFAULT_TARGET_S
    rows: int = FIRST_ROWS

    def after(self, rows: int, seconds: float) -> Admission:
        """The admission after an epoch that read `rows` in `seconds`.

        The time of an epoch is taken as proportional to its rows, which understates what a bigger one can
        read, so growth is bounded by 4 a step and settles; an epoch that read much less than it was allowed
        says nothing about bigger ones and changes nothing unless it was too slow already.

        >>> Admission(rows=1_000_000).after(1_000_000, 4.0).rows
        500000
        >>> Admission(rows=1_000_000).after(1_000_000, 0.1).rows
        4000000
        """
        if self.fixed_rows is not None or rows <= 0:
            return self
        if rows < self.rows // 2 and seconds <= self.target_s:
            return self
        wanted = int(rows * self.target_s / max(seconds, 1e-3))
        bounded = min(max(wanted, self.rows // 4), self.rows * 4)
        return replace(self, rows=min(max(bounded, LEAST_ROWS), MOST_ROWS))

    @property
    def limit(self) -> int:
        """Rows for the next epoch, over all sources."""
        return self.fixed_rows if self.fixed_rows is not None else self.rows

    def share(self, waiting: Mapping[str, int | None], tasks: int) -> dict[str, Limits]:
        """What each source may plan, given how many rows roughly wait in each (None: unknown).

        Sources progress in proportion to what waits, so that a join's sides and a union's branches stay
        together in event time and no side has to be kept as state for longer than needed. A source of which
        that is not known gets an equal part.

        >>> limits = Admission(fixed_rows=100).share({"a": 3_000, "b": 1_000}, 4)
        >>> limits["a"].rows, limits["b"].rows
        (75, 25)
        """
        if not waiting:
            return {}
        limit = self.limit
        known = {name: rows for name, rows in waiting.items() if rows is not None}
        equal = limit // len(waiting)
        for_known = limit - equal * (len(waiting) - len(known))
        total = sum(known.values())
        shares = {}
        for name, rows in waiting.items():
            part = equal if rows is None or not total else for_known * rows // total
            shares[name] = Limits(rows=max(part, 1), files=self.files, tasks=tasks)
        return shares
