"""JOIN … ON a = b AND c < d  ->  a join that keeps the rows of both sides by a and b, with c < d as a further condition."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlstream_operators.plan.types import INTEGERS, Kind, SqlType
from sqlstream_planner.expressions.casts import common_type
from sqlstream_planner.expressions.infer import infer
from sqlstream_planner.logical import Fields, Join, JoinKind, Node, columns_of
from sqlstream_planner.logical.expressions import conjuncts
from sqlstream_planner.rules.streaming.node_rules import Streaming
from sqlstream_planner.streaming import EqualKey, RegularJoin

#: Kinds of numbers that are compared as those of their common type, without a loss.
_ALIKE = (frozenset({*INTEGERS, Kind.DECIMAL}), frozenset({Kind.FLOAT, Kind.DOUBLE}))


def regular_joins(node: Node, streaming: Streaming) -> Node | None:
    """Make of each join one that keeps its rows by what ON says to be equal.

    >>> from sqlstream_planner.testing import logical, streaming
    >>> query = "SELECT x.a FROM t AS x LEFT JOIN t AS y ON x.a = y.a AND x.c < y.c"
    >>> print(logical(query, rules=streaming(regular_joins)))
    sink result
      project a = a
        left regular join on a = a_2 AND c < c_2
          scan t (a, c, ts)
          scan t (a, c, ts)
    """
    if not isinstance(node, Join):
        return None
    keys, condition = keys_and_rest(node)
    kind = JoinKind.INNER if node.kind is JoinKind.CROSS else node.kind
    return RegularJoin(
        node.left,
        node.right,
        kind,
        keys,
        condition,
        streaming.meaning(node),
        node.ttl_us if keys else None,
    )


def keys_and_rest(node: Join) -> tuple[tuple[EqualKey, ...], exp.Expr | None]:
    """What the condition of a join says to be equal, by which rows can be kept, and the rest of it."""
    keys: list[EqualKey] = []
    rest: list[exp.Expr] = []
    for term in conjuncts(node.condition) if node.condition is not None else []:
        key = equal_key(term, node.left.fields, node.right.fields)
        if key is None:
            rest.append(term)
        elif key not in keys:
            keys.append(key)
    return tuple(keys), exp.and_(*rest) if rest else None


def equal_key(term: exp.Expr, left: Fields, right: Fields) -> EqualKey | None:
    """The two sides of an equality between the sides of a join, if rows can be kept by them."""
    bare = term.unnest()
    if not isinstance(bare, exp.EQ):
        return None
    sides = [{f.id for f in fields} for fields in (left, right)]
    for mine, theirs in ((bare.this, bare.expression), (bare.expression, bare.this)):
        read = columns_of(mine), columns_of(theirs)
        if read[0] and read[1] and read[0] <= sides[0] and read[1] <= sides[1]:
            type_ = _common(_type(mine, left), _type(theirs, right))
            return EqualKey(mine, theirs, type_) if type_ is not None else None
    return None


def _type(expression: exp.Expr, fields: Fields) -> SqlType:
    known: Mapping[str, tuple[SqlType, bool]] = {f.id: (f.type, f.nullable) for f in fields}
    return infer(expression, known).type


def _common(left: SqlType, right: SqlType) -> SqlType | None:
    """The type in which values of two types are equal exactly where SQL's = says so; None where that is not certain."""
    if not left.is_known or Kind.NULL in (left.kind, right.kind):
        return None
    if left == right:
        return left
    common = common_type([left, right])
    for kinds in _ALIKE:
        if common is not None and {left.kind, right.kind, common.kind} <= kinds:
            return common
    return None
