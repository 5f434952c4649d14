"""The columns of a query as those of the table that it is written to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from sqlstream_operators.plan.spec import Column, SinkSpec
from sqlstream_planner.bind.context import BindContext, fresh
from sqlstream_planner.bind.written_values import checked
from sqlstream_planner.catalog.tables import Catalog
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span, suggestion
from sqlstream_planner.expressions.casts import Assignment, assignable, can_cast
from sqlstream_planner.logical import Field, Node, Project, column
from sqlstream_planner.sql.datatypes import as_type
from sqlstream_planner.sql.statements import (
    InsertInto,
    PhysicalColumn,
)


def assigned(
    context: BindContext, catalog: Catalog, statement: InsertInto, sink: SinkSpec, node: Node
) -> Node:
    """The query's columns as the sink's: by position, or by the column list; cast where needed."""
    wanted = list(sink.schema)
    if statement.columns:
        by_name = {c.name.lower(): c for c in sink.schema}
        wanted = []
        for name in statement.columns:
            if name.lower() not in by_name:
                raise DiagnosticError(
                    Diagnostic(
                        "SQL010",
                        f"`{sink.name}` has no column `{name}`",
                        statement.table_span,
                        (f"it has {', '.join(c.name for c in sink.schema)}",),
                        suggestion(name, [c.name for c in sink.schema]),
                    )
                )
            wanted.append(by_name[name.lower()])
        if len({c.name for c in wanted}) != len(wanted):
            raise DiagnosticError(
                Diagnostic(
                    "SQL051",
                    "a column is listed twice",
                    statement.table_span,
                    help="name each column once",
                )
            )
    if len(node.fields) != len(wanted):
        raise DiagnosticError(
            Diagnostic(
                "SQL051",
                f"columns given by the query: {len(node.fields)}, taken by `{sink.name}`: {len(wanted)}",
                context.span(statement.query),
                (
                    f"the query gives {', '.join(f.name for f in node.fields)}",
                    f"`{sink.name}` takes {', '.join(c.name for c in wanted)}",
                ),
                "give as many columns as the table has, in its order, or list the ones you give: INSERT INTO t (a, b)",
            )
        )
    return filled_up(context, catalog, node, statement.query, sink, wanted, statement.table_span)


def filled_up(
    context: BindContext,
    catalog: Catalog,
    node: Node,
    query: exp.Expr,
    sink: SinkSpec,
    wanted: Sequence[Column],
    at: Span,
) -> Node:
    """The columns of `sink`: the query's as those of `wanted`, in their order, and NULL for the rest."""
    given = {
        c.name: (f, _given(context, catalog, query, sink, i, f, c))
        for i, (f, c) in enumerate(zip(node.fields, wanted, strict=True))
    }
    fields, expressions = [], []
    for c in sink.schema:
        if c.name in given:
            f, expression = given[c.name]
            bare = isinstance(expression, exp.Column)
            made = replace(fresh(f, context, c.name), type=c.type)
            fields.append(made if bare else replace(made, time=None, window=None))
            expressions.append(expression)
        else:
            if not c.nullable:
                raise DiagnosticError(
                    Diagnostic(
                        "SQL052",
                        f"column `{c.name}` of `{sink.name}` is NOT NULL, but the INSERT does not give it",
                        at,
                        help=f"add `{c.name}` to the column list and the query",
                    )
                )
            fields.append(Field(context.new_id(c.name), c.name, c.type))
            expressions.append(_cast(exp.Null(), c))
    return Project(node, tuple(fields), tuple(expressions))


def _given(
    context: BindContext,
    catalog: Catalog,
    query: exp.Expr,
    sink: SinkSpec,
    position: int,
    f: Field,
    c: Column,
) -> exp.Expr:
    verdict = assignable(f.type, c.type)
    if verdict is Assignment.IMPOSSIBLE:
        at = written_item(query, position, f)
        possible = can_cast(f.type, c.type)
        raise DiagnosticError(
            Diagnostic(
                "SQL053",
                f"`{f.name}` is {f.type}, but column `{c.name}` of `{sink.name}` is {c.type}",
                context.span(at),
                help=f"write CAST({f.name} AS {c.type})" if possible else f"declare `{c.name}` as {f.type}",
            )
        )
    table = catalog.table(sink.name)
    declared = table.column(c.name) if table is not None else None
    if isinstance(declared, PhysicalColumn) and declared.exact is not None:
        return checked(column(f.id), declared.exact, c.type)
    if f.type == c.type:
        return column(f.id)
    return context.in_session_zone(_cast(column(f.id), c), (f,))


def written_item(query: exp.Expr, position: int, f: Field) -> exp.Expr:
    """Where a column of a query is written; the query where that is not known."""
    select = query
    while isinstance(select, exp.Union | exp.Subquery | exp.Paren):
        select = select.this
    if isinstance(select, exp.Select):
        stars = any(e.find(exp.Star) and not e.find(exp.Func) for e in select.expressions)
        if not stars and position < len(select.expressions):
            item: exp.Expr = select.expressions[position]
            return item
    return query


def _cast(expression: exp.Expr, c: Column) -> exp.Expr:
    return as_type(expression, c.type)


def exactly(node: Node, sink: SinkSpec, context: BindContext) -> Node:
    """The query's columns under the sink's names; a column of NULLs becomes text."""
    fields, expressions = [], []
    for f, c in zip(node.fields, sink.schema, strict=True):
        fields.append(replace(fresh(f, context, c.name), type=c.type))
        expressions.append(column(f.id) if f.type == c.type else _cast(column(f.id), c))
    return Project(node, tuple(fields), tuple(expressions))
