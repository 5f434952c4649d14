"""ROW_NUMBER, RANK and DENSE_RANK over a partition, and the Top-N that a condition on them makes."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream_operators.plan.types import BIGINT
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.rank_bounds import rank_bounds
from sqlstream_planner.bind.scope import Relation, Scope
from sqlstream_planner.dialect import duckdb_sql
from sqlstream_planner.fingerprint import conjuncts
from sqlstream_planner.logical import (
    Field,
    Filter,
    Node,
    OrderTerm,
    Project,
    Rank,
    Sink,
    TopN,
    column,
    columns_of,
    sql,
    transform,
)
from sqlstream_planner.properties import changes

RANKING: dict[type[exp.Expr], str] = {
    exp.RowNumber: "row_number",
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
}
_NAMES = {"row_number", "rank", "dense_rank"}


def ranking_function(window: exp.Window) -> str | None:
    """DuckDB's name of the rank function of an OVER, or None if it is another function."""
    inner = window.this
    if type(inner) in RANKING:
        return RANKING[type(inner)]
    name = inner.name.lower() if isinstance(inner, exp.Anonymous) else ""
    return name if name in _NAMES else None


def bind_overs(
    context: BindContext, query: exp.Select, node: Node, scope: Scope
) -> tuple[exp.Select, Node, Scope]:
    """Every OVER of the SELECT list and QUALIFY as a column that a `Rank` below adds; the query reads that column.

    Raises DiagnosticError for functions other than the three that rank.
    """
    places = [*query.expressions, *([query.args["qualify"]] if query.args.get("qualify") else [])]
    overs = [w for place in places for w in windows_of(place)]
    if not overs:
        return query, node, scope
    named = {w.name.lower(): w for w in query.args.get("windows") or []}
    made: dict[str, Field] = {}
    held: dict[str, str] = {}
    query = query.copy()
    places = [*query.expressions, *([query.args["qualify"]] if query.args.get("qualify") else [])]
    for window in [w for place in places for w in windows_of(place)]:
        text = duckdb_sql(window)
        if text not in made:
            node, made[text] = _rank(context, window, node, scope, named, held)
        id_ = made[text].id
        # A bare ROW_NUMBER() OVER (…) in the SELECT list keeps its text as its name.
        replacement: exp.Expr = exp.column(exp.to_identifier(id_, quoted=True))
        replacement.meta.update(window.meta)
        if window.parent is query:
            window.replace(exp.alias_(replacement, text.lower() if len(text) <= 40 else "rank", quoted=True))
        else:
            window.replace(replacement)
    fields = tuple(replace(f, name=f.id) for f in made.values())
    return query, node, Scope(context, (*scope.relations, Relation(None, fields, hidden=True)), held=held)


def windows_of(expression: exp.Expr) -> list[exp.Window]:
    """The OVERs of an expression, without those of sub-queries."""
    found: list[exp.Window] = []

    def visit(node: exp.Expr) -> None:
        if isinstance(node, exp.Window):
            found.append(node)
        elif not isinstance(node, exp.Query | exp.Subquery):
            for child in node.iter_expressions():
                visit(child)

    visit(expression)
    return found


