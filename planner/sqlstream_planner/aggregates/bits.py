"""BIT_AND, BIT_OR and BIT_XOR."""

from __future__ import annotations

from sqlstream_planner.aggregates.function import AggregateFunction, Multiset
from sqlstream_planner.aggregates.parts import as_list, as_rows, over_distinct, self_merging
from sqlstream_planner.logical import AggregateCall

BIT_AND = AggregateFunction(
    name="bit_and",
    distinct_is_noop=True,
    append_only=self_merging,
    any_order=self_merging,
    values=Multiset(as_rows),
    over_distinct=over_distinct,
)

BIT_OR = AggregateFunction(
    name="bit_or",
    replaces=(("bitstring_agg", "there are no columns of bits: ARRAY_AGG(DISTINCT x), or BIT_OR(1 << x)"),),
    distinct_is_noop=True,
    append_only=self_merging,
    any_order=self_merging,
    values=Multiset(as_rows),
    over_distinct=over_distinct,
)


def _xor(call: AggregateCall, values: tuple[str, ...]) -> str:
    """A value that is there an even number of times cancels itself."""
    if call.distinct:
        return as_list(call, values)
    x = values[0]
    return f'bit_xor(CASE WHEN "count" % 2 = 1 THEN {x} ELSE CAST(0 AS {call.argument_types[0]}) END)'


BIT_XOR = AggregateFunction(
    name="bit_xor",
    append_only=self_merging,
    any_order=self_merging,
    values=Multiset(_xor),
    over_distinct=over_distinct,
)

FUNCTIONS = (BIT_AND, BIT_OR, BIT_XOR)
