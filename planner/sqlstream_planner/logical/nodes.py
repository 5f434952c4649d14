"""The nodes of the logical plan."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sqlstream_operators.plan.spec import SinkSpec, SourceSpec, WindowSpec
from sqlstream_operators.plan.types import SqlType, quote_identifier
from sqlstream_planner.identity.source import SourceIdentity
from sqlstream_planner.logical.columns import EventTime, Field, Fields
from sqlstream_planner.logical.expressions import order_term


@dataclass(frozen=True, slots=True, eq=False)
class UnaryNode:
    """A node over one input."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)


@dataclass(frozen=True, slots=True, eq=False)
class PassingNode(UnaryNode):
    """A node that gives its input's columns as they are."""

    @property
    def fields(self) -> Fields:
        """The input's fields."""
        return self.input.fields


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """Reads a source table; `fields` are its physical and metadata columns.

    `changelog`: its rows are changes, each with its kind.
    """

    source: SourceSpec
    identity: SourceIdentity
    fields: Fields
    changelog: bool = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        """No inputs."""
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class Project(UnaryNode):
    """Computes `expressions` for each row, one for each of `fields`."""

    fields: Fields
    expressions: tuple[exp.Expr, ...]

    def __post_init__(self) -> None:
        if len(self.fields) != len(self.expressions):
            raise ValueError("one expression per field")


@dataclass(frozen=True, slots=True, eq=False)
class Filter(PassingNode):
    """Keeps the rows for which `predicate` is true."""

    predicate: exp.Expr


@dataclass(frozen=True, slots=True, eq=False)
class Window(UnaryNode):
    """Copies each row into every window that its `time_column` falls into.

    Adds `start`, `end` (TIMESTAMP, window bounds) and `time` (end - 1 ms, an event-time attribute).
    """

    window: WindowSpec
    time_column: str
    start: Field
    end: Field
    time: Field

    @property
    def fields(self) -> Fields:
        """The input's fields and the three window columns."""
        return (*self.input.fields, self.start, self.end, self.time)


@dataclass(frozen=True, slots=True, eq=False)
class Unnest(UnaryNode):
    """Cross join of each row with the elements of an array (`outer`: keep rows whose array is empty).

    `element` are the new columns: one for scalars, one a field for an array of structs; `ordinality` counts
    from 1.
    """

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


