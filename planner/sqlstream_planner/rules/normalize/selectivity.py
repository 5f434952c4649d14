"""Which part of the rows a condition leaves, guessed by its form: values and data are not looked at."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.logical import Filter, Node, Project, columns_of
from sqlstream_planner.logical.expressions import conjuncts

#: The fractions of Selinger et al., Access Path Selection in a Relational Database Management System, SIGMOD 1979.
_EQUAL, _BETWEEN, _RANGE, _OTHER = 1 / 10, 1 / 4, 1 / 3, 1 / 3
#: What a list, or a chain of ORs, leaves at most.
_MOST = 0.5


def share_of(node: Node) -> float:
    """The part of the rows below filters and projections that the filters leave."""
    found = 1.0
    while isinstance(node, Project | Filter):
        if isinstance(node, Filter):
            found *= selectivity(node.predicate)
        node = node.input
    return found


def selectivity(condition: exp.Expr) -> float:
    """The part of the rows for which a condition may hold.

    >>> from sqlglot import parse_one
    >>> [round(selectivity(parse_one(t)), 2) for t in ("a = 1", "a > 1 AND a < 5", "a IN (1, 2)", "NOT a = 1", "a = b")]
    [0.1, 0.11, 0.2, 0.9, 0.1]
    """
    found = 1.0
    for term in conjuncts(condition):
        found *= _of_term(term.unnest())
    return found


def _of_term(term: exp.Expr) -> float:
    match term:
        case exp.Boolean():
            return 1.0 if term.this else 0.0
        case exp.Not():
            return max(1 - _of_term(term.this.unnest()), _EQUAL)
        case exp.Or():
            return min(selectivity(term.this) + selectivity(term.expression), _MOST)
        case exp.And():
            return selectivity(term)
        case exp.In() if term.expressions:
            return min(_EQUAL * len(term.expressions), _MOST)
        case exp.EQ() | exp.Is() | exp.NullSafeEQ():
            return _EQUAL
        case exp.NEQ():
            return 1 - _EQUAL
        case exp.Between():
            return _BETWEEN
        case exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return _RANGE
    return _OTHER if columns_of(term) else 1.0
