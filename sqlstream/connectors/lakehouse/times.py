"""Dates and times that a lake's table can have: a row with another one is refused before its epoch is decided."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.errors import DataError

_DAY_SECONDS = 86_400
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
#: DuckDB's infinities, in days and in microseconds.
_INFINITE = frozenset({2**31 - 1, 2**63 - 1})


def _days(year: int) -> int:
    """The first day of a year, in days since 1970."""
    return int(np.datetime64(f"{year:04d}-01-01", "D").astype(np.int64))


#: What the libraries of both lakes can write as bounds of a file, and read again: years of four digits.
_FIRST, _END = _days(1), _days(9999) + 365


def check_times(sink: str, rows: pa.Table | pa.RecordBatch) -> None:
    """Raises DataError for a date or time that is not in the years from 1 to 9999, also inside of others."""
    for field in rows.schema:
        if not has_times(field.type):
            continue
        column = rows.column(field.name)
        for array in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            for times in _times(array):
                _check(sink, field.name, times)


def _check(sink: str, column: str, times: pa.Array) -> None:
    is_date = pa.types.is_date32(times.type)
    per_day = 1 if is_date else _DAY_SECONDS * _PER_SECOND[times.type.unit]
    found = pc.min_max(times.view(pa.int32() if is_date else pa.int64()))
    for number in (found["min"].as_py(), found["max"].as_py()):
        if number is not None and not _FIRST * per_day <= number < _END * per_day:
            shown = _shown(number, "D" if is_date else times.type.unit)
            raise DataError(
                f"a row of `{sink}` has {shown} in `{column}`, and its table has only times of the years 1 to 9999: "
                f"write CASE WHEN {column} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN {column} END, "
                "or leave such rows out"
            )


def has_times(type_: pa.DataType) -> bool:
    """Whether values of a type have dates or times."""
    if pa.types.is_date32(type_) or pa.types.is_timestamp(type_):
        return True
    return any(has_times(type_.field(i).type) for i in range(type_.num_fields))


def _times(array: pa.Array) -> Iterator[pa.Array]:
    """The arrays of dates and times in one of any type."""
    type_ = array.type
    if pa.types.is_date32(type_) or pa.types.is_timestamp(type_):
        yield array
    elif pa.types.is_struct(type_):
        for i, part in enumerate(array.flatten()):
            if has_times(type_.field(i).type):
                yield from _times(part)
    elif pa.types.is_map(type_):
        begin, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        for part in (array.keys, array.items):
            if has_times(part.type):
                yield from _times(part.slice(begin, end - begin))
    elif has_times(type_):
        yield from _times(array.flatten())


def _shown(number: int, unit: str) -> str:
    if abs(number) in _INFINITE:
        return "infinity" if number > 0 else "-infinity"
    return str(np.array(number, np.int64).astype(f"datetime64[{unit}]"))
