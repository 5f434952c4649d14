"""What is wrong with an expression, attached to the node; the binder adds the place in the file."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from sqlstream_planner.diagnostics import Diagnostic, Span

UNKNOWN_FUNCTION = "TYP001"
WRONG_ARGUMENTS = "TYP002"
INCOMPATIBLE_TYPES = "TYP003"
NOT_BOOLEAN = "TYP004"
MISPLACED_AGGREGATE = "TYP005"
UNKNOWN_FIELD = "TYP006"
BAD_CAST = "TYP007"
UNKNOWN_COLUMN = "TYP008"
UNKNOWN_TYPE = "TYP009"
UNSUPPORTED_EXPRESSION = "TYP010"
UNTRANSLATABLE = "TYP011"
FAILING_CONSTANT = "TYP012"

#: What to do about an expression of a type of DuckDB's that columns can't have, such as BIT.
UNTYPED_HELP = "CAST it to a type that a column can have, such as CAST(… AS VARCHAR)"


@dataclass(eq=False)
class TypeProblem(Exception):  # noqa: N818 -- it is data until the binder raises it
    """A mistake of the user in `node`; the binder turns it into a Diagnostic with the node's span."""

    node: exp.Expr
    code: str
    message: str
    notes: tuple[str, ...] = ()
    help: str | None = None

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def diagnostic(self, span: Span | None) -> Diagnostic:
        """This problem at a place in the user's file."""
        return Diagnostic(self.code, self.message, span, self.notes, self.help)
