"""Aggregate functions over rows that come and go, as accumulators: sums over weighted rows.

An accumulator over retracting input has to forget what goes, so it is a sum of something times the row's weight.
What has no such accumulator (and what is a list of values anyway) is computed from counted values instead:
see `counted_values`. Sums of FLOAT and DOUBLE are among these, because floating-point addition can't be undone
exactly.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlstream_operators.plan.schema import WEIGHT_COLUMN
from sqlstream_operators.plan.types import BIGINT, Kind, struct
from sqlstream_planner.block import Block
from sqlstream_planner.logical import AggregateCall, sql
from sqlstream_planner.operator_plans.aggregates import AGGREGATES, Accumulator, Decomposition, sum_type

#: The accumulators that are 0 over no rows, by meaning.
COUNTS = frozenset({"count", "count_if", "count_if_not"})
_MERGE_COUNTS = "CAST(coalesce(sum({f}), 0) AS BIGINT)"

#: Aggregates over append-only input whose accumulators `aggregates` has, independent of the order of arrival.
_MERGEABLE = frozenset(
    {
        *("count", "count_star", "count_if", "min", "max", "bool_and", "bool_or"),
        *("bit_and", "bit_or", "bit_xor", "product"),
        *("var_pop", "var_samp", "variance", "stddev_pop", "stddev_samp", "stddev", "sem"),
    }
)


def decompose(call: AggregateCall, weight: str | None, *, retracting: bool) -> Decomposition | None:
    """The call as accumulators, or None if it needs its values one by one.

    `weight` is the weight of a row as SQL, None if every row comes once.
    """
    if retracting:
        made = _WEIGHTED.get(call.name)
        return made(call, weight) if made is not None else None
    if call.name in ("sum", "avg", "mean"):
        return AGGREGATES[call.name](call) if sum_type(call.argument_types[0]) is not None else None
    if call.name in ("arg_min", "arg_max"):
        return _by_order(call)
    if call.name == "any_value":
        return _least(call) if not call.order_by else None
    return AGGREGATES[call.name](call) if call.name in _MERGEABLE else None


def weight_of(block: Block) -> str | None:
    """The weight of a block's rows as SQL; None if every row comes once."""
    weight = block.columns.get(WEIGHT_COLUMN)
    return sql(weight) if weight is not None else None


def row_count(weight: str | None, *conditions: str) -> str:
    """SQL that counts rows by their weights, BIGINT, 0 where there is none."""
    where = f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
    if weight is None:
        return f"count(*){where}"
    return f"CAST(coalesce(sum({weight}){where}, 0) AS BIGINT)"


def conditions_of(call: AggregateCall, *more: str) -> list[str]:
    """The call's FILTER and `more`, as SQL."""
    return [*([f"({sql(call.filter)})"] if call.filter is not None else []), *more]


# ------------------------------------------------------------------------------------------- retracting


def _count(call: AggregateCall, weight: str | None) -> Accumulator:
    present = [f"({sql(a)}) IS NOT NULL" for a in call.arguments]
    return Accumulator("count", BIGINT, row_count(weight, *conditions_of(call, *present)), _MERGE_COUNTS)


def _counted_if(call: AggregateCall, weight: str | None, *, true: bool) -> Accumulator:
    test = f"({sql(call.arguments[0])})" if true else f"NOT ({sql(call.arguments[0])})"
    meaning = "count_if" if true else "count_if_not"
    return Accumulator(meaning, BIGINT, row_count(weight, *conditions_of(call, test)), _MERGE_COUNTS)


def _sum(call: AggregateCall, weight: str | None) -> Accumulator | None:
    type_ = sum_type(call.argument_types[0])
    if type_ is None or type_.kind is Kind.DOUBLE:
        return None
    conditions = conditions_of(call)
    where = f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
    times = f" * CAST({weight} AS BIGINT)" if weight is not None else ""
    partial = f"sum(CAST({sql(call.arguments[0])} AS {type_}){times}){where}"
    return Accumulator("sum", type_, partial, f"CAST(sum({{f}}) AS {type_})")


def _count_final(call: AggregateCall, weight: str | None) -> Decomposition:
    return Decomposition((_count(call, weight),), "coalesce({0}, 0)")


def _count_if_final(call: AggregateCall, weight: str | None) -> Decomposition:
    """NULL if there is neither a true nor a false, as DuckDB has it."""
    counts = (_counted_if(call, weight, true=True), _counted_if(call, weight, true=False))
    return Decomposition(counts, "CASE WHEN {0} > 0 OR {1} > 0 THEN {0} END")


def _sum_final(call: AggregateCall, weight: str | None) -> Decomposition | None:
    added = _sum(call, weight)
    if added is None:
        return None
    return Decomposition((added, _count(call, weight)), "CASE WHEN {1} > 0 THEN {0} END")


def _avg_final(call: AggregateCall, weight: str | None) -> Decomposition | None:
    added = _sum(call, weight)
    if added is None:
        return None
    final = "CASE WHEN {1} > 0 THEN CAST({0} AS DOUBLE) / {1} END"
    return Decomposition((added, _count(call, weight)), final)


def _bool(call: AggregateCall, weight: str | None) -> Decomposition:
    """BOOL_AND is false as long as there is a false, BOOL_OR is true as long as there is a true."""
    counts = (_counted_if(call, weight, true=True), _counted_if(call, weight, true=False))
    if call.name == "bool_and":
        return Decomposition(counts, "CASE WHEN {1} > 0 THEN FALSE WHEN {0} > 0 THEN TRUE END")
    return Decomposition(counts, "CASE WHEN {0} > 0 THEN TRUE WHEN {1} > 0 THEN FALSE END")


_WEIGHTED: dict[str, Callable[[AggregateCall, str | None], Decomposition | None]] = {
    "count": _count_final,
    "count_star": _count_final,
    "count_if": _count_if_final,
    "sum": _sum_final,
    "avg": _avg_final,
    "mean": _avg_final,
    "bool_and": _bool,
    "bool_or": _bool,
}


# ------------------------------------------------------------------------------------------ append-only


def _by_order(call: AggregateCall) -> Decomposition:
    """ARG_MIN is the x of the least (by, x), ARG_MAX that of the greatest: ties don't depend on arrival."""
    x, by = (sql(a) for a in call.arguments)
    type_ = struct(("by", call.argument_types[1]), ("x", call.argument_types[0]))
    where = " AND ".join(conditions_of(call, f"({x}) IS NOT NULL", f"({by}) IS NOT NULL"))
    best = call.name.removeprefix("arg_")
    partial = f"{best}(CAST({{'by': {by}, 'x': {x}}} AS {type_})) FILTER (WHERE {where})"
    return Decomposition((Accumulator(f"{best} by and value", type_, partial, f"{best}({{f}})"),), "{0}.x")


def _least(call: AggregateCall) -> Decomposition:
    """ANY_VALUE is the least value, and shares its accumulator with MIN."""
    conditions = conditions_of(call)
    where = f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
    partial = f"min({sql(call.arguments[0])}){where}"
    return Decomposition((Accumulator("min", call.field.type, partial, "min({f})"),), "{0}")
