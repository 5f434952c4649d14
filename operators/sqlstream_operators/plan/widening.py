"""Which types have every value of another, so that what was kept as the one can go on as the other."""

from __future__ import annotations

from sqlstream_operators.plan.types import Kind, SqlType

_SIGNED = (Kind.TINYINT, Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.HUGEINT)
_UNSIGNED = (Kind.UTINYINT, Kind.USMALLINT, Kind.UINTEGER, Kind.UBIGINT)


def widens(old: SqlType, new: SqlType) -> bool:
    """Whether every value of `old` is one of `new`, and is read as the same.

    >>> from sqlstream_operators.plan.types import BIGINT, DOUBLE, FLOAT, INTEGER, decimal
    >>> widens(INTEGER, BIGINT), widens(BIGINT, INTEGER), widens(FLOAT, DOUBLE)
    (True, False, False)
    >>> widens(decimal(8, 2), decimal(10, 2)), widens(decimal(8, 2), decimal(10, 3))
    (True, False)
    """
    if old == new:
        return True
    if old.kind is Kind.DECIMAL and new.kind is Kind.DECIMAL:
        return old.scale == new.scale and (old.precision or 0) <= (new.precision or 0)
    for family in (_SIGNED, _UNSIGNED):
        if old.kind in family and new.kind in family:
            return family.index(old.kind) <= family.index(new.kind)
    if old.kind in _UNSIGNED and new.kind in _SIGNED:
        return _UNSIGNED.index(old.kind) < _SIGNED.index(new.kind)
    return False
