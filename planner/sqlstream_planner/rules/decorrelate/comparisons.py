"""IN, ANY and ALL in one form: ANY of a comparison, or that there is none of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlstream_planner.logical import Apply, SubqueryKind

_MADE: dict[str, type[exp.Binary]] = {
    "=": exp.EQ,
    "<>": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Whether some row of a query compares so; `negated`: whether none does."""

    comparison: str
    negated: bool

    @classmethod
    def of(cls, apply: Apply) -> AnyOf:
        """What an Apply that is no EXISTS asks: x < ALL (…) is that no row is one with x >= it."""
        made = cls(apply.comparison, negated=False)
        if apply.kind is SubqueryKind.ALL:
            made = cls(_OPPOSITE[apply.comparison], negated=True)
        return made

    def terms(self, left: Sequence[exp.Expr], right: Sequence[exp.Expr]) -> list[exp.Expr]:
        """The comparisons of each value with its own."""
        make = _MADE[self.comparison]
        return [make(this=_operand(a), expression=_operand(b)) for a, b in zip(left, right, strict=True)]

    def condition(self, left: Sequence[exp.Expr], right: Sequence[exp.Expr]) -> exp.Expr:
        """How rows of values compare: TRUE, FALSE or NULL."""
        terms = self.terms(left, right)
        return exp.or_(*terms) if self.comparison == "<>" else exp.and_(*terms)


def _operand(e: exp.Expr) -> exp.Expr:
    bare = e.unnest().copy()
    return exp.paren(bare, copy=False) if isinstance(bare, exp.Binary | exp.Connector | exp.Unary) else bare
