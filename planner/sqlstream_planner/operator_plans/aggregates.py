"""Aggregate functions as mergeable accumulators: partial, merge and final expressions in DuckDB SQL.

A partial aggregate is computed before the exchange, accumulators of several partials are merged in the stage,
and the final expression gives the function's value (local-global aggregation). Accumulators are shared:
AVG(x) keeps the SUM and COUNT that SUM(x) and COUNT(x) would keep.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlstream_operators.plan.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    HUGEINT,
    Kind,
    SqlType,
    array,
    decimal,
    struct,
)
from sqlstream_planner.logical import AggregateCall, sql


@dataclass(frozen=True, slots=True)
class Accumulator:
    """One stored field: `partial` over input rows, `merge` over stored fields (`{f}` is the field).

    `meaning` tells two accumulators of the same arguments apart in fingerprints and never changes.
    """

    meaning: str
    type: SqlType
    partial: str
    merge: str


@dataclass(frozen=True, slots=True)
class Decomposition:
    """How one call is computed: its accumulators and the final expression over them (`{0}`, `{1}` …)."""

    accumulators: tuple[Accumulator, ...]
    final: str


def _filter(call: AggregateCall, *conditions: str) -> str:
    every = [*([f"({sql(call.filter)})"] if call.filter is not None else []), *conditions]
    return f" FILTER (WHERE {' AND '.join(every)})" if every else ""


def _argument(call: AggregateCall, position: int = 0) -> str:
    return sql(call.arguments[position])


def _count(call: AggregateCall) -> Accumulator:
    if not call.arguments:
        return Accumulator("count", BIGINT, f"count(*){_filter(call)}", "CAST(sum({f}) AS BIGINT)")
    if len(call.arguments) > 1:
        present = [f"({sql(a)}) IS NOT NULL" for a in call.arguments]
        return Accumulator("count", BIGINT, f"count(*){_filter(call, *present)}", "CAST(sum({f}) AS BIGINT)")
    return Accumulator(
        "count", BIGINT, f"count({_argument(call)}){_filter(call)}", "CAST(sum({f}) AS BIGINT)"
    )


def sum_type(type_: SqlType) -> SqlType | None:
    """The type of SUM over `type_` as DuckDB has it, or None where it is not summed by accumulation."""
    if type_.is_integer or type_.kind is Kind.BOOLEAN:
        return HUGEINT
    if type_.kind is Kind.DECIMAL:
        return decimal(38, type_.scale or 0)
    if type_.kind in (Kind.FLOAT, Kind.DOUBLE):
        return DOUBLE
    return None


def _sum(call: AggregateCall) -> Accumulator:
    type_ = sum_type(call.argument_types[0]) or call.field.type
    return Accumulator("sum", type_, f"sum({_argument(call)}){_filter(call)}", f"CAST(sum({{f}}) AS {type_})")


def count(call: AggregateCall) -> Decomposition:
    """COUNT(*), COUNT(x), COUNT(x, y): rows in which every argument is present."""
    return Decomposition((_count(call),), "{0}")


def count_if(call: AggregateCall) -> Decomposition:
    """COUNT_IF(condition): NULL where the condition is never true nor false, as DuckDB has it."""
    condition = f"({_argument(call)})"
    tests = {"count_if": condition, "count_if_not": f"NOT {condition}"}
    counts = [
        Accumulator(meaning, BIGINT, f"count(*){_filter(call, test)}", "CAST(sum({f}) AS BIGINT)")
        for meaning, test in tests.items()
    ]
    return Decomposition(
        tuple(counts), f"CASE WHEN {{0}} > 0 OR {{1}} > 0 THEN CAST({{0}} AS {call.field.type}) END"
    )


def sum_(call: AggregateCall) -> Decomposition:
    """SUM(x): HUGEINT over integers, DECIMAL(38, s) over decimals, DOUBLE over floating point, as DuckDB."""
    if sum_type(call.argument_types[0]) is None:
        return holistic(call)
    return Decomposition((_sum(call),), "{0}")


def avg(call: AggregateCall) -> Decomposition:
    """AVG(x) from its sum and count."""
    if sum_type(call.argument_types[0]) is None:
        return holistic(call)
    return Decomposition((_sum(call), _count(call)), "CASE WHEN {1} > 0 THEN CAST({0} AS DOUBLE) / {1} END")


def self_merging(call: AggregateCall) -> Decomposition:
    """MIN, MAX, BOOL_AND, BIT_OR …: the function itself merges its partial results."""
    partial = f"{call.name}({_argument(call)}){_filter(call)}"
    return Decomposition((Accumulator(call.name, call.field.type, partial, f"{call.name}({{f}})"),), "{0}")


def product(call: AggregateCall) -> Decomposition:
    """PRODUCT(x), a DOUBLE."""
    partial = f"product({_argument(call)}){_filter(call)}"
    return Decomposition((Accumulator("product", DOUBLE, partial, "product({f})"),), "{0}")


_MOMENTS = struct(("n", BIGINT), ("mean", DOUBLE), ("m2", DOUBLE))

_FINAL_MOMENTS = {
    "var_pop": "CASE WHEN {0}.n > 0 THEN {0}.m2 / {0}.n END",
    "var_samp": "CASE WHEN {0}.n > 1 THEN {0}.m2 / ({0}.n - 1) END",
    "variance": "CASE WHEN {0}.n > 1 THEN {0}.m2 / ({0}.n - 1) END",
    "stddev_pop": "CASE WHEN {0}.n > 0 THEN sqrt({0}.m2 / {0}.n) END",
    "stddev_samp": "CASE WHEN {0}.n > 1 THEN sqrt({0}.m2 / ({0}.n - 1)) END",
    "stddev": "CASE WHEN {0}.n > 1 THEN sqrt({0}.m2 / ({0}.n - 1)) END",
    "sem": "CASE WHEN {0}.n > 0 THEN sqrt({0}.m2 / {0}.n) / sqrt({0}.n) END",
}


def moments(call: AggregateCall) -> Decomposition:
    """VARIANCE and STDDEV, pop and samp, from count, mean and sum of squared deviations.

    Partials are merged by Chan, Golub and LeVeque's pairwise update (1979), which does not cancel
    catastrophically as the sum of squares does.
    """
    x, where = _argument(call), _filter(call)
    present = _filter(call, f"({x}) IS NOT NULL")
    partial = (
        f"CASE WHEN count({x}){where} > 0 THEN {{'n': count({x}){where}, 'mean': avg(CAST({x} AS DOUBLE)){present}, "
        f"'m2': var_pop(CAST({x} AS DOUBLE)){present} * count({x}){where}}} END"
    )
    merge = (
        "list_reduce(list({f}) FILTER (WHERE {f} IS NOT NULL), lambda __a, __b: {{'n': __a.n + __b.n, "
        "'mean': __a.mean + (__b.mean - __a.mean) * __b.n / (__a.n + __b.n), "
        "'m2': __a.m2 + __b.m2 + (__b.mean - __a.mean) * (__b.mean - __a.mean) * __a.n / (__a.n + __b.n) * __b.n}})"
    )
    return Decomposition((Accumulator("moments", _MOMENTS, partial, merge),), _FINAL_MOMENTS[call.name])


def by_order(call: AggregateCall) -> Decomposition:
    """ARG_MIN(x, by) and ARG_MAX(x, by): the first row in arrival order wins a tie; NULLs are ignored."""
    x, by = _argument(call), _argument(call, 1)
    type_ = struct(("by", call.argument_types[1]), ("x", call.argument_types[0]))
    where = _filter(call, f"({x}) IS NOT NULL", f"({by}) IS NOT NULL")
    partial = f"{call.name}({{'by': {by}, 'x': {x}}}, {by}){where}"
    return Decomposition((Accumulator(call.name, type_, partial, f"{call.name}({{f}}, {{f}}.by)"),), "{0}.x")


def any_value(call: AggregateCall) -> Decomposition:
    """ANY_VALUE(x): the first non-NULL value in arrival order."""
    partial = f"any_value({_argument(call)}){_filter(call)}"
    return Decomposition((Accumulator("any_value", call.field.type, partial, "any_value({f})"),), "{0}")


_FLATTEN = "flatten(list({f}) FILTER (WHERE {f} IS NOT NULL))"


def _collected(call: AggregateCall, ignore_nulls: bool) -> tuple[Accumulator, str]:
    """The accumulator that keeps the values, and an expression for the ordered list of them."""
    x = _argument(call)
    where = _filter(call, f"({x}) IS NOT NULL") if ignore_nulls else _filter(call)
    if not call.order_by:
        kept = Accumulator(
            "values" if ignore_nulls else "values with nulls",
            array(call.argument_types[0]),
            f"list({x}){where}",
            _FLATTEN,
        )
        return kept, "{0}"
    # NULL placement by a flag in front of each key: list_sort compares structs field by field.
    descending = call.order_by[0][1]
    parts, types = [], []
    for position, (key, _, nulls_first) in enumerate(call.order_by):
        flag = "IS NULL" if nulls_first == descending else "IS NOT NULL"
        parts += [f"'n{position}': ({sql(key)}) {flag}", f"'k{position}': {sql(key)}"]
        types += [(f"n{position}", BOOLEAN), (f"k{position}", call.order_types[position])]
    partial = f"list({{{', '.join(parts)}, 'x': {x}}}){where}"
    element = struct(*types, ("x", call.argument_types[0]))
    order = "'DESC', 'NULLS LAST'" if descending else "'ASC', 'NULLS FIRST'"
    kept = Accumulator("ordered values", array(element), partial, _FLATTEN)
    return kept, f"list_transform(list_sort({{0}}, {order}), lambda __e: __e.x)"


def list_(call: AggregateCall) -> Decomposition:
    """ARRAY_AGG(x [ORDER BY …]): NULLs included, in arrival order unless ordered."""
    kept, values = _collected(call, ignore_nulls=False)
    return Decomposition((kept,), values)


def collect(call: AggregateCall) -> Decomposition:
    """COLLECT(x): the non-NULL values, in arrival order unless ordered."""
    kept, values = _collected(call, ignore_nulls=True)
    return Decomposition((kept,), values)


def string_agg(call: AggregateCall) -> Decomposition:
    """STRING_AGG(x, separator [ORDER BY …]): NULLs skipped, in arrival order unless ordered."""
    kept, values = _collected(call, ignore_nulls=True)
    separator = _argument(call, 1) if len(call.arguments) > 1 else "','"
    return Decomposition((kept,), f"CASE WHEN len({{0}}) > 0 THEN array_to_string({values}, {separator}) END")


def holistic(call: AggregateCall) -> Decomposition:
    """MEDIAN, MODE, QUANTILE …: all values are kept and the batch function runs over them at the end."""
    kept, values = _collected(call, ignore_nulls=True)
    constants = "".join(f", {_argument(call, i)}" for i in range(1, len(call.arguments)))
    return Decomposition((kept,), f"list_aggregate({values}, '{call.name}'{constants})")


#: DuckDB's name of every aggregate that can be kept in state -> how.
AGGREGATES: dict[str, Callable[[AggregateCall], Decomposition]] = {
    "count": count,
    "count_star": count,
    "count_if": count_if,
    "sum": sum_,
    "avg": avg,
    "mean": avg,
    **dict.fromkeys(("min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor"), self_merging),
    "product": product,
    **dict.fromkeys(_FINAL_MOMENTS, moments),
    "arg_min": by_order,
    "arg_max": by_order,
    "any_value": any_value,
    "list": list_,
    "array_agg": list_,
    "collect": collect,
    "string_agg": string_agg,
    **dict.fromkeys(
        (
            "median",
            "mode",
            "quantile_cont",
            "quantile_disc",
            "quantile",
            "mad",
            "entropy",
            "skewness",
            "kurtosis",
        ),
        holistic,
    ),
}

#: Aggregates whose value depends on the order in which rows arrive, unless they say ORDER BY.
ORDER_SENSITIVE = frozenset({"list", "array_agg", "collect", "string_agg", "any_value"})

#: Aggregates for which DISTINCT changes nothing.
DISTINCT_IS_NOOP = frozenset(
    {"min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "any_value", "arg_min", "arg_max"}
)


def over_distinct(call: AggregateCall, values: tuple[str, ...], flag: str | None) -> str:
    """The call as a DuckDB aggregate over a table of distinct `values`, restricted to rows with `flag`."""
    where = f" FILTER (WHERE {flag})" if flag is not None else ""
    if call.name in ("count", "count_star"):
        present = " AND ".join([*(f"{v} IS NOT NULL" for v in values), *([flag] if flag is not None else [])])
        return f"count(*) FILTER (WHERE {present})"
    extra = "".join(f", {sql(a)}" for a in call.arguments[1:])
    if call.name in ORDER_SENSITIVE:
        order = f"{values[0]} {'DESC' if call.order_by and call.order_by[0][1] else 'ASC'} NULLS LAST"
        name = "list" if call.name in ("array_agg", "collect") else call.name
        not_null = [f"{values[0]} IS NOT NULL"] if call.name == "collect" else []
        conditions = [*([flag] if flag else []), *not_null]
        where = f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
        return f"{name}({values[0]}{extra} ORDER BY {order}){where}"
    return f"{call.name}({values[0]}{extra}){where}"
