"""A sub-query that is to become the side of a join: its columns apart from those of the outer rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sqlstream_operators.plan.types import SqlType
from sqlstream_planner.logical import (
    Apply,
    ColumnId,
    Field,
    Fields,
    Join,
    JoinKind,
    Node,
    Project,
    column,
    columns_of,
    substitute,
    transform,
    walk,
)

#: By the ids of columns, their types and whether they can be NULL.
Types = Mapping[str, tuple[SqlType, bool]]


@dataclass(slots=True)
class Subquery:
    """The `query` of an `apply`, which reads the columns `outer` of the outer rows under ids that nothing else has.

    Whatever is pulled out of the query, past relations that may have columns of the same ids, still means those rows.
    `types` are those of all columns of the plan: an operand may be one of rows further out.
    """

    apply: Apply
    query: Node
    outer: Mapping[str, Field]
    types: Types
    _readers: set[int] = field(default_factory=set)
    _made: int = 0

    @classmethod
    def of(cls, apply: Apply, types: Types) -> Subquery:
        """The sub-query of an Apply whose own sub-queries are joins already."""
        around = {f.id: f for f in apply.input.fields}
        nodes = walk([apply.query])
        free = {id_ for node in nodes for id_ in _read(node) - _given(node) if id_ in around}
        names = {id_: f"{apply.result.id}.around.{id_}" for id_ in sorted(free)}

        def moved(node: Node) -> Node:
            mine = {id_: name for id_, name in names.items() if id_ not in _given(node)}
            columns = {id_: column(name) for id_, name in mine.items()}
            node = node.with_expressions(
                lambda e: substitute(e, columns) if columns.keys() & columns_of(e) else e
            )
            return node.with_references(lambda r: ColumnId(mine.get(r, r)))

        [query] = transform([apply.query], moved) if names else [apply.query]
        made = cls(apply, query, {name: around[id_] for id_, name in names.items()}, types)
        for node in walk([query]):
            if made.here(node) or any(id(i) in made._readers for i in node.inputs):
                made._readers.add(id(node))
        return made

    def new(self, name: str, type_: SqlType, nullable: bool = True) -> Field:
        """A column that no other has the id of."""
        self._made += 1
        return Field(f"{self.apply.result.id}.{name}_{self._made}", name, type_, nullable)

    def like(self, name: str, f: Field) -> Field:
        """A column with what is in `f`."""
        return self.new(name, f.type, f.nullable)

    def same_as(self, name: str, f: Field) -> Field:
        """A column that a projection gives on from `f`, of the same time."""
        return replace(self.like(name, f), time=f.time, window=f.window)

    def reads(self, node: Node) -> bool:
        """Whether a node of the query, or one below it, reads a column of the outer rows."""
        return id(node) in self._readers

    def here(self, node: Node) -> bool:
        """Whether a node itself does."""
        return bool(_read(node) & self.outer.keys())

    def around(self, expression: exp.Expr) -> exp.Expr:
        """An expression of the query, by the columns of the outer rows as they are called there."""
        return substitute(expression, {name: column(f.id) for name, f in self.outer.items()})

    def join(
        self, kind: JoinKind, left: Node, right: Node, terms: Iterable[exp.Expr], *, forgets: bool = False
    ) -> Join:
        """The outer rows and what it gives, where all of `terms` hold; SEMI and ANTI may have none.

        `forgets`: rows of both sides are of the user's own tables and queries, so that a time to live is theirs, too. What
        is computed for a join alone is never forgotten, and could not take back what the join has forgotten.
        """
        written = list(terms)
        if not written and kind is JoinKind.INNER:
            kind = JoinKind.CROSS
        on = exp.and_(*written) if written else (None if kind is JoinKind.CROSS else exp.true())
        return Join(left, right, kind, on, self.apply.ttl_us if forgets else None, at=self.apply.at)

    def beside(self, node: Node, value: exp.Expr) -> Project:
        """The outer rows with `value`, over columns of `node`, as what the query stands for."""
        fields = self.apply.fields
        return Project(node, fields, (*(column(f.id) for f in fields[:-1]), value.copy()))


def same(left: exp.Expr, right: exp.Expr, *, nullable: bool) -> exp.Expr:
    """That two values are the same, NULLs too: lists are equal where their elements are, so that rows are kept by them.

    >>> same(exp.column("a"), exp.column("b"), nullable=True).sql("duckdb")
    '[a] = [b]'
    """
    if nullable:
        left, right = (exp.Array(expressions=[e.copy()]) for e in (left, right))
    return exp.EQ(this=left.copy(), expression=right.copy())


def timeless(fields: Fields) -> Fields:
    """Fields whose times are unknown, as behind a join."""
    return tuple(replace(f, time=None, window=None) for f in fields)


def _read(node: Node) -> set[str]:
    return set(node.references()).union(*(columns_of(e) for e in node.expressions()))


def _given(node: Node) -> set[str]:
    """The ids that mean columns of the node's inputs; those of a scan are its own."""
    return {f.id for i in node.inputs for f in i.fields} if node.inputs else {f.id for f in node.fields}
