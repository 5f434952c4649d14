"""What is wrong with a statement that can't be read, and on which range of the text."""

from __future__ import annotations

import re
from typing import NoReturn

from sqlglot import exp
from sqlglot.errors import ParseError

from sqlstream_planner.diagnostics import SHALLOWER
from sqlstream_planner.sql.dialect.positions import range_of

#: The mark of a call that was written as an arrow.
ARROW = "arrow"
OPERATORS = (exp.Binary, exp.Unary, exp.Between, exp.In)
_MISSING = re.compile(r"Required (?:argument|keyword): '(\w+)' missing for .*?(\w+)'?>?$")
_EXPECTATIONS = {
    "Expecting )": "expected `)`",
    "Expecting (": "expected `(`",
    "Expected ]": "expected `]`",
    "Expecting ]": "expected `]`",
    "Expected }": "expected `}`",
    "Expecting >": "expected `>`",
    "Expected AS after CAST": "CAST needs AS and a type, as in CAST(x AS INT)",
    "Expected TYPE after CAST": "expected a type",
    "Expected type after '::'": "expected a type after `::`",
    "Expected FROM or comma after EXTRACT": "EXTRACT needs FROM, as in EXTRACT(YEAR FROM ts)",
    "Expected END after CASE": "expected END to close CASE",
    "Expected CTE to have alias": "a CTE needs AS, as in WITH t AS (SELECT …)",
    "Failed to parse any statement following CTE": "expected SELECT after WITH … AS (…)",
    "Expecting IN": "expected IN",
}


def expectation(message: str) -> str | None:
    """What sqlglot's error `message` says was expected, in our words, or None if it says nothing."""
    found = _MISSING.search(message)
    if found is not None:
        return "an expression is missing here"
    if message.startswith("Expected table name"):
        return "expected a table name"
    return _EXPECTATIONS.get(message)


class SqlSyntaxError(ParseError):
    """A statement does not parse: what is wrong, on which range of the text, and how to mend it."""

    def __init__(
        self, message: str, start: int, end: int, *, help: str | None = None, code: str = "SQL001"
    ) -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = end
        self.help = help
        self.code = code


def nested_too_deeply(start: int, end: int) -> SqlSyntaxError:
    """The failure of what nests deeper than anything can read, on `[start, end)` of the text."""
    return SqlSyntaxError(
        "this expression is nested too deeply",
        start,
        end,
        help=SHALLOWER,
        code="SQL107",
    )


def refuse_bare_arrow(node: exp.Expr) -> None:
    """Fail when an operand of the operator `node` is an arrow without parentheses.

    DuckDB gives `->` a lower precedence than `=` and `+`, PostgreSQL a higher one: either reading surprises.
    """
    if isinstance(node, OPERATORS) and not isinstance(node, (exp.Paren, exp.PropertyEQ, exp.Kwarg)):
        for child in node.iter_expressions():
            if child._meta and ARROW in child._meta:
                refuse_arrow(child)


def refuse_arrow(node: exp.Expr) -> NoReturn:
    """Fail at an operand that is an arrow, or has one beside it. Raises SqlSyntaxError."""
    start, end = range_of(node) or (0, 1)
    raise SqlSyntaxError(
        "an arrow next to another operator needs parentheses", start, end, help="write (x -> 'path') = y"
    )
