"""FIRST and LAST with an ORDER BY: the value of the first and the last row in it, NULLs included."""

from __future__ import annotations

from dataclasses import replace

from sqlstream_planner.aggregates.batch_parts import in_whole_order
from sqlstream_planner.aggregates.function import (
    Accumulator,
    AggregateFunction,
    Arguments,
    BatchCall,
    Decomposition,
    Multiset,
)
from sqlstream_planner.aggregates.kept_values import kept_values, ordered_value
from sqlstream_planner.aggregates.parts import distinct_in_order, filter_of, order_of
from sqlstream_planner.logical import AggregateCall


def _function(name: str, place: int, best: str) -> AggregateFunction:
    def one_value(call: AggregateCall) -> Decomposition | None:
        """The least or the greatest of (order, value), which is the result where all of the order is ascending."""
        if any(descending for _, descending, _ in call.order_by):
            return None
        value, type_ = ordered_value(call)
        partial = f"{best}(CAST({value} AS {type_})){filter_of(call)}"
        kept = Accumulator(f"{best} by order and value", type_, partial, f"{best}({{f}})")
        return Decomposition((kept,), "({0}).x")

    def append_only(call: AggregateCall) -> Decomposition:
        one = one_value(call)
        if one is not None:
            return one
        kept, values = kept_values(call, nulls=True)
        return Decomposition((kept,), f"list_extract({values}, {place})")

    def batch_in_order(_: AggregateCall, written: BatchCall) -> BatchCall:
        return replace(written, name=name)

    return AggregateFunction(
        name=f"{name}_in_order",
        arguments=Arguments(ordered=True),
        order_sensitive=True,
        keeps_nulls=True,
        append_only=append_only,
        any_order=one_value,
        values=Multiset(lambda call, values: f"{name}({values[0]} ORDER BY {order_of(call, values)})"),
        over_distinct=lambda call, values, flag: distinct_in_order(name, call, values, flag),
        batch_in_order=batch_in_order,
        batch_any_order=lambda call, written: batch_in_order(call, in_whole_order(call, written)),
    )


FIRST = _function("first", 1, "min")
LAST = _function("last", -1, "max")

FUNCTIONS = (FIRST, LAST)
