"""CORR, COVAR_POP, COVAR_SAMP and REGR_*: how two columns go together, over rows in which neither is NULL.

The first argument is y, the second x, as in SQL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlstream_operators.plan.types import BIGINT, DOUBLE, struct
from sqlstream_planner.aggregates.function import (
    Accumulator,
    AggregateFunction,
    Arguments,
    BatchCall,
    Decomposition,
    Multiset,
)
from sqlstream_planner.aggregates.moments import finite, mean
from sqlstream_planner.aggregates.parts import (
    MERGE_COUNTS,
    MERGE_WEIGHTED_COUNTS,
    argument,
    conditions_of,
    filter_of,
    in_template,
    row_count,
    where,
)
from sqlstream_planner.logical import AggregateCall, columns_of, sql

_TWO = Arguments(of_rows=2, at_most=2)
#: How many pairs, the means, and the sums of products of deviations from them.
_MOMENTS = struct(("n", BIGINT), ("y", DOUBLE), ("x", DOUBLE), ("yy", DOUBLE), ("xx", DOUBLE), ("xy", DOUBLE))
_OF_MOMENTS = (
    "corr",
    "covar_pop",
    "covar_samp",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
)


def _pair(call: AggregateCall) -> tuple[str, str]:
    return f"CAST({argument(call)} AS DOUBLE)", f"CAST({argument(call, 1)} AS DOUBLE)"


def _present(call: AggregateCall) -> list[str]:
    return [f"({argument(call)}) IS NOT NULL", f"({argument(call, 1)}) IS NOT NULL"]


def _distinct(call: AggregateCall, values: tuple[str, ...], flag: str | None) -> str:
    return f"{call.name}({', '.join(values)}){where(*([flag] if flag is not None else []))}"


def _in_value_order(call: AggregateCall, written: BatchCall) -> BatchCall:
    """Over pairs in ascending order: there the order of additions shows in the last digits."""
    return replace(written, order=", ".join(sql(a) for a in call.arguments if columns_of(a)))


# -------------------------------------------------------------------------------------------- moments


def _merged(moments: str) -> str:
    """The moments of a list of them, by the update of Chan, Golub and LeVeque (1979)."""

    def products(sums: str) -> str:
        a, b = sums[0], sums[1]
        between = (
            f"((__b).{a} - (__a).{a}) * ((__b).{b} - (__a).{b}) * (__a).n / ((__a).n + (__b).n) * (__b).n"
        )
        return f"(__a).{sums} + (__b).{sums} + {between}"

    def average(a: str) -> str:
        return f"(__a).{a} + ((__b).{a} - (__a).{a}) * (__b).n / ((__a).n + (__b).n)"

    fields = {
        "n": "(__a).n + (__b).n",
        "y": average("y"),
        "x": average("x"),
        "yy": products("yy"),
        "xx": products("xx"),
        "xy": products("xy"),
    }
    return f"list_reduce({moments}, lambda __a, __b: {_struct(fields)})"


def _accumulator(call: AggregateCall) -> Accumulator:
    y, x = _pair(call)
    here = filter_of(call, *_present(call))
    fields = {
        "n": f"count(*){here}",
        "y": mean(y, here),
        "x": mean(x, here),
        "yy": f"regr_syy({y}, {x}){here}",
        "xx": f"regr_sxx({y}, {x}){here}",
        "xy": f"regr_sxy({y}, {x}){here}",
    }
    partial = f"CASE WHEN count(*){here} > 0 THEN {_struct(fields)} END"
    merge = in_template(_merged("@")).replace("@", "list({f}) FILTER (WHERE {f} IS NOT NULL)")
    return Accumulator("moments of pairs", _MOMENTS, partial, merge)


def _struct(fields: dict[str, str]) -> str:
    listed = ", ".join(f"'{name}': {text}" for name, text in fields.items())
    return f"{{{listed}}}"


def _of_values(call: AggregateCall, values: tuple[str, ...]) -> str:
    """The moments of counted pairs. Of a single pair all products are 0, but that of x and y where one is not finite."""
    y, x = (f"CAST({v} AS DOUBLE)" for v in values)
    count = "CAST(1 AS BIGINT)" if call.distinct else 'CAST("count" AS BIGINT)'

    def several(text: str) -> str:
        return f"CASE WHEN {count} > 1 THEN {text} ELSE CAST(0 AS DOUBLE) END"

    fields = {
        "n": count,
        "y": y,
        "x": x,
        "yy": several(f"{y} - {y}"),
        "xx": several(f"{x} - {x}"),
        "xy": f"({y} - {y}) * ({x} - {x})",
    }
    order = ", ".join(dict.fromkeys(values))
    return _merged(f"list({_struct(fields)} ORDER BY {order})")


def _of_moments(name: str, final: str, made: Callable[[str], str] = finite) -> AggregateFunction:
    """A function with the value `final` of the moments `{0}`; `made` makes of it, and of DuckDB's value, what is given."""

    def accumulated(call: AggregateCall) -> Decomposition:
        return Decomposition((_accumulator(call),), made(final))

    def over_values(call: AggregateCall, values: tuple[str, ...]) -> str:
        moments = _of_values(call, values)
        return f"list_transform([{moments}], lambda __m: {made(final).format('__m')})[1]"

    def batch(call: AggregateCall, written: BatchCall) -> BatchCall:
        return replace(_in_value_order(call, written), of_result=made)

    return AggregateFunction(
        name=name,
        arguments=_TWO,
        append_only=accumulated,
        any_order=accumulated,
        values=Multiset(over_values),
        over_distinct=lambda call, values, flag: made(_distinct(call, values, flag)),
        batch_in_order=batch,
        batch_any_order=batch,
        derived_from=tuple(frozenset({other}) for other in _OF_MOMENTS if other != name),
    )


