"""What a field of a state means, for people: its form in few words."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from types import MappingProxyType

from sqlstream_operators.plan.state_schema import StateField, StateSchema
from sqlstream_planner.identity.canonical.sets import of_branches
from sqlstream_planner.identity.form import Argument, Form, forms_in, walk
from sqlstream_planner.identity.state import stored_meanings
from sqlstream_planner.identity.stored_identity import read_identity
from sqlstream_planner.logical.text import duration

#: Deeper, and longer, than this nobody reads on.
_DEPTH, _LENGTH = 6, 100
#: What is written between its arguments, and how it is written where the first of them is written last.
_TURNED = {"+": "+", "*": "*", "=": "=", "<>": "<>", "<": ">", "<=": ">="}
_BETWEEN = frozenset({*_TURNED, "-", "/", "//", "%", "||", "and", "or"})
#: A column of a file that has no header; and what a join calls its keys, which its description lists in their order.
_UNNAMED = re.compile(r"\bcolumn \d")
JOIN_KEY = "__key_"
#: A row as bytes, and how many are equal to it: of these no query knows.
_ROW, _COUNT = "the row", "how often it is there"
#: The key of a join without one, whose parts have numbers.
NO_KEY = "no key"
_INTERNAL = frozenset({_ROW, _COUNT})
_CONSTANTS = frozenset({"number", "string", "null", "interval"})


def field_meanings(state: StateSchema) -> dict[str, str]:
    """For each fingerprint of the state's fields, what it stands for; nothing for a state without identity."""
    meanings = {meaning.digest: meaning for meaning in stored_meanings(state)}
    names: dict[str, str] = {}
    for table in state.tables:
        for field in (*table.key, *table.sub_key, *table.value):
            column = _bare(meanings.get(_digest(field, meanings)))
            if column is not None:
                names.setdefault(column.digest, field.name)
    names = {**names_of_set_columns(_all_forms(state)), **names}
    texts = {digest: meaning_text(meaning, names) for digest, meaning in meanings.items()}
    named = described_keys(state)
    for table in state.tables:
        for field in table.key:
            digest, number = _digest(field, meanings), field.name.removeprefix(JOIN_KEY)
            if number != field.name and _UNNAMED.search(texts[digest]) and len(named) == len(table.key):
                texts[digest] = named[int(number) - 1]
    return texts


def shown_meanings(meanings: Iterable[str]) -> list[str]:
    """Each of some meanings once; without what only an operator knows of, if there is anything else."""
    found = list(dict.fromkeys(meanings))
    return [m for m in found if m not in _INTERNAL] or found


def names_of_set_columns(roots: Iterable[Form]) -> dict[str, str]:
    """What the columns of the one INTERSECT or EXCEPT in some forms are called, by their digests: as in its first query."""
    forms = list(walk(*roots))
    operations = [f for f in forms if f.op in ("intersect", "except") and len(f.args) > 1]
    if len(operations) != 1:
        return {}
    branch = operations[0].args[1]
    columns = branch.args[1:] if isinstance(branch, Form) and branch.op == "branch" else ()
    found = {}
    for f in forms:
        match f.op, f.args:
            case "set column", (_, int(number)) if number < len(columns) and isinstance(
                columns[number], Form
            ):
                found[f.digest] = _short(columns[number], 1, {})
    return found


def _all_forms(state: StateSchema) -> Iterator[Form]:
    if state.identity:
        for root in read_identity(state.identity).roots.values():
            yield from forms_in(root)


def field_meaning(field: StateField, meanings: Mapping[str, str]) -> str:
    """What a field stands for, by the `field_meanings` of its state; its fingerprint if that is not known."""
    return meanings.get(_digest(field, meanings), field.fingerprint)


def description_text(state: StateSchema) -> str:
    """What a state says it is, with plain names not in quotes."""
    return re.sub(r'"(\w+)"', r"\1", state.description)


def described_keys(state: StateSchema) -> list[str]:
    """What a state's description says that it is kept by; more texts than keys where there is a comma inside of one."""
    return description_text(state).partition(" by ")[2].split(", ")


def _digest(field: StateField, meanings: Container[str]) -> str:
    """The digest in its fingerprint: behind a rank in front of it, and before a number behind it; "" if it has none."""
    return next((word for word in field.fingerprint.split() if word in meanings), "")


def _bare(meaning: Form | None) -> Form | None:
    """The column of a source that a field is as it is, perhaps as one of a join's side."""
    match meaning:
        case Form("left" | "right", (int(), Form() as column)):
            return _bare(column)
        case Form("column"):
            return meaning
    return None


