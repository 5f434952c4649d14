"""The joins that may read arrangements, those of them that are computed together, and what each of them joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from sqlglot import exp

from sqlstream_operators.plan.join_spec import gives_alone
from sqlstream_planner.expressions.infer import infer
from sqlstream_planner.identity.relation import Meanings
from sqlstream_planner.logical import (
    Join,
    JoinKind,
    Node,
    Project,
    Sink,
    column,
    columns_of,
    consumers,
    sql,
    substitute,
    walk,
)
from sqlstream_planner.properties.changelog import Changes
from sqlstream_planner.rules.prune.answers_by_key import Answering, answering
from sqlstream_planner.streaming import ArrangedBy, RegularJoin

#: What two sides have alike that are one arrangement: the relation, what it means, the keys with their types, the columns,
#: and whether rows without a key are kept.
Kept: TypeAlias = tuple[int, str, tuple[tuple[str, str], ...], frozenset[str], bool]
_NAMES = ("left", "right")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A side of a join: `columns` are, by its own ids, those of the relation `base`, `depth` projections below.

    `forms` say what the `keys` mean. `answering` keeps its rows by them already.
    """

    join: RegularJoin
    side: int
    base: Node
    depth: int
    columns: Mapping[str, str]
    keys: tuple[ArrangedBy, ...]
    forms: tuple[str, ...]
    whole: bool
    meaning: Node
    kept: Kept
    answering: Answering | None

    @property
    def node(self) -> Node:
        """The side of the join."""
        return self.join.inputs[self.side]

    def in_order(self, order: Sequence[int]) -> Leaf:
        """The same with its keys in another order, by their numbers."""
        relation, meaning, keys, columns, whole = self.kept
        return replace(
            self,
            keys=tuple(self.keys[n] for n in order),
            forms=tuple(self.forms[n] for n in order),
            kept=(relation, meaning, tuple(keys[n] for n in order), columns, whole),
            answering=self.answering.in_order(order) if self.answering is not None else None,
        )


@dataclass(frozen=True, slots=True)
class Unit:
    """Joins that are computed together, the last of which gives what they give, and all that they join.

    `order`: the keys of the last join by their numbers, as those of the leaves stand. `answered`: the ids of the operators
    whose results the leaves of these read.
    """

    joins: tuple[RegularJoin, ...]
    leaves: tuple[Leaf, ...]
    order: tuple[int, ...]
    answered: frozenset[int] = frozenset()

    def in_order(self, order: Sequence[int]) -> Unit:
        """The same with its keys in another order, by their numbers in the present one."""
        leaves = tuple(leaf.in_order(order) for leaf in self.leaves)
        return replace(self, leaves=leaves, order=tuple(self.order[n] for n in order))

    def reading(self, chosen: Sequence[int]) -> Unit:
        """The same where some leaves, by their numbers, read what an operator keeps, if it has the keys in their order."""
        unit = self
        for number in chosen:
            found = unit.leaves[number].answering
            if found is not None and (found.is_in_order or not unit.answered):
                unit = replace(unit.in_order(found.order), answered=unit.answered | {id(found.operator)})
        return unit

    def answers(self, leaf: Leaf) -> bool:
        """Whether a leaf reads what an operator keeps anyway."""
        found = leaf.answering
        return found is not None and found.is_in_order and id(found.operator) in self.answered

    @property
    def kept(self) -> list[Kept]:
        """What is to be kept for the joins alone."""
        return [leaf.kept for leaf in self.leaves if not self.answers(leaf)]


