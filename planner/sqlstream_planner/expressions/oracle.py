"""What DuckDB says of a call: its type, or its refusal in its own words.

The planner has no DuckDB. Whoever has one hands in a `TypeOracle` (`sqlstream.type_oracle`), once per process: what the
installed DuckDB says of a signature is a fact, as a table of types in a file would be one, and never changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from sqlstream_operators.plan.types import Kind, SqlType, quote_identifier, quote_literal, spelled
from sqlstream_planner.diagnostics import InternalError


class Rows(Enum):
    """For which rows a question is computed, too."""

    NONE = ""
    NULLS = "nulls"  # as it has texts that may be no value of the type that is wanted
    VALUES = "values"  # as it may be that DuckDB can do it for no value at all


@dataclass(frozen=True, slots=True)
class Question:
    """Which type has `expression`, DuckDB's SQL over columns `$0`, `$1` … of the types `columns`?

    >>> from sqlstream_operators.plan.types import INTEGER
    >>> Question(f"{column(0)} + 1", (INTEGER,)).sql
    'SELECT "$0" + 1 FROM (VALUES (NULL::INTEGER), (NULL::INTEGER)) AS t("$0")'
    """

    expression: str
    columns: tuple[SqlType, ...] = ()
    rows: Rows = Rows.NONE

    @property
    def sql(self) -> str:
        """The question as a query."""
        if not self.columns:
            return f"SELECT {self.expression}"
        # Two rows: of a single one DuckDB makes constants, and leaves out what NULL leaves nothing of.
        value = sample if self.rows is Rows.VALUES else (lambda _: "NULL")
        row = f"({', '.join(f'{value(t)}::{spelled(t)}' for t in self.columns)})"
        names = ", ".join(column(i) for i in range(len(self.columns)))
        return f"SELECT {self.expression} FROM (VALUES {row}, {row}) AS t({names})"


@dataclass(frozen=True, slots=True)
class Refused:
    """That DuckDB refuses, in its words; `value`: for what a constant is, not for types.

    `text`: because a text is no value of the type that is wanted.
    """

    words: str
    value: bool = False
    text: bool = False


@dataclass(frozen=True, slots=True)
class Listed:
    """A function as DuckDB lists it: `kind` is scalar, aggregate, window or macro, `stability` its word for volatile.

    `definition` is the SQL of a macro.
    """

    kind: str
    stability: str
    definition: str = ""


@dataclass(frozen=True, slots=True)
class Signature:
    """One way to call a function, types as DuckDB spells them; any number of `variadic` may follow.

    >>> str(Signature(("VARCHAR",), "VARCHAR", "ANY"))
    '(VARCHAR, ANY...) -> VARCHAR'
    """

    parameters: tuple[str, ...]
    returns: str
    variadic: str | None = None

    def __str__(self) -> str:
        parts = [*self.parameters, *([f"{self.variadic}..."] if self.variadic is not None else [])]
        return f"({', '.join(parts)}) -> {self.returns}"

    def accepts(self, count: int) -> bool:
        """Whether it takes `count` arguments."""
        least = len(self.parameters)
        return count == least or (count > least and self.variadic is not None)

    def parameter(self, index: int) -> str:
        """The type of the argument at `index` (0-based)."""
        if index < len(self.parameters):
            return self.parameters[index]
        assert self.variadic is not None
        return self.variadic


class TypeOracle(Protocol):
    """Answers for one DuckDB."""

    def type_of(self, question: Question) -> SqlType | Refused:
        """The type, UNKNOWN if no column of ours can have it, or why there is none."""

    def failures(self, constants: Sequence[str]) -> Sequence[str | None]:
        """Of each constant, SQL without columns: why its value can't be computed; None: nothing is wrong with it."""

    def functions(self) -> Mapping[str, Listed]:
        """All functions by their names in lower case."""

    def signatures(self, name: str) -> tuple[Signature, ...]:
        """What a function can be called with, by its name in lower case; sorted."""


_handed_in: list[TypeOracle] = []


def use(oracle: TypeOracle) -> None:
    """Ask `oracle` from now on."""
    _handed_in[:] = [oracle]


def current() -> TypeOracle:
    """The oracle that was handed in. Raises InternalError if none was."""
    if not _handed_in:
        raise InternalError("no type oracle was set (sqlstream.planning does)")
    return _handed_in[0]


def column(index: int) -> str:
    """How the column at `index` of a question is written."""
    return f'"${index}"'


_SAMPLES = {
    Kind.BOOLEAN: "TRUE",
    Kind.VARCHAR: "''",
    Kind.JSON: "'1'",
    Kind.BLOB: "''",
    Kind.DATE: "'2000-01-01'",
    Kind.TIME: "'00:00:00'",
    Kind.TIMESTAMP: "'2000-01-01'",
    Kind.TIMESTAMPTZ: "'2000-01-01'",
    Kind.TIMESTAMP_NS: "'2000-01-01'",
    Kind.TIMETZ: "'00:00:00+00'",
    Kind.INTERVAL: "'1 day'",
    Kind.UUID: "'00000000-0000-0000-0000-000000000000'",
    Kind.BIT: "'0'",
    Kind.NULL: "NULL",
}


def sample(type_: SqlType) -> str:
    """SQL of some value of a type, of one that has something inside if it can."""
    match type_.kind:
        case Kind.ARRAY:
            assert type_.element is not None
            return f"[{_cast_sample(type_.element)}]"
        case Kind.ENUM:
            return quote_literal(type_.labels[0])
        case Kind.MAP:
            assert type_.key is not None
            assert type_.value is not None
            return f"MAP {{{_cast_sample(type_.key)}: {_cast_sample(type_.value)}}}"
        case Kind.STRUCT:
            inside = ", ".join(f"{quote_identifier(name)}: {_cast_sample(t)}" for name, t in type_.fields)
            return f"{{{inside}}}"
        case Kind.TUPLE:
            return f"ROW({', '.join(_cast_sample(t) for _, t in type_.fields)})"
        case kind:
            return _SAMPLES.get(kind, "0")


def _cast_sample(type_: SqlType) -> str:
    return f"{sample(type_)}::{spelled(type_)}"
