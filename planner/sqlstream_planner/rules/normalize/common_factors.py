"""(a = b AND c) OR (a = b AND d)  ->  a = b AND (c OR d), so that what a join compares is its key."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream_planner.logical import Apply, Filter, Join, Node, Project, Sink, columns_of, transform
from sqlstream_planner.logical.expressions import conjuncts
from sqlstream_planner.properties.facts import Facts


def common_factors(roots: tuple[Sink, ...], _: Facts) -> tuple[Sink, ...]:
    """Take an equality that stands in each operand of an OR out of it, in ON and in a WHERE over a join.

    AND distributes over OR with NULLs, too.

    >>> from sqlstream_planner.testing import logical
    >>> query = "SELECT x.a FROM t AS x JOIN t AS y ON (x.a = y.a AND x.c > 1) OR (x.a = y.a AND y.c > 1)"
    >>> print(logical(query, rules=(common_factors,)))
    sink result
      project a = a_3
        project a = a
          inner join on a = a_2 AND (c > 1 OR c_2 > 1)
            scan t (a, c, ts)
            scan t (a, c, ts)
    """

    def rewrite(node: Node) -> Node:
        if isinstance(node, Join) and node.condition is not None:
            made = _factored(node.condition)
            return node if made is None else replace(node, condition=made)
        if isinstance(node, Filter) and _over_join(node.input):
            made = _factored(node.predicate)
            return node if made is None else replace(node, predicate=made)
        return node

    return transform(roots, rewrite)


def _over_join(node: Node) -> bool:
    while isinstance(node, Filter | Project | Apply):
        node = node.inputs[0]
    return isinstance(node, Join)


def _factored(predicate: exp.Expr) -> exp.Expr | None:
    """A condition of which equalities of two columns are taken out; None if there is none to be."""
    found: list[exp.Expr] = []
    changed = False
    for term in conjuncts(predicate):
        made = _of_or(term)
        changed |= made is not None
        found += made or [term]
    return exp.and_(*found) if changed else None


def _of_or(term: exp.Expr) -> list[exp.Expr] | None:
    branches = [conjuncts(branch) for branch in _disjuncts(term)]
    if len(branches) < 2:
        return None
    common = [e for e in branches[0] if _is_key(e) and all(_holds(e, other) for other in branches[1:])]
    if not common:
        return None
    rests = [[e for e in branch if not _holds(e, common)] for branch in branches]
    if not all(rests):
        return common
    return [*common, exp.paren(exp.or_(*(exp.and_(*rest) for rest in rests)), copy=False)]


def _holds(term: exp.Expr, terms: list[exp.Expr]) -> bool:
    return any(term.unnest() == other.unnest() for other in terms)


def _is_key(term: exp.Expr) -> bool:
    bare = term.unnest()
    return isinstance(bare, exp.EQ) and bool(columns_of(bare.this)) and bool(columns_of(bare.expression))


def _disjuncts(term: exp.Expr) -> list[exp.Expr]:
    found, stack = [], [term]
    while stack:
        top = stack.pop()
        bare = top.unnest()
        if isinstance(bare, exp.Or):
            stack += [bare.expression, bare.this]
        else:
            found.append(top)
    return found
