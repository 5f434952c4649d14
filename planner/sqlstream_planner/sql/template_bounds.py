"""What a template may compute: no text or list of gigabytes, and no number that takes hours.

Each is refused before it is made: Python would take the memory first.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

MAX_OUTPUT = 16 * 1024 * 1024
"""How many characters a rendered file, or a text of a template, may have."""

#: A number of 30,000 digits, with which arithmetic takes no time.
_MAX_BITS = 100_000
TOO_LONG = f"a text of the template would have more than {MAX_OUTPUT:,} characters"
#: Jinja's functions behind the filters that make a text longer than what they are given.
_WIDENING = frozenset({"do_center", "do_indent", "do_format", "do_replace", "do_wordwrap"})
#: Widths in what `%` and `format` fill in, and those that stand among the arguments: '%*s', '{:{width}}'.
_WIDTHS, _GIVEN_WIDTHS = re.compile(r"\d{7,}"), re.compile(r"%[^%a-zA-Z]*\*|:[^{}]*\{")


def bounded_binop(operator: str, left: Any, right: Any) -> None:
    """Refuse `left operator right` if that would be too long, or a number of too many digits. Raises OverflowError."""
    if operator == "**" and isinstance(right, (int, float)) and abs(right) > 1000:
        raise OverflowError("the exponent is too large")
    if isinstance(left, int) and isinstance(right, int):
        bits = {"*": left.bit_length() + right.bit_length(), "**": left.bit_length() * abs(right)}
        if bits.get(operator, 0) > _MAX_BITS:
            raise OverflowError("the number is too large")
    if operator == "%" and isinstance(left, str):
        bounded_widths(left, *(right if isinstance(right, tuple) else (right,)), fills=True)
    if operator == "*":
        for sequence, count in ((left, right), (right, left)):
            repeats = isinstance(count, int) and isinstance(sequence, (str, list, tuple, bytes))
            if repeats and len(sequence) * count > MAX_OUTPUT:
                raise OverflowError("the repeated text is too long")


def bounded(value: Any) -> Any:
    """A text or list that is not too long. Raises OverflowError."""
    if isinstance(value, (str, bytes, list, tuple)) and len(value) > MAX_OUTPUT:
        raise OverflowError(TOO_LONG)
    return value


def bounded_widths(text: Any, *arguments: Any, fills: bool = False) -> None:
    """Refuse what would be widened too far, before it is: 'a'.ljust(10 ** 10), '%9999999999s', 'a,a'.replace('a', long).

    `fills`: the arguments are filled in, where a number is as wide as its digits: '%d' % 1704067200.
    """
    if not isinstance(text, str):
        return
    if fills and arguments and isinstance(arguments[0], Mapping):  # format_map, and '%(a)s' % {…}
        arguments = tuple(arguments[0].values())
    widths = not fills or _GIVEN_WIDTHS.search(text) is not None
    numbers = [n for n in arguments if widths and isinstance(n, int)]
    numbers += [int(width) for width in _WIDTHS.findall(text)] if "%" in text or "{" in text else []
    count = max(text.count(a) if isinstance(a, str) else 1 for a in (*arguments, None))
    numbers.append(count * sum(len(a) for a in arguments if isinstance(a, str)))
    if any(number > MAX_OUTPUT for number in numbers):
        raise OverflowError(TOO_LONG)


def bounded_join(separator: Any, values: Any = (), *_: Any) -> None:
    """Refuse what would be too long with so many separators, before it is put together."""
    if isinstance(separator, str) and isinstance(values, (str, list, tuple, dict, set, range)):
        texts = (len(v) for v in values if isinstance(v, str))
        if len(separator) * len(values) + sum(texts) > MAX_OUTPUT:
            raise OverflowError(TOO_LONG)


def bounded_filter(filter_: Callable[..., Any]) -> Callable[..., Any]:
    """A filter of Jinja that refuses what would be too long. It raises OverflowError."""

    @functools.wraps(filter_)
    def checked(*arguments: Any, **named: Any) -> Any:
        given = (*arguments, *named.values())
        if filter_.__name__ in _WIDENING:
            text = next((a for a in given if isinstance(a, str)), None)
            others = (a for a in given if a is not text)
            bounded_widths(text, *others, fills=filter_.__name__ == "do_format")
        if filter_.__name__ in ("sync_do_join", "do_join"):
            bounded_join(named.get("d", (*arguments[2:], "")[0]), *arguments[1:2])
        return bounded(filter_(*arguments, **named))

    return checked
