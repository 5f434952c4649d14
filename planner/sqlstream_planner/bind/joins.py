"""JOIN: pairs of the rows of two items of FROM, and which columns names mean behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, did_you_mean
from sqlstream_planner.expressions.casts import common_type
from sqlstream_planner.logical import (
    Apply,
    Field,
    Filter,
    Join,
    JoinKind,
    LateralJoin,
    Node,
    Project,
    column,
    columns_of,
    walk,
)
from sqlstream_planner.logical.expressions import conjuncts
from sqlstream_planner.properties.time_bounds import time_bound
from sqlstream_planner.properties.timed_columns import TimedColumns
from sqlstream_planner.sql.dialect import range_of

#: By the words before JOIN (side and kind) what it is.
KINDS = {
    ("", ""): JoinKind.INNER,
    ("", "INNER"): JoinKind.INNER,
    ("", "CROSS"): JoinKind.CROSS,
    ("LEFT", ""): JoinKind.LEFT,
    ("RIGHT", ""): JoinKind.RIGHT,
    ("FULL", ""): JoinKind.FULL,
    ("", "OUTER"): JoinKind.FULL,
    ("LEFT", "OUTER"): JoinKind.LEFT,
    ("RIGHT", "OUTER"): JoinKind.RIGHT,
    ("FULL", "OUTER"): JoinKind.FULL,
    ("", "SEMI"): JoinKind.SEMI,
    ("LEFT", "SEMI"): JoinKind.SEMI,
    ("", "ANTI"): JoinKind.ANTI,
    ("LEFT", "ANTI"): JoinKind.ANTI,
}
#: The messages for a window or a FIRST_VALUE over rows without an event time.
_LACKS_TIME = frozenset({"SQL021", "SQL022", "SQL049"})


@dataclass(frozen=True, slots=True)
class Item:
    """What stands in FROM: its rows, and the names of their columns."""

    node: Node
    scope: Scope


def is_comma(context: BindContext, join: exp.Join) -> bool:
    """Whether a comma stands before an item of FROM, and no JOIN."""
    if any(join.args.get(key) for key in ("method", "side", "kind", "on", "using")):
        return False
    found = range_of(join.this)
    before = context.rendered.text[: found[0]].rstrip() if found is not None else ""
    return not before.upper().endswith("JOIN")


def crossed(items: Sequence[tuple[Item, exp.Join | None]]) -> Item:
    """All pairs of the rows of items, each with the comma before it. Raises DiagnosticError."""
    (made, _), *others = items
    for item, comma in others:
        assert comma is not None
        made = combined(comma, made, item, JoinKind.CROSS, None)
    return made


def kind_of(join: exp.Join) -> JoinKind | None:
    """What the words before JOIN say; None if we don't know them."""
    side, word = (str(join.args.get(w) or "").upper() for w in ("side", "kind"))
    return KINDS.get((side, word))


def bind_join(join: exp.Join, left: Item, right: Item) -> Item:
    """The pairs of rows that a JOIN … ON, USING or NATURAL JOIN makes. Raises DiagnosticError."""
    context = left.scope.context
    method, side, word = (str(join.args.get(w) or "").upper() for w in ("method", "side", "kind"))
    kind = kind_of(join)
    if kind is None or method not in ("", "NATURAL"):
        written = " ".join(w for w in (method, side, word) if w)
        context.unsupported(
            join,
            f"{written} JOIN",
            help="rows come in no order that positions could go by: write JOIN … ON a.n = b.n"
            if method == "POSITIONAL"
            else "write JOIN … ON, or LEFT, RIGHT, FULL, CROSS, SEMI or ANTI JOIN",
        )
    using = [(i.name, i) for i in join.args.get("using") or []]
    on = join.args.get("on")
    if method == "NATURAL":
        using = [(name, join) for name in _in_both(join, left.scope, right.scope)]
    if using:
        return _merged(join, left, right, kind, using)
    if on is None and kind is not JoinKind.CROSS:
        context.fail(
            join,
            "SQL035",
            f"{kind} JOIN without a condition" if kind is not JoinKind.INNER else "JOIN without a condition",
            help="write ON a.k = b.k or USING (k); all pairs of rows are a CROSS JOIN",
        )
    if on is not None and kind is JoinKind.CROSS:
        context.fail(on, "SQL035", "CROSS JOIN with a condition", help="write JOIN … ON")
    condition = None
    if on is not None:
        scope = Scope(context, (*left.scope.relations, *right.scope.relations))
        check_names(join, left.scope, right.scope)
        condition = context.translated(scope.resolve(on), scope.fields)
        context.condition(condition, scope.fields, "ON")
    return combined(join, left, right, kind, condition)


