"""What joins compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlstream_operators.plan.types import SqlType
from sqlstream_planner.logical.node import Node, Part
from sqlstream_planner.logical.operator import Key, Keys
from sqlstream_planner.logical.parts import JoinKind


@dataclass(frozen=True, slots=True)
class EqualKey(Part):
    """Two expressions, over the left and over the right of a join, that are equal as values of `type`."""

    left: exp.Expr
    right: exp.Expr
    type: SqlType


def keys_of_pairs(
    left: Node, right: Node, kind: JoinKind, compared: Sequence[EqualKey], keys: Keys
) -> tuple[Key, ...]:
    """The unique keys of pairs: those of a side whose rows have one partner at most; else those of both sides together."""
    mine, theirs = tuple(keys(left)), tuple(keys(right))
    if kind in (JoinKind.SEMI, JoinKind.ANTI):
        return mine
    sides = [_compared(key.left) for key in compared], [_compared(key.right) for key in compared]
    by_left, by_right = ({e.name for e in side if isinstance(e, exp.Column)} for side in sides)
    found: list[Key] = []
    # A preserved side has rows that stand beside NULLs: the other side's columns don't distinguish them.
    if kind in (JoinKind.INNER, JoinKind.LEFT) and any(set(key) <= by_right for key in theirs):
        found += mine
    if kind in (JoinKind.INNER, JoinKind.RIGHT) and any(set(key) <= by_left for key in mine):
        found += theirs
    if kind is not JoinKind.FULL or _never_null(left, mine) or _never_null(right, theirs):
        found += [tuple(dict.fromkeys((*a, *b))) for a in mine for b in theirs]
    if kind is JoinKind.INNER:
        found += _by_equals(found, sides)
    return tuple(dict.fromkeys(found))


def _compared(side: exp.Expr) -> exp.Expr:
    """What a join compares; of a list of one, as which NULLs are equal, the one."""
    bare = side.unnest()
    if isinstance(bare, exp.Array) and len(bare.expressions) == 1:
        return _compared(bare.expressions[0])
    return bare


def _never_null(node: Node, keys: tuple[Key, ...]) -> bool:
    """Whether every key of a node has a column that is never NULL there."""
    known = {f.id for f in node.fields if not f.nullable}
    return all(known & set(key) for key in keys)


def _by_equals(keys: Sequence[Key], sides: tuple[Sequence[exp.Expr], Sequence[exp.Expr]]) -> list[Key]:
    """The keys with columns of the other side that are equal to theirs."""
    equal: dict[str, str] = {}
    for a, b in zip(*sides, strict=True):
        if isinstance(a, exp.Column) and isinstance(b, exp.Column):
            equal.setdefault(a.name, b.name)
            equal.setdefault(b.name, a.name)
    return [tuple(dict.fromkeys(equal.get(id_, id_) for id_ in key)) for key in keys]
