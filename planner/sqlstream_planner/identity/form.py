"""Forms: what something means, as terms that are equal exactly when their contents are.

A form is an operator of ours with arguments: other forms and plain values. Its digest names its content, so a
form may stand in many places and still be one thing: everything here works on the graph of *distinct* forms,
in time linear in their number, and without recursion, however deep they nest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sqlstream_planner.diagnostics import InternalError

_DIGEST_BYTES = 16
_REFERENCE = "form"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Form:
    """The operator `op` on `args`; equal to another form if operator and arguments are equal, at every depth.

    `digest` is 32 hex digits of the content, the same in every process and version of Python. Numbers with a
    fraction are no arguments: their text is.

    >>> Form("+", (Form("column", ("a",)), 1)) == Form("+", (Form("column", ("a",)), 1))
    True
    >>> Form("number", (1,)) == Form("number", ("1",)), Form("flag", (1,)) == Form("flag", (True,))
    (False, False)
    """

    op: str
    args: tuple[Argument, ...] = ()
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", _digest(self.op, self.args))

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, Form) else NotImplemented

    def __hash__(self) -> int:
        return int(self.digest[:15], 16)

    def __repr__(self) -> str:
        return f"Form({self.op!r}, {len(self.args)} arguments, {self.digest[:8]})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (to_json({"": self}),)  # the default would recurse

    def __deepcopy__(self, memo: object) -> Form:
        return self


#: What a form may be applied to.
Argument: TypeAlias = Form | str | int | bool | None
#: Plain data with forms in it, as a structured identity has them.
Data: TypeAlias = Form | str | int | bool | Sequence["Data"] | Mapping[str, "Data"] | None


def _unpickled(data: Mapping[str, Any]) -> Form:
    found = from_json(data)[""]
    assert isinstance(found, Form)
    return found


def _digest(op: str, args: tuple[Argument, ...]) -> str:
    """Every part has its type's tag and its length before it, so that no two contents give the same bytes."""
    content = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    content.update(_text_bytes(op))
    content.update(b"%d;" % len(args))
    for arg in args:
        match arg:
            case Form():
                content.update(b"f" + bytes.fromhex(arg.digest))
            case str():
                content.update(_text_bytes(arg))
            case bool():
                content.update(b"b1" if arg else b"b0")
            case int():
                content.update(b"i%d;" % arg)
            case None:
                content.update(b"n")
            case _:
                raise InternalError(f"{type(arg).__name__} is no argument of a form")
    return content.hexdigest()


def _text_bytes(text: str) -> bytes:
    encoded = text.encode("utf-8", "surrogatepass")
    return b"s%d:" % len(encoded) + encoded


def form(op: str, *args: Argument) -> Form:
    """`Form(op, args)`.

    >>> print(text(form("<", form("column", "a"), form("number", "1"))))
    (< (column "a") (number "1"))
    """
    return Form(op, args)


def sort_forms(forms: Iterable[Form]) -> tuple[Form, ...]:
    """The forms in an order that depends on their contents only, for operands whose order means nothing."""
    return tuple(sorted(forms, key=lambda f: f.digest))