@dataclass(frozen=True, slots=True, eq=False)
class Union:
    """UNION ALL: rows of all inputs, columns matched by position."""

    branches: tuple[Node, ...]
    fields: Fields

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The branches."""
        return self.branches


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate function call; arguments refer to the input's column ids.

    `name` is DuckDB's lower-case name. `order_by`: (expression, descending, nulls first).
    """

    field: Field
    name: str
    arguments: tuple[exp.Expr, ...]
    argument_types: tuple[SqlType, ...]
    distinct: bool = False
    filter: exp.Expr | None = None
    order_by: tuple[tuple[exp.Expr, bool, bool], ...] = ()
    order_types: tuple[SqlType, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class WindowAggregate(UnaryNode):
    """Groups rows by window and keys; emits each window once, when the watermark closes it.

    `slice_column` is the time column that slices are cut from when `window.shared_slices`; otherwise the
    column that holds the window's end. `sets` are the grouping sets as positions in `keys` (one set of all
    keys if the query has none), `grouping` the field of the grouping id where there are several.
    `time_column` orders FIRST_VALUE and LAST_VALUE.
    """

    window: WindowSpec
    slice_column: str
    time: EventTime
    time_column: str | None
    keys: Fields
    key_expressions: tuple[exp.Expr, ...]
    sets: tuple[tuple[int, ...], ...]
    grouping: Field | None
    calls: tuple[AggregateCall, ...]
    start: Field
    end: Field
    window_time: Field

    @property
    def fields(self) -> Fields:
        """Keys, window bounds, the grouping id if there is one, and the aggregates."""
        grouping = (self.grouping,) if self.grouping is not None else ()
        return (*self.keys, self.start, self.end, self.window_time, *grouping, *(c.field for c in self.calls))


@dataclass(frozen=True, slots=True)
class GroupExpiry:
    """Says when a group can't change any more: `column`, the id of the key field with the window's end, is behind
    the watermark of `time`'s sources by `lateness_us`.
    """

    column: str
    time: EventTime
    lateness_us: int = 0


@dataclass(frozen=True, slots=True, eq=False)
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
    expiry: GroupExpiry | None = None
    ttl_us: int | None = None

    @property
    def fields(self) -> Fields:
        """Keys, the grouping id if there is one, and the aggregates."""
        grouping = (self.grouping,) if self.grouping is not None else ()
        return (*self.keys, *grouping, *(c.field for c in self.calls))


@dataclass(frozen=True, slots=True, eq=False)
class WindowGate(PassingNode):
    """Holds the changing results of a window's groups back until the watermark closes it, and lets corrections pass.

    `input` is the group aggregate; its `expiry` says which window a row belongs to and how late corrections may be.
    """

    input: GroupAggregate
    window: WindowSpec


@dataclass(frozen=True, slots=True)
class OrderTerm:
    """One term of an ORDER BY: a column of the input by id."""

    column: str
    descending: bool
    nulls_first: bool

    @property
    def sql(self) -> str:
        """The term in DuckDB SQL.

        >>> OrderTerm("price", descending=True, nulls_first=False).sql
        '"price" DESC NULLS LAST'
        """
        return order_term(
            quote_identifier(self.column), descending=self.descending, nulls_first=self.nulls_first
        )


@dataclass(frozen=True, slots=True, eq=False)
class Rank(UnaryNode):
    """Adds each row's rank in its partition; only while a query is bound: a condition on it makes a `TopN` of it.

    `at` is the OVER in the user's text. `early`: EMIT CHANGES holds, so ranks in a window don't wait until it closes.
    """

    partition: tuple[str, ...]
    order: tuple[OrderTerm, ...]
    function: str
    rank: Field
    at: exp.Expr
    ttl_us: int | None = None
    early: bool = False

    @property
    def fields(self) -> Fields:
        """The input's fields and the rank."""
        return (*self.input.fields, self.rank)


@dataclass(frozen=True, slots=True, eq=False)
class TopN(UnaryNode):
    """The rows of each partition whose rank is in (offset, offset + limit].

    `function` is row_number, rank or dense_rank; `rank` its field if the query gives it. Rows that are equal in all of
    `order` are ranked by `ties`, ascending, NULLs first: the columns of the input that the query reads (None while
    that is not known). `window_end` is the id of the column with a window's end where the partition has one: then
    a window's rows are given once, when it closes. `ttl_us`: a partition that nothing touched for so long is forgotten.
    """

    partition: tuple[str, ...]
    order: tuple[OrderTerm, ...]
    function: str
    limit: int
    offset: int
    rank: Field | None
    ties: tuple[str, ...] | None = None
    window_end: str | None = None
    time: EventTime | None = None
    ttl_us: int | None = None

    @property
    def fields(self) -> Fields:
        """The input's fields, and the rank if it is given."""
        return (*self.input.fields, *((self.rank,) if self.rank is not None else ()))


@dataclass(frozen=True, slots=True, eq=False)
class Normalize(PassingNode):
    """Makes the changelog that a table gives consistent: at most one row for each of `keys` (column ids).

    `ttl_us`: a key that nothing touched for so long is forgotten.
    """

    keys: tuple[str, ...]
    ttl_us: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class KeepFirst(PassingNode):
    """The first row that came for each of `keys` (column ids), of rows that only come."""

    keys: tuple[str, ...]
    ttl_us: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Sink(PassingNode):
    """Writes its input's columns, by position, to a sink table. `label` is how the user wrote it."""

    sink: SinkSpec
    label: str


Node = (
    Scan
    | Project
    | Filter
    | Window
    | Unnest
    | Union
    | WindowAggregate
    | GroupAggregate
    | WindowGate
    | Rank
    | TopN
    | Normalize
    | KeepFirst
    | Sink
)
