"""Aggregate calls and their accumulators in one spelling: what is counted or added, of which rows."""

from __future__ import annotations

from collections.abc import Container

from sqlstream_operators.plan.types import parse_type
from sqlstream_operators.plan.widening import widens
from sqlstream_planner.identity.canonical.conditions import (
    TRUE,
    condition,
    conjuncts,
    null_rejecting,
    rewritten,
)
from sqlstream_planner.identity.canonical.types import is_literal, never_null, type_of
from sqlstream_planner.identity.expression.logic import junction, negation
from sqlstream_planner.identity.form import Form, form

#: Accumulators of one argument that rows without it leave as they are.
_WITHOUT_NULL = frozenset({"count", "sum", "min", "max"})
#: What COUNT_IF keeps: how often its argument is true, and how often false.
_TESTS = frozenset({"count_if", "count_if_not"})


def accumulator(found: Form, known: Container[Form], present: Container[Form]) -> Form | None:
    """An accumulator whose parts are in one spelling; None if nothing is to be done.

    `known` are columns that are never NULL, `present` those that are not in the rows that are aggregated.
    """
    match found.args:
        case (str(kind), str(type_), Form("aggregate call", (name, None, Form() as arguments, where))):
            pass
        case _:
            return None
    if (where is not None and not isinstance(where, Form)) or not all(
        isinstance(a, Form) for a in arguments.args
    ):
        return None
    values = [a for a in arguments.args if isinstance(a, Form)]
    if kind in _TESTS and len(values) == 1:
        test = values[0]
        if kind == "count_if_not":
            test = rewritten(form("not", test), known) or negation(test)
        kind, values, where = "count", [], _both(where, test, known)
    if kind in _WITHOUT_NULL:
        values, where = _unwrapped(kind, type_, values, where, known)
    if kind == "count":
        counted = present if where is None else null_rejecting(where)
        values = [v for v in values if not (never_null(v, present) or never_null(v, counted))]
    where = None if where is None else _both(None, where, known)
    call = form("aggregate call", name, None, Form("arguments", tuple(values)), where)
    return form("accumulator", kind, type_, call)


def _unwrapped(
    kind: str, type_: str, values: list[Form], where: Form | None, known: Container[Form]
) -> tuple[list[Form], Form | None]:
    """What is aggregated without a CASE that only says of which rows, and without casts that change no value."""
    while len(values) == 1:
        match values[0].op, values[0].args:
            case "case", (Form() as test, Form() as value, Form("null")):
                values, where = [value], _both(where, test, known)
            case "cast", (Form() as value, Form("type", (str(name),))) if _keeps(kind, type_, value, name):
                values = [value]
            case _:
                break
    return values, where


def _keeps(kind: str, type_: str, value: Form, name: str) -> bool:
    """Whether an aggregate is the same over a value as over a cast of it."""
    if is_literal(value) or kind not in ("count", "sum"):
        return False
    own, cast = type_of(value), parse_type(name)
    if not (own.is_integer and cast.is_integer and widens(own, cast)):
        return False
    return kind == "count" or type_ == "HUGEINT"


def _both(where: Form | None, test: Form, known: Container[Form]) -> Form | None:
    """The condition that both hold; None if that is always so."""
    parts = conjuncts([test] if where is None else [where, test], known)
    if not parts:
        return None
    made = parts[0] if len(parts) == 1 else junction("and", parts)
    made = condition(made, known)
    return None if made == TRUE else made


def call(found: Form, known: Container[Form]) -> Form | None:
    """An aggregate call whose parts are in one spelling: its value, and so its type, stay what they are."""
    match found.args:
        case (str(name), None, Form("arguments", values), where) if name.lower() in _WITHOUT_NULL:
            pass
        case _:
            return None
    if (where is not None and not isinstance(where, Form)) or not all(isinstance(v, Form) for v in values):
        return None
    given = [v for v in values if isinstance(v, Form)]
    where = None if where is None else _both(None, where, known)
    while len(given) == 1 and given[0].op == "case":
        match given[0].args:
            case (Form() as test, Form() as value, Form("null")):
                given, where = [value], _both(where, test, known)
            case _:
                break
    if name.lower() == "count":
        given = [v for v in given if not never_null(v, known)]
    return form("aggregate call", name, None, Form("arguments", tuple(given)), where)