def units_of(roots: Sequence[Sink], changes: Changes) -> list[Unit]:
    """The joins that may read arrangements, inputs first, each with those that are computed with it."""
    count = consumers(roots)
    known = _Known(Meanings(), changes)
    merging: dict[int, dict[int, _Below]] = {}
    inner: set[int] = set()
    joins = [node for node in walk(roots) if isinstance(node, RegularJoin) and _can_be_arranged(node)]
    for join in joins:
        merging[id(join)] = {}
        for side in (0, 1):
            below = _below(join, side, merging, count)
            if below is not None:
                merging[id(join)][side] = below
                inner.add(id(below.join))
    units = []
    for join in joins:
        if id(join) not in inner:
            taken: list[RegularJoin] = []
            leaves: list[Leaf] = []
            order = tuple(range(len(join.keys)))
            _take(taken, leaves, join, order, merging, known)
            units.append(Unit(tuple(taken), tuple(leaves), order))
    return units


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of nodes."""

    meanings: Meanings
    changes: Changes


def _can_be_arranged(node: RegularJoin) -> bool:
    return bool(node.keys) and node.ttl_us is None and isinstance(node.meaning, Join)


@dataclass(frozen=True, slots=True)
class _Below:
    """A join below another, and for each key of that the number of the same key of its own."""

    join: RegularJoin
    keys: tuple[int, ...]


def _below(
    join: RegularJoin, side: int, merging: Mapping[int, Mapping[int, _Below]], count: Mapping[int, int]
) -> _Below | None:
    """The join on a side that is by the same keys, and that nothing else reads."""
    node = join.inputs[side]
    while isinstance(node, Project) and count[id(node)] == 1 and _only_names(node):
        node = node.input
    if (
        not isinstance(node, RegularJoin)
        or id(node) not in merging
        or count[id(node)] != 1
        or not join.kind == node.kind == JoinKind.INNER
        or len(join.keys) != len(node.keys)
    ):
        return None
    _, _, names = _base(join.inputs[side])
    found = []
    for key in join.keys:
        value = _named((key.left, key.right)[side], names)
        at = _position(node, value, merging)
        if at is None or node.keys[at].type != key.type or at in found:
            return None
        found.append(at)
    return _Below(node, tuple(found))


def _position(join: RegularJoin, value: exp.Expr, merging: Mapping[int, Mapping[int, _Below]]) -> int | None:
    """Which of the keys of an INNER join, or of those that are computed with it, a value is."""
    for number, key in enumerate(join.keys):
        if value in (key.left.unnest(), key.right.unnest()):
            return number
    for side, below in merging[id(join)].items():
        if columns_of(value) <= {f.id for f in join.inputs[side].fields}:
            _, _, names = _base(join.inputs[side])
            at = _position(below.join, _named(value, names), merging)
            if at is not None:
                return below.keys.index(at)
    return None


def _take(
    joins: list[RegularJoin],
    leaves: list[Leaf],
    join: RegularJoin,
    order: Sequence[int],
    merging: Mapping[int, Mapping[int, _Below]],
    known: _Known,
) -> None:
    """Add a join with all that are computed with it, and what they join; their keys are its own in this order."""
    for side in (0, 1):
        below = merging[id(join)].get(side)
        if below is not None:
            _take(joins, leaves, below.join, [below.keys[n] for n in order], merging, known)
        else:
            leaves.append(_leaf(join, side, order, known))
    joins.append(join)


def _leaf(join: RegularJoin, side: int, order: Sequence[int], known: _Known) -> Leaf:
    node = join.inputs[side]
    base, depth, names = _base(node)
    fields = {f.id: (f.type, f.nullable) for f in node.fields}
    keys, nullable = [], False
    for number in order:
        key = join.keys[number]
        value = (key.left, key.right)[side].unnest()
        nullable |= infer(value, fields).nullable
        keys.append(ArrangedBy(_named(value, names), key.type))
    meaning = join.meaning.inputs[side]
    forms = tuple(known.meanings.expression(key.expression, base).digest for key in keys)
    whole = nullable and gives_alone(join.kind.lower(), _NAMES[side])
    kept = (
        id(base),
        known.meanings.relation(meaning).digest,
        tuple((sql(key.expression), str(key.type)) for key in keys),
        frozenset(names.values()),
        whole,
    )
    found = answering(base, keys, known.meanings, known.changes)
    return Leaf(join, side, base, depth, names, tuple(keys), forms, whole, meaning, kept, found)


def _base(node: Node) -> tuple[Node, int, Mapping[str, str]]:
    """The relation that a node shows columns of, how many projections below it is, and its column for each of the node's."""
    names = {f.id: f.id for f in node.fields}
    depth = 0
    while isinstance(node, Project) and _only_names(node):
        items = {f.id: e.unnest().name for f, e in zip(node.fields, node.items, strict=True)}
        names = {id_: items[name] for id_, name in names.items()}
        node, depth = node.input, depth + 1
    return node, depth, names


def _only_names(node: Project) -> bool:
    """Whether a projection only leaves columns out, and renames them."""
    types = {f.id: f.type for f in node.input.fields}
    return all(
        isinstance(e.unnest(), exp.Column) and types.get(e.unnest().name) == f.type
        for f, e in zip(node.fields, node.items, strict=True)
    )


def _named(value: exp.Expr, names: Mapping[str, str]) -> exp.Expr:
    """An expression over a node's columns in terms of those that `names` says."""
    return substitute(value.unnest(), {id_: column(name) for id_, name in names.items()})
