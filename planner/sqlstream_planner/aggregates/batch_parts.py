"""What functions change in a call before DuckDB runs it."""

from __future__ import annotations

from dataclasses import replace

from sqlstream_operators.plan.types import Kind
from sqlstream_planner.aggregates.function import BatchCall
from sqlstream_planner.aggregates.parts import is_by_value
from sqlstream_planner.logical import AggregateCall, columns_of, order_term, sql


def once(call: AggregateCall, written: BatchCall) -> BatchCall:
    """Without DISTINCT: the call is one of its values."""
    return replace(written, distinct=False)


def in_value_order(call: AggregateCall, written: BatchCall) -> BatchCall:
    """Over values in ascending order, so that ties and rounding don't depend on the order of rows."""
    return replace(written, order=written.arguments[0] if varies(call) else "")


def rounded_in_value_order(call: AggregateCall, written: BatchCall) -> BatchCall:
    """Over floating point in ascending order: there the order of additions shows in the last digits."""
    floating = call.argument_types[0].kind in (Kind.FLOAT, Kind.DOUBLE)
    return in_value_order(call, written) if floating else written


def present(call: AggregateCall, written: BatchCall, *arguments: str) -> BatchCall:
    """Only over rows in which these arguments are not NULL."""
    return replace(written, conditions=(*written.conditions, *(f"({a}) IS NOT NULL" for a in arguments)))


def terms_of(call: AggregateCall) -> list[str]:
    """The call's ORDER BY without literals, by which DuckDB refuses to order and which order nothing."""
    return [
        order_term(sql(e), descending=descending, nulls_first=nulls_first)
        for e, descending, nulls_first in call.order_by
        if columns_of(e)
    ]


def varies(call: AggregateCall) -> bool:
    """Whether there is an argument, and it is not the same in all rows: DuckDB refuses to order by a literal."""
    return bool(call.arguments) and bool(columns_of(call.arguments[0]))


def whole_order(call: AggregateCall) -> str:
    """The call's ORDER BY, and then the value, ascending with NULLs last."""
    by_value = [f"{sql(call.arguments[0])} ASC NULLS LAST"] if varies(call) else []
    return ", ".join([*terms_of(call), *by_value])


def in_whole_order(call: AggregateCall, written: BatchCall) -> BatchCall:
    """In the call's order, ties of it and what has none in ascending order (NULLs last)."""
    # DISTINCT leaves no ties where the value itself is among what it is ordered by.
    terms = terms_of(call) if written.distinct and is_by_value(call) else []
    return replace(written, order=", ".join(terms) or whole_order(call))
