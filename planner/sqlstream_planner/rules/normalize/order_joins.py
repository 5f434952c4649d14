"""FROM a, b, c WHERE a.x = c.x AND c.y = b.y  ->  (a JOIN c ON a.x = c.x) JOIN b ON c.y = b.y."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cache, partial

from sqlglot import exp

from sqlstream_operators.plan.types import INTEGERS, SqlType
from sqlstream_planner.logical import (
    Filter,
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
from sqlstream_planner.properties.facts import Facts
from sqlstream_planner.rules.decorrelate.one_row import gives_one_row_at_most
from sqlstream_planner.rules.normalize.join_search import Equality, JoinGraph, Relation, Tree
from sqlstream_planner.rules.normalize.selectivity import selectivity, share_of


def order_joins(roots: tuple[Sink, ...], _: Facts) -> tuple[Sink, ...]:
    """Put INNER joins into the order in which least is kept between them, as far as the query and its tables say.

    Known are unique keys (a PRIMARY KEY that a table declares, groups, first rows), by which joins can't multiply rows and
    tables are larger than those that they refer to, and the form of conditions. Where that gives no order that is notably
    better than the written one, that stays, if each of its joins has an equality. So does what conditions bound in time.

    >>> from sqlstream_planner.rules.normalize.push_filters import push_filters
    >>> from sqlstream_planner.testing import logical
    >>> query = "SELECT x.a FROM t AS x, t AS y, t AS z WHERE x.a = z.a AND z.c = y.c"
    >>> print(logical(query, rules=(push_filters, order_joins)))
    sink result
      project a = a_4
        project a = a
          project a = a, c = c, ts = ts, a = a_2, c = c_2, ts = ts_2, a = a_3, c = c_3, ts = ts_3
            inner join on c_3 = c_2 (moved: may find many)
              inner join on a = a_3 (moved: may find many)
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
        joined = _Joined()
        written = joined.take(node, original, inside)
        if len(joined.leaves) < 3:
            return node
        graph = joined.graph()
        trees = [graph.best(component) for component in graph.components()]
        if joined.connected and (
            len(trees) > 1 or joined.is_fixed() or not graph.is_better(trees[0], written)
        ):
            return node
        made = _Maker(node, joined, graph).made(trees)
        return Project(made, node.fields, tuple(column(f.id) for f in node.fields))

    return rebuild(roots, rewrite)


def _is_free(node: Node) -> bool:
    """Whether a join can be made in another order: what bounds one in time concerns its own two sides."""
    return isinstance(node, Join) and node.kind in (JoinKind.INNER, JoinKind.CROSS) and node.bound is None


def _ttl(node: Node) -> int | None:
    return node.ttl_us if isinstance(node, Join) else None


@dataclass(slots=True)
class _Joined:
    """What a tree of joins joins, from left to right, and its conditions.

    `connected`: each join has an equality. `classes`: by their relations, columns that are all equal.
    """

    leaves: list[Node] = field(default_factory=list)
    terms: list[exp.Expr] = field(default_factory=list)
    connected: bool = True
    ttl_us: int | None = None
    classes: list[dict[int, str]] = field(default_factory=list)
    #: The conditions that `classes` do not have.
    others: list[exp.Expr] = field(default_factory=list)

    def take(self, node: Join, original: Node, inside: Set[int]) -> Tree:
        """Add a tree of joins; it as it is written, by the numbers of the leaves."""
        mine = conjuncts(node.condition) if node.condition is not None else []
        self.connected &= _is_connected(mine, _ids(node.left), _ids(node.right))
        self.ttl_us = node.ttl_us
        trees: list[Tree] = []
        for child, before in zip(node.inputs, original.inputs, strict=True):
            if id(before) in inside and isinstance(child, Join):
                trees.append(self.take(child, before, inside))
            else:
                trees.append(len(self.leaves))
                self.leaves.append(child)
        self.terms += mine
        return trees[0], trees[1]

    def is_fixed(self) -> bool:
        """Whether the order says what is forgotten: by a time to live, or by times that conditions compare."""
        timed = {f.id for leaf in self.leaves for f in leaf.fields if f.time or f.window}
        return self.ttl_us is not None or any(columns_of(t) & timed for t in self.terms)

    def graph(self) -> JoinGraph:
        """What is known of the relations and of what connects them."""
        owner = {id_: n for n, leaf in enumerate(self.leaves) for id_ in _ids(leaf)}
        types = {f.id: f.type for leaf in self.leaves for f in leaf.fields}
        for term in self.terms:
            ends = _columns(term)
            if (
                ends is None
                or not owner.keys() >= {*ends}
                or not _are_alike(types[ends[0]], types[ends[1]])
                or not self._unite(*ends, owner)
            ):
                self.others.append(term)
        equalities = [
            Equality(tuple((1 << n, id_) for n, id_ in sorted(c.items()))) for c in self.classes if c
        ]
        conditions = []
        for term in self.others:
            mask = _mask(term, owner)
            if (
                isinstance(bare := term.unnest(), exp.EQ)
                and _mask(bare.this, owner)
                and _mask(bare.expression, owner)
            ):
                sides = (_side(bare.this, owner), _side(bare.expression, owner))
                if not sides[0][0] & sides[1][0]:
                    equalities.append(Equality(sides))
                    continue
            if mask.bit_count() > 1:
                conditions.append((mask, selectivity(term)))
        return JoinGraph([_relation(leaf) for leaf in self.leaves], equalities, conditions)

    def _unite(self, one: str, other: str, owner: dict[str, int]) -> bool:
        """Say that two columns are equal; not of two of one relation, which says nothing of that itself."""
        a, b = (
            next((c for c in self.classes if c.get(owner[id_]) == id_), {owner[id_]: id_})
            for id_ in (one, other)
        )
        if a is b:
            return True
        if a.keys() & b.keys():
            return False
        self.classes[:] = [c for c in self.classes if c is not a and c is not b]
        self.classes.append({**a, **b})
        return True


