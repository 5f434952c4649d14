"""GEOMEAN and WEIGHTED_AVG, which DuckDB has as macros over other aggregates."""

from __future__ import annotations

from dataclasses import replace

from sqlstream_operators.plan.types import DOUBLE
from sqlstream_planner.aggregates.batch_parts import in_value_order, present
from sqlstream_planner.aggregates.count import count_accumulator
from sqlstream_planner.aggregates.function import (
    Accumulator,
    AggregateFunction,
    Arguments,
    BatchCall,
    Decomposition,
    Multiset,
)
from sqlstream_planner.aggregates.parts import argument, filter_of, repeated, where
from sqlstream_planner.logical import AggregateCall, columns_of

# --------------------------------------------------------------------------------------------- GEOMEAN


def _logarithm(value: str) -> str:
    return f"ln(CAST({value} AS DOUBLE))"


def _geometric(call: AggregateCall) -> Decomposition:
    partial = f"sum({_logarithm(argument(call))}){filter_of(call)}"
    total = Accumulator("sum of logarithms", DOUBLE, partial, "sum({f})", of_first=True)
    return Decomposition((total, count_accumulator(call)), "CASE WHEN {1} > 0 THEN exp({0} / {1}) END")


def _geometric_values(call: AggregateCall, values: tuple[str, ...]) -> str:
    return f"exp(list_aggregate({repeated(call, _logarithm(values[0]), values[0])}, 'avg'))"


def _geometric_distinct(_: AggregateCall, values: tuple[str, ...], flag: str | None) -> str:
    return f"exp(avg({_logarithm(values[0])}){where(*([flag] if flag is not None else []))})"


def _geometric_batch(call: AggregateCall, written: BatchCall) -> BatchCall:
    # DISTINCT is of logarithms then, so that there can be no other order than theirs.
    order = f"{_logarithm(written.arguments[0])}" if written.order else ""
    logarithm = (_logarithm(written.arguments[0]),)
    return replace(written, name="avg", arguments=logarithm, order=order, of_result=lambda x: f"exp({x})")


#: NaN where a number is negative.
GEOMEAN = AggregateFunction(
    name="geomean",
    also=("geometric_mean",),
    arguments=Arguments(instead_over="EXP(AVG(LN(x)) OVER (…))"),
    append_only=_geometric,
    any_order=_geometric,
    values=Multiset(_geometric_values),
    over_distinct=_geometric_distinct,
    batch_in_order=_geometric_batch,
    batch_any_order=lambda call, written: _geometric_batch(call, in_value_order(call, written)),
)

# ---------------------------------------------------------------------------------------- WEIGHTED_AVG


def _weighing(call: AggregateCall) -> Decomposition:
    value, weight = (f"CAST({argument(call, n)} AS DOUBLE)" for n in range(2))
    here = filter_of(call, f"({argument(call)}) IS NOT NULL", f"({argument(call, 1)}) IS NOT NULL")
    total = Accumulator("weighted sum", DOUBLE, f"sum({value} * {weight}){here}", "sum({f})")
    weights = Accumulator("sum of weights", DOUBLE, f"sum({weight}){here}", "sum({f})")
    return Decomposition((total, weights), "{0} / {1}")


def _weighed_values(call: AggregateCall, values: tuple[str, ...]) -> str:
    value, weight = (f"CAST({v} AS DOUBLE)" for v in values)
    times = "" if call.distinct else ' * "count"'
    order = f"ORDER BY {', '.join(dict.fromkeys(values))}"
    return f"sum({value} * {weight}{times} {order}) / sum({weight}{times} {order})"


def _weighed_distinct(_: AggregateCall, values: tuple[str, ...], flag: str | None) -> str:
    value, weight = (f"CAST({v} AS DOUBLE)" for v in values)
    conditions = [f"{v} IS NOT NULL" for v in values] + ([flag] if flag is not None else [])
    return f"sum({value} * {weight}){where(*conditions)} / sum({weight}){where(*conditions)}"


def _weighed_batch(call: AggregateCall, written: BatchCall) -> BatchCall:
    """Over pairs, so that DISTINCT is of both: DuckDB's macro takes none."""
    value, weight = written.arguments
    pair = f"{{'x': CAST({value} AS DOUBLE), 'w': CAST({weight} AS DOUBLE)}}"
    order = pair if any(columns_of(a) for a in call.arguments) else ""

    def weighed(pairs: str) -> str:
        sums = [
            f"list_sum(list_transform({pairs}, lambda __p: {text}))"
            for text in ("(__p).x * (__p).w", "(__p).w")
        ]
        return f"{sums[0]} / {sums[1]}"

    made = present(call, written, value, weight)
    return replace(made, name="list", arguments=(pair,), order=order, of_result=weighed)


#: Over rows in which neither is NULL; the second argument is the weight.
WEIGHTED_AVG = AggregateFunction(
    name="weighted_avg",
    also=("wavg",),
    arguments=Arguments(of_rows=2, at_most=2, instead_over="SUM(x * w) OVER (…) / SUM(w) OVER (…)"),
    append_only=_weighing,
    any_order=_weighing,
    values=Multiset(_weighed_values),
    over_distinct=_weighed_distinct,
    batch_in_order=_weighed_batch,
    batch_any_order=_weighed_batch,
)

FUNCTIONS = (GEOMEAN, WEIGHTED_AVG)
