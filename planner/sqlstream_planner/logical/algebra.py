"""Relational algebra: what a query means, and nothing of how it is run.

These are all the nodes that the binder makes. Top-N, deduplication, windows that close, or the counts of an
INTERSECT are no algebra: rules make the nodes of `streaming` of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from sqlglot import exp

from sqlstream_operators.plan.spec import SinkSpec, SourceSpec
from sqlstream_operators.plan.window_spec import WindowSpec
from sqlstream_planner.catalog.descriptor import Connectors
from sqlstream_planner.catalog.source_identity import SourceIdentity
from sqlstream_planner.diagnostics import Span
from sqlstream_planner.logical.arity import BinaryNode, Leaf, PassingNode, UnaryNode
from sqlstream_planner.logical.columns import ColumnId, Field, Fields
from sqlstream_planner.logical.node import NON_SEMANTIC, Node
from sqlstream_planner.logical.parts import (
    ON_CLOSE,
    AggregateCall,
    ConflictAction,
    Emission,
    JoinKind,
    OrderTerm,
    SetOperator,
    SubqueryKind,
    WindowCall,
)
from sqlstream_planner.logical.time_bounds import TimeBound, joined_fields
from sqlstream_planner.logical.window_frames import looks_back

NO_CONNECTORS = Connectors()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scan(Leaf):
    """A source table; `fields` are its physical and metadata columns.

    `changelog`: what is read are changes, each with its kind; the rows of the table are what they leave, by the columns
    `primary_key` where there is one. `ttl_us`: a key that nothing touched for so long is forgotten. `reload_us`: it is a
    dimension table, of which lookup joins read a copy that is so old at most (0: each epoch looks for a newer one).
    `watermark` is what the source's watermark is computed of: expressions over the table's columns by their names.
    """

    makes_own: ClassVar = False

    source: SourceSpec
    identity: SourceIdentity
    fields: Fields
    changelog: bool = False
    primary_key: tuple[ColumnId, ...] = ()
    ttl_us: int | None = None
    reload_us: int | None = None
    watermark: tuple[exp.Expr, ...] = field(default=(), metadata=NON_SEMANTIC)

    @property
    def is_dimension(self) -> bool:
        """Whether it is read by lookup joins, and no stream."""
        return self.reload_us is not None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Values(Leaf):
    """Rows that are written out, one expression a field in each."""

    makes_own: ClassVar = False

    fields: Fields
    rows: tuple[tuple[exp.Expr, ...], ...]
    at: Span | None = field(default=None, metadata=NON_SEMANTIC)

    def __post_init__(self) -> None:
        if not self.fields or not self.rows or any(len(row) != len(self.fields) for row in self.rows):
            raise ValueError("one expression per field, at least one row and one field")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Project(UnaryNode):
    """Computes `items` for each row, one for each of `fields`."""

    makes_own: ClassVar = False

    fields: Fields
    items: tuple[exp.Expr, ...]

    def __post_init__(self) -> None:
        if len(self.fields) != len(self.items):
            raise ValueError("one expression per field")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Filter(PassingNode):
    """Keeps the rows for which `predicate` is true."""

    makes_own: ClassVar = False

    predicate: exp.Expr
    at: Span | None = field(default=None, metadata=NON_SEMANTIC)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WindowFunction(UnaryNode):
    """TUMBLE, HOP or CUMULATE: copies each row into every window that its `time_column` falls into.

    Adds `start`, `end` (TIMESTAMP, window bounds) and `time` (end - 1 ms, an event-time attribute).
    """

    makes_own: ClassVar = True

    window: WindowSpec
    time_column: ColumnId
    start: Field
    end: Field
    time: Field
    at: Span | None = field(default=None, metadata=NON_SEMANTIC)

    @property
    def fields(self) -> Fields:
        """The input's fields and the three window columns."""
        return (*self.input.fields, self.start, self.end, self.time)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SessionFunction(UnaryNode):
    """SESSION: puts each row into the session of its `partition`: rows with less than the window's gap between them.

    Adds `start` (the first row's time), `end` (the last row's time + gap; both TIMESTAMP) and `time` (end - 1 ms, an
    event-time attribute). `emission` says whether rows wait for their session to close.
    """

    makes_own: ClassVar = True

    window: WindowSpec
    partition: tuple[ColumnId, ...]
    time_column: ColumnId
    start: Field
    end: Field
    time: Field
    emission: Emission = ON_CLOSE
    at: Span | None = field(default=None, metadata=NON_SEMANTIC)

    @property
    def fields(self) -> Fields:
        """The input's fields, whose times the watermark has passed, and the three window columns."""
        return (*held_back(self.input.fields), self.start, self.end, self.time)

    @property
    def early(self) -> bool:
        """Whether rows are given at once, and again when their session changes."""
        return self.emission.changes or self.emission.lateness_us > 0


