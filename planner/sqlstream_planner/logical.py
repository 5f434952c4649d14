"""The logical plan: frozen relational nodes over columns with unique ids.

Expressions are sqlglot ASTs in DuckDB's meaning whose columns are `exp.Column`s named by column *id* (never
by the user's alias), so that a node can be moved or merged by substitution. ASTs inside a plan are never
mutated; rewrites copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import sqlglot
from sqlglot import exp

from sqlstream_operators.spec import SinkSpec, SourceSpec, WindowSpec
from sqlstream_operators.types import SqlType, quote_identifier


@dataclass(frozen=True, slots=True)
class EventTime:
    """Marks a column as an event-time attribute.

    `sources` are the tables whose watermarks bound it, `tick_us` is its resolution in µs. `direct`: the
    values come straight from source rows, so a row can be late; False behind a window, where the watermark
    has already passed judgement.
    """

    sources: tuple[str, ...]
    tick_us: int
    direct: bool


@dataclass(frozen=True, slots=True)
class WindowColumn:
    """Marks a column as a bound of the window that its row belongs to. `role`: 'start', 'end' or 'time'."""

    role: str
    window: WindowSpec
    time: EventTime


@dataclass(frozen=True, slots=True)
class Field:
    """An output column of a node: `id` is unique in the plan, `name` is what the user called it."""

    id: str
    name: str
    type: SqlType
    nullable: bool = True
    time: EventTime | None = None
    window: WindowColumn | None = None


Fields = tuple[Field, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """Reads a source table; `fields` are its physical and metadata columns.

    `changelog`: its rows are changes, each with its kind.
    """

    source: SourceSpec
    identity: str
    fields: Fields
    changelog: bool = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        """No inputs."""
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class Project:
    """Computes `expressions` for each row, one for each of `fields`."""

    input: Node
    fields: Fields
    expressions: tuple[exp.Expr, ...]

    def __post_init__(self) -> None:
        if len(self.fields) != len(self.expressions):
            raise ValueError("one expression per field")

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)


@dataclass(frozen=True, slots=True, eq=False)
class Filter:
    """Keeps the rows for which `predicate` is true."""

    input: Node
    predicate: exp.Expr

    @property
    def fields(self) -> Fields:
        """The input's fields."""
        return self.input.fields

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Copies each row into every window that its `time_column` falls into.

    Adds `start`, `end` (TIMESTAMP, window bounds) and `time` (end - 1 ms, an event-time attribute).
    """

    input: Node
    window: WindowSpec
    time_column: str
    start: Field
    end: Field
    time: Field

    @property
    def fields(self) -> Fields:
        """The input's fields and the three window columns."""
        return (*self.input.fields, self.start, self.end, self.time)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)


@dataclass(frozen=True, slots=True, eq=False)
class Unnest:
    """Cross join of each row with the elements of an array (`outer`: keep rows whose array is empty).

    `element` are the new columns: one for scalars, one a field for an array of structs; `ordinality` counts
    from 1.
    """

    input: Node
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
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)


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
class WindowAggregate:
    """Groups rows by window and keys; emits each window once, when the watermark closes it.

    `slice_column` is the time column that slices are cut from when `window.shared_slices`; otherwise the
    column that holds the window's end. `sets` are the grouping sets as positions in `keys` (one set of all
    keys if the query has none), `grouping` the field of the grouping id where there are several.
    `time_column` orders FIRST_VALUE and LAST_VALUE.
    """

    input: Node
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

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)


@dataclass(frozen=True, slots=True)
class GroupExpiry:
    """Says when a group can't change any more: `column`, the id of the key field with the window's end, is behind
    the watermark of `time`'s sources by `lateness_us`.
    """

    column: str
    time: EventTime
    lateness_us: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class GroupAggregate:
    """Groups rows by keys without an end in time; its result changes as rows come and go.

    `sets` are the grouping sets as positions in `keys` (one set of all keys if the query has none), `grouping` the
    field of the grouping id where there are several. `expiry`: a key that bounds the state (EMIT CHANGES of a window).
    `ttl_us`: a group that nothing touched for so long is forgotten.
    """

    input: Node
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

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)


@dataclass(frozen=True, slots=True, eq=False)
class WindowGate:
    """Holds the changing results of a window's groups back until the watermark closes it, and lets corrections pass.

    `input` is the group aggregate; its `expiry` says which window a row belongs to and how late corrections may be.
    """

    input: GroupAggregate
    window: WindowSpec

    @property
    def fields(self) -> Fields:
        """The input's fields."""
        return self.input.fields

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)


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
        direction = "DESC" if self.descending else "ASC"
        return f"{quote_identifier(self.column)} {direction} NULLS {'FIRST' if self.nulls_first else 'LAST'}"


