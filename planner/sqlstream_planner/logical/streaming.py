"""The operators of a streaming plan, which keep state; rules make them of relational algebra.

Stateless nodes of the algebra (Scan, Project, Filter, WindowFunction, Unnest, UNION ALL, Sink) stand between them as
they are. Each operator has `meaning`, the relational node whose rows it gives: what its state means is derived from
that, never from how it is computed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from sqlstream_operators.plan.spec import WindowSpec
from sqlstream_operators.plan.types import SqlType
from sqlstream_planner.logical.algebra import BinaryNode, Filter, PassingNode, Project, UnaryNode, held_back
from sqlstream_planner.logical.as_of import as_of_fields
from sqlstream_planner.logical.columns import EventTime, Field, Fields
from sqlstream_planner.logical.node import APART, ColumnId, Node, Part
from sqlstream_planner.logical.parts import AggregateCall, JoinKind, OrderTerm, WindowCall
from sqlstream_planner.logical.time_bounds import TimeBound, joined_fields


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WindowAggregate(UnaryNode):
    """Groups rows by window and keys; emits each window once, when the watermark closes it.

    `slice_column` is the time column that slices are cut from when `window.shared_slices`; otherwise the
    column that holds the window's end. `sets` are the grouping sets as positions in `keys` (one set of all
    keys if the query has none), `grouping` the field of the grouping id where there are several.
    `time_column` orders FIRST_VALUE and LAST_VALUE. `start` is None where the end does not tell it (sessions): it is one
    of the keys then, or nobody's.
    """

    window: WindowSpec
    slice_column: ColumnId
    time: EventTime
    time_column: ColumnId | None
    keys: Fields
    key_expressions: tuple[exp.Expr, ...]
    sets: tuple[tuple[int, ...], ...]
    grouping: Field | None
    calls: tuple[AggregateCall, ...]
    start: Field | None
    end: Field
    window_time: Field
    meaning: Node = field(metadata=APART)

    @property
    def fields(self) -> Fields:
        """Keys, window bounds, the grouping id if there is one, and the aggregates."""
        start = (self.start,) if self.start is not None else ()
        grouping = (self.grouping,) if self.grouping is not None else ()
        return (*self.keys, *start, self.end, self.window_time, *grouping, *(c.field for c in self.calls))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SessionWindows(UnaryNode):
    """Each row with the bounds of its session: when that closes, or (`early`) at once, and again when it changes.

    `time` says when sessions close: those whose end is `lateness_us` behind its watermark.
    """

    window: WindowSpec
    partition: tuple[ColumnId, ...]
    time_column: ColumnId
    start: Field
    end: Field
    window_time: Field
    time: EventTime
    direct: bool
    early: bool
    lateness_us: int
    meaning: Node = field(metadata=APART)

    @property
    def fields(self) -> Fields:
        """The input's fields, whose times the watermark has passed, and the three window columns."""
        return (*held_back(self.input.fields), self.start, self.end, self.window_time)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SessionAggregate(UnaryNode):
    """Groups rows by the session of their `partition`, whose columns are `keys` in the result; see `SessionWindows`."""

    window: WindowSpec
    partition: tuple[ColumnId, ...]
    time_column: ColumnId
    keys: Fields
    calls: tuple[AggregateCall, ...]
    start: Field
    end: Field
    window_time: Field
    time: EventTime
    direct: bool
    early: bool
    lateness_us: int
    meaning: Node = field(metadata=APART)

    @property
    def fields(self) -> Fields:
        """Keys, window bounds and the aggregates."""
        return (*self.keys, self.start, self.end, self.window_time, *(c.field for c in self.calls))


