"""As which types of ours columns of a table in a lake can be read, so that each value is the same."""

from __future__ import annotations

from sqlstream_operators.plan.types import Kind, SqlType
from sqlstream_operators.plan.widening import widens

#: What sinks write as a string, for want of a type.
_TEXTS = frozenset({Kind.VARCHAR, Kind.UUID, Kind.JSON, Kind.TIMETZ, Kind.BIT})


def is_read_as(there: SqlType, declared: SqlType) -> bool:
    """Whether each value of a column of the table is one of the declared type.

    >>> from sqlstream_operators.plan.types import BIGINT, INTEGER, TIMESTAMP, TIMESTAMPTZ, decimal
    >>> is_read_as(INTEGER, BIGINT), is_read_as(BIGINT, INTEGER), is_read_as(TIMESTAMPTZ, TIMESTAMP)
    (True, False, True)
    >>> is_read_as(decimal(10, 2), decimal(12, 4)), is_read_as(decimal(10, 2), decimal(11, 4))
    (True, False)
    """
    if widens(there, declared):
        return True
    match there.kind:
        case Kind.FLOAT:
            return declared.kind is Kind.DOUBLE
        case Kind.DECIMAL:
            if declared.kind is Kind.HUGEINT:
                return there.scale == 0
            if declared.kind is not Kind.DECIMAL:
                return False
            scales = (there.scale or 0), (declared.scale or 0)
            before = (there.precision or 0) - scales[0], (declared.precision or 0) - scales[1]
            return scales[0] <= scales[1] and before[0] <= before[1]
        case Kind.VARCHAR:
            return declared.kind in _TEXTS
        case Kind.TIMESTAMPTZ:
            return declared.kind is Kind.TIMESTAMP  # the time in UTC
        case Kind.ARRAY if there.element is not None and declared.element is not None:
            return is_read_as(there.element, declared.element)
        case Kind.MAP if declared.kind is Kind.MAP:
            parts = ((there.key, declared.key), (there.value, declared.value))
            return all(a is not None and b is not None and is_read_as(a, b) for a, b in parts)
        case Kind.STRUCT if declared.kind is Kind.STRUCT:
            fields = dict(there.fields)
            return all(name in fields and is_read_as(fields[name], type_) for name, type_ in declared.fields)
    return False
