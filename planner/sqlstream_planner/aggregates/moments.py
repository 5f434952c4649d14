"""VARIANCE and STDDEV, pop and samp, from count, mean and sum of squared deviations; skewness and kurtosis."""

from __future__ import annotations

from dataclasses import replace

from sqlstream_operators.plan.types import BIGINT, DOUBLE, struct
from sqlstream_planner.aggregates.batch_parts import rounded_in_value_order
from sqlstream_planner.aggregates.function import (
    Accumulator,
    AggregateFunction,
    Decomposition,
    Multiset,
    Spelling,
)
from sqlstream_planner.aggregates.kept_values import holistic
from sqlstream_planner.aggregates.parts import AS_LIST, argument, as_list, filter_of, over_distinct
from sqlstream_planner.logical import AggregateCall

_MOMENTS = struct(("n", BIGINT), ("mean", DOUBLE), ("m2", DOUBLE))
#: Over the same argument they all keep the same accumulator.
_SECOND = ("var_pop", "var_samp", "variance", "stddev_pop", "stddev_samp", "stddev", "sem")


_SCALE = f"{2**64}e0"


def mean(value: str, here: str) -> str:
    """The mean of doubles that are not NULL, over rows that pass the FILTER clause `here`.

    It is of scaled values, so that it is finite where all values are, and never outside of them: of equal values it is
    that value, whatever rounding does.
    """
    found = f"avg({value} / {_SCALE}){here} * {_SCALE}"
    return f"greatest(min({value}){here}, least(max({value}){here}, {found}))"


def _accumulator(call: AggregateCall) -> Accumulator:
    """Partials are merged by Chan, Golub and LeVeque's pairwise update (1979).

    It does not cancel catastrophically as the sum of squares does.
    """
    x, where = argument(call), filter_of(call)
    present = filter_of(call, f"({x}) IS NOT NULL")
    partial = (
        f"CASE WHEN count({x}){where} > 0 THEN {{'n': count({x}){where}, "
        f"'mean': {mean(f'CAST({x} AS DOUBLE)', present)}, "
        f"'m2': var_pop(CAST({x} AS DOUBLE)){present} * count({x}){where}}} END"
    )
    merge = (
        "list_reduce(list({f}) FILTER (WHERE {f} IS NOT NULL), lambda __a, __b: {{'n': (__a).n + (__b).n, "
        "'mean': (__a).mean + ((__b).mean - (__a).mean) * (__b).n / ((__a).n + (__b).n), "
        "'m2': (__a).m2 + (__b).m2 + ((__b).mean - (__a).mean) * ((__b).mean - (__a).mean) "
        "* (__a).n / ((__a).n + (__b).n) * (__b).n}})"
    )
    return Accumulator("moments", _MOMENTS, partial, merge, of_first=True)


def finite(value: str) -> str:
    """A value as it is where it is a finite number, else NaN.

    Whether what is too large (or has an infinity in it) becomes NaN or an infinity depends on the order of additions.
    """
    return f"(({value}) % CAST('inf' AS DOUBLE))"


def _second(name: str, final: str, *spellings: Spelling) -> AggregateFunction:
    """A function with the value `final` of the accumulator `{0}`."""

    def append_only(call: AggregateCall) -> Decomposition:
        return Decomposition((_accumulator(call),), finite(final))

    return AggregateFunction(
        name=name,
        spellings=spellings,
        append_only=append_only,
        any_order=append_only,
        values=Multiset(lambda call, values: finite(as_list(call, values))),
        over_distinct=lambda call, values, flag: finite(over_distinct(call, values, flag)),
        batch_in_order=lambda call, written: replace(written, of_result=finite),
        batch_any_order=lambda call, written: replace(
            rounded_in_value_order(call, written), of_result=finite
        ),
        derived_from=tuple(frozenset({other}) for other in _SECOND if other != name),
    )


_VAR_SAMP = "CASE WHEN ({0}).n > 1 THEN ({0}).m2 / (({0}).n - 1) END"
_STDDEV_SAMP = "CASE WHEN ({0}).n > 1 THEN sqrt(({0}).m2 / (({0}).n - 1)) END"

VAR_POP = _second("var_pop", "CASE WHEN ({0}).n > 0 THEN ({0}).m2 / ({0}).n END")
VAR_SAMP = _second("var_samp", _VAR_SAMP, Spelling("VAR(x)", "var_samp(x)", "sample variance"))
VARIANCE = _second("variance", _VAR_SAMP)
STDDEV_POP = _second("stddev_pop", "CASE WHEN ({0}).n > 0 THEN sqrt(({0}).m2 / ({0}).n) END")
STDDEV_SAMP = _second("stddev_samp", _STDDEV_SAMP)
STDDEV = _second("stddev", _STDDEV_SAMP)
# As DuckDB's, it is NaN over one value that is no finite number, where the others are 0.
SEM = _second(
    "sem",
    "CASE WHEN ({0}).n > 0 THEN sqrt(({0}).m2 / ({0}).n) / sqrt(({0}).n) + (({0}).mean - ({0}).mean) END",
)


SKEWNESS = AggregateFunction(
    name="skewness",
    append_only=holistic,
    values=AS_LIST,
    over_distinct=over_distinct,
    batch_any_order=rounded_in_value_order,
)
KURTOSIS = AggregateFunction(
    name="kurtosis",
    append_only=holistic,
    values=AS_LIST,
    over_distinct=over_distinct,
    batch_any_order=rounded_in_value_order,
)
KURTOSIS_POP = replace(KURTOSIS, name="kurtosis_pop")

FUNCTIONS = (
    VAR_POP,
    VAR_SAMP,
    VARIANCE,
    STDDEV_POP,
    STDDEV_SAMP,
    STDDEV,
    SEM,
    SKEWNESS,
    KURTOSIS,
    KURTOSIS_POP,
)
