"""Calls of an OVER as DuckDB SQL, where rows that are equal in ORDER BY stand in one order, which is given."""

from __future__ import annotations

from sqlstream_operators.plan.over_spec import BY_PEER, BY_ROW, POSITION, OverCall
from sqlstream_operators.plan.schema import Column
from sqlstream_planner.aggregates import registry
from sqlstream_planner.logical import WindowCall, sql
from sqlstream_planner.logical.parts import PLACE_FUNCTIONS, VALUE_FUNCTIONS
from sqlstream_planner.window_reach import reach_of

#: Aggregates whose record orders values by themselves, and which over the rows of a frame take the first of equal ones.
_FIRST_OF_EQUALS = frozenset({"arg_min", "arg_max", "mode"})


def goes_by_row(call: WindowCall) -> bool:
    """Whether its value depends on the place of each single row, and not on which rows are equal in ORDER BY.

    >>> from sqlstream_operators.plan.types import BIGINT
    >>> from sqlstream_planner.logical import Field
    >>> n = Field("n", "n", BIGINT)
    >>> goes_by_row(WindowCall(n, "lag")), goes_by_row(WindowCall(n, "rank"))
    (True, False)
    >>> goes_by_row(WindowCall(n, "sum", frame="ROWS 1 PRECEDING")), goes_by_row(WindowCall(n, "sum"))
    (True, False)
    """
    return call.name in PLACE_FUNCTIONS or call.frame.upper().startswith("ROWS")


def in_frame_order(call: WindowCall) -> bool:
    """Whether its value depends on the order of the rows in its frame."""
    function = registry.find(call.name)
    sensitive = function is not None and function.order_sensitive
    return call.name in VALUE_FUNCTIONS or call.name in _FIRST_OF_EQUALS or sensitive


def call_sql(call: WindowCall, order: str) -> str:
    """The call without its OVER; `order` is the whole order of the rows as SQL."""
    inside = ", ".join(sql(a) for a in call.arguments)
    if call.distinct:
        inside = f"DISTINCT {inside}"
    if in_frame_order(call):
        order = f"{sql(call.arguments[0])} ASC NULLS FIRST" if call.distinct else order
        # Of values that stand in the order of rows, DuckDB needs not be told.
        by_value = call.name in VALUE_FUNCTIONS and goes_by_row(call)
        inside += f" ORDER BY {order}" if order and not by_value else ""
    if call.ignore_nulls:
        inside += " IGNORE NULLS"
    where = f" FILTER (WHERE {sql(call.filter)})" if call.filter is not None else ""
    return f"{call.name}({inside}){where}"


def planned_call(call: WindowCall, *, ordered: bool) -> OverCall:
    """A call as the operator computes it."""
    window = BY_ROW if goes_by_row(call) else BY_PEER
    over = f"{window} {call.frame}" if call.frame else window
    made = Column(call.field.id, call.field.type, call.field.nullable)
    return OverCall(made, f"{call_sql(call, POSITION)} OVER ({over})", reach_of(call) if ordered else None)
