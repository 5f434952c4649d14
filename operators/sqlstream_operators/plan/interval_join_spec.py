"""The spec of a join whose rows are near each other in time, so that state goes with the watermark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlstream_operators.plan.join_spec import JoinSideSpec, check_sides
from sqlstream_operators.plan.operator_spec import (
    ByWatermark,
    KeepsForGood,
    OperatorFacts,
    TimeColumn,
    Waiting,
    as_they_are,
)
from sqlstream_operators.plan.schema import Schema
from sqlstream_operators.plan.state_schema import StateSchema

SIDES = ("left", "right")
"""The state tables with the rows of each side."""


@dataclass(frozen=True, slots=True)
class TimeBounds:
    """How far apart in time the rows of a pair are: lower_us <= left's time - right's time <= upper_us; all in µs.

    `left` and `right` are the TIMESTAMP columns with the times. A row of the left with time t can be in no pair with rows to
    come at watermark W iff t + left_wait_us <= W, and so for the right.
    """

    left: str
    right: str
    lower_us: int
    upper_us: int
    left_wait_us: int
    right_wait_us: int

    def __post_init__(self) -> None:
        if self.lower_us > self.upper_us:
            raise ValueError("the times of a pair are between a lower and an upper bound")

    @property
    def bucket_us(self) -> int:
        """How much time is together in state: the partners of a row are in two buckets at most."""
        return self.upper_us - self.lower_us + 1


@dataclass(frozen=True, slots=True)
class IntervalJoinSpec(ByWatermark, KeepsForGood):
    """Pairs of rows of two append-only relations with equal keys whose times are near each other; state goes with time.

    Flink's interval join, and with a window's end as time its window join. Inputs, `keys`, `condition` and `type` are as in
    `JoinSpec`; `condition` implies `bounds`. A pair is emitted when its later row arrives; a row beside NULLs, or of
    'anti', as soon as the watermark says that no partner of it can come.

    State: tables `left` and `right`, layout 'time' (the time of a row rounded down to `bounds.bucket_us`), key, sub-key and
    value as in `JoinSpec`; of 'semi' and 'anti' the left has only rows without a partner. For a side that is given without
    a partner, table `alone_left` or `alone_right`, layout 'time' (the row's own time): key and sub-key as there, no value:
    the rows that have had no partner so far.

    Output: the columns of the left, and of the right but for 'semi' and 'anti'; append-only.
    """

    kind: ClassVar[str] = "interval_join"
    emits_changes: ClassVar[bool] = False

    state: StateSchema
    type: str
    keys: Schema
    left: JoinSideSpec
    right: JoinSideSpec
    condition: str | None
    output: Schema
    bounds: TimeBounds
    watermark_sources: tuple[str, ...]

    @property
    def columns(self) -> Schema:
        """The columns of both sides."""
        return (*self.left.columns, *self.right.columns)

    def __post_init__(self) -> None:
        check_sides(self.type, self.keys, self.left, self.right)
        if self.left.retracting or self.right.retracting:
            raise ValueError("the rows of an interval join stay")

    @property
    def facts(self) -> OperatorFacts:
        """What there is to know of it."""
        return OperatorFacts(
            keeps_answer=False,
            view=None,
            columns=self.columns,
            unchanged=as_they_are(self.output),
            times=self._times,
            waiting=self._waiting,
            seed=None,
            late_rows_of=None,
        )

    @property
    def _times(self) -> dict[str, tuple[TimeColumn, ...]]:
        together = TimeColumn("time_from", "the first time that is kept together with it")
        alone = TimeColumn("time", "the time of the row")
        return {t.name: (together if t.name in SIDES else alone,) for t in self.state.tables}

    @property
    def _waiting(self) -> Waiting:
        """Pairs are given as their rows come: only rows without a partner are given when the watermark has passed them."""
        slice_us = 0 if self.type in ("inner", "semi") else 1
        bounds, keys = self.bounds, [key.name for key in self.keys]
        left, right = (dict(zip(side.keys, keys, strict=True)) for side in (self.left, self.right))
        done = (
            (left.get(bounds.left, bounds.left), bounds.left_wait_us),
            (right.get(bounds.right, bounds.right), bounds.right_wait_us),
        )
        return Waiting(tables=SIDES, what="row", slice_us=slice_us, offset_us=0, tick_us=1, done=done)