@dataclass(frozen=True, slots=True)
class GroupExpiry(Part):
    """Says when a group can't change any more: the key at `position`, a window's end, is behind the watermark of
    `time`'s sources by `lateness_us`.
    """

    position: int
    time: EventTime
    lateness_us: int = 0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GroupAggregate(UnaryNode):
    """Groups rows by keys without an end in time; its result changes as rows come and go.

    `sets` are the grouping sets as positions in `keys` (one set of all keys if the query has none), `grouping` the
    field of the grouping id where there are several. `expiry`: a key that bounds the state (EMIT CHANGES of a window).
    `ttl_us`: a group that nothing touched for so long is forgotten.
    """

    keys: Fields
    key_expressions: tuple[exp.Expr, ...]
    sets: tuple[tuple[int, ...], ...]
    grouping: Field | None
    calls: tuple[AggregateCall, ...]
    meaning: Node = field(metadata=APART)
    expiry: GroupExpiry | None = None
    ttl_us: int | None = None

    @property
    def fields(self) -> Fields:
        """Keys, the grouping id if there is one, and the aggregates."""
        grouping = (self.grouping,) if self.grouping is not None else ()
        return (*self.keys, *grouping, *(c.field for c in self.calls))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SuppressUntilClose(PassingNode):
    """Holds the changing results of a window's groups back until the watermark closes it, and lets corrections pass.

    `input` is the group aggregate; its `expiry` says which window a row belongs to and how late corrections may be.
    """

    input: GroupAggregate
    window: WindowSpec
    meaning: Node = field(metadata=APART)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TopN(UnaryNode):
    """The rows of each partition whose rank is in (offset, offset + limit].

    `function` is row_number, rank or dense_rank; `rank` its field if the query gives it. Rows that are equal in all of
    `order` are ranked by `ties`, ascending, NULLs first. `window_end` is the column with a window's end where the
    partition has one: then a window's rows are given once, when it closes. `ttl_us`: a partition that nothing touched
    for so long is forgotten. `meaning` gives the ranked rows, those beyond the limit too.
    """

    partition: tuple[ColumnId, ...]
    order: tuple[OrderTerm, ...]
    function: str
    limit: int
    offset: int
    rank: Field | None
    ties: tuple[ColumnId, ...]
    meaning: Node = field(metadata=APART)
    window_end: ColumnId | None = None
    time: EventTime | None = None
    ttl_us: int | None = None

    @property
    def gives_first(self) -> bool:
        """Whether a partition has one row, which is its first in an order, without a rank, at any time."""
        first = self.limit == 1 and self.offset == 0 and self.function == "row_number" and self.rank is None
        return first and self.window_end is None and bool(self.partition) and bool(self.order)

    @property
    def fields(self) -> Fields:
        """The input's fields, and the rank if it is given."""
        return (*self.input.fields, *((self.rank,) if self.rank is not None else ()))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Over(UnaryNode):
    """Functions of each row over the rows of its partition, kept up to date.

    Rows that are equal in all of `order` stand in the order of `ties`, ascending, NULLs first; these are the columns that
    are kept. `closing` is the column (the end of a window, or an event time) by which the watermark of `time` says that a
    row is final: then it is given once. `ttl_us`: a partition that nothing touched for so long is forgotten.
    """

    partition: tuple[ColumnId, ...]
    order: tuple[OrderTerm, ...]
    calls: tuple[WindowCall, ...]
    ties: tuple[ColumnId, ...]
    meaning: Node = field(metadata=APART)
    ttl_us: int | None = None
    closing: ColumnId | None = None
    time: EventTime | None = None

    @property
    def fields(self) -> Fields:
        """The fields of `meaning`."""
        known = {f.id: f for f in self.meaning.fields}
        return (*(known.get(f.id, f) for f in self.input.fields), *(c.field for c in self.calls))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ChangelogNormalize(PassingNode):
    """Makes a changelog consistent: at most one row for each of `keys`, the last that came.

    `ttl_us`: a key that nothing touched for so long is forgotten.
    """

    keys: tuple[ColumnId, ...]
    meaning: Node = field(metadata=APART)
    ttl_us: int | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FirstRow(PassingNode):
    """The first row that came for each of `keys`, of rows that only come (Flink's Deduplicate, keep=FirstRow)."""

    keys: tuple[ColumnId, ...]
    meaning: Node = field(metadata=APART)
    ttl_us: int | None = None


@dataclass(frozen=True, slots=True)
class EqualKey(Part):
    """Two expressions, over the left and over the right of a join, that are equal as values of `type`."""

    left: exp.Expr
    right: exp.Expr
    type: SqlType


