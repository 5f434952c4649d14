"""Flink's `datagen` source: random or sequential values by type, each row a function of seed and row number.

Options are Flink's (`fields.<name>.kind`, `.min`, `.max`, `.start`, `.end`, `.length`, `.var-len`,
`.null-rate`, `.max-past`, `number-of-rows`, `rows-per-second`); nested fields are `fields.<row>.<field>`,
`fields.<array>.element`, `fields.<map>.key` and `fields.<map>.value`. Two of ours make it repeatable: `seed`
(default 0) and `base-time` (default 2024-01-01 00:00:00 UTC). Where Flink takes the wall clock, row n's time
is base-time + n / rows-per-second.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation, localcontext
from typing import TypeVar

import numpy as np
import pyarrow as pa

from sqlstream.connectors.generators import clock
from sqlstream.connectors.generators import datagen_columns as columns
from sqlstream.connectors.generators.datagen_columns import Column, Rows
from sqlstream.connectors.generators.randomness import numbers, stream_key
from sqlstream_operators.plan.types import Kind, SqlType
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, suggestion

#: Options of the table; those of its fields start with `fields.`.
TABLE_OPTIONS = ("number-of-rows", "rows-per-second", "seed", "base-time")

_DEFAULT_BASE_TIME = "2024-01-01 00:00:00"
_DEFAULT_ROWS_PER_SECOND = 10_000
_DEFAULT_TEXT_LENGTH = 100
_DEFAULT_COLLECTION_LENGTH = 3
_BLOCK_ROWS = 1 << 16
_BLOCK_BYTES = 1 << 26

_INTEGERS: Mapping[Kind, tuple[pa.DataType, int, int]] = {
    Kind.TINYINT: (pa.int8(), -(1 << 7), (1 << 7) - 1),
    Kind.SMALLINT: (pa.int16(), -(1 << 15), (1 << 15) - 1),
    Kind.INTEGER: (pa.int32(), -(1 << 31), (1 << 31) - 1),
    Kind.BIGINT: (pa.int64(), -(1 << 63), (1 << 63) - 1),
    Kind.UTINYINT: (pa.uint8(), 0, (1 << 8) - 1),
    Kind.USMALLINT: (pa.uint16(), 0, (1 << 16) - 1),
    Kind.UINTEGER: (pa.uint32(), 0, (1 << 32) - 1),
    Kind.UBIGINT: (pa.uint64(), 0, (1 << 64) - 1),
}
_FLOATS: Mapping[Kind, tuple[pa.DataType, float]] = {
    Kind.FLOAT: (pa.float32(), float(np.finfo(np.float32).max)),
    Kind.DOUBLE: (pa.float64(), float(np.finfo(np.float64).max)),
}
# Arrow has no 128-bit integer; DuckDB's HUGEINT travels as a decimal without a fraction.
_HUGEINT_TYPE, _HUGEINT_MAX = pa.decimal128(38, 0), 10**38 - 1

_UNITS_MS: Mapping[str, Decimal] = {
    unit: Decimal(ms)
    for units, ms in (
        ("d day days", "86400000"),
        ("h hour hours", "3600000"),
        ("m min minute minutes", "60000"),
        ("s sec second seconds", "1000"),
        ("ms milli millis millisecond milliseconds", "1"),
        ("us µs micro micros microsecond microseconds", "0.001"),
        ("ns nano nanos nanosecond nanoseconds", "0.000001"),
    )
    for unit in units.split()
}

_T = TypeVar("_T")
_Number = TypeVar("_Number", int, float)


class DatagenGenerator:
    """Makes any range of rows of a table from its schema and options.

    Raises DiagnosticError: OPT020 for a field option that does not exist for this field and type, OPT021 for
    a value that can't be read or is out of range, OPT022 for a type that can't be generated. Options that
    neither start with `fields.` nor are in `TABLE_OPTIONS` belong to the connector and are not looked at.
    """

    def __init__(self, schema: tuple[tuple[str, SqlType], ...], options: Mapping[str, str]) -> None:
        read = _Options(options)
        self.seed = read.value("seed", _integer, 0)
        self.base_time_us = read.value("base-time", _time_us, _time_us(_DEFAULT_BASE_TIME))
        self.rows_per_second = read.value("rows-per-second", _integer_from(1), _DEFAULT_ROWS_PER_SECOND)
        ends = [read.optional("number-of-rows", _integer_from(0))]
        self._columns: dict[str, Column] = {}
        for name, type_ in schema:
            path = f"fields.{name}"
            if read.value(f"{path}.kind", _one_of("random", "sequence"), "random") == "sequence":
                self._columns[name], rows = _sequence(self.seed, path, type_, read)
                ends.append(rows)
            else:
                self._columns[name] = _random(self.seed, path, type_, read)
        read.reject_unknown({name for name, _ in schema})
        self._total = min((end for end in ends if end is not None), default=None)
        self.schema = pa.schema([pa.field(name, column.type) for name, column in self._columns.items()])

    def total_rows(self) -> int | None:
        """How many rows there are: `number-of-rows` or the shortest sequence; None if there is neither."""
        return self._total

    def generate(self, first: int, count: int) -> pa.Table:
        """Rows first, first + 1, …: `count` rows.

        Strings are hexadecimal, timestamps whole milliseconds; UUID and JSON come as text, HUGEINT as
        DECIMAL(38, 0). Raises ValueError for rows outside 0 … total_rows().
        """
        if self._total is not None and first + count > self._total:
            raise ValueError(f"datagen: rows {first} … {first + count} of a table of {self._total}")
        counters = numbers(first, count)
        width = max(1, sum(column.bytes for column in self._columns.values()))
        step = max(1, min(_BLOCK_ROWS, _BLOCK_BYTES // width))
        tables = []
        for start in range(0, max(count, 1), step):
            block = counters[start : start + step]
            rows = Rows(block, clock.times_ms(block, self.base_time_us, self.rows_per_second))
            tables.append(pa.table([c.values(rows) for c in self._columns.values()], schema=self.schema))
        return pa.concat_tables(tables)


class _Options:
    """Reads options and remembers which were read, so that the others can be refused."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options
        self._known: set[str] = set()

    def optional(self, name: str, read: Callable[[str], _T]) -> _T | None:
        """The option's value, or None if it is not set."""
        self._known.add(name)
        text = self._options.get(name)
        if text is None:
            return None
        try:
            return read(text.strip())
        except (ValueError, InvalidOperation, OverflowError) as error:
            raise _bad_value(name, text, str(error)) from None

    def value(self, name: str, read: Callable[[str], _T], default: _T) -> _T:
        """The option's value, or the default if it is not set."""
        found = self.optional(name, read)
        return default if found is None else found

    def bounds(
        self, path: str, read: Callable[[str], _Number], low: _Number, high: _Number
    ) -> tuple[_Number, _Number]:
        """`.min` and `.max`, or the defaults. Raises DiagnosticError if none is between them."""
        least, most = self.value(f"{path}.min", read, low), self.value(f"{path}.max", read, high)
        if least > most:
            raise _bad_value(f"{path}.min", str(least), f"it is above `{path}.max`, {most}")
        return least, most

    def reject_unknown(self, fields: set[str]) -> None:
        """Raise DiagnosticError if there is a field option that nobody read."""
        for name in self._options:
            if not name.startswith("fields.") or name in self._known:
                continue
            raise DiagnosticError(
                Diagnostic(
                    "OPT020",
                    f"datagen has no option `{name}` for this table",
                    notes=(
                        f"columns: {', '.join(sorted(fields))}",
                        "which options a field has depends on its type",
                    ),
                    help=suggestion(name, sorted(self._known)),
                )
            )


