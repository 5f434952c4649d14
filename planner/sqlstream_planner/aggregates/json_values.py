"""JSON_GROUP_ARRAY, JSON_GROUP_OBJECT and JSON_GROUP_STRUCTURE: all values as one JSON, NULLs included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlstream_operators.plan.types import VARCHAR, array, struct
from sqlstream_planner.aggregates.batch_parts import in_whole_order
from sqlstream_planner.aggregates.function import (
    Accumulator,
    AggregateFunction,
    Arguments,
    BatchCall,
    Decomposition,
    Multiset,
    Spelling,
)
from sqlstream_planner.aggregates.kept_values import FLATTEN, kept_values
from sqlstream_planner.aggregates.parts import (
    argument,
    distinct_in_order,
    filter_of,
    in_template,
    order_of,
    repeated,
    where,
)
from sqlstream_planner.logical import AggregateCall, columns_of

# --------------------------------------------------------------------------------------- lists of values


def _of_list(name: str, made: Callable[[str], str], over: str, *spellings: Spelling) -> AggregateFunction:
    """A function that makes JSON of the list of all values (`made`, of SQL that is given once)."""

    def append_only(call: AggregateCall) -> Decomposition:
        kept, values = kept_values(call, nulls=True)
        return Decomposition((kept,), in_template(made("@")).replace("@", values))

    def over_values(call: AggregateCall, values: tuple[str, ...]) -> str:
        return made(repeated(call, values[0], order_of(call, values)))

    def batch_in_order(_: AggregateCall, written: BatchCall) -> BatchCall:
        return replace(written, name="list", of_result=made)

    return AggregateFunction(
        name=name,
        spellings=spellings,
        arguments=Arguments(ordered=True, instead_over=over),
        order_sensitive=True,
        keeps_nulls=True,
        append_only=append_only,
        values=Multiset(over_values),
        over_distinct=lambda call, values, flag: made(distinct_in_order("list", call, values, flag)),
        batch_in_order=batch_in_order,
        batch_any_order=lambda call, written: batch_in_order(call, in_whole_order(call, written)),
    )


def _array(values: str) -> str:
    """JSON of a list; of none NULL, where to_json would give the JSON null."""
    return f"list_transform([{values}], lambda __l: CASE WHEN __l IS NOT NULL THEN to_json(__l) END)[1]"


JSON_GROUP_ARRAY = _of_list("json_group_array", _array, "TO_JSON(ARRAY_AGG(x) OVER (…))")
JSON_GROUP_STRUCTURE = _of_list(
    "json_group_structure",
    lambda values: f"(json_structure({_array(values)}) -> 0)",
    "JSON_STRUCTURE(TO_JSON(ARRAY_AGG(x) OVER (…)))",
)

# ---------------------------------------------------------------------------------------------- objects

_NULL_KEY = "a key of JSON_GROUP_OBJECT is NULL"


def _pair(key: str, value: str) -> str:
    return f"{{'k': CAST({key} AS VARCHAR), 'v': {value}}}"


def _object(pairs: str) -> str:
    """The JSON object of a list of keys and values, each as often as it is there, as DuckDB has it."""
    key = f"CASE WHEN (__p).k IS NULL THEN error('{_NULL_KEY}') ELSE CAST(to_json((__p).k) AS VARCHAR) END"
    value = "CASE WHEN (__p).v IS NULL THEN 'null' ELSE CAST(to_json((__p).v) AS VARCHAR) END"
    members = f"list_transform({pairs}, lambda __p: {key} || ':' || {value})"
    return f"CAST('{{' || array_to_string({members}, ',') || '}}' AS JSON)"


def _kept_pairs(call: AggregateCall) -> Decomposition:
    key, value = argument(call), argument(call, 1)
    type_ = struct(("k", VARCHAR), ("v", call.argument_types[1]))
    partial = f"list(CAST({_pair(key, value)} AS {type_})){filter_of(call)}"
    kept = Accumulator("keys and values", array(type_), partial, FLATTEN)
    return Decomposition((kept,), in_template(_object("@")).replace("@", "{0}"))


def _in_order(values: tuple[str, ...]) -> str:
    return ", ".join(f"{v} ASC NULLS LAST" for v in dict.fromkeys(values))


def _object_of_values(call: AggregateCall, values: tuple[str, ...]) -> str:
    return _object(repeated(call, _pair(*values), _in_order(values)))


def _object_of_distinct(_: AggregateCall, values: tuple[str, ...], flag: str | None) -> str:
    listed = f"list({_pair(*values)} ORDER BY {_in_order(values)})"
    return _object(f"{listed}{where(*([flag] if flag is not None else []))}")


def _object_batch(call: AggregateCall, written: BatchCall, order: str) -> BatchCall:
    return replace(
        written, name="list", arguments=(_pair(*written.arguments),), order=order, of_result=_object
    )


def _object_in_order(call: AggregateCall, written: BatchCall) -> BatchCall:
    return _object_batch(call, written, _pair(*written.arguments) if call.distinct else "")


def _object_any_order(call: AggregateCall, written: BatchCall) -> BatchCall:
    varying = tuple(w for w, a in zip(written.arguments, call.arguments, strict=True) if columns_of(a))
    if call.distinct:
        return _object_in_order(call, written)
    return _object_batch(call, written, _in_order(varying))


JSON_GROUP_OBJECT = AggregateFunction(
    name="json_group_object",
    arguments=Arguments(
        of_rows=2,
        at_most=2,
        unordered_help="leave it out: the keys of an object have no order",
        instead_over="aggregate in a sub-query",
    ),
    order_sensitive=True,
    keeps_nulls=True,
    append_only=_kept_pairs,
    values=Multiset(_object_of_values),
    over_distinct=_object_of_distinct,
    batch_in_order=_object_in_order,
    batch_any_order=_object_any_order,
)

FUNCTIONS = (JSON_GROUP_ARRAY, JSON_GROUP_OBJECT, JSON_GROUP_STRUCTURE)
