"""Values that SQL calls equal and that are not the same: 0.0 and -0.0, one month and 30 days, and what has them inside.

What is retracted is always exactly what was given, so rows that differ in such a value are two rows. A *key* has no such
values: what is grouped by, made distinct or counted by value is 0.0 for -0.0, and 30 days for a month, whichever came.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .schema import Column
from .types import Kind, SqlType, quote_identifier


def has_equals(type_: SqlType) -> bool:
    """Whether values of the type can be equal without being the same."""
    if type_.kind in (Kind.FLOAT, Kind.DOUBLE, Kind.INTERVAL):
        return True
    inside: Sequence[SqlType | None] = (type_.element, type_.key, type_.value, *(t for _, t in type_.fields))
    return any(t is not None and has_equals(t) for t in inside)


def exactly(columns: Iterable[Column]) -> list[str]:
    """The columns as SQL to group by, with what distinguishes equal values that are not the same.

    >>> from .types import parse_type
    >>> exactly([Column("x", parse_type("DOUBLE")), Column("i", parse_type("INTERVAL")), Column("n", parse_type("BIGINT"))])
    ['"x"', 'signbit("x")', '"i"', 'CAST("i" AS VARCHAR)', '"n"']
    """
    found = []
    for column in columns:
        name = quote_identifier(column.name)
        found.append(name)
        if has_equals(column.type):
            found.append(distinguishing(name, column.type))
    return found


def distinguishing(value: str, type_: SqlType) -> str:
    """SQL that is another for two equal values of a type that `has_equals` which are not the same."""
    return f"signbit({value})" if type_.kind in (Kind.FLOAT, Kind.DOUBLE) else f"CAST({value} AS VARCHAR)"


def differing(one: str, other: str, type_: SqlType) -> str:
    """SQL that is true where two values of a type are not the same."""
    found = f"{one} IS DISTINCT FROM {other}"
    if has_equals(type_):
        found += f" OR {distinguishing(one, type_)} IS DISTINCT FROM {distinguishing(other, type_)}"
    return found
