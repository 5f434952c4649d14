"""Which types of PostgreSQL's columns are read as which types of ours, strictly: each value is one of the declared type."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream_operators.plan.types import (
    BIGINT,
    BLOB,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    SMALLINT,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    Kind,
    SqlType,
    decimal,
)

#: Built-in types by their object ids, which are the same in each database.
_BUILT_IN = {
    16: BOOLEAN,
    17: BLOB,
    19: VARCHAR,  # name
    20: BIGINT,
    21: SMALLINT,
    23: INTEGER,
    25: VARCHAR,
    114: SqlType(Kind.JSON),
    700: FLOAT,
    701: DOUBLE,
    1042: VARCHAR,  # character(n), with its blanks
    1043: VARCHAR,
    1082: DATE,
    1083: SqlType(Kind.TIME),
    1114: TIMESTAMP,
    1184: TIMESTAMPTZ,
    1186: SqlType(Kind.INTERVAL),
    2950: SqlType(Kind.UUID),
    3802: SqlType(Kind.JSON),
}
_NUMERIC, _JSONB = 1700, 3802
_WHOLE = (Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.HUGEINT)
_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True)
class ReadType:
    """A type of PostgreSQL that can be read: what its values are, and whether each has a version before it (`jsonb`)."""

    type: SqlType
    version_byte: bool = False


def read_type(oid: int, modifier: int) -> ReadType | None:
    """What the values of a built-in type are, with the modifier that a column has (-1: none); None: it can't be read.

    >>> print(read_type(1700, (10 << 16 | 2) + 4).type, read_type(1700, -1), read_type(23, -1).type)
    DECIMAL(10,2) None INTEGER
    """
    if oid == _NUMERIC:
        precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0xFFFF
        if modifier < 4 or precision > _MOST_DIGITS or scale > precision:
            return None
        return ReadType(decimal(precision, scale))
    found = _BUILT_IN.get(oid)
    return None if found is None else ReadType(found, oid == _JSONB)


def is_read_as(there: SqlType, declared: SqlType) -> bool:
    """Whether each value of a column is one of the declared type.

    >>> is_read_as(INTEGER, BIGINT), is_read_as(BIGINT, INTEGER), is_read_as(TIMESTAMPTZ, TIMESTAMP)
    (True, False, False)
    """
    if there == declared or there.kind is declared.kind is not Kind.DECIMAL:
        return True
    match there.kind:
        case Kind.SMALLINT | Kind.INTEGER | Kind.BIGINT:
            return declared.kind in _WHOLE and _WHOLE.index(there.kind) <= _WHOLE.index(declared.kind)
        case Kind.FLOAT:
            return declared.kind is Kind.DOUBLE
        case Kind.DECIMAL:
            if declared.kind is not Kind.DECIMAL:
                return False
            scales = (there.scale or 0), (declared.scale or 0)
            before = (there.precision or 0) - scales[0], (declared.precision or 0) - scales[1]
            return scales[0] <= scales[1] and before[0] <= before[1]
        case Kind.UUID | Kind.JSON:
            return declared.kind is Kind.VARCHAR
    return False
