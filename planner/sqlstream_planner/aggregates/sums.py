"""SUM, AVG and PRODUCT."""

from __future__ import annotations

from dataclasses import replace

from sqlstream_operators.plan.types import DOUBLE, HUGEINT, Kind, SqlType, decimal
from sqlstream_planner.aggregates.batch_parts import rounded_in_value_order
from sqlstream_planner.aggregates.count import changed_count, count_accumulator, weighted_count
from sqlstream_planner.aggregates.function import Accumulator, AggregateFunction, Decomposition
from sqlstream_planner.aggregates.kept_values import holistic
from sqlstream_planner.aggregates.parts import (
    AS_LIST,
    argument,
    conditions_of,
    filter_of,
    over_distinct,
    where,
)
from sqlstream_planner.logical import AggregateCall

_AVERAGE = "CASE WHEN {1} > 0 THEN CAST({0} AS DOUBLE) / {1} END"


def sum_type(type_: SqlType) -> SqlType | None:
    """The type of SUM over `type_` as DuckDB has it, or None where it is not summed by accumulation."""
    if type_.is_integer or type_.kind is Kind.BOOLEAN:
        return HUGEINT
    if type_.kind is Kind.DECIMAL:
        return decimal(38, type_.scale or 0)
    if type_.kind in (Kind.FLOAT, Kind.DOUBLE):
        return DOUBLE
    return None


def exact_sum_type(type_: SqlType) -> SqlType | None:
    """The same where what was added can be taken away again: not over floating point."""
    found = sum_type(type_)
    return None if found == DOUBLE else found


# ---------------------------------------------------------------------------------------- accumulators


def _sum(call: AggregateCall, type_: SqlType) -> Accumulator:
    partial = f"sum({argument(call)}){filter_of(call)}"
    return Accumulator("sum", type_, partial, f"CAST(sum({{f}}) AS {type_})", of_first=True)


def _weighted_sum(call: AggregateCall, weight: str | None) -> Accumulator | None:
    type_ = exact_sum_type(call.argument_types[0])
    if type_ is None:
        return None
    times = f" * CAST({weight} AS BIGINT)" if weight is not None else ""
    partial = f"sum(CAST({argument(call)} AS {type_}){times}){where(*conditions_of(call))}"
    return Accumulator("sum", type_, partial, f"CAST(sum({{f}}) AS {type_})", of_first=True)


def changed_sum(type_: SqlType) -> Accumulator:
    """The sum of the values that came, less those that went."""
    partial = f"sum(CAST({{x}} AS {type_}) * CAST({{change}} AS BIGINT))"
    return Accumulator("sum", type_, partial, f"CAST(sum({{f}}) AS {type_})")


# ------------------------------------------------------------------------------------------------- SUM


def _append_only_sum(call: AggregateCall) -> Decomposition:
    return _accumulated_sum(call) or holistic(call)


def _accumulated_sum(call: AggregateCall) -> Decomposition | None:
    type_ = sum_type(call.argument_types[0])
    return Decomposition((_sum(call, type_),), "{0}") if type_ is not None else None


def _linear_sum(call: AggregateCall, weight: str | None) -> Decomposition | None:
    added = _weighted_sum(call, weight)
    if added is None:
        return None
    return Decomposition((added, weighted_count(call, weight)), "CASE WHEN {1} > 0 THEN {0} END")


def _sum_over_changes(call: AggregateCall) -> Decomposition | None:
    type_ = exact_sum_type(call.argument_types[0])
    if type_ is None:
        return None
    return Decomposition((changed_count(), changed_sum(type_)), "CASE WHEN {0} > 0 THEN {1} END")


#: HUGEINT over integers, DECIMAL(38, s) over decimals, DOUBLE over floating point, as DuckDB.
SUM = AggregateFunction(
    name="sum",
    append_only=_append_only_sum,
    any_order=_accumulated_sum,
    weighted=_linear_sum,
    values=AS_LIST,
    over_changes=_sum_over_changes,
    over_distinct=over_distinct,
    batch_any_order=rounded_in_value_order,
    derived_from=(frozenset({"avg"}), frozenset({"mean"})),
)

# ------------------------------------------------------------------------------------------------- AVG


def _append_only_avg(call: AggregateCall) -> Decomposition:
    return _accumulated_avg(call) or holistic(call)


def _accumulated_avg(call: AggregateCall) -> Decomposition | None:
    type_ = sum_type(call.argument_types[0])
    return (
        Decomposition((_sum(call, type_), count_accumulator(call)), _AVERAGE) if type_ is not None else None
    )


def _linear_avg(call: AggregateCall, weight: str | None) -> Decomposition | None:
    added = _weighted_sum(call, weight)
    return Decomposition((added, weighted_count(call, weight)), _AVERAGE) if added is not None else None


def _avg_over_changes(call: AggregateCall) -> Decomposition | None:
    type_ = exact_sum_type(call.argument_types[0])
    if type_ is None:
        return None
    final = "CASE WHEN {0} > 0 THEN CAST({1} AS DOUBLE) / {0} END"
    return Decomposition((changed_count(), changed_sum(type_)), final)


AVG = AggregateFunction(
    name="avg",
    append_only=_append_only_avg,
    any_order=_accumulated_avg,
    weighted=_linear_avg,
    values=AS_LIST,
    over_changes=_avg_over_changes,
    over_distinct=over_distinct,
    batch_any_order=rounded_in_value_order,
    derived_from=(frozenset({"sum", "count"}), frozenset({"mean"})),
)
MEAN = replace(AVG, name="mean", derived_from=(frozenset({"sum", "count"}), frozenset({"avg"})))

# --------------------------------------------------------------------------------------------- PRODUCT


def _product(call: AggregateCall) -> Decomposition:
    partial = f"product({argument(call)}){filter_of(call)}"
    return Decomposition((Accumulator("product", DOUBLE, partial, "product({f})"),), "{0}")


#: A DOUBLE.
PRODUCT = AggregateFunction(
    name="product",
    append_only=_product,
    any_order=_product,
    values=AS_LIST,
    over_distinct=over_distinct,
    batch_any_order=rounded_in_value_order,
)

FUNCTIONS = (SUM, AVG, MEAN, PRODUCT)
