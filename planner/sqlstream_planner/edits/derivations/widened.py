"""Wider types: what an old state means if its source columns had the types that the new file declares.

Integers become longer, decimals have more digits before the point. What is computed of such a column is the same value
only where its type does not show: the column itself, comparisons, AND, OR, aggregates. Everything else keeps the type in
its form, and so stays different. FLOAT to DOUBLE, and more digits behind the point, are no such change: text is read
to other values (0.1 as a FLOAT is not 0.1 as a DOUBLE), so that what was read must be read again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from sqlstream_operators.plan.types import SqlType, parse_type
from sqlstream_operators.plan.widening import widens
from sqlstream_planner.edits.derivations.stored import Stored
from sqlstream_planner.identity.form import Argument, Data, Form, walk

#: What has the same value whichever of two integer types, or of two precisions, its operands have.
_TYPELESS = frozenset(
    {
        "=", "<>", "<", "<=", "is not distinct from", "and", "or", "not", "in", "in one", "between", "is null",
        "accumulator", "aggregate call", "arguments", "order", "distinct value", "value", "values", "rows", "order by",
        "groups", "set", "filter", "sides", "equal", "windows", "window", "in window", "any windows",
        "given", "limit", "ties",
    }
)  # fmt: skip
#: What has its operands in the order of their digests, but perhaps the first.
_SORTED = frozenset(
    {"=", "<>", "is not distinct from", "and", "or", "in", "set", "values", "filter", "groups"}
)
#: What has the type of its value as text among its arguments.
_TYPED = frozenset({"accumulator", "value", "equal"})


def without_widened_types(old: Stored, new: Stored) -> tuple[Stored, Stored] | None:
    """Both states with forms from which the types of widened columns are left out; None if no column is only wider."""
    was, now = _column_types(old), _column_types(new)
    wider = {
        column
        for column in was.keys() & now.keys()
        if was[column] != now[column] and widens(was[column], now[column])
    }
    if not wider:
        return None
    return _changed(old, wider), _changed(new, wider)


def _column_types(state: Stored) -> dict[tuple[str, str], SqlType]:
    """The declared types of the source columns that are in a state's identity; without those that have several."""
    found: dict[tuple[str, str], SqlType] = {}
    for meaning in state.by_digest.values():
        if meaning.op == "column":
            source, name, type_ = _column(meaning)
            found[source, name] = type_
    return found


def _column(meaning: Form) -> tuple[str, str, SqlType]:
    """A source column's source and what it is called there, each as text, and its type."""
    source, text = meaning.args
    assert isinstance(source, Form)
    assert isinstance(text, str)
    written = json.loads(text)
    type_ = parse_type(written.pop("type"))
    return source.digest, json.dumps(written, sort_keys=True), type_


def _changed(state: Stored, wider: set[tuple[str, str]]) -> Stored:
    made: dict[str, Form] = {}
    for meaning in walk(state.rows, *state.by_digest.values()):
        made[meaning.digest] = _typeless(meaning, wider, made)
    by_digest = {digest: made[f.digest] for digest, f in state.by_digest.items()}
    return replace(
        state,
        rows=made[state.rows.digest],
        attributes={name: _data(value, made) for name, value in state.attributes.items()},
        by_digest=by_digest,
        retyped=frozenset(now for digest, now in by_digest.items() if now.digest != digest),
    )


def _typeless(meaning: Form, wider: set[tuple[str, str]], made: Mapping[str, Form]) -> Form:
    """A form whose parts are `made`."""
    if meaning.op == "column" and _column(meaning)[:2] in wider:
        return Form("wider column", (meaning.args[0], _column(meaning)[1]))
    if meaning.op not in _TYPELESS:
        return meaning
    arguments = tuple(_arguments(meaning, made))
    if arguments == meaning.args:
        return meaning
    if meaning.op in _SORTED:
        arguments = _sorted(meaning, arguments)
    return Form(meaning.op, arguments)


def _arguments(meaning: Form, made: Mapping[str, Form]) -> Iterator[Argument]:
    changed = any(isinstance(a, Form) and made[a.digest] != a for a in meaning.args)
    for a in meaning.args:
        if isinstance(a, Form):
            yield made[a.digest]
        elif changed and meaning.op in _TYPED and isinstance(a, str) and a == _last_text(meaning):
            yield "wider"
        else:
            yield a


def _last_text(meaning: Form) -> str | None:
    """The type of an accumulator or a value: the last text among its arguments."""
    texts = [a for a in meaning.args if isinstance(a, str) and a != "distinct"]
    return texts[-1] if texts else None


def _sorted(meaning: Form, arguments: tuple[Argument, ...]) -> tuple[Argument, ...]:
    """Operands that were in the order of their digests, in the order of those that they have now."""
    first = 1 if meaning.op in ("filter", "groups", "in") else 0
    rest = arguments[first:]
    if not all(isinstance(a, Form) for a in rest):
        return arguments
    forms = sorted((a for a in rest if isinstance(a, Form)), key=lambda f: (f.op == "set", f.digest))
    return (*arguments[:first], *forms)


def _data(value: Data, made: Mapping[str, Form]) -> Data:
    match value:
        case Form():
            return made.get(value.digest, value)
        case None | str() | int():
            return value
        case Mapping():
            return {name: _data(inner, made) for name, inner in value.items()}
        case _:
            return tuple(_data(inner, made) for inner in value)