def _random(seed: int, path: str, type_: SqlType, read: _Options, *, nullable: bool = True) -> Column:
    """The random generator of a column or nested field, with the options under `path`."""
    key = stream_key(seed, path)
    rate = read.value(f"{path}.null-rate", _proportion, 0.0) if nullable else 0.0
    kind = type_.kind
    if kind in _INTEGERS:
        arrow, lowest, highest = _INTEGERS[kind]
        return columns.integers(
            key, rate, arrow, *read.bounds(path, _integer_from(lowest, highest), lowest, highest)
        )
    if kind in _FLOATS:
        arrow, largest = _FLOATS[kind]
        return columns.floats(key, rate, arrow, *read.bounds(path, _finite(largest), 0.0, largest))
    match kind:
        case Kind.BOOLEAN:
            return columns.booleans(key, rate)
        case Kind.HUGEINT:
            limits = read.bounds(
                path, _integer_from(-_HUGEINT_MAX, _HUGEINT_MAX), -_HUGEINT_MAX, _HUGEINT_MAX
            )
            return columns.decimals(key, rate, _HUGEINT_TYPE, *limits)
        case Kind.DECIMAL:
            assert type_.precision is not None
            assert type_.scale is not None
            unscaled = _unscaled(type_.precision, type_.scale)
            limits = read.bounds(path, unscaled, 0, 10**type_.precision - 1)
            return columns.decimals(key, rate, pa.decimal128(type_.precision, type_.scale), *limits)
        case Kind.VARCHAR | Kind.BLOB | Kind.JSON:
            varies = read.value(f"{path}.var-len", _boolean, False)
            length = read.value(
                f"{path}.length", _integer_from(1 if varies else 0, 1 << 26), _DEFAULT_TEXT_LENGTH
            )
            arrow = pa.binary() if kind == Kind.BLOB else pa.string()
            return columns.texts(key, rate, arrow, length, varies, quote=kind == Kind.JSON)
        case Kind.UUID:
            return columns.uuids(key, rate)
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            arrow = pa.timestamp("us", tz="UTC" if kind == Kind.TIMESTAMPTZ else None)
            return columns.timestamps(key, rate, arrow, read.value(f"{path}.max-past", _duration_ms, 0))
        case Kind.DATE:
            return columns.dates(key, rate)
        case Kind.TIME:
            return columns.times(key, rate)
        case Kind.INTERVAL:
            longest = 10_000 * 86_400_000
            return columns.intervals(
                key, rate, *read.bounds(path, _integer_from(-longest, longest), 0, longest)
            )
        case Kind.STRUCT:
            names = [name for name, _ in type_.fields]
            children = [_random(seed, f"{path}.{name}", child, read) for name, child in type_.fields]
            return columns.rows_of(key, rate, names, children)
        case Kind.ARRAY:
            assert type_.element is not None
            element = _random(seed, f"{path}.element", type_.element, read)
            return columns.lists(key, rate, element, _collection_length(path, read))
        case Kind.MAP:
            assert type_.key is not None
            assert type_.value is not None
            keys = _random(seed, f"{path}.key", type_.key, read, nullable=False)
            values = _random(seed, f"{path}.value", type_.value, read)
            return columns.maps(key, rate, keys, values, _collection_length(path, read))
        case _:
            raise _unsupported(path, type_, "random")


