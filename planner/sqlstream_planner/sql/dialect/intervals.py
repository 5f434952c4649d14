"""Interval literals: Flink's `'1:30' MINUTE TO SECOND` made into what DuckDB reads, and their value."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from sqlstream_planner.diagnostics import did_you_mean

MICROS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
}
DAYS = {"DAY": 1, "WEEK": 7}
MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12, "DECADE": 120, "CENTURY": 1200, "MILLENNIUM": 12000}
_ALIASES = {
    "US": "MICROSECOND", "USEC": "MICROSECOND", "USECOND": "MICROSECOND",
    "MS": "MILLISECOND", "MSEC": "MILLISECOND", "MSECOND": "MILLISECOND",
    "S": "SECOND", "SEC": "SECOND", "M": "MINUTE", "MIN": "MINUTE", "H": "HOUR", "HR": "HOUR",
    "D": "DAY", "W": "WEEK", "MON": "MONTH", "Y": "YEAR", "YR": "YEAR", "DEC": "DECADE",
    "C": "CENTURY", "CENT": "CENTURY", "CENTURIE": "CENTURY",
    "MIL": "MILLENNIUM", "MILLENIUM": "MILLENNIUM", "MILLENNIA": "MILLENNIUM",
}  # fmt: skip
_SPAN_UNITS = ("DAY", "HOUR", "MINUTE", "SECOND")
_PART = re.compile(r"\s*([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)\s*([A-Za-z]+)\s*")
_CLOCK = re.compile(r"\s*(?:([+-]?\d+)\s+)?([+-]?)(\d+):(\d{1,2})(?::(\d{1,2}(?:\.\d+)?))?\s*$")
_AGO = re.compile(r"\s+ago$", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)")
_YEARS_AND_MONTHS = re.compile(r"([+-]?)(\d+)-(\d{1,2})")
_ISO_UNITS = ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
_ISO = re.compile(
    r"P(?:(N)Y)?(?:(N)M)?(?:(N)W)?(?:(N)D)?(?:T(?:(N)H)?(?:(N)M)?(?:(N)S)?)?".replace(
        "N", r"[+-]?\d+(?:\.\d+)?"
    ),
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class IntervalValue:
    """A constant interval as DuckDB keeps it: months, days (of 24 h in UTC) and microseconds."""

    months: int = 0
    days: int = 0
    micros: int = 0

    @property
    def total_micros(self) -> int | None:
        """Its length in µs, or None when it has months (which have no fixed length)."""
        return None if self.months else self.days * 86_400_000_000 + self.micros


def unit_name(text: str) -> str | None:
    """The unit that `text` names, in the singular and in upper case, or None.

    >>> unit_name("seconds"), unit_name("ms"), unit_name("parsec")
    ('SECOND', 'MILLISECOND', None)
    """
    upper = text.upper()
    for candidate in (upper, upper.removesuffix("S")):
        candidate = _ALIASES.get(candidate, candidate)
        if candidate in MICROS or candidate in DAYS or candidate in MONTHS:
            return candidate
    return None


def normalized(node: exp.Interval) -> exp.Interval:
    """`node` with a single unit and no precision. Raises ValueError when the literal is not an interval."""
    unit = node.args.get("unit")
    value = node.this
    if isinstance(unit, exp.Anonymous):  # SECOND(3): the precision changes nothing
        unit = exp.Var(this=str(unit.this).upper())
        node.set("unit", unit)
    if isinstance(unit, exp.IntervalSpan):
        first = unit_name(_plain_unit(unit.this))
        last = unit_name(_plain_unit(unit.expression))
        if not isinstance(value, exp.Literal):
            raise ValueError(f"INTERVAL … {first} TO {last} needs a literal such as '1:30'")
        amount, single = _span(value.name, first, last)
        node = exp.Interval(this=exp.Literal.string(str(amount)), unit=exp.Var(this=single))
        spanned = _amount(str(amount), single)
        return node if spanned == _checked(spanned) else _written(spanned)
    if isinstance(unit, exp.Var):
        name = unit_name(unit.name)
        if name is None:
            raise ValueError(_unknown_unit(unit.name))
        unit.set("this", name)  # DuckDB has no `INTERVAL '5' MS`
        if not isinstance(value, exp.Literal):
            return node
        if (
            _has_fraction(value.name)
            and name not in _WITH_FRACTIONS
            and not node.args.get("fraction_in_string")
        ):
            raise ValueError(
                f"INTERVAL '{value.name}' {name}: only seconds and milliseconds have a fraction, "
                f"write INTERVAL '{value.name} {name.lower()}s'"
            )  # DuckDB drops it
        if value.name.strip().lstrip("+-").isdigit():
            constant = constant_value(node)
            return node if constant is None or constant == _checked(constant) else _written(constant)
    constant = constant_value(node)
    return node if constant is None else _written(constant)


#: Units of which DuckDB keeps a fraction; of others it takes the whole part.
_WITH_FRACTIONS = ("SECOND", "MILLISECOND")


def _has_fraction(text: str) -> bool:
    return "." in text and not (_NUMBER.fullmatch(text.strip()) and Fraction(text.strip()).denominator == 1)


_DAY = 86_400_000_000
#: Arrow has an interval's time in nanoseconds, and months and days in 32 bits.
_MOST_MICROS = (2**63 - 1) // 1000
_MOST_DAYS = 2**31 - 1


def _checked(value: IntervalValue) -> IntervalValue:
    """The same interval, its time in days where it is longer than time alone can be. Raises ValueError."""
    days, micros = value.days, value.micros
    if abs(micros) > _MOST_MICROS:
        whole = abs(micros) // _DAY * (-1 if micros < 0 else 1)
        days, micros = days + whole, micros - whole * _DAY
    if abs(days) > _MOST_DAYS or abs(value.months) > _MOST_DAYS:
        raise ValueError("this is longer than an INTERVAL can be")
    return IntervalValue(value.months, days, micros)


def _written(value: IntervalValue) -> exp.Interval:
    value = _checked(value)
    parts = [(value.months, "MONTH"), (value.days, "DAY"), (value.micros, "MICROSECOND")]
    used = [(amount, unit) for amount, unit in parts if amount] or [(0, "MICROSECOND")]
    if len(used) == 1:
        amount, unit = used[0]
        return exp.Interval(this=exp.Literal.string(str(amount)), unit=exp.Var(this=unit))
    text = " ".join(f"{amount} {unit.lower()}s" for amount, unit in used)
    return exp.Interval(this=exp.Literal.string(text))


def constant_value(node: exp.Expr) -> IntervalValue | None:
    """The value of an interval that is written as a constant, or None when it is none.

    Handles a sign before it, parentheses, and sums. Raises ValueError when a literal can't be read.
    """
    if isinstance(node, exp.Paren):
        return constant_value(node.this)
    if isinstance(node, exp.Neg):
        inner = constant_value(node.this)
        return None if inner is None else IntervalValue(-inner.months, -inner.days, -inner.micros)
    if isinstance(node, (exp.Add, exp.Sub)):
        left, right = constant_value(node.this), constant_value(node.expression)
        if left is None or right is None:
            return None
        sign = 1 if isinstance(node, exp.Add) else -1
        return IntervalValue(
            left.months + sign * right.months,
            left.days + sign * right.days,
            left.micros + sign * right.micros,
        )
    if not isinstance(node, exp.Interval):
        return None
    value, unit = node.this, node.args.get("unit")
    sign = 1
    while isinstance(value, (exp.Paren, exp.Neg)):
        sign = -sign if isinstance(value, exp.Neg) else sign
        value = value.this
    if not isinstance(value, exp.Literal):
        return None
    found = text_value(value.name) if unit is None else _amount(value.name, _plain_unit(unit))
    return IntervalValue(sign * found.months, sign * found.days, sign * found.micros)


def _plain_unit(unit: exp.Expr | None) -> str:
    if isinstance(unit, exp.Anonymous):
        return str(unit.this)
    return unit.name if unit is not None else ""


def _unknown_unit(unit: str) -> str:
    near = did_you_mean(unit, (*MICROS, *DAYS, *MONTHS))
    return f"unknown interval unit `{unit}`" + (f": did you mean {near}?" if near else "")


def _amount(number: str, unit: str) -> IntervalValue:
    name = unit_name(unit)
    if name is None:
        raise ValueError(_unknown_unit(unit))
    try:
        amount = Fraction(number.strip())
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"`{number}` is not a number of {name.lower()}s") from None
    if name in MICROS:
        micros = amount * MICROS[name]
        if micros.denominator != 1:
            raise ValueError(f"an interval of {number} {name.lower()}s is finer than a microsecond")
        return IntervalValue(micros=int(micros))
    if amount.denominator != 1:
        raise ValueError(f"`{number}`: {name.lower()}s must be a whole number")
    if name in DAYS:
        return IntervalValue(days=int(amount) * DAYS[name])
    return IntervalValue(months=int(amount) * MONTHS[name])


def text_value(text: str) -> IntervalValue:
    """The interval that a text says, as DuckDB and PostgreSQL read it. Raises ValueError.

    >>> text_value("1.5 days 02:03"), text_value("@ 1 year 2 mons ago")
    (IntervalValue(months=0, days=1, micros=50580000000), IntervalValue(months=-14, days=0, micros=0))
    >>> text_value("P1Y2M3DT4H"), text_value("1 00:00:01"), text_value("1-2"), text_value("90")
    (IntervalValue(months=14, days=3, micros=14400000000), IntervalValue(months=0, days=1, micros=1000000), \
IntervalValue(months=14, days=0, micros=0), IntervalValue(months=0, days=0, micros=90000000))
    """
    body = text.strip().removeprefix("@").strip()
    backwards = _AGO.search(body)
    if backwards is not None:
        there = text_value(body[: backwards.start()])
        return IntervalValue(-there.months, -there.days, -there.micros)
    iso = _ISO.fullmatch(body)
    if iso is not None and not body.upper().endswith(("P", "T")):
        named = zip(iso.groups(), _ISO_UNITS, strict=True)
        return _sum(_part(amount, unit) for amount, unit in named if amount is not None)
    if _NUMBER.fullmatch(body):
        return _part(body, "SECOND")
    years = _YEARS_AND_MONTHS.fullmatch(body)
    if years is not None:
        sign, whole, rest = years.groups()
        return IntervalValue(months=(int(whole) * 12 + int(rest)) * (-1 if sign == "-" else 1))
    parts: list[IntervalValue] = []
    position = 0
    while position < len(body):
        clock = _CLOCK.match(body, position)
        if clock is not None:
            days, sign, hours, minutes, seconds = clock.groups()
            part = (int(hours) * 3600 + int(minutes) * 60 + Fraction(seconds or 0)) * 1_000_000
            parts.append(IntervalValue(days=int(days or 0), micros=int(part) * (-1 if sign == "-" else 1)))
            break
        found = _PART.match(body, position)
        if found is None:
            raise ValueError(f"`{text}` is not an interval: write INTERVAL '5' MINUTE")
        parts.append(_part(found.group(1), found.group(2)))
        position = found.end()
    if not parts:
        raise ValueError("an empty interval")
    return _sum(parts)


def _sum(parts: Iterable[IntervalValue]) -> IntervalValue:
    each = list(parts)
    return IntervalValue(sum(p.months for p in each), sum(p.days for p in each), sum(p.micros for p in each))


def _part(number: str, unit: str) -> IntervalValue:
    """A number of some unit, whose fraction is of the units below it: of months (12 a year), days (30 a month), hours."""
    name = unit_name(unit)
    try:
        amount = Fraction(number)
    except (ValueError, ZeroDivisionError):
        amount = Fraction(0)
    if name is None or name in MICROS or amount.denominator == 1:
        return _amount(number, unit)
    months, days = Fraction(0), amount * DAYS.get(name, 0)
    if name in MONTHS:
        months = amount * MONTHS[name]
        if name not in ("MONTH", "QUARTER") and months.denominator != 1:
            raise ValueError(f"{number} {name.lower()}s are no whole number of months")  # DuckDB rounds them
        days = (months - int(months)) * 30
    micros = (days - int(days)) * _DAY
    if micros.denominator != 1:
        raise ValueError(f"an interval of {number} {name.lower()}s is finer than a microsecond")
    return IntervalValue(int(months), int(days), int(micros))


def _span(text: str, first: str | None, last: str | None) -> tuple[int, str]:
    sign = -1 if text.strip().startswith("-") else 1
    body = text.strip().lstrip("+-")
    if (first, last) == ("YEAR", "MONTH"):
        found = re.fullmatch(r"(\d+)-(\d+)", body)
        if found is None:
            raise ValueError(f"'{text}' is not YEAR TO MONTH: write '1-6' for a year and a half")
        return sign * (int(found.group(1)) * 12 + int(found.group(2))), "MONTH"
    known = first in _SPAN_UNITS and last in _SPAN_UNITS
    if not known or _SPAN_UNITS.index(first) >= _SPAN_UNITS.index(last):
        raise ValueError(f"INTERVAL … {first} TO {last} does not exist")
    units = _SPAN_UNITS[_SPAN_UNITS.index(first) : _SPAN_UNITS.index(last) + 1]
    numbers = re.fullmatch(
        (r"(\d+) " if first == "DAY" else "")
        + ":".join([r"(\d+)"] * (len(units) - (first == "DAY")))
        + (r"((?:\.\d+)?)" if last == "SECOND" else ""),
        body,
    )
    if numbers is None:
        shape = {"DAY": "1 2", "HOUR": "2", "MINUTE": "3", "SECOND": "4.5"}
        example = ("1 " if first == "DAY" else "") + ":".join(shape[u][-1] for u in units if u != "DAY")
        raise ValueError(f"'{text}' is not {first} TO {last}: write for example '{example}'")
    values = [Fraction(v) for v in numbers.groups()[: len(units)]]
    if last == "SECOND" and numbers.group(len(units) + 1):
        values[-1] += Fraction("0" + numbers.group(len(units) + 1))
    sizes = {**MICROS, "DAY": 86_400_000_000}
    micros = sum((v * sizes[u] for v, u in zip(values, units, strict=True)), Fraction(0))
    return sign * int(micros), "MICROSECOND"