@dataclass(frozen=True, slots=True, eq=False)
class Rank:
    """Adds each row's rank in its partition; only while a query is bound: a condition on it makes a `TopN` of it.

    `at` is the OVER in the user's text.
    """

    input: Node
    partition: tuple[str, ...]
    order: tuple[OrderTerm, ...]
    function: str
    rank: Field
    at: exp.Expr
    ttl_us: int | None = None

    @property
    def fields(self) -> Fields:
        """The input's fields and the rank."""
        return (*self.input.fields, self.rank)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)


@dataclass(frozen=True, slots=True, eq=False)
class TopN:
    """The rows of each partition whose rank is in (offset, offset + limit].

    `function` is row_number, rank or dense_rank; `rank` its field if the query gives it. Rows that are equal in all of
    `order` are ranked by `ties`, ascending, NULLs first: the columns of the input that the query reads (None while
    that is not known). `window_end` is the id of the column with a window's end where the partition has one: then
    a window's rows are given once, when it closes. `ttl_us`: a partition that nothing touched for so long is forgotten.
    """

    input: Node
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

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)


@dataclass(frozen=True, slots=True, eq=False)
class Normalize:
    """Makes the changelog that a table gives consistent: at most one row for each of `keys` (column ids).

    `ttl_us`: a key that nothing touched for so long is forgotten.
    """

    input: Node
    keys: tuple[str, ...]
    ttl_us: int | None = None

    @property
    def fields(self) -> Fields:
        """The input's fields."""
        return self.input.fields

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)


@dataclass(frozen=True, slots=True, eq=False)
class KeepFirst:
    """The first row that came for each of `keys` (column ids), of rows that only come."""

    input: Node
    keys: tuple[str, ...]
    ttl_us: int | None = None

    @property
    def fields(self) -> Fields:
        """The input's fields."""
        return self.input.fields

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)


@dataclass(frozen=True, slots=True, eq=False)
class Sink:
    """Writes its input's columns, by position, to a sink table. `label` is how the user wrote it."""

    input: Node
    sink: SinkSpec
    label: str

    @property
    def fields(self) -> Fields:
        """The input's fields."""
        return self.input.fields

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)


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


def with_inputs(node: Node, inputs: tuple[Node, ...]) -> Node:
    """The same node over other inputs; the node itself if they are the very same."""
    if all(a is b for a, b in zip(node.inputs, inputs, strict=True)):
        return node
    if isinstance(node, Scan):
        return node
    if isinstance(node, Union):
        return replace(node, branches=inputs)
    return replace(node, input=inputs[0])  # type: ignore[arg-type]  # a rule keeps a WindowGate's input a group


def transform(roots: tuple[Node, ...], rewrite: Callable[[Node], Node]) -> tuple[Node, ...]:
    """Rewrite a plan bottom up; a node that several consumers share is rewritten once and stays shared."""
    done: dict[int, Node] = {}

    def visit(node: Node) -> Node:
        if id(node) not in done:
            done[id(node)] = rewrite(with_inputs(node, tuple(visit(i) for i in node.inputs)))
        return done[id(node)]

    return tuple(visit(root) for root in roots)


def walk(roots: tuple[Node, ...]) -> list[Node]:
    """Every node once, inputs before their consumers."""
    seen: set[int] = set()
    order: list[Node] = []

    def visit(node: Node) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        for child in node.inputs:
            visit(child)
        order.append(node)

    for root in roots:
        visit(root)
    return order


def consumers(roots: tuple[Node, ...]) -> dict[int, int]:
    """How many nodes read each node, by `id(node)`."""
    count: dict[int, int] = {}
    for node in walk(roots):
        for child in node.inputs:
            count[id(child)] = count.get(id(child), 0) + 1
    return count


def columns_of(expression: exp.Expr) -> set[str]:
    """The ids of the columns that an expression reads.

    >>> from sqlglot import parse_one
    >>> sorted(columns_of(parse_one("a + f(b)")))
    ['a', 'b']
    """
    return {c.name for c in expression.find_all(exp.Column)}


def substitute(expression: exp.Expr, replacements: Mapping[str, exp.Expr]) -> exp.Expr:
    """A copy of `expression` in which columns are replaced by expressions, by id.

    >>> from sqlglot import parse_one
    >>> substitute(parse_one("a + b"), {"a": parse_one("x * 2")}).sql()
    '(x * 2) + b'
    """

    def swap(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and node.name in replacements:
            new = replacements[node.name].copy()
            return (
                exp.paren(new, copy=False) if isinstance(new, exp.Binary | exp.Unary | exp.Connector) else new
            )
        return node

    return expression.copy().transform(swap, copy=False)


def raw(text: str) -> exp.Expr:
    """Our own DuckDB SQL as an expression."""
    return sqlglot.parse_one(text, read="duckdb")


def column(id_: str) -> exp.Column:
    """A reference to a column by id."""
    return exp.column(exp.to_identifier(id_, quoted=True))
