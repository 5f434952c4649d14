"""A call whose overload is chosen, as the rules for its type and its constants see it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sqlstream_planner.expressions.casts import TypedExpr


class NotTypableError(Exception):
    """The arguments do not go together; the text says why."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call whose overload is chosen: name, argument types, and their expressions (for constants)."""

    name: str
    types: tuple[TypedExpr, ...]
    nodes: tuple[exp.Expr, ...]
    returns: str

    def constant(self, index: int) -> int | str | None:
        """The value of the argument at `index`, if it is a literal (numbers as int)."""
        if index >= len(self.types):
            return None
        return self.types[index].literal
