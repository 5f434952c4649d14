"""Casts that keep different values apart, so that a column that is unique still is after them."""

from __future__ import annotations

from sqlstream_operators.plan.types import Kind, SqlType
from sqlstream_planner.expressions.casts import decimal_of

#: Types whose text says exactly which value it is.
_EXACT_TEXT = frozenset(
    {
        *(Kind.BOOLEAN, Kind.DECIMAL, Kind.UUID, Kind.ENUM, Kind.BIT),
        *(Kind.DATE, Kind.TIME, Kind.TIMETZ, Kind.TIMESTAMP, Kind.TIMESTAMP_NS),
    }
)
_IN_DOUBLE = frozenset(
    {Kind.TINYINT, Kind.SMALLINT, Kind.INTEGER, Kind.UTINYINT, Kind.USMALLINT, Kind.UINTEGER, Kind.FLOAT}
)


def keeps_apart(from_: SqlType, to: SqlType) -> bool:
    """Whether a CAST never makes one value of two. A value that does not fit fails the CAST, and is not changed.

    >>> from sqlstream_operators.plan.types import BIGINT, INTEGER, VARCHAR, decimal
    >>> keeps_apart(BIGINT, INTEGER), keeps_apart(INTEGER, VARCHAR), keeps_apart(INTEGER, decimal(12, 2))
    (True, True, True)
    >>> keeps_apart(VARCHAR, BIGINT), keeps_apart(decimal(12, 2), INTEGER)
    (False, False)
    """
    if from_.is_integer and to.is_integer:
        return True
    if to.kind is Kind.DECIMAL and (from_.is_integer or from_.kind is Kind.DECIMAL):
        return decimal_of(to)[1] >= decimal_of(from_)[1]
    if from_.kind is Kind.DECIMAL and to.is_integer:
        return from_.scale == 0
    match to.kind:
        case Kind.VARCHAR:
            return from_.is_integer or from_.kind in _EXACT_TEXT
        case Kind.DOUBLE:
            return from_.kind in _IN_DOUBLE
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return from_.kind is Kind.DATE
    return False
