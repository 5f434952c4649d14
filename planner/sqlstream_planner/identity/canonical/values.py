"""Values in one spelling: the same value of the same type, NULL where the other is NULL."""

from __future__ import annotations

from sqlstream_operators.plan.types import DATE, TIMESTAMP, UNKNOWN, VARCHAR, Kind
from sqlstream_planner.identity.canonical.conditions import condition, time_literal
from sqlstream_planner.identity.canonical.conditions import rewritten as rewritten_test
from sqlstream_planner.identity.canonical.types import (
    CALENDAR,
    WHOLE,
    constant,
    is_literal,
    number_form,
    type_of,
    whole,
)
from sqlstream_planner.identity.form import Argument, Form, form, sort_forms

_ARITHMETIC = frozenset({"+", "-", "*", "%", "//"})
_COMMUTATIVE = frozenset({"+", "*"})
#: Functions that take a date or a time apart, and what EXTRACT calls it.
_PARTS = {**{part: part for part in CALENDAR}, "dayofmonth": "day"}


def rewritten(found: Form) -> Form | None:
    """A value whose parts are in one spelling; None if nothing is to be done."""
    match found.op, found.args:
        case op, (Form() as left, Form() as right) if op in _ARITHMETIC:
            return _arithmetic(op, left, right)
        case "cast", (Form() as value, Form("type", (str(name),))):
            if not is_literal(value) and str(type_of(value)) == name:
                return value
            return time_literal(found)
        case "call", ("mod", Form() as left, Form() as right):
            return rewritten(form("%", left, right)) or form("%", left, right)
        case "call", (str(name), Form() as value) if name in _PARTS:
            return _part(_PARTS[name], value)
        case "call", ("date_part", Form("string", (str(part),)), Form() as value) if part.lower() in _PARTS:
            return _part(_PARTS[part.lower()], value)
        case "call", ("left", Form() as text, Form() as length):
            count = whole(length)
            if type_of(text) == VARCHAR and not is_literal(text) and count is not None and count >= 0:
                return form("call", "substring", text, number_form(1), number_form(count))
        case "call", ("date", Form() as value) if type_of(value) in (DATE, TIMESTAMP):
            return rewritten(form("cast", value, form("type", str(DATE)))) or form(
                "cast", value, form("type", str(DATE))
            )
        case "case", parts:
            return _case(parts)
        case "call", ("nullif", Form() as value, Form() as other) if type_of(value) != UNKNOWN:
            if not is_literal(value):
                test = form("=", *sort_forms((value, other)))
                return _case((rewritten_test(test, ()) or test, form("null"), value))
        case "field", (Form() as value, str(name)) if type_of(value).kind is Kind.STRUCT:
            # The fields of a row are found whatever case they are written in; those of JSON are not.
            return form("field", value, name.lower())
    return None


def _part(part: str, value: Form) -> Form | None:
    """What EXTRACT gives; of times in a zone it depends on more."""
    return form("extract", part, value) if type_of(value) in (DATE, TIMESTAMP) else None


def _arithmetic(op: str, left: Form, right: Form) -> Form | None:
    """Integer literals are computed where the type of the whole does not depend on whether they are."""
    for one, other in ((left, right), (right, left)):
        # Nothing is added, or multiplied by one: the type is that of the integer.
        nothing = whole(one) == (1 if op == "*" else 0) and (
            op in _COMMUTATIVE or (op == "-" and one is right)
        )
        if nothing and type_of(other).kind in WHOLE and not is_literal(other):
            return other
    computed = []
    for one, other in ((left, right), (right, left)):
        number = constant(one) if whole(one) is None and type_of(other).kind in WHOLE else None
        computed.append(one if number is None or is_literal(other) else number_form(number))
    if computed == [left, right]:
        return None
    return Form(op, sort_forms(computed) if op in _COMMUTATIVE else tuple(computed))


def _case(parts: tuple[Argument, ...]) -> Form:
    """A CASE that gives the first of two values that is not NULL is COALESCE; of a condition only TRUE counts."""
    given = list(parts)
    for n in range(0, len(given) - 1, 2):
        branch = given[n]
        if isinstance(branch, Form):
            given[n] = condition(branch, ())
    match given:
        case (Form("not", (Form("is null", (Form() as tested,)),)), Form() as first, Form() as other):
            if tested == first and not is_literal(first):
                return form("call", "coalesce", first, other)
        case (Form("is null", (Form() as tested,)), Form() as other, Form() as first):
            if tested == first and not is_literal(first):
                return form("call", "coalesce", first, other)
    return Form("case", tuple(given))


__all__ = ["rewritten"]