def combined(join: exp.Join, left: Item, right: Item, kind: JoinKind, condition: exp.Expr | None) -> Item:
    """The join of two items by a condition over ids. Raises DiagnosticError if they have one name."""
    context = left.scope.context
    check_names(join, left.scope, right.scope)
    ttl_us = context.clauses.join_ttl_us
    bound = time_bound(left.node, right.node, condition, context.facts.timed)
    node = Join(left.node, right.node, kind, condition, ttl_us, bound, context.span(join))
    relations = left.scope.relations
    if kind not in (JoinKind.SEMI, JoinKind.ANTI):
        relations = (*relations, *right.scope.relations)
    return Item(node, Scope(context, tuple(r.given_by(node) for r in relations)))


def bounded_by(where: Filter, timed: TimedColumns) -> Node:
    """WHERE over inner joins, of which each that it bounds in time has the conditions that do so as its own.

    So their times are known to whatever reads the result, as those of JOIN … ON.
    """
    terms = conjuncts(where.predicate)
    node, rest = _bounded(where.input, terms, timed)
    if node is where.input:
        return where
    return replace(where, input=node, predicate=exp.and_(*rest)) if rest else node


def _bounded(node: Node, terms: Sequence[exp.Expr], timed: TimedColumns) -> tuple[Node, Sequence[exp.Expr]]:
    """A node that is bounded in time by some of `terms`, and the others; the very same node where none does."""
    if not isinstance(node, Join) or node.kind not in (JoinKind.INNER, JoinKind.CROSS):
        return node, terms
    left, terms = _bounded(node.left, terms, timed)
    right, terms = _bounded(node.right, terms, timed)
    own = node if (left, right) == node.inputs else replace(node, left=left, right=right)
    sides = [{f.id for f in side.fields} for side in (left, right)]
    mine = [
        t for t in terms if columns_of(t) <= sides[0] | sides[1] and all(columns_of(t) & s for s in sides)
    ]
    condition = exp.and_(*([node.condition] if node.condition is not None else []), *mine) if mine else None
    bound = time_bound(left, right, condition, timed)
    if own.bound is not None or bound is None:
        return own, terms
    rest = [t for t in terms if not any(t is m for m in mine)]
    return replace(own, kind=JoinKind.INNER, condition=condition, bound=bound), rest


def check_names(join: exp.Join, left: Scope, right: Scope) -> None:
    """Raises DiagnosticError if two items of FROM have one name."""
    taken = {r.alias.lower() for r in left.relations if r.alias is not None}
    for relation in right.relations:
        if relation.alias is not None and relation.alias.lower() in taken:
            left.context.fail(
                join.this,
                "SQL018",
                f"two items of FROM are called `{relation.alias}`",
                help=f"give each a name of its own: {relation.alias} AS a JOIN {relation.alias} AS b ON a.k = b.k",
            )


def with_time_lost(error: DiagnosticError, node: Node, query: exp.Select | None = None) -> DiagnosticError:
    """The error that stopped what reads `node`, where it lacks an event time because a JOIN does not keep it.

    Nor does a sub-query in WHERE or the SELECT list of the `query` over it, which becomes one.
    """
    if not any(f.time is not None for n in walk((node,)) for f in n.fields):
        return error  # there was none
    places = [query.args.get("where"), *query.expressions] if query is not None else []
    notes: tuple[str, ...] = ()
    help_ = "aggregate in windows before it"
    if any(isinstance(n, LateralJoin) or (isinstance(n, Join) and n.bound is None) for n in walk((node,))):
        what = "a JOIN"
        notes = ("a pair comes with the later of its rows, however long after the time of the other that is",)
        help_ = (
            "say in ON how far apart in time they are: a.ts BETWEEN b.ts AND b.ts + INTERVAL '1' HOUR; "
            "or aggregate in windows before the JOIN"
        )
    elif any(isinstance(n, Apply) for n in walk((node,))) or any(
        place is not None and place.find(exp.Query) for place in places
    ):
        what = "a sub-query in an expression"
    else:
        return error
    return DiagnosticError(
        *(
            Diagnostic(
                "SQL100",
                f"the event time of rows behind {what} is not known",
                d.span,
                notes=notes,
                help=help_,
            )
            if d.code in _LACKS_TIME
            else d
            for d in error.diagnostics
        ),
        exit_code=error.exit_code,
    )


