"""Types whose values are carried as text but ordered by a number: ENUM by its labels, TIME WITH TIME ZONE by the instant.

A TIME WITH TIME ZONE's number is DuckDB's own (`timetz_byte_comparable`): the microseconds in UTC, above the offset, of
which the farthest east is the least; so that two times with other offsets are never equal, as in DuckDB.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.plan.types import Kind, SqlType

#: The largest offset from UTC that DuckDB has, in seconds: 15:59:59.
_FARTHEST = 16 * 3600 - 1
_OFFSET_BITS = 24
_SECOND = 1_000_000
_TIME = re.compile(r"(\d+):(\d+):(\d+)(?:\.(\d+))?([+-])(\d+)(?::(\d+))?(?::(\d+))?")


def is_numbered(type_: SqlType) -> bool:
    """Whether values of the type are ordered by numbers that their text does not show."""
    return type_.kind in (Kind.ENUM, Kind.TIMETZ)


def numbers_of(texts: pa.Array, type_: SqlType) -> pa.Array:
    """The numbers of texts as DuckDB writes them (uint32 for an ENUM, else uint64); raises ArrowInvalid for no value.

    >>> numbers_of(pa.array(["b", None, "a"]), SqlType(Kind.ENUM, labels=("b", "a"))).to_pylist()
    [0, None, 1]
    """
    if type_.kind is Kind.ENUM:
        found = pc.index_in(texts, pa.array(type_.labels, pa.string())).cast(pa.uint32())
        if found.null_count > texts.null_count:
            raise pa.ArrowInvalid(f"a text is no label of {type_}")
        return found
    # Each different text once: nothing but Python can read them.
    encoded = texts.dictionary_encode()
    numbers = pa.array([_number(text) for text in encoded.dictionary.to_pylist()], pa.uint64())
    return numbers.take(encoded.indices)


def texts_of(numbers: npt.NDArray[Any], present: npt.NDArray[np.bool_], type_: SqlType) -> pa.Array:
    """The texts of numbers, NULL where they are not `present`; raises ValueError for a number that no value has."""
    different, places = np.unique(numbers, return_inverse=True)
    if type_.kind is Kind.ENUM:
        if len(different) and int(different[-1]) >= len(type_.labels):
            raise ValueError(f"{type_} has no label with the number {different[-1]}")
        texts = [type_.labels[number] for number in different.tolist()]
    else:
        texts = [_text(number) for number in different.tolist()]
    return pa.array(texts, pa.string()).take(pa.array(places, mask=~present))


def _number(text: str) -> int:
    found = _TIME.fullmatch(text)
    if found is None:
        raise pa.ArrowInvalid(f"no time of day with an offset: {text!r}")
    hours, minutes, seconds, fraction, sign, *offset = found.groups()
    micros = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * _SECOND
    micros += int((fraction or "").ljust(6, "0"))
    east = sum(int(part or 0) * unit for part, unit in zip(offset, (3600, 60, 1), strict=True))
    west = _FARTHEST - (-east if sign == "-" else east)
    return (micros + west * _SECOND) << _OFFSET_BITS | west


def _text(number: int) -> str:
    west = number & ((1 << _OFFSET_BITS) - 1)
    micros = (number >> _OFFSET_BITS) - west * _SECOND
    east = _FARTHEST - west
    seconds, fraction = divmod(micros, _SECOND)
    behind = f".{fraction:06d}".rstrip("0") if fraction else ""
    hours, minutes, rest = abs(east) // 3600, abs(east) // 60 % 60, abs(east) % 60
    offset = f"{'-' if east < 0 else '+'}{hours:02d}"
    if minutes or rest:
        offset += f":{minutes:02d}"
    if rest:
        offset += f":{rest:02d}"
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{behind}{offset}"
