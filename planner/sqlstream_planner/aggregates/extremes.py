"""MIN and MAX. Of zeros, which are equal, MIN is -0.0 if there is one, and MAX 0.0, whichever came first."""

from __future__ import annotations

from sqlstream_operators.plan.types import Kind
from sqlstream_planner.aggregates.batch_parts import once
from sqlstream_planner.aggregates.function import (
    Accumulator,
    AggregateFunction,
    Arguments,
    Decomposition,
    Multiset,
)
from sqlstream_planner.aggregates.parts import argument, as_rows, filter_of, over_distinct, self_merging
from sqlstream_planner.logical import AggregateCall


def _extreme(call: AggregateCall) -> Decomposition:
    """The function itself merges its partial results; where two zeros are equal it depends on no order which is kept."""
    type_ = call.field.type
    if type_.kind not in (Kind.FLOAT, Kind.DOUBLE):
        return self_merging(call)
    filter_ = filter_of(call)

    def of(value: str, filter_: str) -> str:
        zero = f"{value} = 0 AND {'' if call.name == 'min' else 'NOT '}signbit({value})"
        literal = "-0.0" if call.name == "min" else "0.0"
        extreme = f"{call.name}({value}){filter_}"
        return (
            f"CASE WHEN {extreme} = 0 AND bool_or({zero}){filter_} "
            f"THEN CAST('{literal}' AS {type_}) ELSE {extreme} END"
        )

    accumulator = Accumulator(call.name, type_, of(f"({argument(call)})", filter_), of("{f}", ""))
    return Decomposition((accumulator,), "{0}")


MIN = AggregateFunction(
    name="min",
    with_count="min_several",
    arguments=Arguments(at_most=1),
    distinct_is_noop=True,
    extreme="least",
    append_only=_extreme,
    any_order=_extreme,
    values=Multiset(as_rows, pick="first"),
    over_distinct=over_distinct,
    batch_any_order=once,
    derived_from=(frozenset({"any_value"}),),
)

MAX = AggregateFunction(
    name="max",
    with_count="max_several",
    arguments=Arguments(at_most=1),
    distinct_is_noop=True,
    extreme="greatest",
    append_only=_extreme,
    any_order=_extreme,
    values=Multiset(as_rows, pick="last"),
    over_distinct=over_distinct,
    batch_any_order=once,
)

FUNCTIONS = (MIN, MAX)
