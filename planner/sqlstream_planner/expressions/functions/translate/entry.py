"""One translated call: what it is named, what it takes, what it becomes in DuckDB, and where that is documented."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlstream_operators.plan.types import SqlType
from sqlstream_planner.sql import problems
from sqlstream_planner.sql.problems import TypeProblem

FLINK = "Flink"
SPARK = "Spark"
POSTGRES = "PostgreSQL"
BOTH = "Flink, Spark"

TypeOf = Callable[[exp.Expr], SqlType]


@dataclass(frozen=True, slots=True)
class Context:
    """What a builder may look at: the whole call (for problems), and types, if the caller knows them."""

    call: exp.Expr
    type_of: TypeOf | None

    def type(self, node: exp.Expr) -> SqlType | None:
        """The type of an argument, None if it is not known."""
        return None if self.type_of is None else self.type_of(node)

    def refuse(self, message: str, help: str | None = None) -> TypeProblem:
        """A problem to raise: this call has no exact translation."""
        return TypeProblem(self.call, problems.UNTRANSLATABLE, message, help=help)


Builder = Callable[[Sequence[exp.Expr], Context], "exp.Expr | None"]


@dataclass(frozen=True, slots=True)
class Translation:
    """A call of `name` with exactly these `parameters`.

    `template` is DuckDB SQL over the parameter names, or (with a `builder`) words on what the builder makes;
    it gets the arguments and returns None to leave the call as it is. `meaning` says what the call means in
    `system`.
    """

    name: str
    parameters: tuple[str, ...]
    template: str
    meaning: str
    system: str = BOTH
    builder: Builder | None = None


def entry(
    call: str, template: str, meaning: str, system: str = BOTH, builder: Builder | None = None
) -> Translation:
    """Write a translation as it is read: `entry("LOCATE(part, text)", "strpos(text, part)", …)`.

    >>> entry("NVL(a, b)", "coalesce(a, b)", "a, or b if it is NULL").parameters
    ('a', 'b')
    """
    name, _, inside = call.removesuffix(")").partition("(")
    return Translation(name, tuple(p for p in inside.split(", ") if p), template, meaning, system, builder)


def literal_text(node: exp.Expr) -> str | None:
    """The value of a string literal, else None."""
    return str(node.this) if isinstance(node, exp.Literal) and node.is_string else None


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """A call of a DuckDB function."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def text(value: str) -> exp.Literal:
    """A string literal."""
    return exp.Literal.string(value)
