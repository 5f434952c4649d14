"""ORDER BY … LIMIT … OFFSET of a whole query."""

from __future__ import annotations

from typing import NoReturn

from sqlglot import exp

from sqlstream_planner.bind.context import BindContext, fresh
from sqlstream_planner.bind.items import output_name
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.diagnostics import counted
from sqlstream_planner.logical import ColumnId, Field, Node, OrderLimit, OrderTerm, Project, column

#: Ranks, and the sums of a limit and an offset, stay far below what fits into a BIGINT.
MOST_ROWS = 2**61


def has_limit(query: exp.Query) -> bool:
    """Whether a query has ORDER BY, LIMIT, FETCH or OFFSET."""
    return any(query.args.get(key) for key in ("order", "limit", "offset"))


def with_ordered(query: exp.Select) -> tuple[exp.Select, int]:
    """A SELECT that aggregates, with what its ORDER BY names and it does not give as further items, and their number.

    GROUP BY ALL and positions are of the SELECT list as it is written, and DISTINCT of its rows: those get none.
    """
    order, group = query.args.get("order"), query.args.get("group")
    if order is None or query.args.get("limit") is None or query.args.get("distinct") is not None:
        return query, 0
    beyond = [
        e
        for e in (group.expressions if group is not None else [])
        if isinstance(e, exp.Literal) and e.this.isdigit() and int(e.this) > len(query.expressions)
    ]
    if beyond or (group is not None and group.args.get("all")):
        return query, 0
    names = {output_name(item, position).lower() for position, item in enumerate(query.expressions)}
    given = [item.this if isinstance(item, exp.Alias) else item for item in query.expressions]
    star = any(item.is_star for item in query.expressions)
    made = query.copy()
    added = 0
    for ordered in made.args["order"].expressions:
        inner = _term(ordered)
        named = isinstance(inner, exp.Column) and len(inner.parts) == 1
        if (
            isinstance(inner, exp.Var)
            or inner.is_int
            or is_constant(inner)
            or inner in given
            or (named and star)
        ):
            continue
        if inner.sql().lower() in names or (named and inner.name.lower() in names):
            continue
        added += 1
        alias = f"__ordered_{added}"
        made.append("expressions", exp.alias_(inner.copy(), alias, quoted=True))
        place = exp.column(alias, quoted=True)
        place.meta.update(inner.meta)
        inner.replace(place)
    return (made, added) if added else (query, 0)


def without_last(context: BindContext, node: Node, count: int) -> Node:
    """The node without its last `count` columns."""
    shown = node.fields[:-count]
    return Project(node, tuple(fresh(f, context) for f in shown), tuple(column(f.id) for f in shown))


def bind_limit(
    context: BindContext,
    query: exp.Query,
    node: Node,
    scope: Scope | None = None,
) -> Node:
    """The rows that ORDER BY … LIMIT … OFFSET leave of `node`, the query's result.

    ORDER BY may name the result's columns, their positions, or, where `scope` is given (a SELECT without aggregates
    or DISTINCT, projected from it), anything that the SELECT list could. Without ORDER BY the
    least rows are kept. Raises DiagnosticError for an ORDER BY without a LIMIT.
    """
    order, limit, offset = (query.args.get(key) for key in ("order", "limit", "offset"))
    skipped = _whole_number(context, offset, "OFFSET") if offset is not None else 0
    if limit is None:
        context.fail(
            order or offset or query,
            "SQL062",
            f"{'ORDER BY' if order is not None else 'OFFSET'} without LIMIT",
            notes=("the result is kept up to date as rows come, so it has no order of its own",),
            help="add LIMIT n, or leave it out and order when you read the table",
        )
    count = _whole_number(context, limit, "LIMIT")
    terms: list[OrderTerm] = []
    extra: list[tuple[Field, exp.Expr]] = []
    for ordered in order.expressions if order is not None else []:
        inner = _term(ordered)
        _check_term(context, node, inner)
        id_ = _output(query, node, inner)
        if id_ is None:
            if scope is None or not isinstance(node, Project):
                context.fail(
                    inner,
                    "SQL063",
                    "ORDER BY can only name columns of the result here",
                    notes=(f"they are {', '.join(f.name for f in node.fields)}",),
                    help="give the expression a name in the SELECT list and order by that",
                )
            aliases = {f.name.lower(): e for f, e in zip(node.fields, node.items, strict=True)}
            below = node.input.fields
            resolved = context.translated(Scope(context, scope.relations, aliases).resolve(inner), below)
            typed = context.type_of(resolved, below)
            made = Field(context.new_id("ordered"), "ordered", typed.type, typed.nullable)
            extra.append((made, resolved))
            id_ = made.id
        descending = bool(isinstance(ordered, exp.Ordered) and ordered.args.get("desc"))
        nulls_first = bool(isinstance(ordered, exp.Ordered) and ordered.args.get("nulls_first"))
        terms.append(OrderTerm(ColumnId(id_), descending, nulls_first))
    shown = node.fields
    if extra:
        assert isinstance(node, Project)
        node = Project(
            node.input,
            (*node.fields, *(f for f, _ in extra)),
            (*node.items, *(e for _, e in extra)),
        )
    limited = OrderLimit(node, tuple(terms), count, skipped)
    if not extra:
        return limited
    return Project(limited, tuple(fresh(f, context) for f in shown), tuple(column(f.id) for f in shown))


def _term(ordered: exp.Expr) -> exp.Expr:
    """What a term of an ORDER BY orders by, without brackets around it."""
    return (ordered.this if isinstance(ordered, exp.Ordered) else ordered).unnest()


def _check_term(context: BindContext, node: Node, inner: exp.Expr) -> None:
    """Raises DiagnosticError for a position that the result does not have, a literal, and ORDER BY ALL."""
    if isinstance(inner, exp.Var):
        context.unsupported(inner, f"ORDER BY {inner.name}", help="list the columns to order by")
    if inner.is_int:
        position = 0 if isinstance(inner, exp.Neg) else int(inner.this)
        if not 1 <= position <= len(node.fields):
            context.fail(
                inner,
                "SQL063",
                f"ORDER BY {inner.sql()}, but the result has {counted(len(node.fields), 'column')}",
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
    """The id of the result's column that an ORDER BY term names, by name, position, or the same text."""
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


def _whole_number(context: BindContext, clause: exp.Expr, what: str) -> int:
    if clause.args.get("expressions"):
        context.unsupported(
            clause, "LIMIT … BY", help="write QUALIFY ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) <= 10"
        )
    said = clause.args.get("limit_options")
    for option, written in (("with_ties", "WITH TIES"), ("percent", "PERCENT")):
        if said is not None and said.args.get(option):
            context.unsupported(
                clause,
                f"{what} … {written}",
                help="rows that are equal share a rank: QUALIFY RANK() OVER (ORDER BY …) <= 10"
                if option == "with_ties"
                else "write how many rows you want",
            )
    value = clause.args.get("count") if isinstance(clause, exp.Fetch) else clause.args.get("expression")
    if isinstance(clause, exp.Fetch) and value is None:
        return 1
    if isinstance(value, exp.Literal) and not value.is_string and value.this.isdigit():
        if int(value.this) <= MOST_ROWS:
            return int(value.this)
        context.fail(
            clause,
            "SQL064",
            f"{what} {value.this} is more rows than there can be",
            help=f"{MOST_ROWS} (2^61) is the most",
        )
    context.fail(
        clause,
        "SQL064",
        f"{what} needs a whole number",
        help=f"write {what} 10; a Jinja variable can stand there",
    )