def meaning_text(meaning: Form, names: Mapping[str, str] = MappingProxyType({})) -> str:
    """A form in a few words; `names` is what columns are called that only their place in a file identifies, by their digest.

    >>> from sqlstream_planner.identity.form import form
    >>> price = form("column", form("source", "{}"), '{"name": "price", "type": "BIGINT"}')
    >>> meaning_text(form("<", form("number", "1"), form("+", price, form("number", "2"))))
    '(price + 2) > 1'
    >>> minute = form("window", "TUMBLE", 60_000_000, 60_000_000, 0, price)
    >>> meaning_text(form("window start", 1, minute))
    'window_start of TUMBLE 1 minute over price'
    >>> meaning_text(form("equal", form("left", 1, form("right", 2, price)), price, "BIGINT"))
    'price'
    """
    text = _short(meaning, 0, names)
    return text if len(text) <= _LENGTH else f"{text[:_LENGTH]}…"


def _short(found: Argument, depth: int, names: Mapping[str, str]) -> str:
    if not isinstance(found, Form):
        return str(found)
    if depth > _DEPTH:
        return "…"
    if found.op == "set column" and found.digest in names:
        return names[found.digest]
    match found.op, found.args:
        case "column", (_, str(text)):
            column = json.loads(text)
            named = column.get("name") or column.get("metadata") or column.get("partition")
            return (
                str(named)
                if named is not None
                else names.get(found.digest, f"column {column['position'] + 1}")
            )
        case "left" | "right", (int(), Form() as column):
            return _short(column, depth, names)
        case "equal", (_, Form("ordinality", (_, Form("call", ("range", *_)))), *_):
            return NO_KEY
        case "equal", (Form() as first, Form() as second, *_):
            return " = ".join(dict.fromkeys(_operand(side, depth, names) for side in (first, second)))
        case "by", (Form() as key, *_):
            return _short(key, depth, names)
        case "row", ():
            return _ROW
        case "how often", ():
            return _COUNT
        case "not", (Form("is null", (Form() as value,)),):
            return f"{_operand(value, depth, names)} is not null"
        case "not", (Form() as negated,):
            return f"not {_operand(negated, depth, names)}"
        case (("is true" | "is false"), (Form() as value,)):
            return f"{_operand(value, depth, names)} {found.op}"
        case (("like" | "ilike"), (Form() as value, Form() as pattern)):
            return f"{_operand(value, depth, names)} {found.op} {_operand(pattern, depth, names)}"
        case "boolean", (bool(value),):
            return "true" if value else "false"
        case "=", (Form() as one, Form() as other) if _tagged(one, other) is not None:
            return f"it is of query {_tagged(one, other)}"
        case (("cast" | "try cast"), (Form() as value, type_)):
            name = type_.args[0] if isinstance(type_, Form) else type_
            return f"{found.op.replace(' ', '_')}({_short(value, depth + 1, names)} as {name})"
        case "extract", (str(part), Form() as value):
            return f"extract({part} from {_short(value, depth + 1, names)})"
        case "field", (Form() as row, str(name)):
            return f"{_short(row, depth + 1, names)}.{name}"
        case "case", (*branches, Form() as default):
            pairs = zip(branches[::2], branches[1::2], strict=True)
            whens = [
                f"when {_short(w, depth + 1, names)} then {_short(t, depth + 1, names)}" for w, t in pairs
            ]
            otherwise = [] if default.op == "null" else [f"else {_short(default, depth + 1, names)}"]
            return " ".join(["case", *whens, *otherwise, "end"])
        case "array", values:
            return f"[{', '.join(_short(v, depth + 1, names) for v in values)}]"
        case "element", (Form() as array, Form() as position):
            return f"{_operand(array, depth, names)}[{_short(position, depth + 1, names)}]"
        case "element", (int(), Form("side by side", arrays), *_):
            return f"an element of {', '.join(_short(a, depth + 1, names) for a in arrays)}"
        case "element", (int(), Form() as array, *_):
            return f"an element of {_short(array, depth + 1, names)}"
        case "accumulator", (str(kind), _, *rest):
            inside = ", ".join(_short(a, depth + 1, names) for a in rest if isinstance(a, Form))
            return f"{kind} of {inside}" if inside else kind
        case "aggregate", (_, Form() as called):
            return f"{called.args[0]}({_short(called, depth + 1, names)})"
        case "aggregate call", (_, distinct, Form() as arguments, where, *_):
            listed = ", ".join(_short(a, depth + 1, names) for a in arguments.args) or "rows"
            condition = f" where {_short(where, depth + 1, names)}" if where is not None else ""
            return f"{'DISTINCT ' if distinct else ''}{listed}{condition}"
        case "call", ("list_extract", Form("array", values), Form("element")):
            return f"one of {', '.join(_short(v, depth + 1, names) for v in values)}"
        case "call", (str(name), *arguments):
            return f"{name}({', '.join(_short(a, depth + 1, names) for a in arguments if a is not None)})"
        case "source", (str(text),):
            source = json.loads(text)
            return str(source.get("options", {}).get("path", source.get("connector")))
        case "over", (_, _, str(function), *_):
            return f"{function}() over ({_over(found, depth, names)})"
        case "key", (_, Form() as key):
            return _short(key, depth, names)
        case "rows", (Form() as where,):
            return f"rows where {_short(where, depth + 1, names)}"
        case "in", (Form() as value, *listed):
            return f"{_operand(value, depth, names)} in ({', '.join(_short(a, depth + 1, names) for a in listed)})"
        case "order", (Form() as value, "asc" | "desc" as direction, _):
            return _short(value, depth + 1, names) + (" desc" if direction == "desc" else "")
        case "order", terms:
            return f"order by {', '.join(_short(t, depth + 1, names) for t in terms)}"
        case "either", (_, *columns):
            return " or ".join(dict.fromkeys(_short(c, depth + 1, names) for c in columns))
        case "string", (str(text),):
            return f"'{text}'"
        case (("window start" | "window end" | "window time"), (_, Form("window") as window)):
            return f"{found.op.replace(' ', '_')} of {_short(window, depth + 1, names)}"
        case (("window start" | "window end" | "window time"), (_, str(kind), int(size), int(slide))):
            return f"{found.op.replace(' ', '_')} of {_window(kind, size, slide)}"
        case "window", (str(kind), int(size), int(slide), int(offset), Form() as time):
            return f"{_window(kind, size, slide, offset)} over {_short(time, depth + 1, names)}"
        case "is null", (Form() as value,):
            return f"{_operand(value, depth, names)} is null"
        case "negative", (Form() as value,):
            return f"-{_operand(value, depth, names)}"
        case str(op), (Form() as first, Form() as second) if op in _BETWEEN:
            if op in _TURNED and _is_constant(first) and not _is_constant(second):
                op, first, second = _TURNED[op], second, first
            return f"{_operand(first, depth, names)} {op} {_operand(second, depth, names)}"
        case str(op), args if op in _BETWEEN and len(args) > 2 and all(isinstance(a, Form) for a in args):
            return f" {op} ".join(_operand(a, depth, names) for a in args if isinstance(a, Form))
    inside = ", ".join(_short(a, depth + 1, names) for a in found.args if a is not None)
    plain = all(not isinstance(a, Form) for a in found.args)
    if not inside:
        return found.op
    return inside if plain and len(found.args) == 1 else f"{found.op}({inside})"


