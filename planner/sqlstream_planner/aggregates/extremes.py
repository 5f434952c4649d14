"""MIN and MAX."""

from __future__ import annotations

from sqlstream_planner.aggregates.batch_parts import once
from sqlstream_planner.aggregates.function import AggregateFunction, Arguments, Multiset
from sqlstream_planner.aggregates.parts import as_rows, over_distinct, self_merging

MIN = AggregateFunction(
    name="min",
    with_count="min_several",
    arguments=Arguments(at_most=1),
    distinct_is_noop=True,
    extreme="least",
    append_only=self_merging,
    any_order=self_merging,
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
    append_only=self_merging,
    any_order=self_merging,
    values=Multiset(as_rows, pick="last"),
    over_distinct=over_distinct,
    batch_any_order=once,
)

FUNCTIONS = (MIN, MAX)
