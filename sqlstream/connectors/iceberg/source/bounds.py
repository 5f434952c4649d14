"""Whether two files may have values in common, by the least and the greatest that a manifest says of each column."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pyiceberg import types as ice
from pyiceberg.conversions import from_bytes

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile

#: Types whose bounds are compared, and how many bytes they have (none: any number). Others may be those of a former type
#: of the column: a date that became a timestamp has four.
_COMPARED: dict[type[ice.PrimitiveType], tuple[int, ...]] = {
    ice.IntegerType: (4,),
    ice.LongType: (4, 8),
    ice.DateType: (4,),
    ice.TimestampType: (8,),
    ice.TimestamptzType: (8,),
    ice.DecimalType: (),
    ice.StringType: (),
}


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
    (low, high), (other_low, other_high) = ranges[0], ranges[1]
    return bool(high < other_low or other_high < low)


def _range(id_: int, type_: ice.PrimitiveType, file: DataFile) -> tuple[Any, Any] | None:
    """The least and the greatest value, or what is less and greater; None: it is not known."""
    lengths = _COMPARED.get(type(type_))
    found = [(bounds or {}).get(id_) for bounds in (file.lower_bounds, file.upper_bounds)]
    if lengths is None or found[0] is None or found[1] is None:
        return None
    if lengths and any(len(bound) not in lengths for bound in found if bound is not None):
        return None
    try:
        return from_bytes(type_, found[0]), from_bytes(type_, found[1])
    except ValueError:  # a text that was cut inside of a character
        return None
