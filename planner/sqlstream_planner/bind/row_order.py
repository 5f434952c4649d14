"""The order of arrival of rows, for what goes by it without saying one: FIRST(x), ROW_NUMBER() OVER (), DISTINCT ON.

It is that of a table's rows where they are read (arrival), or that of a sub-query's ORDER BY. What passes rows on
one by one keeps it; joins, groups and unions have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlstream_operators.plan.types import BIGINT
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.logical import (
    ColumnId,
    EpochKind,
    EpochValue,
    EpochValues,
    Field,
    Filter,
    Join,
    JoinKind,
    Node,
    OrderTerm,
    Project,
    Scan,
    Unnest,
    Values,
    WindowFunction,
    column,
    time_column,
)
from sqlstream_planner.logical.algebra import Apply

NO_ORDER = (
    "rows have an order of arrival where they are read of one table: behind a join, a GROUP BY, a UNION, a window "
    "function, or in a table of changes they have none",
)
"""The note of a message about rows that have no order."""


@dataclass(frozen=True, slots=True)
class OrderedRows:
    """The rows of a node beside the columns that `terms` order them by; `fields` are those that the node does not give.

    `written`: by the ORDER BY of a sub-query, else by arrival. `time_lost`: rows below have an event time, and these none.
    """

    rows: Node
    terms: tuple[OrderTerm, ...]
    fields: tuple[Field, ...]
    written: bool = False
    time_lost: bool = False


def ordered_rows(context: BindContext, node: Node) -> OrderedRows | None:
    """The rows of a node in the order in which they come; None if they have none."""
    found = _ordered(context, node)
    if found is None:
        return None
    own = {f.id for f in node.fields}
    by = [t.column for t in found.terms]
    return replace(found, fields=tuple(f for f in found.rows.fields if f.id in by and f.id not in own))


def _ordered(context: BindContext, node: Node) -> OrderedRows | None:
    order = context.orders.of(node)
    if order is not None:
        return OrderedRows(order.rows, order.terms, (), written=True)
    match node:
        case Scan() if not (node.changelog or node.is_dimension):
            return _arrived(context, node)
        case Values():
            return _arrived(context, node)
        case Filter() | EpochValues() | WindowFunction():
            below = _ordered(context, node.input)
            return None if below is None else replace(below, rows=replace(node, input=below.rows))
        case Apply():
            below = _ordered(context, node.input)
            return None if below is None else _behind(replace(node, input=below.rows), node.input, below)
        case Join() if node.kind in (JoinKind.SEMI, JoinKind.ANTI):
            below = _ordered(context, node.left)
            return None if below is None else _behind(replace(node, left=below.rows), node.left, below)
        case Project():
            below = _ordered(context, node.input)
            return None if below is None else replace(below, rows=_with_columns(node, below))
        case Unnest():
            below = _ordered(context, node.input)
            return None if below is None else _unnested(context, node, below)
    return None


def _behind(rows: Node, before: Node, below: OrderedRows) -> OrderedRows:
    """The rows of `before` that are left behind a sub-query, whose event time is not known any more."""
    return replace(below, rows=rows, time_lost=below.time_lost or time_column(before.fields) is not None)


def _arrived(context: BindContext, node: Node) -> OrderedRows:
    kinds = (EpochKind.ARRIVAL, EpochKind.PLACE)
    values = tuple(EpochValue(_number(context, kind.value), kind) for kind in kinds)
    return OrderedRows(EpochValues(node, values), _ascending([v.field for v in values]), ())


def _unnested(context: BindContext, node: Unnest, below: OrderedRows) -> OrderedRows:
    """Elements of one row are in the order of its array."""
    number = node.ordinality or _number(context, "ordinality", nullable=node.outer)
    rows = replace(node, input=below.rows, ordinality=number)
    return replace(below, rows=rows, terms=(*below.terms, *_ascending([number])))


def _with_columns(node: Project, below: OrderedRows) -> Project:
    """A projection that hands on the columns that rows are ordered by."""
    own = {f.id for f in node.fields}
    by = {t.column for t in below.terms}
    more = tuple(f for f in below.rows.fields if f.id in by and f.id not in own)
    return Project(below.rows, (*node.fields, *more), (*node.items, *(column(f.id) for f in more)))


def _ascending(fields: Sequence[Field]) -> tuple[OrderTerm, ...]:
    return tuple(OrderTerm(ColumnId(f.id), descending=False, nulls_first=False) for f in fields)


def _number(context: BindContext, name: str, *, nullable: bool = False) -> Field:
    return Field(context.new_id(name), name, BIGINT, nullable)
