"""HISTOGRAM and APPROX_TOP_K: how often each value is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from sqlstream_planner.aggregates.batch_parts import present
from sqlstream_planner.aggregates.function import (
    AggregateFunction,
    Arguments,
    BatchCall,
    Decomposition,
    Multiset,
    WrongConstant,
)
from sqlstream_planner.aggregates.kept_values import holistic, kept_values
from sqlstream_planner.aggregates.parts import AS_LIST, argument, as_list, in_template, over_distinct, where
from sqlstream_planner.logical import AggregateCall


def _counted(call: AggregateCall, values: tuple[str, ...]) -> str:
    if len(call.arguments) > 1:
        return as_list(call, values)
    count = "1" if call.distinct else '"count"'
    entry = f"{{'key': {values[0]}, 'value': CAST({count} AS UBIGINT)}}"
    return f"map_from_entries(list({entry} ORDER BY {values[0]}))"


#: A map of each value to how often it is there; with a list of bins, of each upper bound.
HISTOGRAM = AggregateFunction(
    name="histogram",
    append_only=holistic,
    values=Multiset(_counted),
    over_distinct=over_distinct,
)

#: The same of a list of values, others together.
HISTOGRAM_EXACT = AggregateFunction(
    name="histogram_exact", append_only=holistic, values=AS_LIST, over_distinct=over_distinct
)


def check_count(arguments: Sequence[exp.Expr]) -> WrongConstant | None:
    """The last argument is how many values are wanted, as a number."""
    if not arguments:
        return None  # that there is none is reported with the types
    count = arguments[-1].unnest()
    if isinstance(count, exp.Literal) and count.is_int and 0 < int(count.name) < 1_000_000:
        return None
    return WrongConstant(
        arguments[-1], f"{count.sql()} can't say how many values", "write a number from 1 to 999999"
    )


def _most_frequent(call: AggregateCall, values: str) -> str:
    """The most frequent of a list of values, those that are as frequent in ascending order."""
    entries = f"map_entries(list_aggregate({values}, 'histogram'))"
    ranked = f"list_transform({entries}, lambda __e: {{'n': -CAST((__e).value AS BIGINT), 'x': (__e).key}})"
    return f"list_transform(list_slice(list_sort({ranked}), 1, {argument(call, 1)}), lambda __e: (__e).x)"


def _top(call: AggregateCall) -> Decomposition:
    kept, values = kept_values(call, nulls=False)
    return Decomposition((kept,), in_template(_most_frequent(call, "@")).replace("@", values))


def _top_values(call: AggregateCall, values: tuple[str, ...]) -> str:
    order = values[0] if call.distinct else f'"count" DESC, {values[0]}'
    return f"list_slice(list({values[0]} ORDER BY {order}), 1, {argument(call, 1)})"


def _top_distinct(call: AggregateCall, values: tuple[str, ...], flag: str | None) -> str:
    x = values[0]
    conditions = [f"{x} IS NOT NULL", *([flag] if flag is not None else [])]
    return f"list_slice(list({x} ORDER BY {x}){where(*conditions)}, 1, {argument(call, 1)})"


def _top_batch(call: AggregateCall, written: BatchCall) -> BatchCall:
    x = written.arguments[0]
    made = present(call, written, x)
    return replace(made, name="list", arguments=(x,), of_result=lambda listed: _most_frequent(call, listed))


#: Exact: the values are counted.
APPROX_TOP_K = AggregateFunction(
    name="approx_top_k",
    arguments=Arguments(
        check=check_count,
        instead_over="count in a sub-query: SELECT x, COUNT(*) … GROUP BY x",
    ),
    append_only=_top,
    values=Multiset(_top_values),
    over_distinct=_top_distinct,
    batch_in_order=_top_batch,
    batch_any_order=_top_batch,
)

FUNCTIONS = (HISTOGRAM, HISTOGRAM_EXACT, APPROX_TOP_K)
