"""ROWID: the number of a row in its table, from 0 on, in the order of arrival, as DuckDB has it of a table's rows."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlstream_operators.plan.types import BIGINT, quote_identifier
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.relation import Relation
from sqlstream_planner.bind.row_order import ordered_rows
from sqlstream_planner.logical import (
    Emission,
    EpochValues,
    Field,
    Node,
    OverWindow,
    Project,
    Scan,
    WindowCall,
    column,
    raw,
)

ROWID = "rowid"


def with_rowid(
    context: BindContext, item: exp.Expr, ctes: Mapping[str, Node], node: Node, relation: Relation
) -> tuple[Node, tuple[Relation, ...]]:
    """A table's rows with their numbers, in a relation of its own, where its SELECT reads ROWID; else as they are.

    Not of a table that has such a column, nor of one whose rows have no order of arrival: there the name is unknown.
    """
    plain = isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier) and _is_table(node)
    if not plain or item.name.lower() in ctes or not _reads(item, relation):
        return node, (relation,)
    come = ordered_rows(context, node)
    if come is None or come.written:
        return node, (relation,)
    place = WindowCall(Field(context.new_id("row_number"), "row_number", BIGINT, False), "row_number")
    numbered = OverWindow(
        come.rows, (), come.terms, (place,), emission=Emission(changes=True), at=context.span(item)
    )
    number = Field(context.new_id(ROWID), ROWID, BIGINT, nullable=False)
    rows = Project(
        numbered,
        (*node.fields, number),
        (*(column(f.id) for f in node.fields), raw(f"{quote_identifier(place.field.id)} - 1")),
    )
    return rows, (relation, Relation(relation.alias, (number,), hidden=True, last=True))


def _is_table(node: Node) -> bool:
    while isinstance(node, Project | EpochValues):
        node = node.input
    return isinstance(node, Scan) and not (node.changelog or node.is_dimension)


def _reads(item: exp.Expr, relation: Relation) -> bool:
    if any(f.name.lower() == ROWID for f in relation.fields):
        return False
    select = item.find_ancestor(exp.Select)
    named = (c for c in select.find_all(exp.Column) if c.name.lower() == ROWID) if select is not None else ()
    alias = (relation.alias or "").lower()
    return any(len(c.parts) == 1 or (len(c.parts) == 2 and c.table.lower() == alias) for c in named)
