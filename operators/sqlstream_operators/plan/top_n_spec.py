"""Specs of the first rows of each partition: Top-N, deduplication, and Top-N of windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sqlstream_operators.plan.operator_spec import (
    NO_TIMES,
    WINDOW_END,
    ByWatermark,
    Forgets,
    KeepsForGood,
    NoWatermark,
    OperatorFacts,
    View,
    Waiting,
    as_they_are,
    times_of,
)
from sqlstream_operators.plan.schema import Schema
from sqlstream_operators.plan.state_schema import StateSchema

RANKS = ("row_number", "rank", "dense_rank")


def _check_ranks(function: str, limit: int, offset: int) -> None:
    if function not in RANKS:
        raise ValueError(f"the rank function is one of {RANKS}, not {function!r}")
    if limit < 0 or offset < 0:
        raise ValueError("limit and offset are not negative")


@dataclass(frozen=True, slots=True)
class Ordering:
    """One term of an ORDER BY over a column of the operator's input."""

    column: str
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class TopNSpec(NoWatermark, Forgets):
    """The rows of each partition whose rank is in (offset, offset + limit], kept up to date.

    Input: `columns` (the partition's among them), and WEIGHT_COLUMN if `retracting`. Rows that are equal
    in all of `order` are ranked by all `columns` in their order, ascending, NULLs first, so that the
    result does not depend on arrival; RANK and DENSE_RANK see `order` alone. A row that came several
    times is ranked as several rows. State: table `rows`, layout 'key': key = partition columns; sub-key =
    `sort` BLOB (the order columns as order-preserving bytes, inverted where descending), `row` BLOB (a
    digest of the whole row); value = `count` BIGINT and the columns that are not in the partition. Over
    append-only input only rows that can still be in the result are kept, over retracting input all.

    Output: `output`, which is `columns` in another order or fewer, and the rank if `rank` names it; and
    WEIGHT_COLUMN.
    """

    kind: ClassVar[str] = "top_n"
    emits_changes: ClassVar[bool] = True

    state: StateSchema
    columns: Schema
    partition: tuple[str, ...]
    order: tuple[Ordering, ...]
    function: str
    limit: int
    offset: int
    rank: str | None
    output: Schema
    retracting: bool
    ttl_us: int | None = None

    def __post_init__(self) -> None:
        _check_ranks(self.function, self.limit, self.offset)

    @property
    def facts(self) -> OperatorFacts:
        """What there is to know of it."""
        return OperatorFacts(
            keeps_answer=True,
            view=View(self.state.tables[0].name),
            columns=self.columns,
            unchanged=as_they_are(self.output),
            times=NO_TIMES,
            waiting=None,
            seed=None,
            late_rows_of=None,
        )


@dataclass(frozen=True, slots=True)
class DeduplicateSpec(NoWatermark, Forgets):
    """The first row of each partition by `order` over append-only input: Top-N with N = 1, and one stored row
    a key.

    Input: `columns`. State: table `row`, layout 'key': key = `partition` columns, value = the others.
    Ties are broken as in `TopNSpec`. Output: `output` (columns, in another order or fewer) and
    WEIGHT_COLUMN.
    """

    kind: ClassVar[str] = "deduplicate"
    emits_changes: ClassVar[bool] = True

    state: StateSchema
    columns: Schema
    partition: tuple[str, ...]
    order: tuple[Ordering, ...]
    output: Schema
    ttl_us: int | None = None

    @property
    def facts(self) -> OperatorFacts:
        """What there is to know of it."""
        return OperatorFacts(
            keeps_answer=True,
            view=View(self.state.tables[0].name),
            columns=self.columns,
            unchanged=as_they_are(self.output),
            times=NO_TIMES,
            waiting=None,
            seed=None,
            late_rows_of=None,
        )


@dataclass(frozen=True, slots=True)
class WindowTopNSpec(ByWatermark, KeepsForGood):
    """The rows of each window and partition whose rank is in (offset, offset + limit], emitted when the
    window closes.

    Input: SLICE_COLUMN BIGINT (the window's end, µs) and `columns`; append-only. State: table `rows`,
    layout 'time' (the window's end): key = partition columns, sub-key = `sort` and `row` as in
    `TopNSpec`, value = `count` and the other columns. A window with end E is closed at watermark W iff E
    - tick <= W. Output: `output`, append-only.
    """

    kind: ClassVar[str] = "window_top_n"
    emits_changes: ClassVar[bool] = False

    state: StateSchema
    columns: Schema
    partition: tuple[str, ...]
    order: tuple[Ordering, ...]
    function: str
    limit: int
    offset: int
    rank: str | None
    output: Schema
    watermark_sources: tuple[str, ...]
    tick_us: int

    def __post_init__(self) -> None:
        _check_ranks(self.function, self.limit, self.offset)

    @property
    def facts(self) -> OperatorFacts:
        """What there is to know of it."""
        return OperatorFacts(
            keeps_answer=False,
            view=View(paged_by=None),
            columns=self.columns,
            unchanged=as_they_are(self.output),
            times=times_of(self.state, WINDOW_END),
            waiting=Waiting(
                tables=(self.state.tables[0].name,), what="window", slice_us=1, offset_us=0, tick_us=1
            ),
            seed=None,
            late_rows_of=None,
        )