def _sequence(seed: int, path: str, type_: SqlType, read: _Options) -> tuple[Column, int]:
    """The sequence generator of a column, and how many rows it has."""
    key, kind = stream_key(seed, path), type_.kind
    lowest, highest = -(1 << 63), (1 << 63) - 1
    if kind in _INTEGERS:
        lowest, highest = max(lowest, _INTEGERS[kind][1]), min(highest, _INTEGERS[kind][2])
    elif kind == Kind.DECIMAL:
        assert type_.precision is not None
        assert type_.scale is not None
        whole = 10 ** (type_.precision - type_.scale) - 1
        lowest, highest = max(lowest, -whole), min(highest, whole)
    elif kind in _FLOATS:
        # Beyond this not every integer has a floating point number of its own.
        exact = 1 << (24 if kind == Kind.FLOAT else 53)
        lowest, highest = -exact, exact
    start = read.optional(f"{path}.start", _integer_from(lowest, highest))
    end = read.optional(f"{path}.end", _integer_from(lowest, highest))
    for name, value in (("start", start), ("end", end)):
        if value is None:
            raise _bad_value(f"{path}.{name}", None, "a sequence needs a start and an end")
    assert start is not None
    assert end is not None
    if end < start:
        raise _bad_value(f"{path}.end", str(end), f"it is below `{path}.start`, {start}")
    if kind in _INTEGERS:
        column = columns.sequence_integers(key, _INTEGERS[kind][0], start)
    elif kind in _FLOATS:
        column = columns.sequence_integers(key, _FLOATS[kind][0], start)
    elif kind == Kind.HUGEINT:
        column = columns.sequence_decimals(key, _HUGEINT_TYPE, start)
    elif kind == Kind.DECIMAL:
        column = columns.sequence_decimals(key, pa.decimal128(type_.precision, type_.scale), start)
    elif kind == Kind.VARCHAR:
        column = columns.sequence_texts(key, start)
    elif kind == Kind.BLOB:
        column = columns.sequence_bytes(key, start)
    else:
        raise _unsupported(path, type_, "sequence")
    return column, end - start + 1


