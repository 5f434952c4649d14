"""Plans as SELECTs: what of a plan becomes a relation with a name, and what is written into its reader.

Each node that can't be added to the SELECT of its input, and each that several nodes read, becomes one common table
expression, so that the text is as long as there are nodes. What a correlated sub-query reads of its outer rows
can't stand before them: it is written where it is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.batch import (
    aggregates,
    as_of,
    changelogs,
    joins,
    ranks,
    sessions,
    sets,
    stateless,
)
from sqlstream_planner.batch.changes import changing, in_order_of_arrival
from sqlstream_planner.batch.select import Select, by_id, indented
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.logical import (
    Aggregate,
    Apply,
    AsOfJoin,
    EmitOnClose,
    EpochValues,
    Filter,
    Join,
    LateralJoin,
    LookupJoin,
    Node,
    OrderLimit,
    OverWindow,
    Project,
    Scan,
    SessionFunction,
    SetOperation,
    Sink,
    Unnest,
    Values,
    Versions,
    WindowFunction,
    column,
    columns_of,
    consumers,
    sql,
    walk,
)


def query_of(root: Sink) -> str:
    """A SELECT of a sink's content at the end, with the sink's columns."""
    return _Query(root).text()


class _Query:
    """One query while it is written: `_made` is what each node is, by `id(node)`."""

    def __init__(self, root: Sink) -> None:
        self._root = root
        self._nodes = walk([root])
        self._readers = consumers([root])
        self._changing = changing([root])
        self._correlated = _correlated(self._nodes)
        self._made: dict[int, Select] = {}
        self._relations: list[tuple[str, str]] = []
        self._shared: set[str] = set()
        # What a name can mean besides a relation: in a sub-query columns of its outer rows are known by their ids.
        self._ids = {f.id.lower() for node in self._nodes for f in node.fields}
        self._taken = self._ids | {n.source.name.lower() for n in self._nodes if isinstance(n, Scan)}

    def text(self) -> str:
        """The whole query."""
        root = self._root
        for node in self._nodes[:-1]:
            select = self._select(node)
            if self._readers[id(node)] > 1:
                if not (select.is_plain and select.named):
                    select = self._settled(node, select, "shared")
                self._shared.add(select.source)
            self._made[id(node)] = select
        select = self._made[id(root.input)]
        shown = changelogs.chosen(root, select, changing=self._changing[id(root)])
        if shown is not None:
            select = self._relation(root, shown, "chosen")
        pairs = zip(root.fields, root.sink.schema, strict=True)
        last = select.text((sql(select.columns[f.id]), c.name) for f, c in pairs)
        relations = [
            f"{name} AS {'MATERIALIZED ' if name in self._shared else ''}(\n{indented(text)}\n)"
            for name, text in self._relations
        ]
        return f"WITH {', '.join(relations)}\n{last}" if relations else last

    def _select(self, node: Node) -> Select:
        below = [self._made[id(i)] for i in node.inputs]
        match node:
            case Scan():
                return self._scan(node)
            case Values():
                return self._relation(node, sets.values(node), "written")
            case Project():
                return stateless.project(node, self._short(node, below[0]))
            case Filter():
                return stateless.filtered(node, self._short(node, below[0]))
            case WindowFunction():
                return stateless.windowed(node, below[0])
            case SessionFunction():
                return self._relation(node, sessions.in_sessions(node, below[0]), "sessions")
            case Unnest():
                return stateless.unnested(node, below[0])
            case EpochValues():
                return stateless.given_by_epoch(node, below[0])
            case Aggregate():
                in_order = in_order_of_arrival(node, self._changing)
                return self._relation(node, aggregates.grouped(node, below[0], in_order=in_order), "grouped")
            case SetOperation():
                return self._relation(node, sets.combined(node, below), "combined")
            case OverWindow():
                once = not self._changing[id(node)]
                return self._relation(node, ranks.over_window(node, below[0], once=once), "ranked")
            case OrderLimit():
                return self._relation(node, ranks.limited(node, below[0]), "limited")
            case Join():
                return joins.joined(node, *below)
            case LookupJoin():
                return joins.joined(node, *below)
            case AsOfJoin():
                return self._relation(node, as_of.joined(node, *below), "as_of")
            case Versions():
                return self._relation(node, as_of.versions(node), "versions")
            case LateralJoin():
                return self._relation(node, joins.beside_queries(node, *below), "lateral")
            case Apply():
                return self._relation(node, joins.applied(node, *below), "applied")
            case EmitOnClose():
                return below[0]
        raise InternalError(f"no SQL for {type(node).__name__}")

    def _scan(self, node: Scan) -> Select:
        name = node.source.name
        if node.changelog:
            return self._relation(node, changelogs.remaining(node), f"{name}_left")
        columns: dict[str, exp.Expr] = {f.id: column(f.name) for f in node.fields}
        read = Select(quote_identifier(name), columns, named=True)
        if self._correlated and (not read.is_by_id or name.lower() in self._ids):
            return self._settled(node, read, f"{name}_rows")
        return read

    def _short(self, node: Project | Filter, below: Select) -> Select:
        """The input, as a relation if its columns are too long to be written into the node's expressions."""
        return below if stateless.fits(below, node) else self._settled(node.input, below, "computed")

    def _settled(self, node: Node, select: Select, name: str) -> Select:
        """What a node is, as a relation."""
        return self._relation(node, select.text_of(f.id for f in node.fields), name)

    def _relation(self, node: Node, text: str, name: str) -> Select:
        """What a node is, by the query that makes it, whose columns are called by their ids."""
        if id(node) in self._correlated:
            return by_id(f"(\n{indented(text)}\n) AS {quote_identifier(f'__{name}')}", node.fields)
        free, number = name, 1
        while free.lower() in self._taken:
            number += 1
            free = f"{name}_{number}"
        self._taken.add(free.lower())
        quoted = quote_identifier(free)
        self._relations.append((quoted, text))
        return by_id(quoted, node.fields, named=True)


def _correlated(nodes: Sequence[Node]) -> set[int]:
    """By `id(node)`, the nodes of sub-queries that read columns of their outer rows."""
    outer = {id_ for node in nodes if isinstance(node, Apply | LateralJoin) for id_ in node.outer}
    free: dict[int, set[str]] = {}
    for node in nodes:
        own = set().union(*(columns_of(e) for e in node.expressions()), node.references())
        given = {f.id for i in node.inputs for f in i.fields}
        below = set().union(*(free[id(i)] for i in node.inputs))
        if isinstance(node, Apply | LateralJoin):
            below = free[id(node.input)] | (free[id(node.query)] - {f.id for f in node.input.fields})
        free[id(node)] = below | (own & outer) - given
    return {id_ for id_, columns in free.items() if columns}
