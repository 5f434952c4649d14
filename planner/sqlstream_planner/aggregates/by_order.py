"""ARG_MIN, ARG_MAX and ANY_VALUE: the value of one row."""

from __future__ import annotations

from dataclasses import replace

from sqlstream_operators.plan.types import struct
from sqlstream_planner.aggregates.batch_parts import in_whole_order, once, present, terms_of
from sqlstream_planner.aggregates.function import (
    Accumulator,
    AggregateFunction,
    Arguments,
    BatchCall,
    Decomposition,
    Multiset,
    Spelling,
)
from sqlstream_planner.aggregates.kept_values import kept_values
from sqlstream_planner.aggregates.parts import (
    argument,
    filter_of,
    order_of,
    over_distinct,
    over_ordered_distinct,
)
from sqlstream_planner.logical import AggregateCall

# ------------------------------------------------------------------------------------- ARG_MIN, ARG_MAX


def _first_wins(call: AggregateCall) -> Decomposition:
    """The first row in arrival order wins a tie; NULLs are ignored."""
    x, by = argument(call), argument(call, 1)
    type_ = struct(("by", call.argument_types[1]), ("x", call.argument_types[0]))
    where = filter_of(call, f"({x}) IS NOT NULL", f"({by}) IS NOT NULL")
    partial = f"{call.name}({{'by': {by}, 'x': {x}}}, {by}){where}"
    return Decomposition((Accumulator(call.name, type_, partial, f"{call.name}({{f}}, {{f}}.by)"),), "{0}.x")


def _pair(call: AggregateCall, best: str) -> Decomposition:
    """The least or greatest (by, x), so that ties don't depend on arrival."""
    x, by = argument(call), argument(call, 1)
    type_ = struct(("by", call.argument_types[1]), ("x", call.argument_types[0]))
    where = filter_of(call, f"({x}) IS NOT NULL", f"({by}) IS NOT NULL")
    partial = f"{best}(CAST({{'by': {by}, 'x': {x}}} AS {type_})){where}"
    return Decomposition((Accumulator(f"{best} by and value", type_, partial, f"{best}({{f}})"),), "{0}.x")


def _batch(call: AggregateCall, written: BatchCall) -> BatchCall:
    x, by = written.arguments
    made = present(call, once(call, written), x, by)
    return replace(made, arguments=(x, f"{{'by': {by}, 'x': {x}}}"))


_UNORDERED = "MIN_BY(x, a) and MAX_BY(x, a) take the x of the row with the least and the greatest a"
ARG_MIN = AggregateFunction(
    name="arg_min",
    also=("min_by", "argmin"),
    by_time=("first_value", "first"),
    spellings=(
        Spelling(
            "FIRST_VALUE(x)",
            "first(x) FILTER (WHERE x IS NOT NULL)",
            "the first value that is not NULL",
            "Flink",
        ),
    ),
    with_count="arg_min_several",
    in_order=(("first", "first_in_order"),),
    arguments=Arguments(of_rows=2, at_most=2, unordered_help=_UNORDERED),
    distinct_is_noop=True,
    append_only=_first_wins,
    any_order=lambda call: _pair(call, "min"),
    values=Multiset(lambda _, values: f"struct_extract(min({values[0]}), 'x')", pick="first", paired=True),
    over_distinct=over_distinct,
    batch_in_order=once,
    batch_any_order=_batch,
)

ARG_MAX = AggregateFunction(
    name="arg_max",
    also=("max_by", "argmax"),
    by_time=("last_value", "last"),
    spellings=(
        Spelling(
            "LAST_VALUE(x)",
            "last(x) FILTER (WHERE x IS NOT NULL)",
            "the last value that is not NULL",
            "Flink",
        ),
    ),
    with_count="arg_max_several",
    in_order=(("last", "last_in_order"),),
    arguments=Arguments(of_rows=2, at_most=2, unordered_help=_UNORDERED),
    distinct_is_noop=True,
    append_only=_first_wins,
    any_order=lambda call: _pair(call, "max"),
    values=Multiset(lambda _, values: f"struct_extract(max({values[0]}), 'x')", pick="last", paired=True),
    over_distinct=over_distinct,
    batch_in_order=once,
    batch_any_order=_batch,
)

# ------------------------------------------------------------------------------------------- ANY_VALUE


def _first_comes(call: AggregateCall) -> Decomposition:
    """The first non-NULL value in the call's order, or else in that of arrival."""
    if call.order_by:
        kept, values = kept_values(call, nulls=False)
        return Decomposition((kept,), f"list_extract({values}, 1)")
    partial = f"any_value({argument(call)}){filter_of(call)}"
    return Decomposition((Accumulator("any_value", call.field.type, partial, "any_value({f})"),), "{0}")


def _least(call: AggregateCall) -> Decomposition | None:
    """The least value, in an accumulator that MIN has too."""
    if call.order_by:
        return None
    partial = f"min({argument(call)}){filter_of(call)}"
    return Decomposition((Accumulator("min", call.field.type, partial, "min({f})"),), "{0}")


def _any_of_values(call: AggregateCall, values: tuple[str, ...]) -> str:
    x = values[0]
    return f"first({x} ORDER BY {order_of(call, values)})" if call.order_by else f"min({x})"


def _any_batch(call: AggregateCall, written: BatchCall) -> BatchCall:
    made = once(call, written)
    if not terms_of(call):
        return replace(made, name="min")
    return replace(present(call, in_whole_order(call, made), *made.arguments), name="first")


ANY_VALUE = AggregateFunction(
    name="any_value",
    also=("arbitrary",),
    arguments=Arguments(ordered=True),
    order_sensitive=True,
    distinct_is_noop=True,
    append_only=_first_comes,
    any_order=_least,
    values=Multiset(_any_of_values, pick="first"),
    over_distinct=over_ordered_distinct,
    batch_in_order=once,
    batch_any_order=_any_batch,
    derived_from=(frozenset({"min"}),),
)

FUNCTIONS = (ARG_MIN, ARG_MAX, ANY_VALUE)
