"""FROM t, u WHERE t.a = u.a AND t.c > 1  ->  FROM (SELECT * FROM t WHERE c > 1) JOIN u ON t.a = u.a."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from sqlstream_planner.logical import (
    Apply,
    EpochValues,
    Filter,
    Join,
    JoinKind,
    Node,
    Project,
    Sink,
    columns_of,
    consumers,
    rebuild,
    substitute,
)
from sqlstream_planner.logical.expressions import conjuncts
from sqlstream_planner.properties.facts import Facts

#: By the kind of a join, the sides (0: left) to which a condition of WHERE on their columns alone can go.
_OF_WHERE = {
    JoinKind.INNER: (0, 1),
    JoinKind.CROSS: (0, 1),
    JoinKind.LEFT: (0,),
    JoinKind.RIGHT: (1,),
    JoinKind.FULL: (),
    JoinKind.SEMI: (0,),
    JoinKind.ANTI: (0,),
}
#: The same of ON: rows of a preserved side stay, whatever ON says of them.
_OF_ON = {
    JoinKind.INNER: (0, 1),
    JoinKind.CROSS: (0, 1),
    JoinKind.LEFT: (1,),
    JoinKind.RIGHT: (0,),
    JoinKind.FULL: (),
    JoinKind.SEMI: (0, 1),
    JoinKind.ANTI: (1,),
}


def push_filters(roots: tuple[Sink, ...], _: Facts) -> tuple[Sink, ...]:
    """Give each condition of WHERE and ON to the lowest join or side of a join that has its columns.

    What an inner join compares is then its own condition, whichever way it was written, and no row is kept that can't
    be in the result. A join that others read, too, keeps its rows for all of them. A condition that does not ask for the
    value of a sub-query goes past it.

    >>> from sqlstream_planner.testing import logical
    >>> query = "SELECT x.a FROM t AS x, t AS y WHERE x.a = y.a AND x.c > 1 AND y.c < x.c"
    >>> print(logical(query, rules=(push_filters,)))
    sink result
      project a = a_3
        project a = a
          inner join on a = a_2 AND c_2 < c
            filter c > 1
              scan t (a, c, ts)
            scan t (a, c, ts)
    """
    count = consumers(roots)
    shared: set[int] = set()

    def rewrite(node: Node, original: Node) -> Node:
        if isinstance(node, Join):
            node = _with_on(node, shared)
        elif isinstance(node, Filter) and _over_join(node.input, shared):
            node = _filtered(node.input, conjuncts(node.predicate), shared)
        if count.get(id(original), 0) > 1:
            shared.add(id(node))
        return node

    return rebuild(roots, rewrite)


def _over_join(node: Node, shared: set[int]) -> bool:
    """Whether a join or a sub-query that nothing else reads is below a node that only passes columns on."""
    while isinstance(node, Filter | Project | EpochValues) and id(node) not in shared:
        node = node.input
    return isinstance(node, Join | Apply) and id(node) not in shared


def _with_on(node: Join, shared: set[int]) -> Node:
    """A join whose ON has only conditions that none of its sides can have."""
    terms = _terms(node.condition)
    sides = [node.left, node.right]
    kept, given = _dealt(terms, sides, _OF_ON[node.kind])
    for number, mine in enumerate(given):
        if mine:
            sides[number] = _filtered(sides[number], mine, shared)
    kind = node.kind
    if kind in (JoinKind.INNER, JoinKind.CROSS):
        kind = JoinKind.INNER if kept else JoinKind.CROSS
    condition = exp.and_(*kept, copy=False) if kept else None
    if kind is node.kind and len(kept) == len(terms):
        return node
    return replace(node, left=sides[0], right=sides[1], kind=kind, condition=condition)


def _filtered(node: Node, terms: Sequence[exp.Expr], shared: set[int]) -> Node:
    """The rows of a node for which all of `terms` hold."""
    if not terms:
        return node
    if _over_join(node, shared):
        match node:
            case Filter():
                return _filtered(node.input, [*conjuncts(node.predicate), *terms], shared)
            case Project():
                plain = {
                    f.id: e.unnest() for f, e in zip(node.fields, node.items, strict=True)
                    if isinstance(e.unnest(), exp.Column)
                }  # fmt: skip
                below = [t for t in terms if columns_of(t) <= plain.keys()]
                above = [t for t in terms if not columns_of(t) <= plain.keys()]
                inner = _filtered(node.input, [substitute(t, plain) for t in below], shared)
                return _over(node.with_inputs((inner,)), above)
            case EpochValues():
                mine = {v.field.id for v in node.values}
                below = [t for t in terms if not columns_of(t) & mine]
                above = [t for t in terms if columns_of(t) & mine]
                return _over(node.with_inputs((_filtered(node.input, below, shared),)), above)
            case Apply():
                below = [t for t in terms if node.result.id not in columns_of(t)]
                above = [t for t in terms if node.result.id in columns_of(t)]
                rows = _filtered(node.input, below, shared)
                return _over(node.with_inputs((rows, node.query)), above)
            case Join() if node.kind in (JoinKind.INNER, JoinKind.CROSS):
                return _with_on(replace(node, condition=exp.and_(*_terms(node.condition), *terms)), shared)
            case Join():
                sides = [node.left, node.right]
                kept, given = _dealt(terms, sides, _OF_WHERE[node.kind])
                made = [_filtered(side, mine, shared) for side, mine in zip(sides, given, strict=True)]
                return _over(node.with_inputs((made[0], made[1])), kept)
    return _over(node, terms)


def _over(node: Node, terms: Sequence[exp.Expr]) -> Node:
    return Filter(node, exp.and_(*terms)) if terms else node


def _terms(condition: exp.Expr | None) -> list[exp.Expr]:
    """The conditions that an ON puts together, without those that are always true."""
    found = conjuncts(condition) if condition is not None else []
    return [t for t in found if not (isinstance(t.unnest(), exp.Boolean) and t.unnest().this)]


def _dealt(
    terms: Sequence[exp.Expr], sides: Sequence[Node], may: Sequence[int]
) -> tuple[list[exp.Expr], tuple[list[exp.Expr], list[exp.Expr]]]:
    """The conditions that stay, and those that go to the left and to the right; `may` are the sides that can take any."""
    kept: list[exp.Expr] = []
    given: tuple[list[exp.Expr], list[exp.Expr]] = [], []
    columns = [{f.id for f in side.fields} for side in sides]
    for term in terms:
        read = columns_of(term)
        number = next((n for n in may if read and read <= columns[n]), None)
        (kept if number is None else given[number]).append(term)
    return kept, given
