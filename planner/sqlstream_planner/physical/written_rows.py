"""Rows that are written out (VALUES, and the one row that a SELECT without FROM reads): where they come from.

A source of one row, which comes once, is read like any other: its position is in the manifests, so neither a replay nor a
restart gives the row again. What is written out is computed of that row where it is read. So all of it comes in the epoch
that reads the row, and an edit of it is an edit of the query and not of a source.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.plan.types import INTEGER, Kind, SqlType, quote_identifier
from sqlstream_planner.catalog.descriptor import ONE_ROW
from sqlstream_planner.catalog.source_identity import SourceIdentity
from sqlstream_planner.logical import Values, column, sql
from sqlstream_planner.physical.block import Block
from sqlstream_planner.sql.as_written import without_marks
from sqlstream_planner.sql.datatypes import as_type

#: What the source's only column is called.
_ONE = "one"


def one_row(taken: Collection[str]) -> SourceSpec:
    """The source of one row, under a name that no table in `taken` has (ignoring case).

    >>> one_row({"One_Row"}).name
    'one_row_2'
    """
    known = {name.lower() for name in taken}
    name, number = "one_row", 1
    while name in known:
        number += 1
        name = f"one_row_{number}"
    identity = SourceIdentity(ONE_ROW, (), ()).text
    return SourceSpec(name, ONE_ROW, {}, (Column(_ONE, INTEGER),), (_ONE,), identity=identity)


def written_rows(node: Values, stage: str, source: str) -> Block:
    """What is written out, as a block over `source`, the relation with the one row."""
    name = quote_identifier(source)
    if len(node.rows) == 1:
        items = zip(node.fields, node.rows[0], strict=True)
        return Block(stage, name, (source,), {f.id: _typed(without_marks(e), f.type) for f, e in items})
    rows = ", ".join(f"({', '.join(sql(without_marks(e)) for e in row)})" for row in node.rows)
    ids = ", ".join(quote_identifier(f.id) for f in node.fields)
    columns = {f.id: _typed(column(f.id), f.type) for f in node.fields}
    return Block(stage, f"{name} CROSS JOIN (VALUES {rows}) AS v({ids})", (source,), columns, multiplied=True)


def _typed(expression: exp.Expr, type_: SqlType) -> exp.Expr:
    """An expression as a value of its column's type, if that can be written."""
    if type_.kind in (Kind.UNKNOWN, Kind.NULL):
        return expression
    return as_type(expression, type_)
