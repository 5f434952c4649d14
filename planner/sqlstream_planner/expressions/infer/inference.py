"""The inference itself: its scope, the places that it is in, and which function types which kind of expression."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp

from sqlstream_operators.plan.types import BOOLEAN, UNKNOWN, Kind, SqlType
from sqlstream_planner.expressions.casts import TypedExpr, can_cast, fails
from sqlstream_planner.sql import problems
from sqlstream_planner.sql.problems import TypeProblem
from sqlstream_planner.sql.written_calls import WrittenCall, written_call

Scope: TypeAlias = Mapping[str, tuple[SqlType, bool]]
OnError: TypeAlias = Callable[[TypeProblem], None]
Handler: TypeAlias = "Callable[[Inference, exp.Expr], TypedExpr]"


@dataclass(slots=True)
class Inference:
    """Types the expressions of one scope, whose names are in lower case.

    `handlers` has the function for each kind of expression, `call` is the one for function calls; the rest is
    UNKNOWN. `aggregates` and `windows` say whether SUM … and … OVER may appear here, `lambdas` what the parameters of
    the lambdas around are.
    """

    scope: Scope
    on_error: OnError | None
    aggregates: bool
    windows: bool
    handlers: Mapping[type[exp.Expr], Handler]
    call: Callable[[Inference, exp.Expr, WrittenCall], TypedExpr]
    lambdas: list[dict[str, SqlType]] = field(default_factory=list)

    def type_of(self, node: exp.Expr) -> TypedExpr:
        """Type an expression; UNKNOWN where it has a problem that is reported and does not raise."""
        try:
            handler = self.handlers.get(type(node))
            if handler is not None:
                return handler(self, node)
            call = written_call(node)
            return self.call(self, node, call) if call is not None else TypedExpr(UNKNOWN)
        except TypeProblem as problem:
            if self.on_error is None:
                raise
            self.on_error(problem)
            return TypedExpr(UNKNOWN)

    def condition(self, node: exp.Expr, what: str) -> TypedExpr:
        """Type a condition; a problem if it can't be a boolean."""
        typed = self.type_of(node)
        if isinstance(typed.literal, str) and fails(typed.literal, BOOLEAN):
            self.report(
                TypeProblem(node, problems.NOT_BOOLEAN, f"{what} needs a BOOLEAN, this is '{typed.literal}'")
            )
        elif typed.literal is None and typed.type.kind in (Kind.VARCHAR, Kind.JSON):
            # DuckDB reads each text as a truth value, and stops at the first that is none.
            self.report(
                TypeProblem(
                    node,
                    problems.NOT_BOOLEAN,
                    f"{what} needs a BOOLEAN, this is {typed.type}",
                    help="compare it with something, or write CAST(… AS BOOLEAN); TRY_CAST gives NULL where it is none",
                )
            )
        elif not can_cast(typed.type, BOOLEAN):
            self.report(
                TypeProblem(
                    node,
                    problems.NOT_BOOLEAN,
                    f"{what} needs a BOOLEAN, this is {typed.type}",
                    help="compare it with something, as in `… IS NOT NULL` or `… = …`",
                )
            )
        return TypedExpr(BOOLEAN, typed.nullable)

    def report(self, problem: TypeProblem) -> None:
        """Hand a problem on, or raise it where nobody takes it."""
        if self.on_error is None:
            raise problem
        self.on_error(problem)

    @contextmanager
    def local(self, names: Mapping[str, SqlType]) -> Iterator[None]:
        """Where the parameters of a lambda are known too."""
        self.lambdas.append({name.lower(): type_ for name, type_ in names.items()})
        try:
            yield
        finally:
            self.lambdas.pop()

    @contextmanager
    def places(self, *, aggregates: bool, windows: bool) -> Iterator[None]:
        """Where aggregates and window functions may stand, or may not."""
        before = self.aggregates, self.windows
        self.aggregates, self.windows = aggregates, windows
        try:
            yield
        finally:
            self.aggregates, self.windows = before
