"""t JOIN u ON t.k = u.k, and t JOIN c ON t.k = c.k  ->  joins of t, u and c arranged by k: t is kept once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from sqlstream_planner.logical import Node, Project, Sink, column, rebuild
from sqlstream_planner.properties.facts import Facts
from sqlstream_planner.rules.prune.join_clusters import clusters_of
from sqlstream_planner.rules.prune.join_units import Kept, Leaf, Unit, units_of
from sqlstream_planner.streaming import Arrangement, RegularJoin


def arrange_joins(roots: tuple[Sink, ...], facts: Facts) -> tuple[Sink, ...]:
    """Keep a relation once for all joins that need it by one key, and of INNER joins by one key nothing but their inputs.

    What an aggregate or a deduplication gives it keeps by its own keys, so that a join by these keeps nothing of it.

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
        inner delta join on a_2 = a_3
          inner delta join on a = a_2
            arrangement by a
              scan t (a, c, ts)
            arrangement by a_2
              scan t (a, c, ts)
          arrangement by a_3
            scan t (a, c, ts)
    """
    arranged: dict[int, tuple[int, Unit]] = {}
    for number, cluster in enumerate(clusters_of(roots, units_of(roots, facts.changes))):
        order = None if any(unit.answered for unit in cluster) else _key_order(cluster)
        readers = Counter(kept for unit in cluster for kept in unit.kept)
        for unit in cluster:
            if len(unit.leaves) > 2 or unit.answered or any(readers[kept] > 1 for kept in unit.kept):
                ordered = unit if order is None else unit.in_order(order)
                arranged |= {id(join): (number, ordered) for join in unit.joins}
    if not arranged:
        return roots
    made: dict[tuple[int, Kept, tuple[str, ...]], Arrangement] = {}

    def side(number: int, unit: Unit, leaf: Leaf, node: Node) -> Node:
        below = node
        for _ in range(leaf.depth):
            assert isinstance(below, Project)
            below = below.input
        answered = leaf.answering.keys if leaf.answering is not None and unit.answers(leaf) else ()
        place = (number, leaf.kept, answered)
        if place not in made:
            made[place] = _arrangement(below, leaf, number, answered=answered)
        fields = node.fields
        if [f.id for f in made[place].fields] == [f.id for f in fields]:
            return made[place]
        return Project(made[place], fields, tuple(column(leaf.columns[f.id]) for f in fields))

    def rewrite(node: Node, original: Node) -> Node:
        if not isinstance(node, RegularJoin) or id(original) not in arranged:
            return node
        number, unit = arranged[id(original)]
        leaves = {leaf.side: leaf for leaf in unit.leaves if leaf.join is original}
        inputs = [side(number, unit, leaves[n], i) if n in leaves else i for n, i in enumerate(node.inputs)]
        merged = original is not unit.joins[-1]
        keys = node.keys if merged else tuple(node.keys[n] for n in unit.order)
        return replace(node, left=inputs[0], right=inputs[1], keys=keys, merged=merged)

    return rebuild(roots, rewrite)


def _key_order(cluster: Sequence[Unit]) -> tuple[int, ...]:
    """The order of the keys by what they mean, whatever order they are written in; by it rows are shared out."""
    leaves = [leaf for unit in cluster for leaf in unit.leaves]
    meant = zip(*(leaf.forms for leaf in leaves), strict=True)
    listed = [(sorted(forms), number) for number, forms in enumerate(meant)]
    return tuple(number for _, number in sorted(listed))


def _arrangement(base: Node, leaf: Leaf, number: int, *, answered: tuple[str, ...]) -> Arrangement:
    read = {*leaf.columns.values()}
    fields = tuple(f for f in base.fields if f.id in read)
    if len(fields) < len(base.fields):
        base = Project(base, fields, tuple(column(f.id) for f in fields))
    return Arrangement(base, leaf.keys, leaf.whole, number, leaf.meaning, answered)
