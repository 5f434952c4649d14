"""What ORDER BY and DISTINCT ON name: columns of a query's result, or what its SELECT list could have named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

from sqlglot import exp

from sqlstream_planner.bind.context import BindContext, fresh
from sqlstream_planner.bind.items import output_name
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.diagnostics import counted
from sqlstream_planner.logical import ColumnId, Field, Fields, Node, OrderTerm, Project, column


@dataclass(frozen=True, slots=True)
class DistinctRows:
    """What SELECT DISTINCT has each row once of: the SELECT list's values, and the scope that it was written in."""

    scope: Scope
    rows: Project

    def over(self, context: BindContext, term: exp.Expr, result: Node) -> exp.Expr | None:
        """A term over the columns of the result, by the items of the SELECT list that it repeats; None if it reads others.

        Raises DiagnosticError for a name that the scope has not.
        """
        below, names = self.scope.fields, [f.name.lower() for f in self.rows.fields]
        aliases = dict(zip(reversed(names), reversed(self.rows.items), strict=True))
        resolved = context.translated(replace(self.scope, aliases=aliases).resolve(term), below)
        given = {
            context.form(e.unnest(), below): f.id
            for e, f in zip(reversed(self.rows.items), reversed(result.fields), strict=True)
        }

        def by_result(node: exp.Expr) -> exp.Expr:
            compared = isinstance(node, exp.Column | exp.Dot | exp.Func | exp.Binary | exp.Paren | exp.Cast)
            id_ = given.get(context.form(node.unnest(), below)) if compared else None
            return column(id_) if id_ is not None else node

        found = _top_down(resolved, by_result)
        ours = {f.id for f in result.fields}
        return found if all(c.name in ours for c in found.find_all(exp.Column)) else None


def _top_down(node: exp.Expr, change: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A copy in which the outermost parts that `change` changes are changed, and nothing inside of them."""
    changed = change(node)
    if changed is not node:
        return changed
    made = node.copy()
    for child in list(made.iter_expressions()):
        inner = _top_down(child, change)
        child.replace(inner)
    return made


@dataclass(slots=True)
class Terms:
    """The columns of `node`, a query's result, that terms name; `added` are those that it does not give.

    Terms name the result's columns, their positions, or, where `scope` is given (a SELECT without aggregates or DISTINCT,
    projected from it), anything that the SELECT list could; of SELECT DISTINCT (`distinct`) what is computed of its items
    alone.
    """

    context: BindContext
    query: exp.Query
    node: Node
    scope: Scope | None
    distinct: DistinctRows | None = None
    added: list[tuple[Field, exp.Expr]] = field(default_factory=list)

    def order(self) -> tuple[OrderTerm, ...]:
        """The terms of the query's ORDER BY. Raises DiagnosticError."""
        order = self.query.args.get("order")
        terms = order.expressions if order is not None else []
        found: list[OrderTerm] = []
        for term in terms:
            inner = bare_term(term)
            by_all = isinstance(inner, exp.Var) and inner.name.upper() == "ALL" and len(terms) == 1
            columns = (
                [ColumnId(f.id) for f in self.node.fields] if by_all else [self.column(inner, "ORDER BY")]
            )
            descending, nulls_first = (
                bool(isinstance(term, exp.Ordered) and term.args.get(key)) for key in ("desc", "nulls_first")
            )
            found += [OrderTerm(each, descending, nulls_first) for each in columns]
        return tuple(found)

    def column(self, term: exp.Expr, clause: str) -> ColumnId:
        """The column that a term of a clause names. Raises DiagnosticError."""
        context, node = self.context, self.node
        if isinstance(term, exp.PositionalColumn):  # by itself it is a position in the result
            term = term.this
        _check(context, node, term, clause)
        id_ = _output(self.query, node, term)
        if id_ is not None:
            return ColumnId(id_)
        of_items = self.distinct.over(context, term, node) if self.distinct is not None else None
        if of_items is not None:
            return self._added(of_items, node.fields)
        if self.scope is None or not isinstance(node, Project):
            context.fail(
                term,
                "SQL063",
                f"{clause} can only name columns of the result here",
                notes=(f"they are {', '.join(f.name for f in node.fields)}",),
                help="give the expression a name in the SELECT list and name that",
            )
        aliases = {f.name.lower(): e for f, e in zip(node.fields, node.items, strict=True)}
        below = node.input.fields
        return self._added(
            context.translated(Scope(context, self.scope.relations, aliases).resolve(term), below), below
        )

    def _added(self, resolved: exp.Expr, below: Fields) -> ColumnId:
        """The column of an expression over these fields: one of them, or one that is added."""
        bare = resolved.unnest()
        if isinstance(bare, exp.Column) and any(f.id == bare.name for f in self.node.fields):
            return ColumnId(bare.name)
        typed = self.context.type_of(resolved, below)
        made = Field(self.context.new_id("ordered"), "ordered", typed.type, typed.nullable)
        self.added.append((made, resolved))
        return ColumnId(made.id)

    def with_added(self) -> Node:
        """The result with the columns that were added."""
        if not self.added:
            return self.node
        fields, added = (*self.node.fields, *(f for f, _ in self.added)), tuple(e for _, e in self.added)
        if self.distinct is not None:
            return Project(self.node, fields, (*(column(f.id) for f in self.node.fields), *added))
        assert isinstance(self.node, Project)
        return Project(self.node.input, fields, (*self.node.items, *added))

    def without_added(self, rows: Node, *, others: Sequence[Field] = ()) -> Node:
        """The result's own columns of some of its rows, which have `others` besides."""
        if not self.added and not others:
            return rows
        shown = self.node.fields
        return Project(rows, tuple(fresh(f, self.context) for f in shown), tuple(column(f.id) for f in shown))


