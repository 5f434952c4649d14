"""Functions over rows that only come which keep all values, in the order in which they arrive."""

from __future__ import annotations

from sqlstream_operators.plan.types import BOOLEAN, array, struct
from sqlstream_planner.aggregates.function import Accumulator, Decomposition
from sqlstream_planner.aggregates.parts import argument, constants_of, filter_of, in_template
from sqlstream_planner.logical import AggregateCall, sql

_FLATTEN = "flatten(list({f}) FILTER (WHERE {f} IS NOT NULL))"


def kept_values(call: AggregateCall, *, nulls: bool) -> tuple[Accumulator, str]:
    """The accumulator that keeps the values (NULLs too?), and SQL for the list of them in the call's order."""
    x = argument(call)
    where = filter_of(call) if nulls else filter_of(call, f"({x}) IS NOT NULL")
    if not call.order_by:
        meaning = "values with nulls" if nulls else "values"
        kept = Accumulator(
            meaning, array(call.argument_types[0]), f"list({x}){where}", _FLATTEN, of_first=True
        )
        return kept, "{0}"
    # NULL placement by a flag in front of each key: list_sort compares structs field by field.
    descending = call.order_by[0][1]
    parts, types = [], []
    for position, (key, _, nulls_first) in enumerate(call.order_by):
        flag = "IS NULL" if nulls_first == descending else "IS NOT NULL"
        parts += [f"'n{position}': ({sql(key)}) {flag}", f"'k{position}': {sql(key)}"]
        types += [(f"n{position}", BOOLEAN), (f"k{position}", call.order_types[position])]
    partial = f"list({{{', '.join(parts)}, 'x': {x}}}){where}"
    element = struct(*types, ("x", call.argument_types[0]))
    order = "'DESC', 'NULLS LAST'" if descending else "'ASC', 'NULLS FIRST'"
    kept = Accumulator("ordered values", array(element), partial, _FLATTEN)
    return kept, f"list_transform(list_sort({{0}}, {order}), lambda __e: __e.x)"


def holistic(call: AggregateCall) -> Decomposition:
    """MEDIAN, MODE, QUANTILE …: all values are kept, and DuckDB's function runs over them at the end."""
    kept, values = kept_values(call, nulls=False)
    return Decomposition((kept,), f"list_aggregate({values}, '{call.name}'{in_template(constants_of(call))})")
