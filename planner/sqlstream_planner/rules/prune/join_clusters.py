"""Joins that run together, as they read what is kept in one stage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlstream_planner.logical import Node, Sink, walk
from sqlstream_planner.rules.prune.join_units import Unit


def clusters_of(roots: Sequence[Sink], units: Sequence[Unit]) -> list[list[Unit]]:
    """Units that share what they join, none of which needs, by any way, what another one of its cluster gives.

    In a cluster are also the operators whose results its units read: units come back as those that do. What they give is
    needed in no other way.
    """
    members = _Members(roots, units)
    clusters = [1 << number for number in members.operators.values()]  # sets of members: bits
    for number in range(len(units)):
        made = 1 << number
        places = [n for n, leaf in enumerate(members.units[number].leaves) if leaf.answering is not None]
        for chosen in (places, *([place] for place in places)):
            before = members.units[number]
            members.units[number] = reading = before.reading(chosen)
            there = sum(1 << members.operators[id_] for id_ in reading.answered)
            others = [c for c in clusters if c & there]
            rest = [c for c in clusters if not c & there]
            if members.needs_itself(made | sum(others), rest):
                members.units[number] = before
            else:
                made |= sum(others)
                clusters = rest
        mine = {*members.units[number].kept}
        for other in [c for c in clusters if any(mine & {*unit.kept} for unit in members.of(c))]:
            rest = [c for c in clusters if c != other]
            if not members.needs_itself(made | other, rest):
                made |= other
                clusters = rest
        clusters.append(made)
    return [together for c in clusters if (together := members.of(c))]


class _Members:
    """What clusters are made of: `units`, which may be replaced, and behind them the `operators` that may answer them."""

    def __init__(self, roots: Sequence[Sink], units: Sequence[Unit]) -> None:
        self.units = list(units)
        answering = [leaf.answering for unit in units for leaf in unit.leaves if leaf.answering is not None]
        operators = dict.fromkeys(id(found.operator) for found in answering)
        #: By their ids, their numbers.
        self.operators = {id_: number for number, id_ in enumerate(operators, len(units))}
        self._made_of = self._below(roots)
        self._needed_by = {
            self.operators[id(found.operator)]: self._all_below(found.operator) for found in answering
        }

    def of(self, cluster: int) -> list[Unit]:
        """The units of a cluster."""
        return [self.units[number] for number in _bits(cluster) if number < len(self.units)]

    def needs_itself(self, cluster: int, others: Sequence[int]) -> bool:
        """Whether what a cluster is made of is made of what it gives."""
        seen, todo = 0, self._all(cluster)
        while todo & ~seen:
            seen |= todo
            if seen & cluster:
                return True
            together = 0
            for other in others:
                if other & seen:
                    together |= other
            todo = together | self._all(together)
        return bool(seen & cluster)

    def _below(self, roots: Sequence[Sink]) -> dict[int, int]:
        """By the id of a node the members, as bits, that it is made of or is."""
        numbers = {id(unit.joins[-1]): number for number, unit in enumerate(self.units)} | self.operators
        found: dict[int, int] = {}
        for node in walk(roots):
            below = 0
            for i in node.inputs:
                below |= found[id(i)]
            if id(node) in numbers:
                below |= 1 << numbers[id(node)]
            found[id(node)] = below
        return found

    def _all_below(self, node: Node) -> int:
        found = 0
        for i in node.inputs:
            found |= self._made_of[id(i)]
        return found

    def _all(self, cluster: int) -> int:
        """The members whose rows are shipped to those of a cluster."""
        found = 0
        for number in _bits(cluster):
            if number < len(self.units):
                unit = self.units[number]
                for leaf in unit.leaves:
                    if not unit.answers(leaf):
                        found |= self._made_of[id(leaf.node)]
            else:
                found |= self._needed_by[number]
        return found


def _bits(members: int) -> Iterable[int]:
    number = 0
    while members:
        if members & 1:
            yield number
        members, number = members >> 1, number + 1
