"""t JOIN u ON t.k = u.k, and t JOIN c ON t.k = c.k  ->  joins of t, u and c arranged by k: t is kept once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sqlglot import exp

from sqlstream_operators.plan.changelog_spec import gives_alone
from sqlstream_planner.expressions.infer import infer
from sqlstream_planner.identity.relation import Meanings
from sqlstream_planner.logical import (
    ArrangedBy,
    Arrangement,
    Join,
    JoinKind,
    Node,
    Project,
    RegularJoin,
    Sink,
    column,
    columns_of,
    consumers,
    rebuild,
    sql,
    substitute,
    walk,
)

#: What two sides have alike that are one arrangement: the relation, what it means, the keys with their types, the columns,
#: and whether rows without a key are kept.
_Kept: TypeAlias = tuple[int, str, tuple[tuple[str, str], ...], frozenset[str], bool]
_NAMES = ("left", "right")


def arrange_joins(roots: tuple[Sink, ...]) -> tuple[Sink, ...]:
    """Keep a relation once for all joins that need it by one key, and of INNER joins by one key nothing but their inputs.

    A join whose rows are read by one INNER join alone, by the same keys, is computed with that: three and more arrangements
    meet, and what two of them make is kept nowhere. Of two joins one of which needs what the other gives nothing is shared:
    they can't run together. Joins with a time to live keep their rows themselves: what they have forgotten, others have not.

    One arrangement is what two joins would keep just the same, columns and rows without a key included: what a join finds of
    an older plan's state must not depend on what else is in the file.

    >>> from sqlstream_planner.rules.streaming.regular_joins import regular_joins
    >>> from sqlstream_planner.testing import logical, streaming
    >>> query = "SELECT x.a FROM t AS x JOIN t AS y ON x.a = y.a JOIN t AS z ON z.a = y.a"
    >>> print(logical(query, rules=(*streaming(regular_joins), arrange_joins)))
    sink result
      project a = a
        inner join of arrangements on a_2 = a_3
          inner join of arrangements on a = a_2
            arrange by a
              scan t (a, c, ts)
            arrange by a_2
              scan t (a, c, ts)
          arrange by a_3
            scan t (a, c, ts)
    """
    units = _units(roots)
    clusters = _clusters(roots, units)
    arranged: dict[int, tuple[int, _Unit]] = {}
    for number, cluster in enumerate(clusters):
        order = _key_order(cluster)
        readers = Counter(leaf.kept for unit in cluster for leaf in unit.leaves)
        for unit in cluster:
            if len(unit.leaves) > 2 or any(readers[leaf.kept] > 1 for leaf in unit.leaves):
                unit.put_in_order(order)
                arranged |= {id(join): (number, unit) for join in unit.joins}
    if not arranged:
        return roots
    made: dict[tuple[int, _Kept], Arrangement] = {}

    def side(number: int, leaf: _Leaf, node: Node) -> Node:
        below = node
        for _ in range(leaf.depth):
            assert isinstance(below, Project)
            below = below.input
        place = (number, leaf.kept)
        if place not in made:
            made[place] = _arrangement(below, leaf, number)
        fields = node.fields
        if [f.id for f in made[place].fields] == [f.id for f in fields]:
            return made[place]
        return Project(made[place], fields, tuple(column(leaf.columns[f.id]) for f in fields))

    def rewrite(node: Node, original: Node) -> Node:
        if not isinstance(node, RegularJoin) or id(original) not in arranged:
            return node
        number, unit = arranged[id(original)]
        leaves = {leaf.side: leaf for leaf in unit.leaves if leaf.join is original}
        inputs = [side(number, leaves[n], i) if n in leaves else i for n, i in enumerate(node.inputs)]
        merged = original is not unit.joins[-1]
        keys = node.keys if merged else tuple(node.keys[n] for n in unit.order)
        return replace(node, left=inputs[0], right=inputs[1], keys=keys, merged=merged)

    return rebuild(roots, rewrite)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A side of a join: `columns` are, by its own ids, those of the relation `base`, `depth` projections below.

    `forms` say what the `keys` mean.
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
    kept: _Kept


@dataclass(slots=True)
class _Unit:
    """Joins that are computed together, the last of which gives what they give, and all that they join."""

    joins: list[RegularJoin]
    leaves: list[_Leaf] = field(default_factory=list)
    order: tuple[int, ...] = ()

    def put_in_order(self, order: tuple[int, ...]) -> None:
        """Have the keys in another order, which is that of the last join's keys by their numbers."""
        self.order = order
        self.leaves = [replace(leaf, keys=tuple(leaf.keys[n] for n in order)) for leaf in self.leaves]


