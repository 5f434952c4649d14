"""Calls in DuckDB's own words: what the referee asks over all rows at once.

Over rows in the order of arrival (windows) a call is DuckDB's as it is written. Over groups that are kept up to
date the result must depend on the multiset of rows alone, so each function says what is meant where DuckDB leaves
it to chance.
"""

from __future__ import annotations

from sqlstream_planner.aggregates.batch_parts import whole_order
from sqlstream_planner.aggregates.function import BatchCall
from sqlstream_planner.aggregates.parts import conditions_of, order_by_value
from sqlstream_planner.aggregates.registry import function_of
from sqlstream_planner.logical import AggregateCall, sql


def in_order_of_arrival(call: AggregateCall) -> str:
    """The call over rows of its window, cast to the call's type."""
    function = function_of(call)
    order = ""
    if call.distinct and function.order_sensitive and not function.distinct_is_noop:
        order = order_by_value(call, sql(call.arguments[0]))
    elif call.order_by:
        order = whole_order(call)
    written = _written(call, order)
    if function.batch_in_order is not None:
        written = function.batch_in_order(call, written)
    return f"CAST({written.sql} AS {call.field.type})"


def in_any_order(call: AggregateCall) -> str:
    """The call over rows of its group, cast to the call's type: the referee of what the accumulators give.

    Lists are in ascending order (NULLs last) where the query says nothing, and ties of an ORDER BY are too;
    ANY_VALUE is the least value; ARG_MIN and ARG_MAX take the least and the greatest (by, x); MODE the least
    of the most frequent.
    """
    function = function_of(call)
    written = _written(call, "")
    if function.batch_any_order is not None:
        written = function.batch_any_order(call, written)
    return f"CAST({written.sql} AS {call.field.type})"


def _written(call: AggregateCall, order: str) -> BatchCall:
    arguments = tuple(sql(a) for a in call.arguments)
    return BatchCall(call.name, arguments, tuple(conditions_of(call)), order, call.distinct)
