"""Conditions in one spelling, as values (NULL stays NULL), and as what a row must pass (NULL is as good as FALSE)."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable

from sqlstream_operators.plan.types import BOOLEAN, DATE, TIMESTAMP, VARCHAR, Kind, parse_type
from sqlstream_operators.plan.widening import widens
from sqlstream_planner.identity.canonical.types import (
    CALENDAR,
    TEXTS,
    constant,
    is_integer,
    is_literal,
    never_null,
    number_form,
    plain_number,
    type_of,
    whole,
)
from sqlstream_planner.identity.expression.logic import compare, junction, negation
from sqlstream_planner.identity.form import Form, form, sort_forms

TRUE, FALSE = form("boolean", True), form("boolean", False)
_COMPARISONS = frozenset({"=", "<>", "<", "<=", "is not distinct from"})
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,17})", re.ASCII)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}:[0-9]{2})(:[0-9]{2})?(?:\.([0-9]{1,6}))?", re.ASCII
)
#: What stands in a pattern for other characters, or may.
_WILDCARDS = frozenset("%_\\")
#: Functions that say what LIKE does, and its pattern.
_PATTERNS = {"starts_with": "{}%", "prefix": "{}%", "suffix": "%{}", "contains": "%{}%"}
#: Operators that are NULL where one of their operands is.
_STRICT = frozenset(
    {"=", "<>", "<", "<=", "+", "-", "*", "%", "negative", "like", "ilike", "extract", "cast"}
)


def condition(found: Form, known: Container[Form]) -> Form:
    """A condition for which only TRUE counts; its parts are in one spelling."""
    if found.op in ("and", "or"):
        return _joined(found.op, (condition(a, known) for a in found.args if isinstance(a, Form)), known)
    if found.op == "is true" and isinstance(found.args[0], Form) and type_of(found.args[0]) == BOOLEAN:
        return condition(found.args[0], known)
    match found.op, found.args:
        case "is not distinct from", (Form() as left, Form() as right):
            if never_null(left, known) or never_null(right, known):
                return _comparison("=", left, right, known)
    return found


def conjuncts(conditions: Iterable[Form], known: Container[Form]) -> tuple[Form, ...]:
    """Conditions that a row must all pass, without those that others imply: x IS NOT NULL beside x = 1.

    >>> x, one = form("column", form("source", ""), '{"type":"INTEGER"}'), form("number", "1")
    >>> conjuncts([form("=", x, one), form("not", form("is null", x))], ()) == (form("=", x, one),)
    True
    """
    flat: set[Form] = set()
    for each in conditions:
        made = condition(each, known)
        flat |= {a for a in made.args if isinstance(a, Form)} if made.op == "and" else {made}
    flat.discard(TRUE)
    for each in sort_forms(flat):
        present = _is_not_null(each)
        if present is not None and any(present in null_rejecting(c) for c in flat - {each}):
            flat.discard(each)
    return sort_forms(flat)


def null_rejecting(found: Form) -> frozenset[Form]:
    """What is not NULL wherever a condition is TRUE."""
    present = _is_not_null(found)
    if present is not None:
        return _strict(present)
    operands = [a for a in found.args if isinstance(a, Form)]
    match found.op:
        case "and":
            return frozenset().union(*map(null_rejecting, operands))
        case "or":
            sets = list(map(null_rejecting, operands))
            return frozenset.intersection(*sets) if sets else frozenset()
        case "not" if operands[0].op in ("like", "ilike", "column", "left", "right"):
            return _strict(operands[0])
        case "is true" | "is false":
            return _strict(operands[0])
        case "in":
            return _strict(operands[0])
        case "between":
            return frozenset().union(*map(_strict, operands))
        case "=" | "<>" | "<" | "<=" | "like" | "ilike" | "column" | "left" | "right":
            return _strict(found)
    return frozenset()


def _strict(found: Form) -> frozenset[Form]:
    """What is not NULL where a form is not."""
    inside: frozenset[Form] = frozenset({found})
    if found.op in _STRICT or (found.op == "call" and found.args[0] in TEXTS):
        for each in found.args:
            if isinstance(each, Form) and each.op != "type":
                inside |= _strict(each)
    return inside


def _is_not_null(found: Form) -> Form | None:
    """x of `x IS NOT NULL`."""
    match found.op, found.args:
        case "not", (Form("is null", (Form() as value,)),):
            return value
    return None


def rewritten(found: Form, known: Container[Form]) -> Form | None:
    """A condition whose parts are in one spelling, as a value; None if it is none of these, or nothing is to be done."""
    match found.op, found.args:
        case op, (Form() as left, Form() as right) if op in _COMPARISONS:
            return _comparison(op, left, right, known)
        case "in", (Form() as value, *listed) if _compared_alike(value, listed):
            equal = (_comparison("=", value, each, known) for each in listed if isinstance(each, Form))
            return _joined("or", equal, known)
        case (("and" | "or"), operands):
            return _joined(found.op, (a for a in operands if isinstance(a, Form)), known)
        case "not", (Form() as inner,):
            if inner in (TRUE, FALSE):
                return FALSE if inner == TRUE else TRUE
            made = negation(inner)
            if made.op in ("and", "or"):
                parts = [a for a in made.args if isinstance(a, Form)]
                return _joined(made.op, (rewritten(p, known) or p for p in parts), known)
            return made if made.op == "not" else rewritten(made, known)
        case "is null", (Form() as value,) if never_null(value, known):
            return FALSE
        case (("is true" | "is false"), (Form() as value,)) if never_null(value, known):
            if type_of(value) == BOOLEAN:
                return value if found.op == "is true" else negation(value)
        case "like", (Form() as text, Form("string", (str(pattern),))):
            return _without_wildcards(text, pattern)
        case "call", (str(name), Form() as text, Form("string", (str(part),))) if name in _PATTERNS:
            if type_of(text) == VARCHAR and not is_literal(text) and part and not set(part) & _WILDCARDS:
                return form("like", text, form("string", _PATTERNS[name].format(part)))
        case "call", ("isnull", Form() as value):
            return rewritten(form("is null", value), known) or form("is null", value)
    return None


def _without_wildcards(text: Form, pattern: str) -> Form | None:
    """LIKE of a pattern in which each character stands for itself is a comparison."""
    if type_of(text) != VARCHAR or is_literal(text) or set(pattern) & _WILDCARDS:
        return None
    return compare("=", text, form("string", pattern))


def _joined(op: str, operands: Iterable[Form], known: Container[Form]) -> Form:
    """AND or OR, without what decides nothing; TRUE or FALSE where one operand decides it all."""
    neutral, deciding = (TRUE, FALSE) if op == "and" else (FALSE, TRUE)
    made = junction(op, operands)
    parts = [a for a in made.args if isinstance(a, Form)] if made.op == op else [made]
    if deciding in parts:
        return deciding
    left = [p for p in parts if p != neutral]
    if not left:
        return neutral
    if len(left) == 1 and type_of(left[0]) == BOOLEAN:
        return left[0]
    return junction(op, left)


def _comparison(op: str, left: Form, right: Form, known: Container[Form]) -> Form:
    left, right = _as_type_of(left, right), _as_type_of(right, left)
    left, right = _unwidened(left, right), _unwidened(right, left)
    numbers = _beside(left, right), _beside(right, left)
    left = left if numbers[0] is None else number_form(numbers[0])
    right = right if numbers[1] is None else number_form(numbers[1])
    if left.op == right.op == "string" and op in ("=", "<>"):
        return TRUE if (left == right) is (op == "=") else FALSE
    if numbers[0] is not None and numbers[1] is not None:
        return TRUE if _holds(op, *numbers) else FALSE
    for one, other in ((left, right), (right, left)):
        if one in (TRUE, FALSE) and type_of(other) == BOOLEAN and op in ("=", "<>"):
            made = other if (one == TRUE) is (op == "=") else negation(other)
            return rewritten(made, known) or made
    if op == "is not distinct from" and never_null(left, known) and never_null(right, known):
        op = "="
    if op == "<":
        least, most = whole(left), whole(right)
        if least is not None and is_integer(right):
            return compare("<=", number_form(least + 1), right)
        if most is not None and is_integer(left):
            return compare("<=", left, number_form(most - 1))
    return compare(op, left, right)


def _beside(found: Form, other: Form) -> int | None:
    """The value of integer literals that are computed with, beside something that it is compared with exactly."""
    type_ = type_of(other)
    exactly = type_.is_integer or type_.kind in (Kind.DECIMAL, Kind.DOUBLE) or constant(other) is not None
    return constant(found) if exactly else None


def _holds(op: str, left: int | None, right: int | None) -> bool:
    assert left is not None
    assert right is not None
    if op in ("<", "<="):
        return left < right or (left == right and op == "<=")
    return (left == right) is (op != "<>")


def _unwidened(found: Form, other: Form) -> Form:
    """An integer without a cast to a wider one, beside an integer literal."""
    match found.op, found.args:
        case "cast", (Form() as value, Form("type", (str(name),))) if whole(other) is not None:
            own, cast = type_of(value), parse_type(name)
            if own.is_integer and cast.is_integer and widens(own, cast) and not is_literal(value):
                return value
    return found


def _as_type_of(found: Form, other: Form) -> Form:
    """A literal as what it is compared with has it: texts become numbers and times beside these."""
    if is_literal(other):
        return found
    type_ = type_of(other)
    if found.op in ("number", "negative"):
        return plain_number(found, type_)
    if found.op == "string" and type_.is_integer and _NUMBER.fullmatch(str(found.args[0])):
        return number_form(int(str(found.args[0])))
    if found.op == "string" and type_ in (DATE, TIMESTAMP):
        return time_literal(form("cast", found, form("type", str(type_))))
    if type_ == TIMESTAMP and found.op == "cast" and type_of(found) == DATE:
        text = found.args[0]
        if isinstance(text, Form) and text.op == "string":
            return time_literal(form("cast", text, form("type", str(TIMESTAMP))))
    return found


def time_literal(found: Form) -> Form:
    """A DATE or TIMESTAMP that is written as text, in one spelling if it has the usual form.

    >>> print(time_literal(form("cast", form("string", "2024-01-01T10:00"), form("type", "TIMESTAMP"))).args[0].args[0])
    2024-01-01 10:00:00
    """
    match found.args:
        case (Form("string", (str(text),)), Form("type", (str(type_),)) as wanted) if type_ == str(TIMESTAMP):
            match_ = _TIME.fullmatch(text)
            if _DAY.fullmatch(text):
                return form(found.op, form("string", f"{text} 00:00:00"), wanted)
            if match_ is not None and (match_[3] or not match_[4]):
                day, minute, second, fraction = match_.groups()
                digits = (fraction or "").rstrip("0")
                written = f"{day} {minute}{second or ':00'}{f'.{digits}' if digits else ''}"
                return form(found.op, form("string", written), wanted)
    return found


def _compared_alike(value: Form, listed: Iterable[object]) -> bool:
    """Whether DuckDB compares a value with each of a list as it would with that alone."""
    forms = [f for f in listed if isinstance(f, Form)]
    type_ = type_of(value)
    if is_integer(value):
        return all(whole(f) is not None for f in forms)
    if type_ == VARCHAR:
        return not is_literal(value) and all(f.op == "string" for f in forms)
    if type_.kind in (Kind.DATE, Kind.TIMESTAMP):
        return all(f.op == "string" for f in forms) or all(
            type_of(f) == type_ and f.op == "cast" for f in forms
        )
    return False


__all__ = [
    "CALENDAR",
    "FALSE",
    "TRUE",
    "condition",
    "conjuncts",
    "null_rejecting",
    "rewritten",
    "time_literal",
]
