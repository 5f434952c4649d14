"""How deep syntax may nest, and chains of AND and OR as trees that are not deep."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.sql.dialect.positions import own_range, set_range

#: The greatest nesting depth of syntax. What plans and runs a query recurses over it.
MAX_DEPTH = 10_000
#: How many operands of AND or OR stand in each other as they were written.
_CHAIN = 32


def balanced(node: exp.Expr) -> exp.Expr:
    """A long chain of ANDs or of ORs as a tree as shallow as it can be; everything else as it is.

    The order of the operands stays, and so do the ranges of what is combined. Both operators are associative, and a
    tree is printed as the chain was.

    >>> import sqlglot
    >>> chain = sqlglot.parse_one(" OR ".join(f"c{i}" for i in range(1000)))
    >>> below_depth(balanced(chain), 12) is None, balanced(chain).sql() == chain.sql()
    (True, True)
    """
    kind = type(node)
    if kind not in (exp.And, exp.Or):
        return node
    operands: list[exp.Expr] = []
    at = node
    while type(at) is kind:
        operands.append(at.expression)
        at = at.this
    if len(operands) < _CHAIN:
        return node
    operands = [at, *reversed(operands)]
    while len(operands) > 1:
        pairs = list(zip(operands[::2], operands[1::2], strict=False))
        rest = operands[2 * len(pairs) :]
        operands = [_both(kind, left, right) for left, right in pairs] + rest
    return operands[0]


def _both(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    made = kind(this=left, expression=right)
    first, last = own_range(left), own_range(right)
    if first is not None and last is not None:
        set_range(made, first[0], last[1])
    return made


def below_depth(node: exp.Expr, most: int = MAX_DEPTH) -> exp.Expr | None:
    """A part of `node` that stands in more than so many others, or None.

    >>> import sqlglot
    >>> print(below_depth(sqlglot.parse_one("a + b"), 3))
    None
    >>> below_depth(sqlglot.parse_one("(a + b) * c"), 2).sql()
    'a + b'
    """
    frontier = [node]
    for _ in range(most + 1):
        frontier = [child for each in frontier for child in each.iter_expressions()]
        if not frontier:
            return None
    return frontier[0].parent
