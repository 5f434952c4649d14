"""`-k EXPRESSION`: which tests run, by words in their names, as pytest has it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

Matches = Callable[[str], bool]
_TOKEN = re.compile(r"""\s*(\(|\)|'[^']*'|"[^"]*"|[^\s()]+)""")


def selection(expression: str) -> Matches:
    """Whether a name is selected: words are sought in it, ignoring case, and joined by `and`, `or`, `not` and parentheses.

    Raises DiagnosticError (TST010, exit code 2) for an expression that can't be read.

    >>> wanted = selection("late and not (edit or 'two sinks')")
    >>> wanted("orders.test.yaml::late rows"), wanted("Late rows after an edit")
    (True, False)
    """
    reader = _Reader(expression, _TOKEN.findall(expression))
    matches = reader.either()
    if reader.tokens:
        raise reader.wrong(f"`{reader.tokens[0]}` can't stand here")
    return matches


@dataclass(slots=True)
class _Reader:
    expression: str
    tokens: list[str]

    def either(self) -> Matches:
        first = self.both()
        if not self._next("or"):
            return first
        rest = self.either()
        return lambda name: first(name) or rest(name)

    def both(self) -> Matches:
        first = self.one()
        if not self._next("and"):
            return first
        rest = self.both()
        return lambda name: first(name) and rest(name)

    def one(self) -> Matches:
        if self._next("not"):
            inner = self.one()
            return lambda name: not inner(name)
        if self._next("("):
            inner = self.either()
            if not self._next(")"):
                raise self.wrong("a parenthesis is never closed")
            return inner
        if not self.tokens or self.tokens[0] in ("and", "or", ")"):
            raise self.wrong(
                f"`{self.tokens[0]}` can't stand here" if self.tokens else "a word is missing at its end"
            )
        word = self.tokens.pop(0).strip("'\"").lower()
        return lambda name: word in name.lower()

    def wrong(self, why: str) -> DiagnosticError:
        return DiagnosticError(
            Diagnostic(
                "TST010",
                f"-k {self.expression!r}: {why}",
                help="write words with and, or, not and parentheses",
            ),
            exit_code=2,
        )

    def _next(self, token: str) -> bool:
        if self.tokens[:1] == [token]:
            del self.tokens[0]
            return True
        return False
