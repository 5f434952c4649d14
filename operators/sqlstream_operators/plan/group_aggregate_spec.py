"""The spec of a group aggregate over rows that may be updated; its values one by one, and groups that expire."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.operator_spec import (
    WINDOW_END,
    Forgets,
    OperatorFacts,
    View,
    Waiting,
    emitted_unchanged,
    times_of,
)
from sqlstream_operators.plan.schema import Schema
from sqlstream_operators.plan.state_schema import StateSchema

PICKS = ("first", "last", "all")


@dataclass(frozen=True, slots=True)
class MultisetSpec:
    """Values that an aggregate needs one by one: a multiset for each group, with the count of each value.

    Input: the group's keys, `values`, WEIGHT_COLUMN; weights of one value add up. State table `name`,
    layout 'key' ('time' where groups expire): key = the group's keys, sub-key = `values`, value = `count`
    BIGINT, always positive: at 0 the row goes. A count that would fall below 0 (a delete of what never
    came) stays as it is, negative, until the missing insert comes; aggregates don't see such a value.

    `pick`: 'first' or 'last' reads only the first or last value of a group in the order of state (NULLs
    first), so that the work does not grow with the group; 'all' reads the group. `aggregates` are DuckDB
    aggregate expressions over the values read (columns `values` and `count`, a row a distinct value, in
    the order of state), one for each of `columns`. They are NULL where a group has no value here.
    """

    name: str
    values: Schema
    pick: str
    columns: Schema
    aggregates: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.pick not in PICKS:
            raise ValueError(f"pick is one of {PICKS}, not {self.pick!r}")
        if len(self.columns) != len(self.aggregates):
            raise ValueError("one aggregate for each column")


@dataclass(frozen=True, slots=True)
class ExpirySpec:
    """Groups that the watermark bounds: `column` is the key (TIMESTAMP) after which a group is complete.

    A group's state goes once `column` + `lateness_us` is behind the watermark; its result stays.
    """

    column: str
    watermark_sources: tuple[str, ...]
    tick_us: int
    lateness_us: int = 0


@dataclass(frozen=True, slots=True)
class GroupAggregateSpec(Forgets):
    """Keeps a row for each group up to date and emits how it changes.

    Inputs: first any number of rows of `keys` and `accumulators` (partial aggregates of this epoch;
    several for one group; an accumulator that a row does not know is NULL), then one input for each of
    `multisets`. State: table `acc` (layout 'key': keys -> accumulators; with `expiry` layout 'time', TIME
    being the µs of its column), and one for each of `multisets`.

    `merge`: for each accumulator the DuckDB aggregate expression that merges several (by column name;
    deltas of sums and counts are added, a minimum over append-only input is the least). `presence` names
    the accumulator that counts the rows of a group: the group exists while it is positive, and its `acc`
    row goes when that and all others, which are sums then, are 0 or NULL (and the multisets are empty);
    None for append-only input, where a group never goes. `seed` is DuckDB SQL giving groups (keys and
    accumulators) that exist even without any row: the one group of a global aggregate, the grand total of
    ROLLUP. They belong to the shard of their keys, are emitted in the first epoch, and never go.

    `emit` is DuckDB SQL over relation `merged` (keys, merged accumulators, the `columns` of each of
    `multisets`) giving `output`, one row per group; it may also filter (HAVING is a filter of its own,
    above). The operator's output is `output` and WEIGHT_COLUMN: -1 with the row as it was, +1 with the
    row as it is, nothing where they are equal. `ttl_us`: groups that were not touched for so long (by the
    epochs' clock) are forgotten, silently.
    """

    kind: ClassVar[str] = "group_aggregate"
    emits_changes: ClassVar[bool] = True

    state: StateSchema
    keys: Schema
    accumulators: Schema
    merge: tuple[str, ...]
    emit: str
    output: Schema
    presence: str | None = None
    seed: str | None = None
    multisets: tuple[MultisetSpec, ...] = ()
    expiry: ExpirySpec | None = None
    ttl_us: int | None = None

    def __post_init__(self) -> None:
        names = {column.name for column in self.accumulators}
        if len(self.merge) != len(self.accumulators):
            raise ValueError("one merge expression per accumulator")
        if self.presence is not None and self.presence not in names:
            raise ValueError(f"presence {self.presence!r} is no accumulator")
        if self.expiry is not None and self.expiry.column not in {column.name for column in self.keys}:
            raise ValueError(f"groups expire by a key, not by {self.expiry.column!r}")

    @property
    def watermark_sources(self) -> tuple[str, ...]:
        """The sources whose watermarks let groups expire."""
        return self.expiry.watermark_sources if self.expiry is not None else ()

    @property
    def facts(self) -> OperatorFacts:
        """What there is to know of it."""
        return OperatorFacts(
            keeps_answer=self.expiry is None,
            view=View(self.state.tables[0].name),
            columns=None,
            unchanged=emitted_unchanged(self.emit),
            times=times_of(self.state, WINDOW_END),
            waiting=self._waiting,
            seed=self.seed,
            late_rows_of=None,
        )

    @property
    def _waiting(self) -> Waiting | None:
        if self.expiry is None:
            return None
        return Waiting(
            tables=(self.state.tables[0].name,),
            what="window",
            slice_us=0,
            offset_us=0,
            tick_us=self.expiry.tick_us,
            end=self.expiry.column,
        )

    def moved_by(self, sources: tuple[str, ...]) -> Self:
        """See `StatefulSpec.moved_by`."""
        if self.expiry is not None:
            return replace(self, expiry=replace(self.expiry, watermark_sources=sources))
        if sources:
            raise InternalError(f"no watermark moves groups that don't expire, but those of {sources} shall")
        return self