def _collection_length(path: str, read: _Options) -> int:
    return read.value(f"{path}.length", _integer_from(0, 1 << 20), _DEFAULT_COLLECTION_LENGTH)


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("it is not a whole number") from None


def _integer_from(low: int, high: int = (1 << 63) - 1) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = _integer(text)
        if not low <= value <= high:
            raise ValueError(f"it must be within {low} … {high}")
        return value

    return read


def _finite(largest: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError("it is not a number") from None
        if not abs(value) <= largest:
            raise ValueError(f"it must be within ±{largest:g}")
        return value

    return read


def _unscaled(precision: int, scale: int) -> Callable[[str], int]:
    """Reads a decimal as its unscaled value. Raises ValueError if it does not fit the type exactly."""

    def read(text: str) -> int:
        with localcontext(prec=80):
            try:
                value = Decimal(text).scaleb(scale)
            except InvalidOperation:
                raise ValueError("it is not a number") from None
            if not value.is_finite() or value != value.to_integral_value() or abs(value) >= 10**precision:
                raise ValueError(f"it does not fit DECIMAL({precision}, {scale})")
            return int(value)

    return read


def _proportion(text: str) -> float:
    value = _finite(1.0)(text)
    if value < 0:
        raise ValueError("it must be within 0 … 1")
    return value


def _boolean(text: str) -> bool:
    return _one_of("true", "false")(text.lower()) == "true"


def _one_of(*allowed: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"it must be one of {', '.join(allowed)}")
        return text

    return read


def _duration_ms(text: str) -> int:
    """A duration as Flink writes it (`10 s`, `1 h`, `500`, which is ms), rounded up to whole milliseconds.

    >>> _duration_ms("10 min"), _duration_ms("1500 us"), _duration_ms("7")
    (600000, 2, 7)
    """
    found = re.fullmatch(r"(\d+)\s*([a-zµ]*)", text.lower())
    if found is None or (found.group(2) or "ms") not in _UNITS_MS:
        raise ValueError("it is not a duration such as `10 s`, `5 min` or `1 d`")
    return int(
        (Decimal(found.group(1)) * _UNITS_MS[found.group(2) or "ms"]).to_integral_value("ROUND_CEILING")
    )


def _time_us(text: str) -> int:
    """µs since 1970 of a time; UTC unless it says otherwise."""
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("it is not a time such as `2024-01-01 00:00:00`") from None
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _bad_value(name: str, text: str | None, reason: str) -> DiagnosticError:
    message = f"option `{name}` is missing" if text is None else f"option `{name}` can't be '{text}'"
    return DiagnosticError(Diagnostic("OPT021", f"{message}: {reason}"))


def _unsupported(path: str, type_: SqlType, kind: str) -> DiagnosticError:
    name = path.removeprefix("fields.")
    return DiagnosticError(Diagnostic("OPT022", f"datagen can't make {kind} values of {type_} (`{name}`)"))