def walk(*roots: Form) -> Iterator[Form]:
    """Each distinct form in `roots` once, a form's arguments before it, in order of the first visit."""
    met: set[str] = set()
    stack: list[tuple[Form, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        at, done = stack.pop()
        if done:
            yield at
            continue
        if at.digest in met:
            continue
        met.add(at.digest)
        stack.append((at, True))
        stack.extend((a, False) for a in reversed(at.args) if isinstance(a, Form) and a.digest not in met)


def size(*roots: Form) -> int:
    """How many distinct forms there are in `roots`, themselves included."""
    return sum(1 for _ in walk(*roots))


def to_json(roots: Mapping[str, Data]) -> dict[str, Any]:
    """`roots` as plain data: `forms` holds every distinct form once, `roots` refers to them by number.

    A form is `[op, argument, …]`, and an argument that is a form is `[its number]`; in `roots` it is
    `{"form": its number}`. Numbers begin with 0 and follow the first visit of the roots by name, so equal roots
    give equal data.

    >>> a = form("column", "a")
    >>> to_json({"key": form("+", a, a), "value": a})
    {'forms': [['column', 'a'], ['+', [0], [0]]], 'roots': {'key': {'form': 1}, 'value': {'form': 0}}}
    """
    numbers: dict[str, int] = {}
    forms: list[list[Any]] = []
    for each in walk(*forms_in(roots)):
        numbers[each.digest] = len(forms)
        forms.append([each.op, *([numbers[a.digest]] if isinstance(a, Form) else a for a in each.args)])
    return {"forms": forms, "roots": {name: _referring(roots[name], numbers) for name in sorted(roots)}}


def forms_in(data: Data) -> Iterator[Form]:
    """All forms that stand in `data`, not those within forms."""
    match data:
        case Form():
            yield data
        case None | str() | int():
            return
        case Mapping():
            if data.keys() == {_REFERENCE}:
                raise InternalError(f"a mapping of nothing but {_REFERENCE!r} would be read back as a form")
            for name in sorted(data):
                yield from forms_in(data[name])
        case _:
            for item in data:
                yield from forms_in(item)


def _referring(data: Data, numbers: Mapping[str, int]) -> Any:
    match data:
        case Form():
            return {_REFERENCE: numbers[data.digest]}
        case None | str() | int():
            return data
        case Mapping():
            return {name: _referring(data[name], numbers) for name in sorted(data)}
        case _:
            return [_referring(item, numbers) for item in data]


def from_json(data: Mapping[str, Any]) -> dict[str, Data]:
    """The roots that `to_json` wrote. Raises ValueError for anything else.

    >>> a = form("column", "a")
    >>> from_json(to_json({"keys": [a, form("-", a)]})) == {"keys": [a, form("-", a)]}
    True
    """
    if not isinstance(data, Mapping) or data.keys() != {"forms", "roots"}:
        raise ValueError("not forms: an object with `forms` and `roots` is expected")
    forms: list[Form] = []
    for number, written in enumerate(data["forms"]):
        if not isinstance(written, list) or not written or not isinstance(written[0], str):
            raise ValueError(f"form {number} does not begin with an operator")
        forms.append(Form(written[0], tuple(_argument(a, forms) for a in written[1:])))
    if not isinstance(data["roots"], Mapping):
        raise ValueError("not forms: `roots` is no object")
    return {name: _resolved(value, forms) for name, value in data["roots"].items()}


def _argument(written: Any, forms: Sequence[Form]) -> Argument:
    if isinstance(written, list):
        if len(written) != 1:
            raise ValueError(f"{written!r} is no number of a form")
        return _numbered(written[0], forms)
    if written is None or isinstance(written, str | int):
        return written
    raise ValueError(f"{written!r} is no argument of a form")


def _numbered(number: Any, forms: Sequence[Form]) -> Form:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < len(forms):
        raise ValueError(f"form {number!r} does not stand before its use")
    return forms[number]


def _resolved(written: Any, forms: Sequence[Form]) -> Data:
    if isinstance(written, Mapping):
        if written.keys() == {_REFERENCE}:
            return _numbered(written[_REFERENCE], forms)
        return {name: _resolved(value, forms) for name, value in written.items()}
    if isinstance(written, list):
        return [_resolved(item, forms) for item in written]
    if written is None or isinstance(written, str | int):
        return written
    raise ValueError(f"{written!r} is no part of an identity")


#: A form longer than this on its line gets a number and a line of its own …
_LINE = 60
#: … and so does one longer than this that is used more than once.
_SHARED = 20


def text(root: Form) -> str:
    """The form to read: inline where it is small, else a line `#n = (…)` for each larger part, the root last.

    >>> total = form("sum", form("column", "orders", "price"), form("type", "DECIMAL(10,2)"))
    >>> print(text(form("and", form("<", total, form("number", "5")), form("<", form("number", "1"), total))))
    #1 = (sum (column "orders" "price") (type "DECIMAL(10,2)"))
    (and (< #1 (number "5")) (< (number "1") #1))
    """
    distinct = list(walk(root))
    uses: dict[str, int] = {}
    for each in distinct:
        for arg in each.args:
            if isinstance(arg, Form):
                uses[arg.digest] = uses.get(arg.digest, 0) + 1
    lines: list[str] = []
    shown: dict[str, str] = {}
    for each in distinct:
        parts = [shown[a.digest] if isinstance(a, Form) else json.dumps(a) for a in each.args]
        written = f"({' '.join((_operator(each.op), *parts))})"
        long = len(written) > (_SHARED if uses.get(each.digest, 0) > 1 else _LINE)
        if long and each is not distinct[-1]:
            lines.append(f"#{len(lines) + 1} = {written}")
            written = f"#{len(lines)}"
        shown[each.digest] = written
    return "\n".join((*lines, shown[root.digest]))


def _operator(op: str) -> str:
    plain = op != "" and op.isascii() and op.isprintable() and not set(op) & set(' ()"#\\')
    return op if plain else json.dumps(op)