def held_back(fields: Fields) -> Fields:
    """Fields of rows that wait for something: their times still order them, and are no event times any more."""
    return tuple(
        replace(f, time=None, window=None, orders=f.orders or (f.time is not None and f.window is None))
        for f in fields
    )


def _waited(field_: Field) -> Field:
    """A field whose time rows have waited for: none of them is late any more."""
    return field_ if field_.time is None else replace(field_, time=replace(field_.time, direct=False))


def _of_one_window(one: Field, other: Field) -> bool:
    """Whether both are columns of the same window."""
    return (
        one.window is not None
        and other.window is not None
        and replace(one.window, role="") == replace(other.window, role="")
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Unnest(UnaryNode):
    """Cross join of each row with the elements of an array (`outer`: keep rows whose array is empty).

    `element` are the new columns: one for scalars, one a field for an array of structs; `ordinality` counts
    from 1.
    """

    makes_own: ClassVar = True

    array: exp.Expr
    element: Fields
    spread: bool
    ordinality: Field | None
    outer: bool

    @property
    def fields(self) -> Fields:
        """The input's fields and the new ones."""
        extra = (self.ordinality,) if self.ordinality is not None else ()
        return (*self.input.fields, *self.element, *extra)

    @property
    def is_one_column(self) -> bool:
        """Whether it adds the elements and nothing else."""
        return not self.spread and not self.outer and self.ordinality is None and len(self.element) == 1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Join(BinaryNode):
    """Pairs of rows of two inputs for which `condition` is true (None: all pairs).

    An outer join gives rows without a partner beside NULLs; SEMI and ANTI give only rows of `left`. `ttl_us`: rows with a
    key that nothing touched for so long are forgotten. `bound`: how near each other in time the rows of a pair are, where
    that follows from the condition and both sides are append-only. `moved`: it is not where it was written, and what
    was expected of it there, for people.
    """

    makes_own: ClassVar = True

    kind: JoinKind
    condition: exp.Expr | None
    ttl_us: int | None = None
    bound: TimeBound | None = None
    at: Span | None = field(default=None, metadata=NON_SEMANTIC)
    moved: str | None = field(default=None, metadata=NON_SEMANTIC)

    @property
    def fields(self) -> Fields:
        """The fields of both, see `joined_fields`."""
        return joined_fields(self.left.fields, self.right.fields, self.kind, self.bound)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Apply(Node):
    """Adds the value of a sub-query for each row of `input`: the dependent join of Neumann and Kemper (2015).

    `query` is the sub-query; it may read `outer`, columns of the input. `result` is a value (SCALAR), or TRUE, FALSE or
    NULL: EXISTS, or how `operand` compares (`comparison`, as =) with ANY or ALL of the rows (IN is = ANY). `ttl_us`: rows
    with a key that nothing touched for so long are forgotten, as in a `Join`.
    """

    makes_own: ClassVar = True

    input: Node
    query: Node
    kind: SubqueryKind
    result: Field
    outer: tuple[ColumnId, ...] = ()
    operand: tuple[exp.Expr, ...] = ()
    comparison: str = "="
    ttl_us: int | None = None
    at: Span | None = field(default=None, metadata=NON_SEMANTIC)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The rows, then the sub-query."""
        return (self.input, self.query)

    @property
    def fields(self) -> Fields:
        """The input's fields, whose times are unknown as behind a join, and the sub-query's value."""
        return (*joined_fields(self.input.fields, (), JoinKind.SEMI), self.result)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LateralJoin(Node):
    """Each row of `input` beside the rows of `query`, which may read `outer`, columns of the input.

    `kind` is INNER, or LEFT, which gives a row without any beside NULLs. `name` is an id that no column has: of those that
    are made of it. `ttl_us` as in a `Join`.
    """

    makes_own: ClassVar = True

    input: Node
    query: Node
    kind: JoinKind
    name: str = field(metadata=NON_SEMANTIC)
    outer: tuple[ColumnId, ...] = ()
    ttl_us: int | None = None
    at: Span | None = field(default=None, metadata=NON_SEMANTIC)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The rows, then the query."""
        return (self.input, self.query)

    @property
    def fields(self) -> Fields:
        """The fields of both, as of a join."""
        return joined_fields(self.input.fields, self.query.fields, self.kind)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Aggregate(UnaryNode):
    """Groups rows by keys.

    `sets` are the grouping sets as positions in `keys` (one set of all keys if the query has none), `grouping` the
    field of the grouping id where there are several. Without calls it is DISTINCT. `emission` says when groups of
    windows are given; `ttl_us`: a group that nothing touched for so long is forgotten.
    """

    makes_own: ClassVar = True

    keys: Fields
    key_expressions: tuple[exp.Expr, ...]
    sets: tuple[tuple[int, ...], ...]
    grouping: Field | None
    calls: tuple[AggregateCall, ...]
    emission: Emission = ON_CLOSE
    ttl_us: int | None = None
    at: Span | None = field(default=None, metadata=NON_SEMANTIC)

    @property
    def fields(self) -> Fields:
        """Keys, the grouping id if there is one, and the aggregates."""
        grouping = (self.grouping,) if self.grouping is not None else ()
        return (*self.keys, *grouping, *(c.field for c in self.calls))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SetOperation(Node):
    """UNION, INTERSECT or EXCEPT of branches, columns matched by position; with `all_` rows count as often as they come.

    UNION ALL has any number of branches, the others have two.
    """

    makes_own: ClassVar = True

    branches: tuple[Node, ...]
    fields: Fields
    operator: SetOperator = SetOperator.UNION
    all_: bool = True
    ttl_us: int | None = None

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The branches."""
        return self.branches

    @property
    def is_union_all(self) -> bool:
        """Whether it only puts the rows of its branches together."""
        return self.operator is SetOperator.UNION and self.all_


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OverWindow(UnaryNode):
    """Adds `calls` of each row over the rows of its partition, each over a frame of its own.

    `ties` are the columns of the input that the query reads (None until `settle_ties` has looked): rows that are equal in
    all of `order` stand in the order of these, ascending, NULLs first. `at` is the first OVER in the user's text.
    """

    makes_own: ClassVar = True

    partition: tuple[ColumnId, ...]
    order: tuple[OrderTerm, ...]
    calls: tuple[WindowCall, ...]
    ties: tuple[ColumnId, ...] | None = None
    emission: Emission = ON_CLOSE
    ttl_us: int | None = None
    at: Span | None = field(default=None, metadata=NON_SEMANTIC)

    @property
    def closed_by(self) -> Field | None:
        """What says that a row's values are final, if rows are append-only: the end of the window that PARTITION BY names,
        or the event time that the rows are ordered by, where no function looks at later rows. None if nothing does, or if
        EMIT CHANGES says that nobody waits.
        """
        if self.emission.changes:
            return None
        by_id = {f.id: f for f in self.input.fields}
        for id_ in self.partition:
            mark = by_id[id_].window
            if mark is not None and mark.role == "end":
                return by_id[id_]
        if not self.order or self.order[0].descending or not all(map(looks_back, self.calls)):
            return None
        first = by_id[self.order[0].column]
        return first if first.time is not None else None

    @property
    def waits_for_time(self) -> bool:
        """Whether that is a row's own time, and not the end of a window."""
        closing = self.closed_by
        return closing is not None and closing.id not in self.partition

    @property
    def fields(self) -> Fields:
        """The input's fields and the functions'; a row that waited for the watermark is not late any more."""
        given = self.input.fields
        closing = self.closed_by
        if closing is not None:
            given = tuple(
                _waited(f) if f.id == closing.id or _of_one_window(f, closing) else held
                for f, held in zip(given, held_back(given), strict=True)
            )
        return (*given, *(c.field for c in self.calls))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class OrderLimit(PassingNode):
    """ORDER BY … LIMIT … OFFSET: `limit` rows after the first `offset` by `order`, then by `ties` as in `OverWindow`."""

    makes_own: ClassVar = False

    order: tuple[OrderTerm, ...]
    limit: int
    offset: int
    ties: tuple[ColumnId, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EmitOnClose(PassingNode):
    """EMIT ON WINDOW CLOSE behind a query: its result is emitted when windows close, and never changes."""

    makes_own: ClassVar = False

    at: Span | None = field(default=None, metadata=NON_SEMANTIC)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sink(PassingNode):
    """Writes its input's columns, by position, to a sink table. `label` is how the user wrote it.

    `conflict` is what ON CONFLICT says, at `conflict_at`. `connectors` are those that there are.
    """

    makes_own: ClassVar = False

    sink: SinkSpec
    label: str
    conflict: ConflictAction | None = None
    ttl_us: int | None = None
    at: Span | None = field(default=None, metadata=NON_SEMANTIC)
    conflict_at: Span | None = field(default=None, metadata=NON_SEMANTIC)
    connectors: Connectors = field(default=NO_CONNECTORS, metadata=NON_SEMANTIC)


def union_all(branches: Sequence[Node], fields: Fields) -> SetOperation:
    """UNION ALL of the branches."""
    return SetOperation(tuple(branches), fields)
