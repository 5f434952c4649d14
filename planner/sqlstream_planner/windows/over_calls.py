"""Calls of an OVER as DuckDB SQL, where rows that are equal in ORDER BY stand in one order, which is given."""

from __future__ import annotations

from sqlstream_operators.plan.over_spec import BY_PEER, BY_ROW, POSITION, OverCall
from sqlstream_operators.plan.schema import Column
from sqlstream_planner.aggregates import registry
from sqlstream_planner.logical import WindowCall, sql
from sqlstream_planner.logical.parts import FILL_FUNCTIONS, PEER_FUNCTIONS, PLACE_FUNCTIONS, VALUE_FUNCTIONS
from sqlstream_planner.windows.over_reach import reach_of

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
    return call.by_rows or (call.name in PLACE_FUNCTIONS and not call.order_by)


def in_frame_order(call: WindowCall) -> bool:
    """Whether its value depends on the order of the rows in its frame."""
    function = registry.find(call.name)
    sensitive = function is not None and function.order_sensitive
    return call.name in VALUE_FUNCTIONS or call.name in _FIRST_OF_EQUALS or sensitive


def call_sql(call: WindowCall, order: str) -> str:
    """The call without its OVER; `order` is the whole order of the rows as SQL."""
    inside = ", ".join(sql(a) for a in call.arguments)
    inside = " ".join(
        part
        for part in (
            "DISTINCT" if call.distinct else "",
            inside,
            _order_inside(call, order),
            "IGNORE NULLS" if call.ignore_nulls else "",
        )
        if part
    )
    where = f" FILTER (WHERE {sql(call.filter)})" if call.filter is not None else ""
    return f"{call.name}({inside}){where}"


def _order_inside(call: WindowCall, order: str) -> str:
    """The ORDER BY inside a call: its own, and what distinguishes the rows that it leaves equal, where that shows."""
    own = [term.sql for term in call.order_by]
    if not own and not in_frame_order(call):
        return ""
    if call.distinct:
        own = own or [f"{sql(call.arguments[0])} ASC NULLS FIRST"]
    elif (
        own and call.name not in PEER_FUNCTIONS | FILL_FUNCTIONS
    ):  # FILL takes equal ones in the order of its window
        own += [order] if order else []
    elif not own and order and not (call.name in VALUE_FUNCTIONS and goes_by_row(call)):
        own = [order]  # values that stand in the order of rows need no ORDER BY
    return f"ORDER BY {', '.join(own)}" if own else ""


def frame_sql(call: WindowCall) -> str:
    """The frame of a call as DuckDB SQL, '' if it has none.

    >>> from sqlstream_operators.plan.types import BIGINT
    >>> from sqlstream_planner.logical import Field, column
    >>> frame_sql(WindowCall(Field("n", "n", BIGINT), "sum", frame="ROWS {0} PRECEDING", bounds=(column("w"),)))
    'ROWS ("w") PRECEDING'
    """
    return call.frame.format(*(f"({sql(b)})" for b in call.bounds))


def planned_call(call: WindowCall, *, ordered: bool) -> OverCall:
    """A call as the operator computes it."""
    window = BY_ROW if goes_by_row(call) else BY_PEER
    over = f"{window} {frame_sql(call)}" if call.frame else window
    made = Column(call.field.id, call.field.type, call.field.nullable)
    return OverCall(made, f"{call_sql(call, POSITION)} OVER ({over})", reach_of(call) if ordered else None)
