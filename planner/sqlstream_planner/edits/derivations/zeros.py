"""Which expressions don't distinguish 0.0 from -0.0: a key is stored as 0.0, whichever of the two the rows had."""

from __future__ import annotations

from enum import Enum

from sqlglot import exp

from sqlstream_operators.plan.types import Kind

FLOATING = frozenset({Kind.FLOAT, Kind.DOUBLE})
_COMPARISONS = (
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.Between,
    exp.Is,
)
#: Functions that are 0 of both, if they are of one.
_NUMBER_BY_NUMBER = frozenset({"FLOOR", "CEIL", "CEILING", "ROUND", "TRUNC", "ABS", "COALESCE"})
_EXACT = frozenset(
    {
        exp.DataType.Type.TINYINT, exp.DataType.Type.SMALLINT, exp.DataType.Type.INT, exp.DataType.Type.BIGINT,
        exp.DataType.Type.INT128, exp.DataType.Type.DECIMAL, exp.DataType.Type.BOOLEAN,
    }
)  # fmt: skip
_FLOATS = frozenset({exp.DataType.Type.FLOAT, exp.DataType.Type.DOUBLE})


class Zeros(Enum):
    """What an expression gives over 0.0 where rows had -0.0: the same, the same but for a 0's sign, or another value."""

    SAME = 0
    EITHER = 1
    OTHER = 2


def zeros_of(expression: exp.Expr, floats: frozenset[str]) -> Zeros:
    """What an expression gives if the columns `floats` have 0.0 in the place of -0.0.

    >>> from sqlglot import parse_one
    >>> def zeros(text): return zeros_of(parse_one(text, dialect="duckdb"), frozenset({"x"})).name
    >>> zeros("x > 1 AND k = 2"), zeros("x * 2 - 1"), zeros("1 / x"), zeros("CAST(x AS VARCHAR)")
    ('SAME', 'EITHER', 'OTHER', 'OTHER')
    """
    if not any(column.name in floats for column in expression.find_all(exp.Column)):
        return Zeros.SAME
    match expression:
        case exp.Column():
            return Zeros.EITHER
        case exp.Paren():
            return zeros_of(expression.this, floats)
        case exp.Neg() | exp.Abs() | exp.Add() | exp.Sub() | exp.Mul():
            return _worst(expression, floats, Zeros.EITHER)
        case exp.Div():
            other = zeros_of(expression.expression, floats)
            return _worst(expression, floats, Zeros.EITHER) if other is Zeros.SAME else Zeros.OTHER
        case exp.Anonymous() if str(expression.this).upper() in _NUMBER_BY_NUMBER:
            return _worst(expression, floats, Zeros.EITHER)
        case exp.Case() if expression.this is None:
            return _case(expression, floats)
        case exp.Cast() if not isinstance(expression, exp.TryCast):
            if expression.to.this in _EXACT:
                return _worst(expression, floats, Zeros.SAME)
            return _worst(expression, floats, Zeros.EITHER) if expression.to.this in _FLOATS else Zeros.OTHER
        case exp.And() | exp.Or() | exp.Not():
            inside = _worst(expression, floats, Zeros.EITHER)
            return inside if inside is Zeros.SAME else Zeros.OTHER
    if isinstance(expression, _COMPARISONS):
        return _worst(expression, floats, Zeros.SAME)
    return Zeros.OTHER


def _case(expression: exp.Case, floats: frozenset[str]) -> Zeros:
    """Its conditions must not distinguish the two; it gives one of its results."""
    branches = expression.args["ifs"]
    results = [branch.args["true"] for branch in branches]
    results += [expression.args["default"]] if expression.args.get("default") is not None else []
    conditions = {zeros_of(branch.this, floats) for branch in branches}
    found = {zeros_of(result, floats) for result in results}
    if conditions != {Zeros.SAME} or Zeros.OTHER in found:
        return Zeros.OTHER
    return Zeros.EITHER if Zeros.EITHER in found else Zeros.SAME


def _worst(expression: exp.Expr, floats: frozenset[str], best: Zeros) -> Zeros:
    """`best` if no operand is another value, and SAME if all are."""
    inside = [zeros_of(e, floats) for e in expression.iter_expressions() if not isinstance(e, exp.DataType)]
    if Zeros.OTHER in inside:
        return Zeros.OTHER
    return best if Zeros.EITHER in inside else Zeros.SAME
