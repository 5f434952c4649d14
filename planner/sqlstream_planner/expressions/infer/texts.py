"""Strings that are written where another type is wanted: what can be told of them before anything runs."""

from __future__ import annotations

import re
from datetime import date

from sqlstream_operators.plan.types import Kind, SqlType

_TRUTHS = frozenset({"true", "false", "t", "f", "yes", "no", "y", "n", "1", "0"})
_WORDS = frozenset({"nan", "inf", "infinity", "epoch"})
_DAY = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?=$|[ t])")
_TIMES = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.DATE, Kind.TIME})


def never(text: str, type_: SqlType) -> bool:
    """Whether DuckDB can't read `text` as `type_`, for sure.

    True for a number or a time without any digit, a day that no month has, and what is no truth value.

    >>> never("abc", SqlType(Kind.INTEGER)), never("inf", SqlType(Kind.DOUBLE)), never("1a", SqlType(Kind.INTEGER))
    (True, False, False)
    >>> never("2023-02-29 10:00:00", SqlType(Kind.TIMESTAMP)), never("2024-02-29", SqlType(Kind.DATE))
    (True, False)
    """
    word = text.strip().lower()
    if type_.kind is Kind.BOOLEAN:
        return word not in _TRUTHS
    day = _DAY.match(word)
    if day is not None and type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.DATE):
        return not _exists(*map(int, day.groups()))
    if type_.is_numeric or type_.kind in _TIMES:
        return not any(c.isdigit() for c in word) and word.lstrip("+-") not in _WORDS
    return False


def _exists(year: int, month: int, day: int) -> bool:
    try:
        date(year or 4, month, day)  # the year 0 is a leap year, too
    except ValueError:
        return False
    return True


def instead_of(type_: SqlType) -> str:
    """What to write for a value of `type_`."""
    match type_.kind:
        case Kind.BOOLEAN:
            return "write TRUE or FALSE"
        case Kind.DATE:
            return "write a date, such as DATE '2024-01-31'"
        case Kind.TIME:
            return "write a time, such as TIME '12:30:00'"
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return "write a time, such as TIMESTAMP '2024-01-31 12:30:00'"
        case _:
            return "write a number"