def _rank(
    context: BindContext,
    window: exp.Window,
    node: Node,
    scope: Scope,
    named: dict[str, exp.Expr],
    held: dict[str, str],
) -> tuple[Node, Field]:
    """A `Rank` over `node` and its column; expressions of PARTITION BY that it computes are added to `held`."""
    function = ranking_function(window)
    if function is None:
        context.unsupported(
            window,
            f"{duckdb_sql(window.this).split('(')[0].upper()} OVER",
            help="ROW_NUMBER, RANK and DENSE_RANK can, with a condition on the rank: WHERE rn <= 3",
        )
    spec: exp.Expr = window
    alias = window.args.get("alias")
    if alias is not None and alias.name.lower() in named:
        spec = named[alias.name.lower()].copy()
        for part in ("order", "spec"):  # OVER (w ORDER BY …) adds to what w says
            if window.args.get(part) is not None:
                spec.set(part, window.args[part].copy())
    if spec.args.get("spec") is not None:
        context.unsupported(window, f"a frame in {function.upper()} OVER", help="leave ROWS or RANGE out")
    order = spec.args.get("order")
    if order is None or not order.expressions:
        context.fail(
            window,
            "SQL060",
            f"{function.upper()} without ORDER BY ranks nothing",
            help=f"write {function.upper()}() OVER (PARTITION BY … ORDER BY … DESC)",
        )
    added: list[tuple[Field, exp.Expr]] = []

    def as_column(expression: exp.Expr) -> str:
        resolved = context.translated(scope.resolve(expression), scope.fields)
        bare = resolved.unnest()
        if isinstance(bare, exp.Column):
            return bare.name
        if sql(bare) in held:
            return held[sql(bare)]
        typed = context.type_of(resolved, scope.fields)
        made = Field(context.new_id("over"), "over", typed.type, typed.nullable)
        added.append((made, resolved))
        return made.id

    partition = tuple(dict.fromkeys(as_column(e) for e in spec.args.get("partition_by") or []))
    # Who selects what the rows are partitioned by, reads the key of the result.
    held.update((sql(e.unnest()), f.id) for f, e in added)
    terms = tuple(
        OrderTerm(as_column(o.this), bool(o.args.get("desc")), bool(o.args.get("nulls_first")))
        for o in order.expressions
    )
    if added:
        fields = (*node.fields, *(f for f, _ in added))
        node = Project(node, fields, (*(column(f.id) for f in node.fields), *(e for _, e in added)))
    rank = Field(context.new_id(function), function, BIGINT, False)
    clauses = context.clauses
    return Rank(node, partition, terms, function, rank, window, clauses.ttl_us, clauses.changes), rank


# ------------------------------------------------------------------------------------------------- folding


def fold_ranks(roots: tuple[Sink, ...], context: BindContext) -> tuple[Sink, ...]:
    """Each `Rank` and the condition that bounds it become a Top-N. Raises DiagnosticError where none bounds it."""

    def rewrite(node: Node) -> Node:
        if not isinstance(node, Filter):
            return node
        found = _fold(node)
        return found if found is not None else node

    folded = transform(tuple(roots), rewrite)

    def refuse(node: Node) -> Node:
        if isinstance(node, Rank):
            name = node.function.upper()
            context.fail(
                node.at,
                "SQL061",
                f"{name} is not bounded by a condition",
                notes=(
                    "every row of every partition would have to be kept, and numbered anew at each change",
                ),
                help="keep the first few: SELECT … FROM (SELECT …, "
                f"{name}() OVER (…) AS rn FROM …) WHERE rn <= 3",
            )
        return node

    return tuple(n for n in transform(folded, refuse) if isinstance(n, Sink))


def _fold(node: Filter) -> Node | None:
    """The Top-N of a filter over a rank, with what stands between, or None if it is no such filter."""
    path: list[Project | Filter] = []
    below: Node = node.input
    while isinstance(below, Project | Filter):
        path.append(below)
        below = below.input
    if not isinstance(below, Rank):
        return None
    name = below.rank.id
    for step in reversed(path):
        if isinstance(step, Filter):
            if name in columns_of(step.predicate):
                return None
        else:
            names = [
                f.id
                for f, e in zip(step.fields, step.expressions, strict=True)
                if isinstance(e.unnest(), exp.Column) and e.unnest().name == name
            ]
            if not names:
                return None
            name = names[0]
    if any(isinstance(step, Filter) for step in path):
        return None  # rows were left out after they were ranked: the rank does not say how many are kept
    bounds, rest = rank_bounds(conjuncts(node.predicate), name)
    if bounds.high is None:
        return None
    limit = max(0, bounds.high - bounds.low + 1)
    by_id = {f.id: f for f in below.input.fields}
    ends = [id_ for id_ in below.partition if (w := by_id[id_].window) is not None and w.role == "end"]
    mark = by_id[ends[0]].window if ends and not below.early and not changes(below.input) else None
    made: Node = TopN(
        below.input,
        below.partition,
        below.order,
        below.function,
        limit,
        bounds.low - 1,
        below.rank,
        window_end=ends[0] if mark is not None else None,
        time=mark.time if mark is not None else None,
        ttl_us=below.ttl_us if mark is None and below.partition else None,
    )
    for step in reversed(path):
        made = replace(step, input=made)
    return Filter(made, exp.and_(*rest, copy=False)) if rest else made
