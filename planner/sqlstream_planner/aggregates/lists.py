"""STRING_AGG, ARRAY_AGG and COLLECT: all values, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from sqlstream_planner.aggregates.batch_parts import in_whole_order, present
from sqlstream_planner.aggregates.function import (
    AggregateFunction,
    Arguments,
    BatchCall,
    Decomposition,
    Multiset,
    Spelling,
    WrongConstant,
)
from sqlstream_planner.aggregates.kept_values import kept_values
from sqlstream_planner.aggregates.parts import (
    argument,
    distinct_in_order,
    in_template,
    order_of,
    over_ordered_distinct,
    repeated,
)
from sqlstream_planner.logical import AggregateCall

# ------------------------------------------------------------------------------------------ STRING_AGG


def _separator(call: AggregateCall) -> str:
    return argument(call, 1) if len(call.arguments) > 1 else "','"


def _joined(call: AggregateCall) -> Decomposition:
    kept, values = kept_values(call, nulls=False)
    text = f"array_to_string({values}, {in_template(_separator(call))})"
    return Decomposition((kept,), f"CASE WHEN len({{0}}) > 0 THEN {text} END")


def _joined_values(call: AggregateCall, values: tuple[str, ...]) -> str:
    texts = repeated(call, f"CAST({values[0]} AS VARCHAR)", order_of(call, values))
    return f"array_to_string({texts}, {_separator(call)})"


def _check_separator(arguments: Sequence[exp.Expr]) -> WrongConstant | None:
    if any(isinstance(a.unnest(), exp.Null) for a in arguments[1:]):
        return WrongConstant(arguments[1], "the separator can't be NULL", "write '' for no separator")
    return None


STRING_AGG = AggregateFunction(
    name="string_agg",
    also=("group_concat",),
    spellings=(
        Spelling(
            "LISTAGG(x)", "string_agg(x, ',')", "values as text with commas between, NULLs left out", "Flink"
        ),
        Spelling("LISTAGG(x, separator)", "string_agg(x, separator)", "values as text, NULLs left out"),
    ),
    arguments=Arguments(ordered=True, check=_check_separator),
    order_sensitive=True,
    append_only=_joined,
    values=Multiset(_joined_values),
    over_distinct=over_ordered_distinct,
    batch_any_order=in_whole_order,
)

# --------------------------------------------------------------------------------- ARRAY_AGG, COLLECT


def _list(call: AggregateCall) -> Decomposition:
    kept, values = kept_values(call, nulls=True)
    return Decomposition((kept,), values)


def _listed_values(call: AggregateCall, values: tuple[str, ...]) -> str:
    return repeated(call, values[0], order_of(call, values))


def _batch(call: AggregateCall, written: BatchCall) -> BatchCall:
    return replace(in_whole_order(call, written), name="list")


#: NULLs included, in arrival order unless ordered.
LIST = AggregateFunction(
    name="list",
    spellings=(
        Spelling(
            "COLLECT(x)",
            "list(x) FILTER (WHERE x IS NOT NULL)",
            "all values but NULL (Flink gives a MULTISET, here it is an array)",
            "Flink",
        ),
        Spelling("COLLECT_LIST(x)", "list(x) FILTER (WHERE x IS NOT NULL)", "all values but NULL", "Spark"),
        Spelling(
            "COLLECT_SET(x)",
            "list(DISTINCT x) FILTER (WHERE x IS NOT NULL)",
            "different values, in any order",
            "Spark",
        ),
    ),
    arguments=Arguments(ordered=True),
    order_sensitive=True,
    keeps_nulls=True,
    append_only=_list,
    values=Multiset(_listed_values),
    over_distinct=lambda call, values, flag: distinct_in_order("list", call, values, flag),
    batch_any_order=_batch,
)
ARRAY_AGG = replace(LIST, name="array_agg", spellings=())


def _collected(call: AggregateCall) -> Decomposition:
    kept, values = kept_values(call, nulls=False)
    return Decomposition((kept,), values)


def _collected_distinct(call: AggregateCall, values: tuple[str, ...], flag: str | None) -> str:
    return distinct_in_order("list", call, values, flag, f"{values[0]} IS NOT NULL")


def _collected_batch(call: AggregateCall, written: BatchCall) -> BatchCall:
    return replace(present(call, written, written.arguments[0]), name="list")


#: The non-NULL values, in arrival order unless ordered.
COLLECT = AggregateFunction(
    name="collect",
    arguments=Arguments(ordered=True),
    order_sensitive=True,
    append_only=_collected,
    values=Multiset(_listed_values),
    over_distinct=_collected_distinct,
    batch_in_order=_collected_batch,
    batch_any_order=lambda call, written: _collected_batch(call, in_whole_order(call, written)),
)

FUNCTIONS = (STRING_AGG, LIST, ARRAY_AGG, COLLECT)
