"""FOR SYSTEM_TIME AS OF and ASOF JOIN: each row beside the one of a table that is the newest at its time."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.bind.as_of_values import nearest_by_value
from sqlstream_planner.bind.joins import (
    KINDS,
    Item,
    check_names,
    column_in,
    combined,
    kind_of,
    with_one_name,
)
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.bind.versions import versioned
from sqlstream_planner.logical import (
    AsOfJoin,
    ColumnId,
    Equality,
    Field,
    JoinKind,
    Node,
    column,
    columns_of,
)
from sqlstream_planner.logical.expressions import conjuncts

#: By a comparison, the same the other way round.
_SWAPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GTE: exp.LTE,
    exp.GT: exp.LT,
    exp.LTE: exp.GTE,
    exp.LT: exp.GT,
}
_VERSIONED = (
    "declare PRIMARY KEY (…) NOT ENFORCED and a WATERMARK for its event time, keep the last row of each key in a view "
    "(QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) = 1), or write ASOF JOIN"
)


def is_asof(join: exp.Join) -> bool:
    """Whether a join is an ASOF JOIN."""
    return str(join.args.get("method") or "").upper() == "ASOF"


# ------------------------------------------------------------------------------------- FOR SYSTEM_TIME AS OF


def bind_temporal_join(join: exp.Join, version: exp.Expr, left: Item, right: Item) -> Item:
    """`JOIN r FOR SYSTEM_TIME AS OF l.ts ON l.k = r.k`: beside the version of `r` that is valid at `l.ts`.

    Raises DiagnosticError.
    """
    context = left.scope.context
    kind = one_row_kind(join, left.scope, "JOIN … FOR SYSTEM_TIME AS OF")
    left_time = _left_time(version, left.scope)
    table = versioned(context, right.node)
    name = next((r.alias for r in right.scope.relations if r.alias), "this")
    if table is None:
        context.fail(
            join.this,
            "SQL080",
            f"`{name}` has no versions: which row was valid when is not known",
            notes=(
                "versions need a key and an event time, from which each row of a key replaces the one before",
            ),
            help=_VERSIONED,
        )
    terms = on_terms(join, left, right)
    keys: dict[str, Equality] = {}
    rest: list[exp.Expr] = []
    for term in terms:
        found = _equality(term, left.node, right.node)
        compared = found.right.unnest().name if found is not None and _is_column(found.right) else None
        if found is not None and compared in table.key and compared not in keys:
            keys[compared] = found
        else:
            rest.append(term)
    missing = [f for f in table.node.fields if f.id in table.key and f.id not in keys]
    if missing:
        context.fail(
            join,
            "SQL082",
            f"ON must compare {' and '.join(f'`{f.name}`' for f in missing)} of the key of `{name}`",
            help=f"write ON … = {name}.{missing[0].name}: at a time there is one row of each key",
        )
    node = AsOfJoin(
        left.node,
        table.node,
        kind,
        tuple(keys[id_] for id_ in table.key),
        left_time,
        table.time,
        strict=False,
        latest=table.latest,
        gone=table.gone,
        condition=exp.and_(*rest) if rest else None,
        at=context.span(join),
    )
    return joined_item(join, node, left, right)


def _left_time(version: exp.Expr, scope: Scope) -> ColumnId:
    """The event-time column of the left that FOR SYSTEM_TIME AS OF names."""
    context = scope.context
    time = version.expression
    if version.name.upper() != "TIMESTAMP" or str(version.args.get("kind")).upper() != "AS OF":
        context.unsupported(
            version, "FOR SYSTEM_TIME but AS OF a time", help="write FOR SYSTEM_TIME AS OF l.ts"
        )
    resolved = scope.resolve(time)
    f = scope.by_id(resolved.name) if isinstance(resolved, exp.Column) else None
    if f is None or f.time is None:
        context.fail(
            time,
            "SQL081",
            "FOR SYSTEM_TIME AS OF goes by an event-time column of the rows before JOIN",
            notes=() if f is None else (f"`{f.name}` has no watermark",),
            help="declare WATERMARK FOR ts AS … in that table, and write FOR SYSTEM_TIME AS OF l.ts",
        )
    return ColumnId(f.id)


# -------------------------------------------------------------------------------------------------- ASOF JOIN


def bind_asof_join(join: exp.Join, left: Item, right: Item) -> Item:
    """`ASOF JOIN r ON l.k = r.k AND l.ts >= r.ts`, or with MATCH_CONDITION (l.ts >= r.ts). Raises DiagnosticError."""
    context = left.scope.context
    kind = kind_of(join)
    if kind is None or kind is JoinKind.CROSS:
        context.unsupported(
            join,
            f"ASOF {kind or join.args.get('kind')} JOIN",
            help="write ASOF JOIN r ON l.k = r.k AND l.ts >= r.ts",
        )
    matched = join.args.get("match_condition")
    terms = on_terms(join, left, right)
    if matched is not None:
        orders = _resolved(matched, left, right)
    elif join.args.get("using"):
        last = terms.pop()  # as in DuckDB, the last column is the one that is compared by >=
        orders = [exp.GTE(this=last.this, expression=last.expression)]
    else:
        compared = [
            type(term.unnest()) in _SWAPPED and _by_side(term.unnest(), left.node, right.node) is not None
            for term in terms
        ]
        orders = [term for term, is_order in zip(terms, compared, strict=True) if is_order]
        terms = [term for term, is_order in zip(terms, compared, strict=True) if not is_order]
    keys = [_equality(term, left.node, right.node) for term in terms]
    if len(orders) != 1:
        context.fail(
            join,
            "SQL081",
            "ASOF JOIN takes exactly one comparison by order between its two sides",
            help="write ASOF JOIN r ON l.k = r.k AND l.ts >= r.ts, and put another comparison into a sub-query",
        )
    order = orders[0].unnest()
    sides = _by_side(order, left.node, right.node) if type(order) in _SWAPPED else None
    if sides is None:
        context.fail(
            join,
            "SQL081",
            "ASOF JOIN compares a value of one side with one of the other",
            help="write ASOF JOIN r ON l.k = r.k AND l.ts >= r.ts",
        )
    compares = type(order) if sides[0] is order.this else _SWAPPED[type(order)]
    mine, theirs = _event_time(sides[0], left.node), _event_time(sides[1], right.node)
    if kind in (JoinKind.SEMI, JoinKind.ANTI):
        return combined(join, left, right, kind, exp.and_(*terms, order))
    if mine is None or theirs is None or None in keys or kind not in (JoinKind.INNER, JoinKind.LEFT):
        node: Node = nearest_by_value(join, kind, [*terms, order], (sides[1], compares), left, right)
        return joined_item(join, node, left, right, kind)
    node = AsOfJoin(
        left.node,
        right.node,
        kind,
        tuple(key for key in keys if key is not None),
        ColumnId(mine.id),
        ColumnId(theirs.id),
        strict=compares in (exp.GT, exp.LT),
        latest=False,
        gone=None,
        condition=None,
        forward=compares in (exp.LT, exp.LTE),
        at=context.span(join),
    )
    return joined_item(join, node, left, right)


def _event_time(value: exp.Expr, node: Node) -> Field | None:
    """The event-time column of a side that a value is; None if it is something else."""
    bare = value.unnest()
    f = next((f for f in node.fields if isinstance(bare, exp.Column) and f.id == bare.name), None)
    return f if f is not None and f.time is not None else None


# ---------------------------------------------------------------------------------------------------- of both


def one_row_kind(join: exp.Join, scope: Scope, what: str) -> JoinKind:
    """INNER or LEFT. Raises DiagnosticError for the others."""
    side, word = (str(join.args.get(w) or "").upper() for w in ("side", "kind"))
    kind = KINDS.get((side, word))
    if kind not in (JoinKind.INNER, JoinKind.LEFT):
        scope.context.unsupported(
            join, f"{side or word} {what}", help="JOIN and LEFT JOIN give each row of the left once"
        )
    return kind


def on_terms(join: exp.Join, left: Item, right: Item) -> list[exp.Expr]:
    """What ON or USING says, over the columns of both sides."""
    context = left.scope.context
    check_names(join, left.scope, right.scope)
    using = join.args.get("using") or []
    if using:
        pairs = [(column_in(left.scope, i.name, i), column_in(right.scope, i.name, i)) for i in using]
        for a, b in pairs:
            context.refuse_mixed_instants(join, [a.type, b.type])
        return [exp.EQ(this=column(a.id), expression=column(b.id)) for a, b in pairs]
    on = join.args.get("on")
    if on is None and join.args.get("match_condition") is None:
        context.fail(
            join, "SQL035", "JOIN without a condition", help="write ON l.k = r.k, and how the times compare"
        )
    return _resolved(on, left, right) if on is not None else []


def _resolved(condition: exp.Expr, left: Item, right: Item) -> list[exp.Expr]:
    context = left.scope.context
    scope = Scope(context, (*left.scope.relations, *right.scope.relations))
    found = context.translated(scope.resolve(condition), scope.fields)
    context.condition(found, scope.fields, "ON")
    return conjuncts(found)


def _equality(term: exp.Expr, left: Node, right: Node) -> Equality | None:
    """What a condition compares by =, if it is one side with the other."""
    bare = term.unnest()
    if not isinstance(bare, exp.EQ):
        return None
    sides = _by_side(bare, left, right)
    return Equality(*sides) if sides is not None else None


def _by_side(compared: exp.Expr, left: Node, right: Node) -> tuple[exp.Expr, exp.Expr] | None:
    """What a comparison has of the left and of the right side; None if it does not compare one with the other."""
    sides = [{f.id for f in node.fields} for node in (left, right)]
    for mine, theirs in (
        (compared.this, compared.expression),
        (compared.expression, compared.this),
    ):
        read = columns_of(mine), columns_of(theirs)
        if read[0] and read[1] and read[0] <= sides[0] and read[1] <= sides[1]:
            return mine, theirs
    return None


def _is_column(expression: exp.Expr) -> bool:
    return isinstance(expression.unnest(), exp.Column)


def joined_item(join: exp.Join, node: Node, left: Item, right: Item, kind: JoinKind = JoinKind.LEFT) -> Item:
    """The join with the names of its columns; those that USING names are one column each."""
    using = join.args.get("using") or []
    pairs = [(column_in(left.scope, i.name, i), column_in(right.scope, i.name, i)) for i in using]
    relations = tuple(r.given_by(node) for r in (*left.scope.relations, *right.scope.relations))
    item = Item(node, Scope(left.scope.context, relations))
    return with_one_name(item, left.scope, kind, pairs) if pairs else item
