"""FROM a, b, c WHERE a.x = c.x AND c.y = b.y  ->  (a JOIN c ON a.x = c.x) JOIN b ON c.y = b.y."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from sqlglot import exp

from sqlstream_planner.logical import (
    Join,
    JoinKind,
    Node,
    Project,
    Sink,
    column,
    columns_of,
    consumers,
    rebuild,
    walk,
)
from sqlstream_planner.logical.expressions import conjuncts


def order_joins(roots: tuple[Sink, ...]) -> tuple[Sink, ...]:
    """Join first what an equality connects, where the order that was written makes all pairs of what none does.

    Nothing is known of sizes: beyond that the order stays as it is written, and joins that all have an equality stay as
    they are.

    >>> from sqlstream_planner.rules.normalize.push_filters import push_filters
    >>> from sqlstream_planner.testing import logical
    >>> query = "SELECT x.a FROM t AS x, t AS y, t AS z WHERE x.a = z.a AND z.c = y.c"
    >>> print(logical(query, rules=(push_filters, order_joins)))
    sink result
      project a = a_4
        project a = a
          project a = a, c = c, ts = ts, a = a_2, c = c_2, ts = ts_2, a = a_3, c = c_3, ts = ts_3
            inner join on c_3 = c_2
              inner join on a = a_3
                scan t (a, c, ts)
                scan t (a, c, ts)
              scan t (a, c, ts)
    """
    count = consumers(roots)
    #: Joins that are read by one of their kind alone, which orders them as well.
    inside = {
        id(i)
        for node in walk(roots)
        if _is_free(node)
        for i in node.inputs
        if _is_free(i) and count[id(i)] == 1 and _ttl(i) == _ttl(node)
    }

    def rewrite(node: Node, original: Node) -> Node:
        if not isinstance(node, Join) or not _is_free(node) or id(original) in inside:
            return node
        leaves: list[Node] = []
        terms: list[exp.Expr] = []
        connected = _taken_apart(node, original, inside, leaves, terms)
        if len(leaves) < 3 or connected:
            return node
        made = _ordered(node, leaves, terms)
        return Project(made, node.fields, tuple(column(f.id) for f in node.fields))

    return rebuild(roots, rewrite)


def _is_free(node: Node) -> bool:
    """Whether a join can be made in another order: what bounds one in time is said of its own two sides."""
    return isinstance(node, Join) and node.kind in (JoinKind.INNER, JoinKind.CROSS) and node.bound is None


def _ttl(node: Node) -> int | None:
    return node.ttl_us if isinstance(node, Join) else None


def _taken_apart(
    node: Node, original: Node, inside: Set[int], leaves: list[Node], terms: list[exp.Expr]
) -> bool:
    """Add what a tree of joins joins, from left to right, and its conditions; whether each join has an equality."""
    assert isinstance(node, Join)
    mine = conjuncts(node.condition) if node.condition is not None else []
    connected = _is_connected(mine, _ids(node.left), _ids(node.right))
    for child, before in zip(node.inputs, original.inputs, strict=True):
        if id(before) in inside:
            connected &= _taken_apart(child, before, inside, leaves, terms)
        else:
            leaves.append(child)
    terms += mine
    return connected


def _ordered(node: Join, leaves: Sequence[Node], terms: Sequence[exp.Expr]) -> Node:
    """The joins of all leaves: each time the first that an equality connects with those before, as they are written."""
    every = set().union(*(_ids(leaf) for leaf in leaves))
    waiting = list(terms)
    groups: list[Node] = []
    rest = list(leaves)
    while rest:
        made = rest.pop(0)
        while (
            found := next((r for r in rest if _is_connected(waiting, _ids(made), _ids(r))), None)
        ) is not None:
            rest.remove(found)
            made = _joined(node, made, found, waiting, every)
        groups.append(made)
    made = groups.pop(0)
    while groups:
        # An equality may connect several of them with one.
        found = next((g for g in groups if _is_connected(waiting, _ids(made), _ids(g))), groups[0])
        groups.remove(found)
        made = _joined(node, made, found, waiting, every)
    return made


def _joined(node: Join, left: Node, right: Node, waiting: list[exp.Expr], every: Set[str]) -> Join:
    """Two of them, with the conditions that have all their columns there; these are waiting no more."""
    given = _ids(left) | _ids(right)
    mine = [t for t in waiting if columns_of(t) & every <= given]
    waiting[:] = [t for t in waiting if not columns_of(t) & every <= given]
    kind, condition = (JoinKind.INNER, exp.and_(*mine)) if mine else (JoinKind.CROSS, None)
    return replace(node, left=left, right=right, kind=kind, condition=condition)


def _is_connected(terms: Iterable[exp.Expr], left: Set[str], right: Set[str]) -> bool:
    """Whether a condition says that something of one side is equal to something of the other."""
    for bare in (t.unnest() for t in terms):
        if isinstance(bare, exp.EQ):
            read = columns_of(bare.this), columns_of(bare.expression)
            if all(read) and (
                (read[0] <= left and read[1] <= right) or (read[0] <= right and read[1] <= left)
            ):
                return True
    return False


def _ids(node: Node) -> set[str]:
    return {f.id for f in node.fields}
