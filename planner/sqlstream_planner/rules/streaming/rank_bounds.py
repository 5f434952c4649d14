"""Which ranks a condition lets pass: what a Top-N must keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlstream_planner.logical.expressions import conjuncts


@dataclass(frozen=True, slots=True)
class RankBounds:
    """The least and the greatest rank that can pass; `high` None is no limit.

    `exact` says that every rank between them passes, so that the condition need not be tested again.
    """

    low: int = 1
    high: int | None = None
    exact: bool = True

    def both(self, other: RankBounds) -> RankBounds:
        """The bounds of what passes both."""
        highs = [h for h in (self.high, other.high) if h is not None]
        return RankBounds(max(self.low, other.low), min(highs) if highs else None, self.exact and other.exact)

    def either(self, other: RankBounds) -> RankBounds:
        """The bounds of what passes one of them at least."""
        first, second = sorted((self, other), key=lambda b: b.low)
        if first.empty or second.empty:
            return second if first.empty else first
        high = None if first.high is None or second.high is None else max(first.high, second.high)
        gap = first.high is not None and second.low > first.high + 1
        return RankBounds(first.low, high, first.exact and second.exact and not gap)

    @property
    def empty(self) -> bool:
        """Whether nothing passes."""
        return self.high is not None and self.high < self.low


def rank_bounds(conditions: Sequence[exp.Expr], rank: str) -> tuple[RankBounds, list[exp.Expr]]:
    """The bounds that all `conditions` set to the column `rank`, and those of them that must still be tested.

    >>> import sqlglot
    >>> bounds, rest = rank_bounds([sqlglot.parse_one("rn IN (1, 3)"), sqlglot.parse_one("rn < 7")], "rn")
    >>> bounds.low, bounds.high, [condition.sql() for condition in rest]
    (1, 3, ['rn IN (1, 3)'])
    """
    bounds, rest = RankBounds(), []
    for condition in conditions:
        found = _bounds(condition, rank)
        if found is None or not found.exact:
            rest.append(condition)
        if found is not None:
            bounds = bounds.both(found)
    return bounds, rest


_BEYOND = 2**61

_FLIP: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
}
_NEGATED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
}


def _bounds(condition: exp.Expr, rank: str) -> RankBounds | None:
    """What one condition says of the rank; None if nothing."""
    condition = condition.unnest()
    match condition:
        case exp.Or():
            sides = [_bounds(side, rank) for side in (condition.left, condition.right)]
            return sides[0].either(sides[1]) if sides[0] is not None and sides[1] is not None else None
        case exp.And():
            bounds, rest = rank_bounds(conjuncts(condition), rank)
            known = bounds if not rest else RankBounds(bounds.low, bounds.high, exact=False)
            return known if (known.low, known.high) != (1, None) else None
        case exp.In():
            return _listed(condition, rank)
        case exp.Between():
            low, high = _number(condition.args["low"]), _number(condition.args["high"])
            if not _is(condition.this, rank) or low is None or high is None:
                return None
            return RankBounds(max(low, 1), high)
        case exp.Not():
            inner = condition.this.unnest()
            made = _NEGATED.get(type(inner))
            return _compared(made, inner, rank) if made is not None else None
        case _:
            return _compared(type(condition), condition, rank)


def _listed(condition: exp.In, rank: str) -> RankBounds | None:
    """rn IN (1, 3)."""
    listed = [_number(e) for e in condition.expressions]
    numbers = {n for n in listed if n is not None and n > 0}
    if not _is(condition.this, rank) or not listed or None in listed:
        return None
    if not numbers:
        return RankBounds(1, 0)
    low, high = min(numbers), max(numbers)
    return RankBounds(low, high, exact=len(numbers) == high - low + 1)


def _compared(kind: type[exp.Expr], comparison: exp.Expr, rank: str) -> RankBounds | None:
    """A comparison of the rank with a whole number, read as one of `kind`."""
    if kind not in _FLIP:
        return None
    left, right = comparison.this, comparison.args["expression"]
    if _is(right, rank):
        kind, left, right = _FLIP[kind], right, left
    value = _number(right)
    if not _is(left, rank) or value is None:
        return None
    low = value + (1 if kind is exp.GT else 0) if kind in (exp.GT, exp.GTE, exp.EQ) else 1
    high = value - (1 if kind is exp.LT else 0) if kind in (exp.LT, exp.LTE, exp.EQ) else None
    return RankBounds(max(low, 1), high)


def _is(expression: exp.Expr, rank: str) -> bool:
    bare = expression.unnest()
    return isinstance(bare, exp.Column) and bare.name == rank


def _number(expression: exp.Expr) -> int | None:
    """`_written`; of a number that no rank can reach, one that none reaches either and that a BIGINT has room for."""
    value = _written(expression)
    return None if value is None else max(-_BEYOND, min(value, _BEYOND))


def _written(expression: exp.Expr) -> int | None:
    """A whole number that is written out, also as a sum, a difference, a product or a cast; None of others."""
    bare = expression.unnest()
    match bare:
        case exp.Neg():
            inner = _written(bare.this)
            return None if inner is None else -inner
        case exp.Cast() if bare.to.is_type(*exp.DataType.SIGNED_INTEGER_TYPES):
            return _written(bare.this)
        case exp.Add() | exp.Sub() | exp.Mul():
            left, right = _written(bare.this), _written(bare.expression)
            if left is None or right is None:
                return None
            if isinstance(bare, exp.Mul):
                return left * right
            return left + right if isinstance(bare, exp.Add) else left - right
        case exp.Literal() if not bare.is_string and bare.this.isdigit():
            return int(bare.this)
        case _:
            return None