def _or_null(value: str) -> str:
    """A finite value, else NULL: what DuckDB gives where there is no line."""
    return f"CASE WHEN isfinite({value}) THEN {value} END"


_CORR = "({0}).xy / (sqrt(abs(({0}).xx)) * sqrt(abs(({0}).yy)))"
_SLOPE = "({0}).xy / ({0}).xx"

CORR = _of_moments("corr", _CORR)
COVAR_POP = _of_moments("covar_pop", "({0}).xy / ({0}).n")
COVAR_SAMP = _of_moments("covar_samp", "CASE WHEN ({0}).n > 1 THEN ({0}).xy / (({0}).n - 1) END")
REGR_SLOPE = _of_moments("regr_slope", _SLOPE)
REGR_INTERCEPT = _of_moments("regr_intercept", f"({{0}}).y - {_SLOPE} * ({{0}}).x", _or_null)
REGR_R2 = _of_moments(
    "regr_r2",
    f"CASE WHEN ({{0}}).xx = 0 THEN NULL WHEN ({{0}}).yy = 0 THEN 1 ELSE ({_CORR}) * ({_CORR}) END",
)
REGR_SXX = _of_moments("regr_sxx", "({0}).xx")
REGR_SYY = _of_moments("regr_syy", "({0}).yy")
REGR_SXY = _of_moments("regr_sxy", "({0}).xy")

# --------------------------------------------------------------------------------- counts and averages


def _pairs(call: AggregateCall) -> Accumulator:
    return Accumulator(
        "pairs", BIGINT, f"count(*){filter_of(call, *_present(call))}", MERGE_COUNTS, counts=True
    )


def _weighted_pairs(call: AggregateCall, weight: str | None) -> Decomposition:
    partial = row_count(weight, *conditions_of(call, *_present(call)))
    return Decomposition(
        (Accumulator("pairs", BIGINT, partial, MERGE_WEIGHTED_COUNTS, counts=True),), "coalesce({0}, 0)"
    )


def _changed_pairs(_: AggregateCall) -> Decomposition:
    kept = Accumulator("pairs", BIGINT, "sum({change})", MERGE_WEIGHTED_COUNTS, counts=True)
    return Decomposition((kept,), "coalesce({0}, 0)")


#: A count is 0 over no pairs, the others NULL.
REGR_COUNT = AggregateFunction(
    name="regr_count",
    arguments=_TWO,
    empty="0",
    append_only=lambda call: Decomposition((_pairs(call),), "{0}"),
    any_order=lambda call: Decomposition((_pairs(call),), "{0}"),
    weighted=_weighted_pairs,
    values=Multiset(lambda call, _: "count(*)" if call.distinct else 'sum("count")'),
    over_changes=_changed_pairs,
    over_distinct=_distinct,
    derived_from=(frozenset({"regr_avgx"}), frozenset({"regr_avgy"})),
)


def _average(name: str, position: int) -> AggregateFunction:
    """The average of y (0) or x (1)."""

    def accumulated(call: AggregateCall) -> Decomposition:
        total = Accumulator(
            f"sum of {'yx'[position]} in pairs",
            DOUBLE,
            f"sum({_pair(call)[position]}){filter_of(call, *_present(call))}",
            "sum({f})",
        )
        return Decomposition((total, _pairs(call)), "CASE WHEN {1} > 0 THEN {0} / {1} END")

    def over_values(call: AggregateCall, values: tuple[str, ...]) -> str:
        value = f"CAST({values[position]} AS DOUBLE)"
        count = "1" if call.distinct else '"count"'
        return f"sum({value} * {count} ORDER BY {', '.join(dict.fromkeys(values))}) / sum({count})"

    return AggregateFunction(
        name=name,
        arguments=_TWO,
        append_only=accumulated,
        any_order=accumulated,
        values=Multiset(over_values),
        over_distinct=_distinct,
        batch_any_order=_in_value_order,
    )


REGR_AVGX = _average("regr_avgx", 1)
REGR_AVGY = _average("regr_avgy", 0)

FUNCTIONS = (
    CORR,
    COVAR_POP,
    COVAR_SAMP,
    REGR_AVGX,
    REGR_AVGY,
    REGR_COUNT,
    REGR_INTERCEPT,
    REGR_R2,
    REGR_SLOPE,
    REGR_SXX,
    REGR_SXY,
    REGR_SYY,
)
