"""Reads an expression into its form: what its columns are, the lambdas around, and which function reads which part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp

from sqlstream_operators.plan.types import UNKNOWN, Kind, SqlType
from sqlstream_planner.expressions.infer import infer
from sqlstream_planner.identity.form import Form, form
from sqlstream_planner.sql.as_written import as_written
from sqlstream_planner.sql.problems import TypeProblem
from sqlstream_planner.sql.written_calls import WrittenCall, written_call

#: Gives the form of a node, or None if it knows none for it.
Handler: TypeAlias = "Callable[[Reader, exp.Expr], Form | None]"


#: Arguments of nodes that change nothing, or repeat what the node is.
_IGNORED: Mapping[type[exp.Expr], frozenset[str]] = {
    exp.DPipe: frozenset({"safe"}),
    exp.TryCast: frozenset({"safe"}),
}


@dataclass(slots=True)
class Reader:
    """Gives the forms of one expression's parts.

    `columns` are the forms of columns by id, `types` their types as far as they are given. `handlers` has the
    function for each kind of node; `call` is the one for calls, `written` for calls that were translated,
    `otherwise` for what none of these knows. `parameters` are those of the lambdas around, the innermost last.
    """

    columns: Mapping[str, Form]
    types: Mapping[str, SqlType]
    handlers: Mapping[type[exp.Expr], Handler]
    call: Callable[[Reader, WrittenCall], Form | None]
    written: Callable[[Reader, WrittenCall], Form]
    otherwise: Callable[[Reader, exp.Expr], Form]
    parameters: list[list[str]] = field(default_factory=list)

    def form(self, node: exp.Expr) -> Form:
        """The form of a part."""
        written = as_written(node)
        if written is not None:
            return self.written(self, written)
        if isinstance(node, exp.Paren | exp.Alias):
            return self.form(node.this)
        found = self._known(node)
        return found if found is not None else self.otherwise(self, node)

    def _known(self, node: exp.Expr) -> Form | None:
        handler = self.handlers.get(type(node))
        if handler is not None:
            return handler(self, node)
        if isinstance(node, exp.Func) and not isinstance(node.parent, exp.Dot):
            call = written_call(node)
            return self.call(self, call) if call is not None else None
        return None

    def parameter(self, name: str) -> Form | None:
        """A parameter of a lambda: how many lambdas out it belongs to, and which one it is there."""
        for depth, names in enumerate(reversed(self.parameters)):
            if name.lower() in names:
                return form("parameter", depth, names.index(name.lower()))
        return None

    def type_of(self, node: exp.Expr) -> SqlType:
        """The type of a part as far as it is known."""
        names = {c.parts[0].name for c in node.find_all(exp.Column)}
        if not names <= self.types.keys():
            return UNKNOWN
        try:
            return infer(node, {name: (self.types[name], True) for name in names}, aggregates=True).type
        except TypeProblem:
            return UNKNOWN

    def is_no_array(self, node: exp.Expr) -> bool:
        """Whether a value is certainly something else than an array."""
        return self.type_of(node).kind not in (Kind.UNKNOWN, Kind.ARRAY, Kind.NULL)


def has_only(node: exp.Expr, *keys: str) -> bool:
    """Whether a node has no arguments but these, and those that change nothing."""
    ignored = _IGNORED.get(type(node), frozenset())
    given = {
        key for key, value in node.args.items() if value is not None and value is not False and value != []
    }
    return given <= {*keys, *ignored}
