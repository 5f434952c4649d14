"""BIT_AND, BIT_OR, BIT_XOR and BITSTRING_AGG."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlstream_planner.aggregates.function import (
    Accumulator,
    AggregateFunction,
    Arguments,
    Decomposition,
    Multiset,
    WrongConstant,
)
from sqlstream_planner.aggregates.parts import (
    argument,
    as_list,
    as_rows,
    constants_of,
    filter_of,
    over_distinct,
    self_merging,
)
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
    distinct_is_noop=True,
    append_only=self_merging,
    any_order=self_merging,
    values=Multiset(as_rows),
    over_distinct=over_distinct,
)


def _xor(call: AggregateCall, values: tuple[str, ...]) -> str:
    """A value that is there an even number of times cancels itself; what is left of bits has as many as it had."""
    if call.distinct:
        return as_list(call, values)
    x = values[0]
    return f'bit_xor(CASE WHEN "count" % 2 = 1 THEN {x} ELSE xor({x}, {x}) END)'


BIT_XOR = AggregateFunction(
    name="bit_xor",
    append_only=self_merging,
    any_order=self_merging,
    values=Multiset(_xor),
    over_distinct=over_distinct,
)


def _bits(call: AggregateCall) -> Decomposition:
    """A bit for each integer between two constants; those of two parts are those of either."""
    partial = f"bitstring_agg({argument(call)}{constants_of(call)}){filter_of(call)}"
    return Decomposition((Accumulator("bits", call.field.type, partial, "bit_or({f})"),), "{0}")


_RANGE = "write the least and the greatest integer behind it: BITSTRING_AGG(x, 0, 63)"


def _check_range(arguments: Sequence[exp.Expr]) -> WrongConstant | None:
    if len(arguments) == 1:
        return WrongConstant(
            arguments[0],
            "the least and the greatest integer are missing: a stream has no statistics that give them",
            _RANGE,
        )
    null = next((a for a in arguments[1:] if isinstance(a.unnest(), exp.Null)), None)
    return None if null is None else WrongConstant(null, "a bound of the bits can't be NULL", _RANGE)


BITSTRING_AGG = AggregateFunction(
    name="bitstring_agg",
    arguments=Arguments(check=_check_range),
    distinct_is_noop=True,
    append_only=_bits,
    any_order=_bits,
    values=Multiset(lambda call, values: over_distinct(call, values, None)),
    over_distinct=over_distinct,
)

FUNCTIONS = (BIT_AND, BIT_OR, BIT_XOR, BITSTRING_AGG)