def _relation(leaf: Node) -> Relation:
    below = leaf
    while isinstance(below, Project | Filter):
        below = below.input
    one = gives_one_row_at_most(below, declared=True)
    return Relation(cache(partial(gives_one_row_at_most, leaf, declared=True)), share_of(leaf), one)


def _are_alike(one: SqlType, other: SqlType) -> bool:
    """Whether what is equal to a value of one type is equal to all that are equal to it of the other."""
    return one == other or (one.kind in INTEGERS and other.kind in INTEGERS)


def _columns(term: exp.Expr) -> tuple[str, str] | None:
    """The two columns that a condition says to be equal."""
    bare = term.unnest()
    if not isinstance(bare, exp.EQ):
        return None
    one, other = bare.this.unnest(), bare.expression.unnest()
    return (one.name, other.name) if isinstance(one, exp.Column) and isinstance(other, exp.Column) else None


def _mask(expression: exp.Expr, owner: dict[str, int]) -> int:
    found = 0
    for id_ in columns_of(expression):
        if id_ in owner:
            found |= 1 << owner[id_]
    return found


def _side(expression: exp.Expr, owner: dict[str, int]) -> tuple[int, str | None]:
    bare = expression.unnest()
    return _mask(bare, owner), bare.name if isinstance(bare, exp.Column) else None


@dataclass(slots=True)
class _Maker:
    """Makes the joins of trees, each with the conditions that have all their columns there."""

    like: Join
    joined: _Joined
    graph: JoinGraph
    waiting: list[exp.Expr] = field(init=False)
    every: Set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.waiting = list(self.joined.others)
        self.every = set().union(*(_ids(leaf) for leaf in self.joined.leaves))

    def made(self, trees: Sequence[Tree]) -> Node:
        """The joins of all trees: an equality may connect several of them with one."""
        groups = [self._of_tree(tree)[0] for tree in trees]
        node = groups.pop(0)
        while groups:
            found = next((g for g in groups if _is_connected(self.waiting, _ids(node), _ids(g))), groups[0])
            groups.remove(found)
            node = self._join(node, found, [], "behind what equalities of two connect")
        return node

    def _of_tree(self, tree: Tree) -> tuple[Node, Set[int]]:
        if isinstance(tree, int):
            return self.joined.leaves[tree], {tree}
        (left, mine), (right, theirs) = self._of_tree(tree[0]), self._of_tree(tree[1])
        equal = [
            self._equality(c, mine, theirs)
            for c in self.joined.classes
            if c.keys() & mine and c.keys() & theirs
        ]
        return self._join(left, right, equal, self._expected(mine, theirs)), mine | theirs

    def _equality(self, equal: dict[int, str], left: Set[int], right: Set[int]) -> exp.Expr:
        """That columns of two sides are equal, as it is written; or what follows, of the first of each side."""
        mine, theirs = ({c for n, c in equal.items() if n in side} for side in (left, right))
        for term in self.joined.terms:
            ends = _columns(term)
            if ends is not None and len({*ends} & mine) == len({*ends} & theirs) == 1:
                return term
        first, second = (column(equal[min(equal.keys() & side)]) for side in (left, right))
        return exp.EQ(this=first, expression=second)

    def _expected(self, left: Set[int], right: Set[int]) -> str:
        a, b = (sum(1 << n for n in side) for side in (left, right))
        if self.graph.finds_one(a, b):
            return "one row of the right at most"
        return "one row of the left at most" if self.graph.finds_one(b, a) else "may find many"

    def _join(self, left: Node, right: Node, equal: Sequence[exp.Expr], expected: str) -> Join:
        given = _ids(left) | _ids(right)
        mine = [*equal, *(t for t in self.waiting if columns_of(t) & self.every <= given)]
        self.waiting[:] = [t for t in self.waiting if not columns_of(t) & self.every <= given]
        kind, condition = (JoinKind.INNER, exp.and_(*mine)) if mine else (JoinKind.CROSS, None)
        return replace(self.like, left=left, right=right, kind=kind, condition=condition, moved=expected)


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
