"""The order of joins in which what is kept between them is least, by sizes that are guessed and never measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

#: A relation by its number, or two trees that are joined.
Tree: TypeAlias = "int | tuple[Tree, Tree]"
#: All trees of so many relations are looked at; of more, the smallest join is made next.
SEARCHED = 8
#: How much larger a table is than one whose keys it refers to, and the pairs of two relations than the larger one, where
#: neither has one row at most for each of the other's.
FANOUT = 10.0
#: The rows of a table that refers to no other.
BASE = 100.0
#: An order is worth another than was written from so small a part of what is kept between joins.
WORTH = 0.75


@dataclass(frozen=True, slots=True)
class Relation:
    """What is joined: `is_unique` says whether it has one row at most for one value of all `columns`.

    `share` is the part of its rows that its own conditions leave. `has_one`: it has one row, whatever it is made of.
    """

    is_unique: Callable[[frozenset[str]], bool]
    share: float = 1.0
    has_one: bool = False


@dataclass(frozen=True, slots=True)
class Equality:
    """Values that are equal: of sides, each of which is of relations (bits); a side that is a column names it."""

    sides: tuple[tuple[int, str | None], ...]

    def between(self, left: int, right: int) -> bool:
        """Whether it connects relations with others."""
        return any(mask & left == mask for mask, _ in self.sides) and any(
            mask & right == mask for mask, _ in self.sides
        )


@dataclass(slots=True)
class _Choice:
    cost: float
    tree: Tree


@dataclass(slots=True)
class JoinGraph:
    """Relations, what is equal between them, and other conditions: of which relations (bits), and what part they leave."""

    relations: Sequence[Relation]
    equalities: Sequence[Equality]
    conditions: Sequence[tuple[int, float]] = ()
    #: By sets of relations (bits), how many rows they have together without any condition.
    _rows: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, rows in enumerate(self._base_rows()):
            self._rows[1 << number] = rows

    def components(self) -> list[int]:
        """The sets of relations that equalities between two of them connect, by their first ones."""
        found: list[int] = []
        for number in range(len(self.relations)):
            together = 1 << number
            for other in [c for c in found if self._between(c, together)]:
                found.remove(other)
                together |= other
            found.append(together)
        return sorted(found, key=lambda c: c & -c)

    def best(self, component: int) -> Tree:
        """The order of connected relations that keeps least."""
        return self._searched(component) if component.bit_count() <= SEARCHED else self._greedy(component)

    def is_better(self, tree: Tree, written: Tree) -> bool:
        """Whether an order is known to keep notably less than the one that was written."""
        known = any(self._rows[1 << n] != BASE or r.share < 1 for n, r in enumerate(self.relations))
        return known and self.cost(tree) < WORTH * self.cost(written)

    def cost(self, tree: Tree) -> float:
        """The rows that are kept between the joins of a tree."""
        return self._choices(tree)[0].cost

    def finds_one(self, left: int, right: int) -> bool:
        """Whether each row of `left` has one partner at most among the rows of `right`."""
        known = {n for n, e in enumerate(self.equalities) if e.between(left, right)}
        rest = list(_bits(right))
        while rest:
            determined = [
                n
                for n in rest
                if self.relations[n].is_unique(
                    frozenset(
                        name
                        for k in known
                        for mask, name in self.equalities[k].sides
                        if mask == 1 << n and name is not None
                    )
                )
            ]
            if not determined:
                return False
            rest = [n for n in rest if n not in determined]
            known |= {
                k
                for k, e in enumerate(self.equalities)
                if any(mask == 1 << n for mask, _ in e.sides for n in determined)
            }
        return True

    def share(self, relations: int) -> float:
        """The part of their rows together that all conditions on them leave."""
        found = 1.0
        for n in _bits(relations):
            found *= self.relations[n].share
        for mask, part in self.conditions:
            if mask & relations == mask:
                found *= part
        return found

    def _base_rows(self) -> list[float]:
        """A table is larger than those that it refers to by their keys."""
        count = len(self.relations)
        refers = [
            [
                i != j and self._between(1 << i, 1 << j) and self.finds_one(1 << i, 1 << j)
                for j in range(count)
            ]
            for i in range(count)
        ]
        rank = [0] * count
        for _ in range(count):
            for i in range(count):
                for j in range(count):
                    if refers[i][j]:
                        rank[i] = max(rank[i], rank[j] + (not refers[j][i]))
        rows = []
        for relation, n in zip(self.relations, rank, strict=True):
            size = BASE
            for _ in range(n):
                size *= FANOUT
            rows.append(1.0 if relation.has_one else size)
        return rows

    def _between(self, left: int, right: int) -> bool:
        return any(e.between(left, right) for e in self.equalities)

    def _joined(self, left: int, right: int) -> float:
        """The rows of two sets of relations together; the fewest where that was guessed before."""
        a, b = self._rows[left], self._rows[right]
        connected = [e for e in self.equalities if e.between(left, right)]
        if not connected:
            found = a * b
        elif self.finds_one(left, right):
            found = min(a, b) if self.finds_one(right, left) else a
        elif self.finds_one(right, left):
            found = b
        else:
            values = [self._values(e) for e in connected]
            found = FANOUT * max(a, b)
            if all(v is not None for v in values):
                found = a * b
                for v in values:
                    found /= v or 1.0
                found = max(found, a, b)
        found = min(found, self._rows.get(left | right, found))
        self._rows[left | right] = found
        return found

    def _values(self, equality: Equality) -> float | None:
        """How many values there are at most of what is equal, where one of the relations has each once."""
        return min(
            (
                self._rows[mask]
                for mask, name in equality.sides
                if mask.bit_count() == 1
                and name is not None
                and self.relations[mask.bit_length() - 1].is_unique(frozenset((name,)))
            ),
            default=None,
        )

    def _keys(self, left: int, right: int) -> frozenset[int]:
        return frozenset(n for n, e in enumerate(self.equalities) if e.between(left, right))

    def _kept(
        self, choices: Sequence[tuple[frozenset[int], _Choice]], relations: int, keys: frozenset[int]
    ) -> _Choice:
        """Of orders of some relations the one that keeps least where a join by `keys` reads it.

        By the same keys they are joined at once, and nothing is kept between.
        """
        rows = self._rows[relations] * self.share(relations) if relations.bit_count() > 1 else 0.0
        found = [
            _Choice(c.cost + (0.0 if mine == keys != frozenset() else rows), c.tree) for mine, c in choices
        ]
        return min(found, key=lambda c: c.cost)

    def _searched(self, component: int) -> Tree:
        best: dict[int, dict[frozenset[int], _Choice]] = {
            1 << n: {frozenset(): _Choice(0.0, n)} for n in _bits(component)
        }
        for relations in _subsets(component):
            found: dict[frozenset[int], _Choice] = {}
            splits = [
                (relations ^ right, right)
                for right in _subsets(relations ^ (relations & -relations))
                if right in best and relations ^ right in best and self._between(relations ^ right, right)
            ]
            # As they are written, where that is as good.
            splits.sort(key=lambda split: (split[1].bit_count(), -split[1]))
            for left, right in splits:
                self._joined(left, right)
                keys = self._keys(left, right)
                a = self._kept(list(best[left].items()), left, keys)
                b = self._kept(list(best[right].items()), right, keys)
                cost = a.cost + b.cost
                if keys not in found or cost < found[keys].cost:
                    found[keys] = _Choice(cost, (a.tree, b.tree))
            if found:
                best[relations] = found
        return min(best[component].values(), key=lambda c: c.cost).tree

    def _greedy(self, component: int) -> Tree:
        made: list[tuple[int, Tree]] = [(1 << n, n) for n in _bits(component)]
        while len(made) > 1:
            pairs = [
                (self._joined(a, b) * self.share(a | b), i, j)
                for j, (b, _) in enumerate(made)
                for i, (a, _) in enumerate(made[:j])
                if self._between(a, b)
            ]
            _, i, j = min(pairs)
            (a, x), (b, y) = made[i], made.pop(j)
            made[i] = (a | b, (x, y))
        return made[0][1]

    def _choices(self, tree: Tree) -> tuple[_Choice, int, frozenset[int]]:
        if isinstance(tree, int):
            return _Choice(0.0, tree), 1 << tree, frozenset()
        (a, left, mine), (b, right, theirs) = self._choices(tree[0]), self._choices(tree[1])
        self._joined(left, right)
        keys = self._keys(left, right)
        cost = self._kept([(mine, a)], left, keys).cost + self._kept([(theirs, b)], right, keys).cost
        return _Choice(cost, tree), left | right, keys


def _bits(relations: int) -> Iterator[int]:
    while relations:
        yield (relations & -relations).bit_length() - 1
        relations &= relations - 1


def _subsets(relations: int) -> list[int]:
    """All sets of some of the relations, and of all of them, each behind those that are in it."""
    found, last = [], 0
    while last != relations:
        last = (last - relations) & relations
        found.append(last)
    return found
