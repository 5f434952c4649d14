"""MIN, MAX, ARG_MIN and ARG_MAX with how many values are wanted: a list of the first ones, the best first."""

from __future__ import annotations

from dataclasses import replace

from sqlstream_operators.plan.types import SqlType, array, struct
from sqlstream_planner.aggregates.batch_parts import present
from sqlstream_planner.aggregates.frequencies import check_count
from sqlstream_planner.aggregates.function import (
    Accumulator,
    AggregateFunction,
    Arguments,
    BatchCall,
    Decomposition,
    Multiset,
)
from sqlstream_planner.aggregates.parts import argument, filter_of, repeated, where
from sqlstream_planner.logical import AggregateCall


def _kept(call: AggregateCall, function: str, value: str, type_: SqlType, *conditions: str) -> Accumulator:
    """The first values by `function`, min or max, in its order."""
    count = argument(call, len(call.arguments) - 1)
    sort = {"min": "list_sort", "max": "list_reverse_sort"}[function]
    partial = f"{function}({value}, {count}){filter_of(call, *conditions)}"
    merge = f"list_slice({sort}(flatten(list({{f}}) FILTER (WHERE {{f}} IS NOT NULL))), 1, {count})"
    return Accumulator(f"{function} several", array(type_), partial, merge)


# -------------------------------------------------------------------------------------------- MIN, MAX


def _extreme(function: str, direction: str, instead: str) -> AggregateFunction:
    def accumulated(call: AggregateCall) -> Decomposition:
        return Decomposition((_kept(call, function, argument(call), call.argument_types[0]),), "{0}")

    def over_values(call: AggregateCall, values: tuple[str, ...]) -> str:
        return f"list_slice({repeated(call, values[0], f'{values[0]} {direction}')}, 1, {argument(call, 1)})"

    def over_distinct(call: AggregateCall, values: tuple[str, ...], flag: str | None) -> str:
        return f"{function}({values[0]}, {argument(call, 1)}){where(*([flag] if flag is not None else []))}"

    def batch(_: AggregateCall, written: BatchCall) -> BatchCall:
        return replace(written, name=function)

    return AggregateFunction(
        name=f"{function}_several",
        arguments=Arguments(at_most=2, instead=instead, check=check_count),
        append_only=accumulated,
        any_order=accumulated,
        values=Multiset(over_values),
        over_distinct=over_distinct,
        batch_in_order=batch,
        batch_any_order=batch,
    )


# ------------------------------------------------------------------------------------ ARG_MIN, ARG_MAX


_UNORDERED = (
    "MIN_BY(x, a, n) and MAX_BY(x, a, n) take the rows with the least and the greatest a, equal ones by x"
)


def _of_extreme(function: str, direction: str) -> AggregateFunction:
    """Ties are decided by the value, so that they don't depend on arrival."""

    def pair(x: str, by: str) -> str:
        return f"{{'by': {by}, 'x': {x}}}"

    def values_of(pairs: str) -> str:
        return f"list_transform({pairs}, lambda __e: (__e).x)"

    def accumulated(call: AggregateCall) -> Decomposition:
        x, by = argument(call), argument(call, 1)
        type_ = struct(("by", call.argument_types[1]), ("x", call.argument_types[0]))
        both = f"CAST({pair(x, by)} AS {type_})"
        kept = _kept(call, function, both, type_, f"({x}) IS NOT NULL", f"({by}) IS NOT NULL")
        return Decomposition((kept,), values_of("{0}"))

    def over_values(call: AggregateCall, values: tuple[str, ...]) -> str:
        x, by = values
        ranked = repeated(call, pair(x, by), f"{by} {direction}, {x} {direction}")
        return values_of(f"list_slice({ranked}, 1, {argument(call, 2)})")

    def over_distinct(call: AggregateCall, values: tuple[str, ...], flag: str | None) -> str:
        x, by = values
        conditions = [f"{x} IS NOT NULL", f"{by} IS NOT NULL", *([flag] if flag is not None else [])]
        return values_of(f"{function}({pair(x, by)}, {argument(call, 2)}){where(*conditions)}")

    def batch(call: AggregateCall, written: BatchCall) -> BatchCall:
        x, by, count = written.arguments
        made = present(call, written, x, by)
        return replace(made, name=f"arg_{function}", arguments=(x, pair(x, by), count))

    return AggregateFunction(
        name=f"arg_{function}_several",
        arguments=Arguments(of_rows=2, at_most=3, unordered_help=_UNORDERED, check=check_count),
        append_only=accumulated,
        any_order=accumulated,
        values=Multiset(over_values),
        over_distinct=over_distinct,
        batch_in_order=batch,
        batch_any_order=batch,
    )


MIN_SEVERAL = _extreme("min", "ASC", "LEAST(a, b) takes the least value of one row")
MAX_SEVERAL = _extreme("max", "DESC", "GREATEST(a, b) takes the greatest value of one row")
ARG_MIN_SEVERAL = _of_extreme("min", "ASC")
ARG_MAX_SEVERAL = _of_extreme("max", "DESC")

FUNCTIONS = (MIN_SEVERAL, MAX_SEVERAL, ARG_MIN_SEVERAL, ARG_MAX_SEVERAL)
