"""COUNT and COUNT_IF."""

from __future__ import annotations

from dataclasses import replace

from sqlstream_operators.plan.types import BIGINT
from sqlstream_planner.aggregates.batch_parts import present
from sqlstream_planner.aggregates.function import (
    Accumulator,
    AggregateFunction,
    Arguments,
    BatchCall,
    Decomposition,
    Multiset,
    Spelling,
)
from sqlstream_planner.aggregates.parts import (
    AS_LIST,
    MERGE_COUNTS,
    MERGE_WEIGHTED_COUNTS,
    argument,
    conditions_of,
    filter_of,
    over_distinct,
    row_count,
    where,
)
from sqlstream_planner.logical import AggregateCall, sql

# ---------------------------------------------------------------------------------------------- COUNT


def count_accumulator(call: AggregateCall) -> Accumulator:
    """COUNT(*), COUNT(x), COUNT(x, y): rows in which every argument is present."""
    if len(call.arguments) == 1:
        partial = f"count({argument(call)}){filter_of(call)}"
    else:
        partial = f"count(*){filter_of(call, *_present(call))}"
    return Accumulator("count", BIGINT, partial, MERGE_COUNTS, counts=True)


def weighted_count(call: AggregateCall, weight: str | None) -> Accumulator:
    """The same over weighted rows."""
    partial = row_count(weight, *conditions_of(call, *_present(call)))
    return Accumulator("count", BIGINT, partial, MERGE_WEIGHTED_COUNTS, counts=True)


def changed_count() -> Accumulator:
    """How many values came, less those that went."""
    return Accumulator("count", BIGINT, "sum({change})", MERGE_WEIGHTED_COUNTS, counts=True)


def _present(call: AggregateCall) -> list[str]:
    return [f"({sql(a)}) IS NOT NULL" for a in call.arguments]


def _append_only(call: AggregateCall) -> Decomposition:
    return Decomposition((count_accumulator(call),), "{0}")


def _weighted(call: AggregateCall, weight: str | None) -> Decomposition:
    return Decomposition((weighted_count(call, weight),), "coalesce({0}, 0)")


def _over_changes(call: AggregateCall) -> Decomposition | None:
    return Decomposition((changed_count(),), "coalesce({0}, 0)") if call.arguments else None


def _over_distinct(_: AggregateCall, values: tuple[str, ...], flag: str | None) -> str:
    conditions = [*(f"{v} IS NOT NULL" for v in values), *([flag] if flag is not None else [])]
    return f"count(*){where(*conditions)}"


def _batch(call: AggregateCall, written: BatchCall) -> BatchCall:
    """DuckDB's COUNT takes one argument."""
    if len(written.arguments) == 1:
        return replace(written, name="count")
    counted = f"ROW({', '.join(written.arguments)})" if call.distinct else "*"
    return replace(present(call, written, *written.arguments), name="count", arguments=(counted,))


COUNT = AggregateFunction(
    name="count",
    arguments=Arguments(of_rows=None),
    spellings=(
        Spelling("APPROX_COUNT_DISTINCT(x)", "count(DISTINCT x)", "different values, counted exactly"),
    ),
    empty="0",
    append_only=_append_only,
    any_order=_append_only,
    weighted=_weighted,
    values=Multiset(lambda _call, _values: "count(*)"),
    over_changes=_over_changes,
    over_distinct=_over_distinct,
    batch_in_order=_batch,
    batch_any_order=_batch,
    derived_from=(frozenset({"avg"}), frozenset({"mean"}), frozenset({"geomean"})),
)
COUNT_STAR = replace(COUNT, name="count_star", called="count", arguments=Arguments(), spellings=())

# ------------------------------------------------------------------------------------------- COUNT_IF


def truth_counts(call: AggregateCall, weight: str | None) -> tuple[Accumulator, Accumulator]:
    """How often the condition is true, and how often false, over weighted rows."""
    condition = f"({argument(call)})"
    return (
        _weighted_test(call, weight, "count_if", condition),
        _weighted_test(call, weight, "count_if_not", f"NOT {condition}"),
    )


def _weighted_test(call: AggregateCall, weight: str | None, meaning: str, test: str) -> Accumulator:
    partial = row_count(weight, *conditions_of(call, test))
    return Accumulator(meaning, BIGINT, partial, MERGE_WEIGHTED_COUNTS, counts=True)


def _append_only_if(call: AggregateCall) -> Decomposition:
    condition = f"({argument(call)})"
    counts = tuple(
        Accumulator(meaning, BIGINT, f"count(*){filter_of(call, test)}", MERGE_COUNTS, counts=True)
        for meaning, test in (("count_if", condition), ("count_if_not", f"NOT {condition}"))
    )
    return Decomposition(
        counts, f"CASE WHEN {{0}} > 0 OR {{1}} > 0 THEN CAST({{0}} AS {call.field.type}) END"
    )


def _weighted_if(call: AggregateCall, weight: str | None) -> Decomposition:
    return Decomposition(truth_counts(call, weight), "CASE WHEN {0} > 0 OR {1} > 0 THEN {0} END")


#: NULL where the condition is never true nor false, as DuckDB has it.
COUNT_IF = AggregateFunction(
    name="count_if",
    also=("countif",),
    append_only=_append_only_if,
    any_order=_append_only_if,
    weighted=_weighted_if,
    values=AS_LIST,
    over_distinct=over_distinct,
)

FUNCTIONS = (COUNT, COUNT_STAR, COUNT_IF)