def _key_order(cluster: Sequence[_Unit]) -> tuple[int, ...]:
    """The order of the keys by what they mean, whatever order they are written in; by it rows are shared out."""
    leaves = [leaf for unit in cluster for leaf in unit.leaves]
    meant = zip(*(leaf.forms for leaf in leaves), strict=True)
    listed = [(sorted(forms), number) for number, forms in enumerate(meant)]
    return tuple(number for _, number in sorted(listed))


def _arrangement(base: Node, leaf: _Leaf, number: int) -> Arrangement:
    read = {*leaf.columns.values()}
    fields = tuple(f for f in base.fields if f.id in read)
    if len(fields) < len(base.fields):
        base = Project(base, fields, tuple(column(f.id) for f in fields))
    return Arrangement(base, leaf.keys, leaf.whole, number, leaf.meaning)


# ------------------------------------------------------------------------------------ joins that are computed together


def _units(roots: Sequence[Sink]) -> list[_Unit]:
    """The joins that may read arrangements, inputs first, each with those that are computed with it."""
    count = consumers(roots)
    meanings = Meanings()
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
            unit = _Unit([])
            _take(unit, join, range(len(join.keys)), merging, meanings)
            units.append(unit)
    return units


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
    unit: _Unit,
    join: RegularJoin,
    order: Sequence[int],
    merging: Mapping[int, Mapping[int, _Below]],
    meanings: Meanings,
) -> None:
    """Add a join with all that are computed with it to a unit, whose keys are its own in this order."""
    for side in (0, 1):
        below = merging[id(join)].get(side)
        if below is not None:
            _take(unit, below.join, [below.keys[n] for n in order], merging, meanings)
        else:
            unit.leaves.append(_leaf(join, side, order, meanings))
    unit.joins.append(join)


def _leaf(join: RegularJoin, side: int, order: Sequence[int], meanings: Meanings) -> _Leaf:
    node = join.inputs[side]
    base, depth, names = _base(node)
    known = {f.id: (f.type, f.nullable) for f in node.fields}
    keys, nullable = [], False
    for number in order:
        key = join.keys[number]
        value = (key.left, key.right)[side].unnest()
        nullable |= infer(value, known).nullable
        keys.append(ArrangedBy(_named(value, names), key.type))
    meaning = join.meaning.inputs[side]
    forms = tuple(meanings.expression(key.expression, base).digest for key in keys)
    whole = nullable and gives_alone(join.kind.lower(), _NAMES[side])
    kept = (
        id(base),
        meanings.relation(meaning).digest,
        tuple((sql(key.expression), str(key.type)) for key in keys),
        frozenset(names.values()),
        whole,
    )
    return _Leaf(join, side, base, depth, names, tuple(keys), forms, whole, meaning, kept)


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


# -------------------------------------------------------------------------------------------- joins that run together


def _clusters(roots: Sequence[Sink], units: Sequence[_Unit]) -> list[list[_Unit]]:
    """Units that share what they join, none of which needs, by any way, what another one of its cluster gives."""
    below = _needs(roots, units)
    clusters: list[int] = []  # as sets of units: bits
    for number, unit in enumerate(units):
        mine = {leaf.kept for leaf in unit.leaves}
        made = 1 << number
        for other in [c for c in clusters if any(mine & _kept(units[n]) for n in _bits(c))]:
            rest = [c for c in clusters if c != other]
            if not _needs_itself(made | other, rest, below):
                made |= other
                clusters = rest
        clusters.append(made)
    return [[units[n] for n in _bits(c)] for c in clusters]


def _kept(unit: _Unit) -> set[_Kept]:
    return {leaf.kept for leaf in unit.leaves}


def _needs(roots: Sequence[Sink], units: Sequence[_Unit]) -> list[int]:
    """For each unit those, as bits, whose rows it is made of."""
    numbers = {id(unit.joins[-1]): number for number, unit in enumerate(units)}
    found: dict[int, int] = {}
    needs = [0] * len(units)
    for node in walk(roots):
        below = 0
        for i in node.inputs:
            below |= found[id(i)]
        number = numbers.get(id(node))
        if number is not None:
            needs[number] = below
            below |= 1 << number
        found[id(node)] = below
    return needs


def _needs_itself(cluster: int, others: Sequence[int], needs: Sequence[int]) -> bool:
    """Whether what a cluster is made of is made of what it gives."""
    seen, todo = 0, _all(needs, cluster)
    while todo & ~seen:
        seen |= todo
        if seen & cluster:
            return True
        together = 0
        for other in others:
            if other & seen:
                together |= other
        todo = together | _all(needs, together)
    return bool(seen & cluster)


def _all(needs: Sequence[int], units: int) -> int:
    found = 0
    for number in _bits(units):
        found |= needs[number]
    return found


def _bits(units: int) -> Iterable[int]:
    number = 0
    while units:
        if units & 1:
            yield number
        units, number = units >> 1, number + 1