def _tagged(one: Form, other: Form) -> int | None:
    """Which of the queries of a set operation a row must be of, from 1, to have the number that it is compared with."""
    tested = of_branches(Form("=", (one, other)))
    match tested:
        case Form("of branches", (_, _, int(number))):
            return number + 1
    return None


def _over(found: Form, depth: int, names: Mapping[str, str]) -> str:
    """What stands in the brackets of OVER."""
    forms = [a for a in found.args if isinstance(a, Form)]
    keys = [_short(k, depth + 1, names) for f in forms if f.op == "partition" for k in f.args]
    terms = [_short(f, depth + 1, names) for f in forms if f.op == "order"]
    clauses = [
        f"partition by {', '.join(keys)}" if keys else "",
        f"order by {', '.join(terms)}" if terms else "",
    ]
    return " ".join(filter(None, clauses))


def _window(kind: str, size: int, slide: int, offset: int = 0) -> str:
    """A kind of windows with its lengths, µs."""
    step = {"HOP": f" every {duration(slide)}", "CUMULATE": f" in steps of {duration(slide)}"}.get(kind, "")
    return f"{kind} {duration(size)}{step}{f' offset {duration(offset)}' if offset else ''}"


def _is_constant(found: Form) -> bool:
    value = found.args[0] if found.op == "negative" else found
    return isinstance(value, Form) and value.op in _CONSTANTS


def _operand(found: Form, depth: int, names: Mapping[str, str]) -> str:
    """An argument of what is written between its arguments."""
    text = _short(found, depth + 1, names)
    return f"({text})" if found.op in _BETWEEN or found.op in ("is null", "in") else text