@dataclass(frozen=True, slots=True)
class ArrangedBy(Part):
    """An expression over a relation whose rows are kept by it, as a value of `type`."""

    expression: exp.Expr
    type: SqlType


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Arrangement(PassingNode):
    """The rows of a relation, kept by `keys` for all joins that read them; `whole`: those without a key too.

    Only a `RegularJoin` reads it, through projections that rename columns and leave some out. Those of one `group` run
    together. `answered`: the rows are made, by filters and projections, of what an operator gives that keeps that by
    these columns of its own, one for each key, one row a key at most: nothing else is kept.
    """

    keys: tuple[ArrangedBy, ...]
    whole: bool
    group: int
    meaning: Node = field(metadata=APART)
    answered: tuple[str, ...] = ()

    @property
    def kept_by(self) -> Node:
        """The operator that keeps the rows: this, or the one that has the answer."""
        if not self.answered:
            return self
        below = self.input
        while isinstance(below, Project | Filter):
            below = below.input
        return below


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RegularJoin(BinaryNode):
    """Pairs of rows of two inputs whose `keys` are equal and for which `condition` is true, kept up to date.

    Flink's regular join: rows of both sides are kept for as long as they are there. `kind` is no CROSS: that is an INNER
    without keys and condition. `ttl_us`: rows with a key that nothing touched for so long are forgotten. Over two
    `Arrangement`s it keeps nothing itself. `merged`: it is an INNER join that is computed by the one that reads it, by the
    same keys, together with that.
    """

    kind: JoinKind
    keys: tuple[EqualKey, ...]
    condition: exp.Expr | None
    meaning: Node = field(metadata=APART)
    ttl_us: int | None = None
    merged: bool = False

    @property
    def fields(self) -> Fields:
        """The fields of both, see `joined_fields`."""
        return joined_fields(self.left.fields, self.right.fields, self.kind)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IntervalJoin(BinaryNode):
    """Pairs of rows of two append-only inputs whose `keys` are equal, for which `condition` is true, and which are near each
    other in time.

    Flink's interval join and window join: rows are kept until the watermark says that no partner of them can come.
    `condition` implies `bound`. `kind` is no CROSS.
    """

    kind: JoinKind
    keys: tuple[EqualKey, ...]
    condition: exp.Expr | None
    bound: TimeBound
    meaning: Node = field(metadata=APART)

    @property
    def fields(self) -> Fields:
        """The fields of both, see `joined_fields`."""
        return joined_fields(self.left.fields, self.right.fields, self.kind, self.bound)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TemporalJoin(BinaryNode):
    """Each row of the left beside the version of the right that is valid at its time, as in `AsOfJoin`.

    Rows of both sides only come. A row is given when the watermark of `time` reaches its own; versions that no row can ask
    for any more are forgotten. `ties` is None where the last version that came counts.
    """

    kind: JoinKind
    keys: tuple[EqualKey, ...]
    left_time: ColumnId
    right_time: ColumnId
    strict: bool
    ties: tuple[ColumnId, ...] | None
    gone: ColumnId | None
    condition: exp.Expr | None
    time: EventTime
    meaning: Node = field(metadata=APART)
    forward: bool = False

    @property
    def fields(self) -> Fields:
        """The fields of both, see `as_of_fields`."""
        return as_of_fields(
            self.left.fields,
            self.right.fields,
            self.kind,
            self.left_time,
            self.right_time,
            forward=self.forward,
        )


def is_arranged(node: RegularJoin) -> bool:
    """Whether a join keeps nothing itself: its sides are arrangements, or joins of such that are computed with it."""
    below = node.left
    while isinstance(below, Project):
        below = below.input
    return isinstance(below, Arrangement) or (isinstance(below, RegularJoin) and below.merged)


Operator = (
    WindowAggregate
    | GroupAggregate
    | SessionWindows
    | SessionAggregate
    | SuppressUntilClose
    | TopN
    | Over
    | ChangelogNormalize
    | FirstRow
    | Arrangement
    | RegularJoin
    | IntervalJoin
    | TemporalJoin
)
"""The nodes that keep state."""
