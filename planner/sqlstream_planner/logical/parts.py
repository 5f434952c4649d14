"""What nodes are made of besides fields and expressions: calls, terms of an order, frames, clauses."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field as attribute
from enum import StrEnum

from sqlglot import exp

from sqlstream_operators.plan.types import SqlType, quote_identifier
from sqlstream_planner.diagnostics import Span
from sqlstream_planner.logical.columns import ColumnId, Field
from sqlstream_planner.logical.expressions import order_term
from sqlstream_planner.logical.node import NON_SEMANTIC, Part


@dataclass(frozen=True, slots=True)
class AggregateCall(Part):
    """One aggregate function call; arguments refer to the input's column ids.

    `name` is DuckDB's lower-case name. `order_by`: (expression, descending, nulls first).
    """

    field: Field
    name: str
    arguments: tuple[exp.Expr, ...]
    argument_types: tuple[SqlType, ...]
    distinct: bool = False
    filter: exp.Expr | None = None
    order_by: tuple[tuple[exp.Expr, bool, bool], ...] = ()
    order_types: tuple[SqlType, ...] = ()
    at: Span | None = attribute(default=None, compare=False, metadata=NON_SEMANTIC)


@dataclass(frozen=True, slots=True)
class OrderTerm(Part):
    """One term of an ORDER BY: a column of the input by id."""

    column: ColumnId
    descending: bool
    nulls_first: bool

    @property
    def sql(self) -> str:
        """The term in DuckDB SQL.

        >>> OrderTerm(ColumnId("price"), descending=True, nulls_first=False).sql
        '"price" DESC NULLS LAST'
        """
        return order_term(
            quote_identifier(self.column), descending=self.descending, nulls_first=self.nulls_first
        )


#: The functions of an OVER that number the rows of a partition, so that a condition on them bounds it.
RANK_FUNCTIONS = frozenset({"row_number", "rank", "dense_rank"})
#: The functions of an OVER that have one value for rows that are equal by its ORDER BY, whatever the frame.
PEER_FUNCTIONS = frozenset({"rank", "dense_rank", "percent_rank", "cume_dist"})
#: Those that go by the place of a row among all of its partition, whatever the frame.
PLACE_FUNCTIONS = frozenset({"row_number", "ntile", "lag", "lead"})
#: Those that give the value of one row of the frame.
VALUE_FUNCTIONS = frozenset({"first_value", "last_value", "nth_value"})
#: Those that go through all of the partition by one value, which is their own ORDER BY, whatever the frame.
FILL_FUNCTIONS = frozenset({"fill"})


@dataclass(frozen=True, slots=True)
class WindowCall(Part):
    """One function of an OVER: `name` is DuckDB's, `frame` its ROWS, RANGE or GROUPS in DuckDB SQL ('' by default).

    Bounds that differ from row to row stand as `{0}` and `{1}` in `frame`, for the expressions in `bounds`. `order_by` is
    the ORDER BY inside the call: the order of the rows of its frame, by columns of the input.
    """

    field: Field
    name: str
    arguments: tuple[exp.Expr, ...] = ()
    argument_types: tuple[SqlType, ...] = ()
    distinct: bool = False
    filter: exp.Expr | None = None
    ignore_nulls: bool = False
    frame: str = ""
    bounds: tuple[exp.Expr, ...] = ()
    order_by: tuple[OrderTerm, ...] = ()
    at: Span | None = attribute(default=None, compare=False, metadata=NON_SEMANTIC)

    @property
    def rank(self) -> str | None:
        """Which of the RANK_FUNCTIONS numbers all rows of a partition so; None: it does not.

        With an order of its own a rank is one among the rows of its frame.
        """
        return self.name if self.name in RANK_FUNCTIONS and not self.order_by else None

    @property
    def by_rows(self) -> bool:
        """Whether it has a frame of ROWS."""
        return self.frame.startswith("ROWS")


@dataclass(frozen=True, slots=True)
class Emission(Part):
    """When a result in windows is given: with `changes`, while a window is open; and for `lateness_us` after its end
    late rows correct it.
    """

    changes: bool = False
    lateness_us: int = 0


#: Results in windows are emitted once, when the watermark closes the window.
ON_CLOSE = Emission()


class JoinKind(StrEnum):
    """How rows of two relations are combined."""

    INNER = "INNER"
    LEFT = "LEFT"
    RIGHT = "RIGHT"
    FULL = "FULL"
    SEMI = "SEMI"
    ANTI = "ANTI"
    CROSS = "CROSS"

    @property
    def takes_back(self) -> bool:
        """Whether a row without a partner is given, and retracted when one comes."""
        return self not in (JoinKind.INNER, JoinKind.CROSS, JoinKind.SEMI)


class SetOperator(StrEnum):
    """What a set operation makes of its branches."""

    UNION = "UNION"
    INTERSECT = "INTERSECT"
    EXCEPT = "EXCEPT"


class SubqueryKind(StrEnum):
    """What a sub-query in an expression stands for."""

    SCALAR = "scalar"
    EXISTS = "EXISTS"
    IN = "IN"
    ANY = "ANY"
    ALL = "ALL"


class ConflictAction(StrEnum):
    """ON CONFLICT DO …: what becomes of rows of a query that claim one row of the sink."""

    ERROR = "ERROR"
    NOTHING = "NOTHING"
    DEDUPLICATE = "DEDUPLICATE"
