"""Whether two files may have values in common, by the least and the greatest that a manifest says of each column."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pyiceberg import types as ice
from pyiceberg.conversions import from_bytes

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile

_WHOLE = (ice.IntegerType, ice.LongType)
#: A date that became a timestamp counts days in its older files, in four bytes.
_MOMENTS = (ice.DateType, ice.TimestampType, ice.TimestamptzType)


def may_share(columns: Iterable[tuple[int, ice.PrimitiveType]], one: DataFile, other: DataFile) -> bool:
    """Whether a row of one file may have the same values of all these columns (ids of fields) as a row of the other.

    NULL is a value, too. What is not said may be anything.
    """
    return not any(_are_apart(id_, type_, one, other) for id_, type_ in columns)


def _are_apart(id_: int, type_: ice.PrimitiveType, one: DataFile, other: DataFile) -> bool:
    if all((file.null_value_counts or {}).get(id_) != 0 for file in (one, other)):
        return False
    ranges = [_range(id_, type_, file) for file in (one, other)]
    if ranges[0] is None or ranges[1] is None:
        return False
    (unit, low, high), (other_unit, other_low, other_high) = ranges[0], ranges[1]
    return unit == other_unit and bool(high < other_low or other_high < low)


def _range(id_: int, type_: ice.PrimitiveType, file: DataFile) -> tuple[int, Any, Any] | None:
    """The lower and the upper bound, behind the unit in which they count; None: they are not known.

    The same by the type that the column had before as by the one that it has now: positions count the files that are read.
    """
    low, high = ((bounds or {}).get(id_) for bounds in (file.lower_bounds, file.upper_bounds))
    if low is None or high is None:
        return None
    if isinstance(type_, _WHOLE):
        return 0, _number(low), _number(high)
    if isinstance(type_, _MOMENTS):
        return (len(low), _number(low), _number(high)) if len(low) == len(high) else None
    if isinstance(type_, ice.DecimalType | ice.StringType):
        try:
            return 0, from_bytes(type_, low), from_bytes(type_, high)
        except ValueError:  # a text that was cut inside of a character
            return None
    return None


def _number(bound: bytes) -> int:
    return int.from_bytes(bound, "little", signed=True)
