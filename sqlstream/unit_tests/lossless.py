"""Finds values of a test file of which the cast to their column's type would leave something out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

from sqlstream.unit_tests.yaml_nodes import Items, Mapping, Node, Scalar
from sqlstream_operators.plan.types import Kind, SqlType
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span

BOOLEANS = frozenset({"true", "false"})
_MIDNIGHT = re.compile(r"0?0(:0?0(:0?0(\.0*)?)?)?(Z|\s*[+-]00(:?00)?)?")
_CLOCK = re.compile(r"\d[ T]+(\d{1,2}:.*)")
_DATED = re.compile(r"\d+-\d+-\d+")
_OFFSET = re.compile(r":\d+(?:\.\d+)?\s*[+-](\d{1,2}(?::?\d{2})*)\s*$")
_FRACTION = re.compile(r":\d+\.(\d+)")
#: How many digits of a second each type of times has.
_DIGITS = {Kind.TIME: 6, Kind.TIMESTAMP: 6, Kind.TIMESTAMPTZ: 6, Kind.TIMESTAMP_NS: 9}


def lost(text: str, type_: SqlType) -> str | None:
    """Why a text can't be a value of a type that is not nested without a loss; None if it can, or is none at all.

    >>> from sqlstream_operators.plan.types import decimal
    >>> lost("1.50", decimal(10, 1)), lost("1.55", decimal(10, 1))
    (None, 'it has more digits behind the point than 1')
    """
    if type_.kind is Kind.DECIMAL:
        if _scale(text) > (type_.scale or 0):
            return f"it has more digits behind the point than {type_.scale}"
    elif type_.is_integer:
        if _scale(text) > 0:
            return "it has digits behind the point"
    elif type_.kind is Kind.DATE:
        time = _CLOCK.search(text)
        if time is not None and not _MIDNIGHT.fullmatch(time[1].strip()):
            return "it has a time, and a DATE has none"
    elif type_.kind in _DIGITS:
        return _lost_of_time(text, type_)
    return None


def _lost_of_time(text: str, type_: SqlType) -> str | None:
    digits = _DIGITS[type_.kind]
    fraction, offset = _FRACTION.search(text), _OFFSET.search(text)
    if type_.kind is Kind.TIME and _DATED.search(text):
        return "it has a date, and a TIME has none"
    if fraction is not None and fraction[1][digits:].strip("0"):
        return f"it has more digits of a second than {digits}"
    if type_.kind is not Kind.TIMESTAMPTZ and offset is not None and offset[1].strip("0:"):
        return f"it has an offset from UTC, and a {type_} has none"
    return None


def _scale(text: str) -> int:
    """How many digits a number has behind its point, without zeros at the end; 0 for what is no number."""
    try:
        _, digits, exponent = Decimal(text.strip()).as_tuple()
    except InvalidOperation:
        return 0
    if not isinstance(exponent, int):
        return 0  # NaN or infinite
    shown = "".join(map(str, digits))
    kept = shown.rstrip("0")
    return max(-(exponent + len(shown) - len(kept)), 0) if kept else 0


def losses(node: Node, type_: SqlType, name: str) -> Iterator[Diagnostic]:
    """TST005 for each value within a nested one that has less in it once it is of its type."""
    if isinstance(node, Items):
        inner: list[SqlType | None] = [t for _, t in type_.fields] or [type_.element] * len(node.items)
        for number, (item, of) in enumerate(zip(node.items, inner, strict=False), 1):
            if of is not None:
                yield from losses(item, of, f"{name}[{number}]")
    elif isinstance(node, Mapping):
        fields = {field.lower(): inside for field, inside in type_.fields}
        for key, value in node:
            if type_.key is not None:
                yield from losses(key, type_.key, f"a key of {name}")
            of = fields.get(key.text.lower(), type_.value)
            if of is not None:
                yield from losses(value, of, f"{name}.{key.text}")
    elif not node.is_null:
        why = lost(node.text, type_)
        is_word = node.text.lower() in BOOLEANS
        if why is None and (
            (type_.kind is Kind.BOOLEAN and not is_word)
            or (is_word and (type_.is_integer or type_.kind is Kind.DECIMAL))
        ):
            why = "true and false are BOOLEAN, and nothing else is"
        if why is not None:
            message = f"`{name}` is {type_}, and '{node.text}' is none"
            yield Diagnostic("TST005", message, node.span, (why,))


def parsed(cell: Scalar) -> Node | None:
    """The value that a text of JSON is, all of it at the place of the text; None for what is no JSON.

    Raises DiagnosticError (TST002) for an object that has a key twice.
    """
    try:
        return _node(
            json.loads(cell.text, parse_float=_Number, parse_int=_Number, object_pairs_hook=_Pairs), cell.span
        )
    except ValueError:
        return None


class _Number(str):
    """A number, as it is written."""

    __slots__ = ()


class _Pairs(list[tuple[str, Any]]):
    """The keys and values of an object, as they are written."""


def _node(value: Any, at: Span) -> Node:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, _ in value:
            if key in seen:
                raise DiagnosticError(Diagnostic("TST002", f"the key `{key}` stands twice in this JSON", at))
            seen.add(key)
        return Mapping(tuple((Scalar(key, False, at), _node(inner, at)) for key, inner in value), at)
    if isinstance(value, list):
        return Items(tuple(_node(inner, at) for inner in value), at)
    if value is None:
        return Scalar("", True, at)
    if isinstance(value, bool):
        return Scalar(str(value).lower(), True, at)
    return Scalar(str(value), isinstance(value, _Number), at)
