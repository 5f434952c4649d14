"""BOOL_AND and BOOL_OR."""

from __future__ import annotations

from sqlstream_planner.aggregates.count import truth_counts
from sqlstream_planner.aggregates.function import AggregateFunction, Decomposition, Multiset, Spelling
from sqlstream_planner.aggregates.parts import as_rows, over_distinct, self_merging
from sqlstream_planner.logical import AggregateCall


def _and(call: AggregateCall, weight: str | None) -> Decomposition:
    """False as long as there is a false."""
    final = "CASE WHEN {1} > 0 THEN FALSE WHEN {0} > 0 THEN TRUE END"
    return Decomposition(truth_counts(call, weight), final)


def _or(call: AggregateCall, weight: str | None) -> Decomposition:
    """True as long as there is a true."""
    final = "CASE WHEN {0} > 0 THEN TRUE WHEN {1} > 0 THEN FALSE END"
    return Decomposition(truth_counts(call, weight), final)


BOOL_AND = AggregateFunction(
    name="bool_and",
    spellings=(Spelling("EVERY(condition)", "bool_and(condition)", "whether all are true"),),
    distinct_is_noop=True,
    append_only=self_merging,
    any_order=self_merging,
    weighted=_and,
    values=Multiset(as_rows),
    over_distinct=over_distinct,
    derived_from=(frozenset({"count_if"}),),
)

BOOL_OR = AggregateFunction(
    name="bool_or",
    spellings=(Spelling("SOME(condition)", "bool_or(condition)", "whether any is true", "Spark"),),
    distinct_is_noop=True,
    append_only=self_merging,
    any_order=self_merging,
    weighted=_or,
    values=Multiset(as_rows),
    over_distinct=over_distinct,
    derived_from=(frozenset({"count_if"}),),
)

FUNCTIONS = (BOOL_AND, BOOL_OR)
