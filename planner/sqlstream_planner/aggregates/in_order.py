"""FIRST and LAST with an ORDER BY: the value of the first and the last row in it, NULLs included."""

from __future__ import annotations

from dataclasses import replace

from sqlstream_planner.aggregates.batch_parts import in_whole_order
from sqlstream_planner.aggregates.function import (
    AggregateFunction,
    Arguments,
    BatchCall,
    Decomposition,
    Multiset,
)
from sqlstream_planner.aggregates.kept_values import kept_values
from sqlstream_planner.aggregates.parts import distinct_in_order, order_of
from sqlstream_planner.logical import AggregateCall


def _function(name: str, place: int) -> AggregateFunction:
    def append_only(call: AggregateCall) -> Decomposition:
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
        values=Multiset(lambda call, values: f"{name}({values[0]} ORDER BY {order_of(call, values)})"),
        over_distinct=lambda call, values, flag: distinct_in_order(name, call, values, flag),
        batch_in_order=batch_in_order,
        batch_any_order=lambda call, written: batch_in_order(call, in_whole_order(call, written)),
    )


FIRST = _function("first", 1)
LAST = _function("last", -1)

FUNCTIONS = (FIRST, LAST)
