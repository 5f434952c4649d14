"""ALL and SOME of a list in terms of ANY, the one that DuckDB has for lists of any kind; LIKE ANY in terms of OR."""

from __future__ import annotations

from sqlglot import exp

#: What is true of a comparison if and only if it is false, where neither side is NULL.
_NEGATED: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
}
COMPARISONS = tuple(_NEGATED)


def as_any(node: exp.Expr) -> exp.Expr:
    """`x > ALL(list)` as `NOT (x <= ANY(list))`, and `x = SOME([…])` as `x = ANY([…])`; anything else as it is.

    SOME of what is neither a list that is written out nor NULL may be the aggregate. `x LIKE ANY (a, b)` is Spark's: LIKE
    one or the other.

    >>> import sqlglot
    >>> sqlglot.parse_one("x > ALL([1, 2]) OR some(x)", dialect="duckdb").transform(as_any).sql("duckdb")
    'NOT (x <= ANY([1, 2])) OR SOME(x)'
    >>> sqlglot.parse_one("x NOT LIKE ALL ('a%', b)", dialect="duckdb").transform(as_any).sql("duckdb")
    "(x NOT LIKE 'a%' AND x NOT LIKE b)"
    """
    if isinstance(node, exp.Like | exp.ILike):
        return _patterns(node)
    if isinstance(node, exp.RegexpLike | exp.RegexpILike):
        return _regexes(node)
    if not isinstance(node, COMPARISONS):
        return node
    call = node.expression
    if not isinstance(call, exp.Anonymous | exp.All):
        return node
    name = "ALL" if isinstance(call, exp.All) else call.name.upper()
    arguments = [call.this.unnest()] if isinstance(call, exp.All) else call.expressions
    if len(arguments) != 1 or isinstance(arguments[0], exp.Tuple | exp.Query):
        return node
    if name != "ALL" and not is_some_of_a_list(call):
        return node
    class_ = _NEGATED[type(node)] if name == "ALL" else type(node)
    made: exp.Expr = class_(this=node.this, expression=exp.Any(this=exp.Paren(this=arguments[0])))
    if name == "ALL":
        made = exp.Not(this=exp.Paren(this=made))
    made.meta.update(node.meta)
    return made


def is_some_of_a_list(node: exp.Expr) -> bool:
    """Whether `SOME(…)` is of the elements of a list that is written out, or of NULL, and not the aggregate.

    >>> import sqlglot
    >>> is_some_of_a_list(sqlglot.parse_one("some(NULL)")), is_some_of_a_list(sqlglot.parse_one("some(x)"))
    (True, False)
    """
    called = isinstance(node, exp.Anonymous) and node.name.upper() == "SOME" and len(node.expressions) == 1
    return called and isinstance(node.expressions[0], exp.Array | exp.Null)


def _regexes(node: exp.Expr) -> exp.Expr:
    """`x ~ ANY (['a', 'b'])` and ALL of a list that is written out; not `!~`, which is of each element by itself."""
    call = node.expression
    if isinstance(node.parent, exp.Not):
        return node
    name = "ANY" if isinstance(call, exp.Any) else "ALL" if isinstance(call, exp.All) else call.name.upper()
    inner = call.this.unnest() if isinstance(call, exp.Any | exp.All) else None
    if isinstance(call, exp.Anonymous) and name in ("SOME", "ALL") and len(call.expressions) == 1:
        inner = call.expressions[0].unnest()
    if not isinstance(inner, exp.Array) or not inner.expressions:
        return node
    each = [node.copy() for _ in inner.expressions]
    for one, pattern in zip(each, inner.expressions, strict=True):
        one.set("expression", pattern.copy())
    made = exp.Paren(this=exp.and_(*each) if name == "ALL" else exp.or_(*each))
    made.meta.update(node.meta)
    return made


def _patterns(node: exp.Like | exp.ILike) -> exp.Expr:
    """LIKE ANY and LIKE ALL of patterns that are written out."""
    call = node.expression
    if not isinstance(call, exp.Any | exp.All):
        return node
    patterns = call.this.expressions if isinstance(call.this, exp.Tuple) else [call.this.unnest()]
    if len(patterns) == 1 and not isinstance(patterns[0], exp.Literal):
        return node  # a list, or a query
    each = [node.copy() for _ in patterns]
    for one, pattern in zip(each, patterns, strict=True):
        one.set("expression", pattern.copy())
    made = exp.Paren(this=exp.or_(*each) if isinstance(call, exp.Any) else exp.and_(*each))
    made.meta.update(node.meta)
    return made
