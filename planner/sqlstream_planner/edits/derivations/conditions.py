"""Conditions that the new rows must pass and the old ones need not: as SQL over what is stored.

Old rows can be narrowed and never widened: each old condition must be a new one too, or follow from one.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from sqlstream_planner.edits.derivations.rewritten import Rewriter
from sqlstream_planner.identity.form import Form
from sqlstream_planner.logical import Filter, Node, Project, Unnest, WindowFunction
from sqlstream_planner.logical.algebra import EmitOnClose
from sqlstream_planner.logical.expressions import conjuncts

_DIGITS = 6


def narrowing(
    old: frozenset[Form], new: frozenset[Form], below: Node, rewriter: Rewriter
) -> tuple[str, ...] | None:
    """DuckDB conditions that leave of the old rows those that are new ones too: () if all are, None if there are none.

    `below` is the new relation with its conditions; `rewriter` says what is stored of a row.
    """
    added = new - old
    if any(not any(implies(by, gone) for by in added) for gone in old - new):
        return None
    found: dict[Form, str] = {}
    for predicate, node in _predicates(below):
        for part in conjuncts(predicate):
            forms = _forms(rewriter.meanings.expression(part, node))
            if forms.isdisjoint(added) or forms <= found.keys():
                continue
            text = rewriter.sql(part, node)
            if text is None:
                return None
            found |= dict.fromkeys(forms, f"({text})")
    return tuple(dict.fromkeys(found.values())) if added <= found.keys() else None


def _predicates(node: Node) -> Iterator[tuple[exp.Expr, Node]]:
    """The predicates on the way down from a relation whose rows they all narrow, each with what it is over."""
    while True:
        if isinstance(node, Filter):
            yield node.predicate, node.input
        elif not isinstance(node, Project | WindowFunction | Unnest | EmitOnClose):
            return
        node = node.input


def _forms(predicate: Form) -> frozenset[Form]:
    if predicate.op != "and":
        return frozenset({predicate})
    return frozenset(a for a in predicate.args if isinstance(a, Form))


def implies(stronger: Form, weaker: Form) -> bool:
    """Whether a comparison with a number follows from another of the same value.

    >>> from sqlstream_planner.identity.form import form
    >>> def less(number, value): return form("<", form("number", number), form("column", value))
    >>> implies(less("5", "a"), less("3", "a")), implies(less("3", "a"), less("5", "a"))
    (True, False)
    >>> implies(less("5", "a"), less("3", "b"))
    False
    """
    one, other = _bound(stronger), _bound(weaker)
    if one is None or other is None or one[:2] != other[:2]:
        return False
    (_, upper, limit, strict), (_, _, wider, wider_strict) = one, other
    if limit == wider:
        return strict or not wider_strict
    return limit < wider if upper else limit > wider


def _bound(predicate: Form) -> tuple[Form, bool, Decimal, bool] | None:
    """A comparison as what is bounded, whether from above, by what, and whether strictly."""
    if predicate.op not in ("<", "<=") or len(predicate.args) != 2:
        return None
    left, right = predicate.args
    if not isinstance(left, Form) or not isinstance(right, Form):
        return None
    strict = predicate.op == "<"
    below, above = _number(left), _number(right)
    if (below is None) == (above is None):
        return None
    if above is not None:
        return left, True, above, strict
    assert below is not None
    return right, False, below, strict


def _number(found: Form) -> Decimal | None:
    """A literal of few digits: no type that it is compared in, FLOAT included, takes two of these for one."""
    if found.op != "number" or not isinstance(found.args[0], str):
        return None
    try:
        number = Decimal(found.args[0])
    except InvalidOperation:
        return None
    return number if len(number.normalize().as_tuple().digits) <= _DIGITS else None