# --------------------------------------------------------------------------------------- USING and NATURAL


def _in_both(join: exp.Join, left: Scope, right: Scope) -> list[str]:
    """The columns that a NATURAL JOIN compares, in the order of the left."""
    theirs = {f.name.lower() for r in right.relations for f in r.bare}
    names = [f.name for r in left.relations if not r.hidden for f in r.bare if f.name.lower() in theirs]
    if not names:
        left.context.fail(
            join,
            "SQL035",
            "NATURAL JOIN of two tables without a column of the same name",
            help="write JOIN … ON a.k = b.k",
        )
    return names


def _merged(
    join: exp.Join, left: Item, right: Item, kind: JoinKind, using: Sequence[tuple[str, exp.Expr]]
) -> Item:
    """A join by columns that both sides have: behind it each name means one column.

    That of the left in an inner or left join, of the right in a right join, and in a full join whichever of the two is
    there. `*` gives it once, in its place on the left; qualified names still mean the columns of the sides.
    """
    context = left.scope.context
    conditions: list[exp.Expr] = []
    pairs: list[tuple[Field, Field]] = []
    for name, at in using:
        mine, theirs = (column_in(scope, name, at) for scope in (left.scope, right.scope))
        context.refuse_mixed_instants(join, [mine.type, theirs.type])
        if common_type([mine.type, theirs.type]) is None:
            context.fail(
                at,
                "SQL031",
                f"column `{name}` is {mine.type} on the left and {theirs.type} on the right",
                help=f"cast one side: ON a.{name} = CAST(b.{name} AS {mine.type})",
            )
        pairs.append((mine, theirs))
        conditions.append(exp.EQ(this=column(mine.id), expression=column(theirs.id)))
    item = combined(join, left, right, kind, exp.and_(*conditions, copy=False))
    return with_one_name(item, left.scope, kind, pairs)


def with_one_name(item: Item, left: Scope, kind: JoinKind, pairs: Sequence[tuple[Field, Field]]) -> Item:
    """A join of `left` and another item where the names of `pairs`, which it compares, mean one column each."""
    if kind in (JoinKind.SEMI, JoinKind.ANTI):
        return item
    context = left.context
    known = {f.id: f for f in item.node.fields}
    node, merged = item.node, [known[(b if kind is JoinKind.RIGHT else a).id] for a, b in pairs]
    if kind is JoinKind.FULL:
        merged = []
        either: list[exp.Expr] = []
        for a, b in pairs:
            type_ = common_type([a.type, b.type]) or a.type
            merged.append(Field(context.new_id(a.name), a.name, type_, a.nullable or b.nullable))
            either.append(exp.Coalesce(this=column(a.id), expressions=[column(b.id)]))
        node = Project(node, (*node.fields, *merged), (*(column(f.id) for f in node.fields), *either))
    one = {f.name.lower(): m for (f, _), m in zip(pairs, merged, strict=True)}
    on_the_left = {a.id for a, _ in pairs}
    relations = []
    for number, relation in enumerate(item.scope.relations):
        if number >= len(left.relations):
            merging: dict[str, Field | None] = dict.fromkeys(one)
        else:
            merging = {f.name.lower(): one[f.name.lower()] for f in relation.bare if f.id in on_the_left}
        relations.append(replace(relation, merged={**relation.merged, **merging}))
    return Item(node, Scope(context, tuple(relations)))


def column_in(scope: Scope, name: str, at: exp.Expr) -> Field:
    """The column that USING names, of one side."""
    written = exp.column(name)
    written.meta.update(at.meta)
    known = [f.name for r in scope.relations for f in r.bare]
    if not any(k.lower() == name.lower() for k in known):
        near = did_you_mean(name, known)
        owners = " and ".join(f"`{r.alias}`" for r in scope.relations if r.alias) or "one side"
        scope.context.fail(
            at,
            "SQL010",
            f"unknown column `{name}`",
            notes=(f"{owners} has the columns {', '.join(f'`{k}`' for k in known)}",),
            help=f"did you mean `{near}`? USING takes columns that both sides have"
            if near
            else "USING takes columns that both sides have: write ON",
        )
    found = scope.find(written)
    f = scope.by_id(found.name) if found is not None else None
    assert f is not None
    return f
