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


def _first_wins(call: AggregateCall, best: str, *nulls: str) -> Decomposition:
    """The first row in arrival order wins a tie."""
    x, by = argument(call), argument(call, 1)
    type_ = struct(("by", call.argument_types[1]), ("x", call.argument_types[0]))
    partial = f"arg_{best}({{'by': {by}, 'x': {x}}}, {by}){_of_rows(call, *nulls)}"
    meaning = " with ".join((f"arg_{best}", *nulls))
    return Decomposition((Accumulator(meaning, type_, partial, f"arg_{best}({{f}}, ({{f}}).by)"),), "({0}).x")


def _pair(call: AggregateCall, best: str, *nulls: str) -> Decomposition:
    """The least or greatest (by, x), so that ties don't depend on arrival."""
    x, by = argument(call), argument(call, 1)
    type_ = struct(("by", call.argument_types[1]), ("x", call.argument_types[0]))
    partial = f"{best}(CAST({{'by': {by}, 'x': {x}}} AS {type_})){_of_rows(call, *nulls)}"
    meaning = " with ".join((f"{best} by and value", *nulls))
    return Decomposition((Accumulator(meaning, type_, partial, f"{best}({{f}})"),), "({0}).x")


def _of_rows(call: AggregateCall, *nulls: str) -> str:
    """FILTER to the rows that count: those in which neither argument is NULL, or with `nulls` the second alone."""
    return filter_of(call, *(f"({argument(call, n)}) IS NOT NULL" for n in (() if nulls else (0,)) + (1,)))


def _extreme(name: str, best: str, *nulls: str) -> AggregateFunction:
    """ARG_MIN or ARG_MAX; with `nulls` rows count whose value is NULL."""

    def batch(call: AggregateCall, written: BatchCall) -> BatchCall:
        x, by = written.arguments
        made = present(call, once(call, written), *(() if nulls else (x,)), by)
        return replace(made, arguments=(x, f"{{'by': {by}, 'x': {x}}}"))

    def over_values(_: AggregateCall, values: tuple[str, ...]) -> str:
        return f"struct_extract({best}({values[0]}), 'x')"

    return AggregateFunction(
        name=name,
        arguments=Arguments(of_rows=2, at_most=2, unordered_help=_UNORDERED),
        best_first={"min": "ASC", "max": "DESC"}[best],
        keeps_nulls=bool(nulls),
        distinct_is_noop=True,
        append_only=lambda call: _first_wins(call, best, *nulls),
        any_order=lambda call: _pair(call, best, *nulls),
        values=Multiset(over_values, pick={"min": "first", "max": "last"}[best], paired=True),
        over_distinct=over_distinct,
        batch_in_order=once,
        batch_any_order=batch,
    )


_UNORDERED = "MIN_BY(x, a) and MAX_BY(x, a) take the x of the row with the least and the greatest a"
ARG_MIN = replace(
    _extreme("arg_min", "min"),
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
)
ARG_MAX = replace(
    _extreme("arg_max", "max"),
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
)
ARG_MIN_NULL = _extreme("arg_min_null", "min", "nulls")
ARG_MAX_NULL = _extreme("arg_max_null", "max", "nulls")

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

FUNCTIONS = (ARG_MIN, ARG_MAX, ARG_MIN_NULL, ARG_MAX_NULL, ANY_VALUE)
