"""Hypothesis strategies of SQL types and of Arrow columns with their extreme values."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.plan import types as t
from sqlstream_operators.plan.types import Kind, SqlType

_EPOCH = dt.datetime(1970, 1, 1)
_INTEGERS = {
    Kind.TINYINT: (-(2**7), 2**7 - 1),
    Kind.SMALLINT: (-(2**15), 2**15 - 1),
    Kind.INTEGER: (-(2**31), 2**31 - 1),
    Kind.BIGINT: (-(2**63), 2**63 - 1),
    Kind.UTINYINT: (0, 2**8 - 1),
    Kind.USMALLINT: (0, 2**16 - 1),
    Kind.UINTEGER: (0, 2**32 - 1),
    Kind.UBIGINT: (0, 2**64 - 1),
}
_TEXT = st.text(st.sampled_from("a\0b\x01\xff\u00e9\U0001f600z"), max_size=12)


def scalar_types() -> st.SearchStrategy[SqlType]:
    several = t.NESTED | {Kind.DECIMAL, Kind.ENUM, Kind.UNKNOWN}
    simple = [*(SqlType(kind) for kind in Kind if kind not in several), t.enum("b", "", "a'b", "a")]
    decimals = [t.decimal(10, 2), t.decimal(18, 18), t.decimal(19, 0), t.decimal(38, 10), t.decimal(1, 0)]
    return st.sampled_from(simple + decimals)


def any_types() -> st.SearchStrategy[SqlType]:
    def nested(inner: st.SearchStrategy[SqlType]) -> st.SearchStrategy[SqlType]:
        keys = scalar_types().filter(lambda type_: type_.kind is not Kind.NULL)
        return st.one_of(
            inner.map(t.array),
            st.tuples(keys, inner).map(lambda pair: t.map_of(*pair)),
            st.lists(inner, min_size=1, max_size=3).map(
                lambda fields: t.struct(*((f"f{i}", field) for i, field in enumerate(fields)))
            ),
            st.lists(inner, min_size=1, max_size=2).map(lambda fields: t.tuple_of(*fields)),
        )

    # No NULL inside a nested type: DuckDB gives the elements of an untyped list a type, and pyarrow flattens a
    # slice of a list of maps of lists of NULL wrongly.
    leaves = scalar_types().filter(lambda type_: type_.kind is not Kind.NULL)
    return scalar_types() | st.recursive(leaves, nested, max_leaves=4)


def values(type_: SqlType, *, nulls: bool = True) -> st.SearchStrategy[Any]:
    found = _non_null(type_)
    return st.none() | found if nulls else found


def _non_null(type_: SqlType) -> st.SearchStrategy[Any]:
    kind = type_.kind
    if kind in _INTEGERS:
        low, high = _INTEGERS[kind]
        return st.sampled_from([low, high, 0, low + 1, high - 1]) | st.integers(low, high)
    if kind is Kind.HUGEINT:
        top = 10**38 - 1
        return (st.sampled_from([top, -top, 0]) | st.integers(-top, top)).map(Decimal)
    if kind is Kind.DECIMAL:
        assert type_.precision is not None
        assert type_.scale is not None
        top, scale = 10**type_.precision - 1, type_.scale
        digits = st.sampled_from([top, -top, 0, 1, -1]) | st.integers(-top, top)
        return digits.map(lambda number: Decimal(number).scaleb(-scale, context=_WIDE))
    simple: dict[Kind, st.SearchStrategy[Any]] = {
        Kind.BOOLEAN: st.booleans(),
        Kind.FLOAT: st.floats(width=32),
        Kind.DOUBLE: st.floats(),
        Kind.VARCHAR: _TEXT,
        Kind.JSON: _TEXT,
        Kind.UUID: st.uuids().map(str),
        Kind.BLOB: st.binary(max_size=6) | st.sampled_from([b"\0", b"\0\0", b"\0\xff", b"\xff"]),
        Kind.DATE: st.dates(),
        Kind.TIME: st.times(),
        Kind.TIMESTAMP: st.datetimes(),
        Kind.TIMESTAMPTZ: st.datetimes(timezones=st.just(dt.UTC)),
        Kind.INTERVAL: st.tuples(
            st.integers(-1000, 1000), st.integers(-1000, 1000), st.integers(-(10**12), 10**12)
        ).map(lambda parts: pa.MonthDayNano((parts[0], parts[1], parts[2] * 1000))),
        Kind.TIMESTAMP_NS: st.integers(-(2**62), 2**62).map(lambda ns: np.datetime64(ns, "ns")),
        Kind.TIMETZ: st.builds(
            _time_of_day, st.times(), st.integers(-57599, 57599) | st.sampled_from([0, 3600, -12600])
        ),
        Kind.BIT: st.text(st.sampled_from("01"), min_size=1, max_size=12),
        Kind.ENUM: st.sampled_from(type_.labels or ("",)),
        Kind.NULL: st.none(),
    }
    if kind in simple:
        return simple[kind]
    if type_.element is not None:
        return st.lists(values(type_.element), max_size=3)
    if type_.key is not None and type_.value is not None:
        entry = st.tuples(values(type_.key, nulls=False), values(type_.value))
        return st.lists(entry, max_size=3)
    return st.fixed_dictionaries({name: values(field) for name, field in type_.fields})


def _time_of_day(time: dt.time, east: int) -> str:
    """A TIME WITH TIME ZONE as DuckDB writes it."""
    text = (
        time.isoformat(timespec="microseconds").rstrip("0").rstrip(".")
        if time.microsecond
        else time.isoformat()
    )
    parts = [abs(east) // 3600, abs(east) // 60 % 60, abs(east) % 60]
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return f"{text}{'-' if east < 0 else '+'}{':'.join(f'{part:02d}' for part in parts)}"


def columns(type_: SqlType, rows: int) -> st.SearchStrategy[pa.Array]:
    def build(drawn: list[Any]) -> pa.Array:
        return pa.array(drawn, to_arrow(type_))

    return st.lists(values(type_), min_size=rows, max_size=rows).map(build)


def _wide_context() -> Any:
    import decimal

    return decimal.Context(prec=60)


_WIDE = _wide_context()
