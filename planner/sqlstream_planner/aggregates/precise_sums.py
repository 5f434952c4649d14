"""FSUM (KAHAN_SUM, SUMKAHAN) and FAVG: sums of floating point that keep what each addition rounds away."""

from __future__ import annotations

from dataclasses import replace

from sqlstream_operators.plan.types import BIGINT, DOUBLE, struct
from sqlstream_planner.aggregates.batch_parts import in_value_order
from sqlstream_planner.aggregates.function import Accumulator, AggregateFunction, Decomposition, Multiset
from sqlstream_planner.aggregates.moments import finite
from sqlstream_planner.aggregates.parts import argument, as_list, filter_of, over_distinct
from sqlstream_planner.logical import AggregateCall

_SUM = struct(("n", BIGINT), ("sum", DOUBLE), ("error", DOUBLE))


def _accumulator(call: AggregateCall) -> Accumulator:
    """Partials are added by Knuth's TwoSum, which knows what was rounded away.

    What a partial rounds away itself is the sum of its values without that sum: DuckDB's fsum does not give it.
    """
    x = argument(call)
    here = filter_of(call, f"({x}) IS NOT NULL")
    total = f"fsum(CAST({x} AS DOUBLE)){here}"
    lost = f"list_aggregate(list_prepend(-{total}, list(CAST({x} AS DOUBLE)){here}), 'fsum')"
    partial = (
        f"CASE WHEN count(*){here} > 0 THEN {{'n': count(*){here}, 'sum': {total}, 'error': {lost}}} END"
    )
    total = "((__a).sum + (__b).sum)"
    rest = f"({total} - (__a).sum)"
    lost = f"(((__a).sum - ({total} - {rest})) + ((__b).sum - {rest}))"
    merge = (
        "list_reduce(list({f}) FILTER (WHERE {f} IS NOT NULL), lambda __a, __b: {{'n': (__a).n + (__b).n, "
        f"'sum': {total}, 'error': (__a).error + (__b).error + {lost}}}}})"
    )
    return Accumulator("compensated sum", _SUM, partial, merge, of_first=True)


def _function(name: str, final: str, *, also: tuple[str, ...] = (), other: str) -> AggregateFunction:
    def accumulated(call: AggregateCall) -> Decomposition:
        return Decomposition((_accumulator(call),), finite(final))

    return AggregateFunction(
        name=name,
        also=also,
        append_only=accumulated,
        any_order=accumulated,
        values=Multiset(lambda call, values: finite(as_list(call, values))),
        over_distinct=lambda call, values, flag: finite(over_distinct(call, values, flag)),
        batch_in_order=lambda call, written: replace(written, of_result=finite),
        batch_any_order=lambda call, written: replace(in_value_order(call, written), of_result=finite),
        derived_from=(frozenset({other}),),
    )


#: DOUBLEs; NaN where a value, or the sum on the way, is no finite number.
FSUM = _function("fsum", "({0}).sum + ({0}).error", also=("kahan_sum", "sumkahan"), other="favg")
FAVG = _function("favg", "(({0}).sum + ({0}).error) / ({0}).n", other="fsum")

FUNCTIONS = (FSUM, FAVG)