def bare_term(ordered: exp.Expr) -> exp.Expr:
    """What a term of an ORDER BY orders by, without brackets around it."""
    return (ordered.this if isinstance(ordered, exp.Ordered) else ordered).unnest()


def _check(context: BindContext, node: Node, inner: exp.Expr, clause: str) -> None:
    """Raises DiagnosticError for a position that the result does not have, a literal, and ORDER BY ALL."""
    if isinstance(inner, exp.Var):
        context.unsupported(inner, f"{clause} {inner.name}", help="list the columns to order by")
    if inner.is_int:
        position = 0 if isinstance(inner, exp.Neg) else int(inner.this)
        if not 1 <= position <= len(node.fields):
            context.fail(
                inner,
                "SQL063",
                f"{clause} {inner.sql()}, but the result has {counted(len(node.fields), 'column')}",
            )
    elif is_constant(inner):
        refuse_constant(context, inner)


def is_constant(term: exp.Expr) -> bool:
    """Whether a term of an ORDER BY is a literal that is no whole number: DuckDB refuses it, as it orders nothing."""
    bare = term.unnest()
    return isinstance(bare, exp.Null | exp.Boolean) or (isinstance(bare, exp.Literal) and not bare.is_int)


def refuse_constant(context: BindContext, term: exp.Expr) -> NoReturn:
    """Raises DiagnosticError for a literal in an ORDER BY."""
    context.fail(
        term,
        "SQL063",
        f"ORDER BY {term.unnest().sql(dialect='duckdb')} orders nothing: it is the same in every row",
        help="name a column; a name stands in double quotes or in none, as in ORDER BY price",
    )


def _output(query: exp.Query, node: Node, inner: exp.Expr) -> str | None:
    """The id of the result's column that a term names, by name, position, or the same text."""
    if isinstance(inner, exp.Literal) and not inner.is_string and inner.this.isdigit():
        return node.fields[int(inner.this) - 1].id
    if isinstance(inner, exp.Column) and len(inner.parts) == 1:
        names = [f.id for f in node.fields if f.name.lower() == inner.name.lower()]
        if len(names) == 1:
            return names[0]
    if isinstance(query, exp.Select) and len(query.expressions) == len(node.fields):
        for position, item in enumerate(query.expressions):
            bare = item.this if isinstance(item, exp.Alias) else item
            if bare == inner or output_name(item, position).lower() == inner.sql().lower():
                return node.fields[position].id
    return None
