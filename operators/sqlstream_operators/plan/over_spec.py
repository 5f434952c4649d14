"""Specs of OVER: functions of each row over the rows of its partition, kept up to date or given once."""

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
from sqlstream_operators.plan.schema import Column, Schema
from sqlstream_operators.plan.state_schema import StateSchema
from sqlstream_operators.plan.top_n_spec import Ordering

ROWS = "rows"
"""The state table with the rows."""
SORT, ROW, COPY = "__sort", "__row", "__copy"
"""The sub-key of `ROWS`: the place in ORDER BY (BLOB), a digest of the row (BLOB), which of its copies it is (BIGINT)."""
PART, POSITION = "__part", "__position"
"""What a function's SQL may read besides the columns: the number of the partition, the place of the row in it (BIGINT)."""
BY_ROW, BY_PEER = "__by_row", "__by_peer"
"""The windows that a function's SQL is over: ordered by `POSITION`, or by ORDER BY alone, where rows may be equal."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How far around a row those stand that its value depends on, in numbers of different places in ORDER BY.

    Of rows that are all different in ORDER BY these are numbers of rows.
    """

    before: int
    after: int

    def __post_init__(self) -> None:
        if self.before < 0 or self.after < 0:
            raise ValueError("a reach is not negative")

    def both(self, other: Reach) -> Reach:
        """The reach of what depends on either."""
        return Reach(max(self.before, other.before), max(self.after, other.after))


@dataclass(frozen=True, slots=True)
class OverCall:
    """One function: `sql` is a DuckDB window expression over the columns, `BY_ROW` or `BY_PEER`, that gives `column`.

    `reach`: which rows it depends on; None: it may depend on all of the partition.
    """

    column: Column
    sql: str
    reach: Reach | None = None


def _check(columns: Schema, partition: tuple[str, ...], calls: tuple[OverCall, ...]) -> None:
    names = [c.name for c in (*columns, *(call.column for call in calls))]
    if len(set(names)) != len(names):
        raise ValueError(f"two columns of an OVER have one name in {names}")
    if not set(partition) <= {c.name for c in columns}:
        raise ValueError("a partition is of columns of the rows")
    if not calls:
        raise ValueError("an OVER without a function")


@dataclass(frozen=True, slots=True)
class OverSpec(NoWatermark, Forgets):
    """Functions of each row over its partition, kept up to date over updating rows.

    Input: `columns` (the partition's among them), and WEIGHT_COLUMN if `retracting`. Rows that are equal in all of `order`
    stand in the order of all `columns`, ascending, NULLs first; equal rows are rows of their own.

    State: table `ROWS`, layout 'key': key = partition columns; sub-key = `SORT`, `ROW`, `COPY`; value = the columns that
    are not in the partition, and what each function gave for the row. So what was given is retracted exactly, also where
    a sum of doubles comes out otherwise over the same rows. Copies of a row are numbered from 0; those with a negative
    number are rows retracted before their insertion, and count for nothing.

    Output: `output`, which is `columns` and those of the `calls`; and WEIGHT_COLUMN.
    """

    kind: ClassVar[str] = "over"
    emits_changes: ClassVar[bool] = True

    state: StateSchema
    columns: Schema
    partition: tuple[str, ...]
    order: tuple[Ordering, ...]
    calls: tuple[OverCall, ...]
    output: Schema
    retracting: bool
    ttl_us: int | None = None

    def __post_init__(self) -> None:
        _check(self.columns, self.partition, self.calls)

    @property
    def reach(self) -> Reach | None:
        """Which rows a row depends on; None: it may be all of the partition."""
        reach = Reach(0, 0)
        for call in self.calls:
            if call.reach is None:
                return None
            reach = reach.both(call.reach)
        return reach

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


WAITING, LEAVING, TOTALS = "waiting", "leaving", "totals"
"""Further state tables of an OVER that is emitted once."""
COUNT, END = "__count", "__end"
"""Columns of these: how often a row waits, and when its time is over (µs); both BIGINT."""


@dataclass(frozen=True, slots=True)
class CarriedPart:
    """A value over the rows of an epoch, by DuckDB's window expression `sql`, and how it goes on from former epochs.

    `merge` is a DuckDB aggregate of `column` over the value before and this one; None: it does not go on.
    """

    column: Column
    sql: str
    merge: str | None


@dataclass(frozen=True, slots=True)
class CarriedCall:
    """A function of all rows up to a row: `final` is DuckDB SQL over the columns of `parts` that gives `column`."""

    column: Column
    parts: tuple[CarriedPart, ...]
    final: str


@dataclass(frozen=True, slots=True)
class Kept:
    """Which rows that were given are kept for those that come: of each partition those at the last `places` places in
    ORDER BY, those whose time is over by less than `time_us` (µs), or all of them.
    """

    places: int = 0
    time_us: int | None = None
    everything: bool = False

    @property
    def any(self) -> bool:
        """Whether any are."""
        return self.everything or self.places > 0 or self.time_us is not None

    def both(self, other: Kept) -> Kept:
        """What either keeps."""
        times = [t for t in (self.time_us, other.time_us) if t is not None]
        return Kept(
            max(self.places, other.places), max(times, default=None), self.everything or other.everything
        )


@dataclass(frozen=True, slots=True)
class OverOnCloseSpec(ByWatermark, KeepsForGood):
    """Functions of each row over its partition, given once, when the watermark has passed the row; of append-only rows.

    Input: SLICE_COLUMN BIGINT (when the time of the row is over, µs; ascending in the first term of `order`, or the same in
    all of a partition) and `columns`; append-only. A row with end E is given at watermark W iff E - tick <= W. `slot_us` is
    how long before E its time may lie. `calls` read no row that arrives later, and of those before only what `kept` says;
    `carried` go on from what they were.

    State: table `WAITING`, layout 'time' (E): key = partition, sub-key = `ROW`, value = `COUNT` and the other columns. If
    rows are kept, `ROWS` as in `OverSpec`, but without what was given and with `END`; where their time counts, `LEAVING`,
    layout 'time' (E): key = partition. If there are `carried`, `TOTALS`, layout 'key': partition -> the parts.

    Output: `output`, which is `columns` and those of the functions; append-only.
    """

    kind: ClassVar[str] = "over_on_close"
    emits_changes: ClassVar[bool] = False

    state: StateSchema
    columns: Schema
    partition: tuple[str, ...]
    order: tuple[Ordering, ...]
    calls: tuple[OverCall, ...]
    carried: tuple[CarriedCall, ...]
    kept: Kept
    output: Schema
    watermark_sources: tuple[str, ...]
    tick_us: int
    slot_us: int

    @property
    def parts(self) -> tuple[CarriedPart, ...]:
        """The parts of all `carried`."""
        return tuple(part for call in self.carried for part in call.parts)

    @property
    def facts(self) -> OperatorFacts:
        """What there is to know of it."""
        return OperatorFacts(
            keeps_answer=False,
            view=None,
            columns=self.columns,
            unchanged=as_they_are(self.output),
            times=times_of(self.state, WINDOW_END),
            waiting=Waiting(
                tables=(WAITING,),
                what="row",
                slice_us=1,
                offset_us=0,
                tick_us=1,
                done=((None, -self.tick_us),),
            ),
            seed=None,
            late_rows_of=None,
        )
