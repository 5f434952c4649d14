"""Texts that are values of a type beyond doubt, as most that people write; and what to write instead of one that is none."""

from __future__ import annotations

import re
from datetime import datetime

from sqlstream_operators.plan.types import Kind, SqlType

_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?")
_NUMBERS = (Kind.INTEGER, Kind.BIGINT, Kind.DOUBLE, Kind.FLOAT)
#: Whole numbers below it fit into an INTEGER.
SMALL = 2**31


def is_plainly(text: str, kind: Kind) -> bool:
    """Whether `text` is a value of a type of this kind; False where that is not certain.

    >>> is_plainly("2024-02-29", Kind.DATE), is_plainly("2023-02-29", Kind.DATE), is_plainly("1", Kind.TINYINT)
    (True, False, False)
    """
    if kind is Kind.VARCHAR:
        return True
    if kind in (Kind.DATE, Kind.TIMESTAMP):
        dated = _DATE.fullmatch(text) is not None
        if not dated and (kind is Kind.DATE or _TIME.fullmatch(text) is None):
            return False
        try:
            datetime.fromisoformat(text)
        except ValueError:
            return False
        return not text.startswith("0000")
    return kind in _NUMBERS and text.isdecimal() and text.isascii() and int(text) < SMALL


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
        case Kind.TIMESTAMP_NS:
            return "write a time, such as TIMESTAMP_NS '2024-01-31 12:30:00.123456789'"
        case Kind.TIMETZ:
            return "write a time of day with an offset, such as TIMETZ '12:30:00+02'"
        case Kind.BIT:
            return "write bits, such as '0101'"
        case _ if type_.is_numeric:
            return "write a number"
        case _:
            return f"write a value of the type {type_}"
