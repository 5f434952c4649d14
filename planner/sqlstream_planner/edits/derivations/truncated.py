"""Functions of a time that read no more of it than a coarser time has: of the day, the hour or the month that a state keeps.

DATE_TRUNC('month', t) is DATE_TRUNC('month', DATE_TRUNC('hour', t)), and so are YEAR(t) or STRFTIME(t, '%Y-%m-%d').
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from sqlglot import exp

from sqlstream_operators.plan.state_schema import StateField
from sqlstream_operators.plan.types import Kind
from sqlstream_planner.identity.form import Form

#: The least unit first; each is whole units of all before it. Weeks are days, and no months.
_UNITS = ("minute", "hour", "day", "month", "quarter", "year")
#: What a part of a time reads of it, by the names of functions and of EXTRACT's and DATE_PART's parts.
_PARTS = {
    **dict.fromkeys(("minute", "minutes"), "minute"),
    **dict.fromkeys(("hour", "hours"), "hour"),
    **dict.fromkeys(("day", "days", "dayofmonth", "dow", "dayofweek", "isodow", "doy", "dayofyear"), "day"),
    **dict.fromkeys(("week", "weeks", "weekofyear", "yearweek", "isoyear", "dayname", "last_day"), "day"),
    **dict.fromkeys(("month", "months", "monthname"), "month"),
    **dict.fromkeys(("quarter", "quarters"), "quarter"),
    **dict.fromkeys(("year", "years"), "year"),
}
_FORMATS = {
    **dict.fromkeys("Yy", "year"),
    **dict.fromkeys("mbB", "month"),
    **dict.fromkeys("djaAwuVG", "day"),
    **dict.fromkeys("HIp", "hour"),
    "M": "minute",
}


def truncations(stored: Mapping[Form, StateField]) -> Iterable[tuple[str, Form, StateField]]:
    """The fields that are a time cut to a unit: the unit, what the time means, and the field, the coarsest first."""
    found = []
    for meaning, field in stored.items():
        cut = _cut(meaning)
        if cut is not None and field.type.kind in (Kind.TIMESTAMP, Kind.DATE):
            found.append((*cut, field))
    return sorted(found, key=lambda one: -_UNITS.index(one[0]))


def _cut(meaning: Form) -> tuple[str, Form] | None:
    """The unit that a form cuts a time to, and that time.

    >>> from sqlstream_planner.identity.form import form
    >>> hour = form("call", "date_trunc", form("string", "Hour"), form("column", "t"))
    >>> _cut(hour) == ("hour", form("column", "t"))
    True
    >>> _cut(form("cast", hour, form("type", "DATE"))) == ("day", form("column", "t"))
    True
    """
    unit: object = None
    of: object = None
    match meaning.op, meaning.args:
        case "cast", (Form() as of, Form(op="type", args=("DATE",))):
            unit = "day"
        case "call", ("date", Form() as of):
            unit = "day"
        case "call", ("date_trunc" | "floor_to", Form(op="string", args=(str() as name,)), Form() as of):
            unit = name.lower()
    if not isinstance(of, Form) or unit not in _UNITS:
        return None
    inside = _cut(of)
    if inside is None:
        return str(unit), of
    if _UNITS.index(inside[0]) > _UNITS.index(str(unit)):
        return inside
    return str(unit), inside[1]


def read_of_time(part: exp.Expr) -> tuple[str, exp.Column] | None:
    """The least unit that DuckDB's function `part` of a time reads of it, and the column that is the time.

    >>> def read(name, *given): return read_of_time(exp.Anonymous(this=name, expressions=given))
    >>> t, text = exp.column("t"), exp.Literal.string
    >>> read("strftime", t, text("%Y-%m"))[0], read("dayofweek", t)[0], read("date_part", text("second"), t)
    ('month', 'day', None)
    """
    name, arguments = "", []
    match part:
        case exp.Cast() if part.to.is_type("date") and not isinstance(part, exp.TryCast):
            name, arguments = "date", [part.this]
        case exp.Extract():
            name, arguments = str(part.name).lower(), [part.expression]
        case exp.Anonymous():
            name, arguments = str(part.this).lower(), part.expressions
    unit = None
    match arguments:
        case [exp.Column() as of]:
            unit = "day" if name == "date" else _PARTS.get(name)
        case [exp.Literal(is_string=True) as given, exp.Column() as of] if name in (
            "date_trunc",
            "datetrunc",
        ):
            unit = str(given.this).lower()
            unit = "day" if unit == "week" else unit
        case [exp.Literal(is_string=True) as given, exp.Column() as of] if name in ("date_part", "datepart"):
            unit = _PARTS.get(str(given.this).lower())
        case [exp.Column() as of, exp.Literal(is_string=True) as given] if name == "strftime":
            unit = _unit_of_format(str(given.this))
        case _:
            return None
    return (unit, of) if unit in _UNITS else None


def _unit_of_format(text: str) -> str | None:
    """The least unit that a format of STRFTIME shows."""
    units = [_FORMATS.get(sign[-1]) for sign in re.findall("%-?.", text, re.DOTALL)]
    if not units or None in units:
        return None
    return min((u for u in units if u is not None), key=_UNITS.index)


def follows(read: str, kept: str) -> bool:
    """Whether what reads a time down to the unit `read` is the same of the time cut to the unit `kept`.

    >>> follows("month", "hour"), follows("hour", "day"), follows("day", "day")
    (True, False, True)
    """
    return _UNITS.index(kept) <= _UNITS.index(read)
