"""FOR SYSTEM_TIME AS OF a process time: each row beside what a table has when the row is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from sqlstream_planner.bind.as_of import joined_item, on_terms, one_row_kind
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.joins import Item
from sqlstream_planner.catalog.lookup_options import reload_us
from sqlstream_planner.diagnostics import refuse
from sqlstream_planner.logical import LookupJoin, Node, Scan, dimension_scan, transform


def bind_lookup_join(join: exp.Join, version: exp.Expr, left: Item, right: Item) -> Item:
    """`JOIN d FOR SYSTEM_TIME AS OF l.p ON l.k = d.k`: beside the rows of `d` as it is when the epoch is planned.

    Raises DiagnosticError.
    """
    context = left.scope.context
    kind = one_row_kind(join, left.scope, "JOIN … FOR SYSTEM_TIME AS OF")
    if version.name.upper() != "TIMESTAMP" or str(version.args.get("kind")).upper() != "AS OF":
        context.unsupported(
            version, "FOR SYSTEM_TIME but AS OF a time", help="write FOR SYSTEM_TIME AS OF l.proc"
        )
    table = _dimension(context, join, right.node)
    terms = on_terms(join, left, right)
    node = LookupJoin(left.node, table, kind, exp.and_(*terms), context.span(join))
    return joined_item(join, node, left, right)


def refuse_streamed_dimensions(context: BindContext, roots: Sequence[Node]) -> None:
    """Raise DiagnosticError (SQL014) where a table is read as a stream that can only be looked up."""
    seen: set[int] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Scan) and node.is_dimension:
            read = context.read_tables[node.fields[0].id]
            refuse(
                read.at,
                "SQL014",
                f"`{read.table.name}` is no stream: with connector `{read.table.connector}` it can be written or looked up",
                help=f"write JOIN {read.table.name} FOR SYSTEM_TIME AS OF l.proc ON …, where l has `proc AS PROCTIME()`",
            )
        stack += node.inputs[:1] if isinstance(node, LookupJoin) else node.inputs


def _dimension(context: BindContext, join: exp.Join, node: Node) -> Node:
    """The table that a lookup join reads, which no watermark goes by. Raises DiagnosticError."""
    scan = dimension_scan(node)
    if scan is None:
        context.fail(
            join.this,
            "SQL084",
            "what is looked up must be one table",
            notes=(
                "projections and conditions may stand around it; a result of a query is not kept anywhere",
            ),
            help="write the result into a table by a file of its own, and look that table up",
        )
    read = context.read_tables[scan.fields[0].id]
    if not read.table.is_dimension:
        able = (d.name for d in context.connectors if d.dimension)
        context.fail(
            join.this,
            "SQL084",
            f"`{read.table.name}` can't be looked up: "
            + (
                "it is read as changes"
                if scan.changelog
                else f"connector `{read.table.connector}` has no table that is there at once"
            ),
            notes=(f"tables can be looked up with the connectors {', '.join(able)}, of rows",),
            help="go by an event time of both sides, FOR SYSTEM_TIME AS OF l.ts, or write a regular JOIN",
        )
    source = replace(scan.source, watermark=None)
    fields = tuple(replace(f, time=None) for f in scan.fields)
    reload = reload_us(read.table.settings)

    def as_dimension(one: Node) -> Node:
        if isinstance(one, Scan):
            return replace(one, source=source, fields=fields, reload_us=reload, watermark=())
        return one

    return transform((node,), as_dimension)[0]
