"""Types of forms, as far as they are certain, and which forms are never NULL."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Sequence
from decimal import Decimal

from sqlstream_operators.plan.types import (
    BIGINT,
    BOOLEAN,
    INTEGER,
    UNKNOWN,
    VARCHAR,
    Kind,
    SqlType,
    parse_type,
)
from sqlstream_planner.identity.expression.logic import is_boolean
from sqlstream_planner.identity.form import Form

#: Integers that a literal may be: whatever it is compared with, it is compared exactly.
_EXACT_DIGITS = 18
#: Types of which arithmetic with integer literals gives the same type, however the literal is computed.
WHOLE = frozenset({Kind.INTEGER, Kind.BIGINT})
#: Forms that wrap a column of an input without changing it. A column of a join's side may be NULL where it was not.
_AS_IT_IS = frozenset({"left", "right", "key"})
#: Functions of text that give text, and NULL for NULL.
TEXTS = frozenset({"upper", "lower", "substring", "trim", "ltrim", "rtrim", "replace"})
#: What a date or a time is taken apart into, each a BIGINT.
CALENDAR = frozenset({"year", "quarter", "month", "week", "day", "hour", "minute", "second"})
#: A number with a point or an exponent.
_FRACTION = re.compile(r"([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]{1,2}))?", re.ASCII)
#: A number of so many digits and its digits moved behind the point are one DOUBLE.
_DOUBLE_DIGITS = 15
_WITH_EXPONENT = frozenset({Kind.TINYINT, Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.DOUBLE})
_TRUTHS = frozenset({"is null", "is true", "is false", "is not distinct from"})


def type_of(found: Form) -> SqlType:
    """The type of what a form holds; UNKNOWN where it is not certain."""
    match found.op, found.args:
        case "column", (_, str(written)):
            return parse_type(json.loads(written)["type"])
        case op, (*_, Form() as column) if op in _AS_IT_IS and len(found.args) == 2:
            return type_of(column)
        case "either", (int(), *forms):
            return _common(forms)
        case "number", _:
            number = whole(found)
            return UNKNOWN if number is None else _literal_type(number)
        case "string", _:
            return VARCHAR
        case (("cast" | "try cast"), (_, Form("type", (str(name),)))):
            return parse_type(name)
        case "aggregate", (_, Form("aggregate call", (str(name), *_))) if name.upper() == "COUNT":
            return BIGINT
        case "field", (Form() as row, str(name)):
            fields = {called.lower(): type_ for called, type_ in type_of(row).fields}
            return fields.get(name.lower(), UNKNOWN)
        case "element", (Form() as array, Form()):
            return type_of(array).element or UNKNOWN
        case "extract", (str(field), _) if field in CALENDAR:
            return BIGINT
        case "call", (str(name), Form() as first, *_) if name in TEXTS:
            return VARCHAR if type_of(first) == VARCHAR else UNKNOWN
        case (("+" | "-" | "*" | "%"), (Form() as left, Form() as right)):
            kinds = {type_of(left).kind, type_of(right).kind}
            if kinds <= WHOLE:
                return BIGINT if Kind.BIGINT in kinds else INTEGER
        case "negative", (Form() as value,):
            return type_of(value)
        case "case", parts:
            return _common([*parts[1::2], parts[-1]])
        case (("and" | "or" | "not"), _):
            return BOOLEAN
    return BOOLEAN if is_boolean(found) else UNKNOWN


def _common(parts: Sequence[object]) -> SqlType:
    """The type that all have; a NULL has any."""
    types = {type_of(p) for p in parts if isinstance(p, Form) and p.op != "null"}
    return types.pop() if len(types) == 1 else UNKNOWN


def _literal_type(number: int) -> SqlType:
    return INTEGER if -(2**31) <= number < 2**31 else BIGINT


def whole(found: Form) -> int | None:
    """The value of an integer literal, perhaps with a minus before it.

    >>> from sqlstream_planner.identity.form import form
    >>> whole(form("negative", form("number", "5"))), whole(form("number", "1.0")), whole(form("string", "1"))
    (-5, None, None)
    """
    match found.op, found.args:
        case "number", (str(written),) if written.isascii() and written.isdigit():
            return int(written) if len(written) <= _EXACT_DIGITS else None
        case "negative", (Form("number") as inner,):
            number = whole(inner)
            return None if number is None else -number
    return None


def number_form(number: int) -> Form:
    """The literal of an integer."""
    literal = Form("number", (str(abs(number)),))
    return Form("negative", (literal,)) if number < 0 else literal


def plain_number(found: Form, type_: SqlType) -> Form:
    """A literal with a point or an exponent in its shortest form, beside a value of a type with which it is compared alike.

    More digits behind the point may not fit beside a DECIMAL. An integer is compared with an exponent as a DOUBLE, and up to
    2^53 that is the same.

    >>> from sqlstream_operators.plan.types import DOUBLE, decimal
    >>> from sqlstream_planner.identity.form import form
    >>> for text, type_ in (("1.50", decimal(8, 2)), ("1.50", decimal(38, 1)), ("1e3", BIGINT), ("2.0", DOUBLE)):
    ...     print(plain_number(form("number", text), type_).args)
    ('1.5',)
    ('1.50',)
    ('1000',)
    ('2',)
    """
    inner = found.args[0] if found.op == "negative" else found
    text = str(inner.args[0]) if isinstance(inner, Form) and inner.op == "number" else ""
    match_ = _FRACTION.fullmatch(text) if text else None
    if match_ is None or whole(found) is not None:
        return found
    integer, fraction, exponent = match_[1].lstrip("0"), match_[2] or "", match_[3]
    if exponent is not None:
        value = Decimal(text)
        exact = value == value.to_integral_value() and value < 2**53
        if not exact or type_.kind not in _WITH_EXPONENT:
            return found
        integer, fraction = str(int(value)), ""
    elif len(integer + fraction) > _DOUBLE_DIGITS or not _holds_fraction(type_, len(fraction)):
        return found
    fraction = fraction.rstrip("0")
    number = Form("number", (f"{integer or '0'}{'.' if fraction else ''}{fraction}",))
    return Form("negative", (number,)) if found.op == "negative" else number


def _holds_fraction(type_: SqlType, digits: int) -> bool:
    """Whether any value of a type is compared exactly with a number of so many digits behind the point."""
    if type_.precision is not None and type_.scale is not None:
        return type_.precision - type_.scale + digits <= 38
    return type_.kind in _WITH_EXPONENT


def constant(found: Form) -> int | None:
    """The value of a sum, difference or product of integer literals, where DuckDB gives it as an INTEGER."""
    number = whole(found)
    if number is None and found.op in ("+", "-", "*") and len(found.args) == 2:
        left, right = (constant(a) if isinstance(a, Form) else None for a in found.args)
        if left is not None and right is not None:
            number = left + right if found.op == "+" else left - right if found.op == "-" else left * right
    elif number is None and found.op == "negative" and isinstance(found.args[0], Form):
        inner = constant(found.args[0])
        number = None if inner is None else -inner
    return number if number is not None and abs(number) < 2**31 else None


def is_literal(found: Form) -> bool:
    """Whether a form is a literal, or computed of literals alone: such a value takes the type of what is beside it."""
    return found.op in ("number", "string", "null") or constant(found) is not None or whole(found) is not None


def is_integer(found: Form) -> bool:
    """Whether a form is certainly of an integer type, and no literal."""
    return type_of(found).is_integer and not is_literal(found)


def never_null(found: Form, known: Container[Form]) -> bool:
    """Whether a form is never NULL; `known` are others that are not."""
    if found in known or found.op in ("number", "string", "boolean", "interval") or found.op in _TRUTHS:
        return True
    match found.op, found.args:
        case "aggregate", (_, Form("aggregate call", (str(name), *_))):
            return name.upper() == "COUNT"
        case "negative", (Form() as value,):
            return never_null(value, known)
        case (("+" | "-" | "*"), (Form() as left, Form() as right)):
            return never_null(left, known) and never_null(right, known)
        case "case", parts:
            values = [*parts[1::2], parts[-1]]
            return all(isinstance(v, Form) and never_null(v, known) for v in values)
        case "call", ("coalesce", *values):
            return any(isinstance(v, Form) and never_null(v, known) for v in values)
    return False
