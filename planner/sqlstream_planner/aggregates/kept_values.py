"""Functions over append-only rows which keep all values, in the order in which they arrive."""

from __future__ import annotations

from collections.abc import Sequence

from sqlstream_operators.plan.types import BOOLEAN, SqlType, array, struct
from sqlstream_planner.aggregates.function import Accumulator, Decomposition
from sqlstream_planner.aggregates.parts import argument, constants_of, filter_of, in_template
from sqlstream_planner.logical import AggregateCall, sql

FLATTEN = "flatten(list({f}) FILTER (WHERE {f} IS NOT NULL))"


def kept_values(call: AggregateCall, *, nulls: bool) -> tuple[Accumulator, str]:
    """The accumulator that keeps the values (NULLs too?), and SQL for the list of them in the call's order.

    Values that are equal in the call's ORDER BY are in ascending order, NULLs last.
    """
    x = argument(call)
    where = filter_of(call) if nulls else filter_of(call, f"({x}) IS NOT NULL")
    if not call.order_by:
        meaning = "values with nulls" if nulls else "values"
        kept = Accumulator(
            meaning, array(call.argument_types[0]), f"list({x}){where}", FLATTEN, of_first=True
        )
        return kept, "{0}"
    value, element = ordered_value(call)
    meaning = "ordered values" if nulls else "ordered values without nulls"
    kept = Accumulator(meaning, array(element), f"list({value}){where}", FLATTEN)
    directions = [descending for _, descending, _ in call.order_by]
    if any(directions) and not all(directions):
        return kept, f"list_transform({_by_each(directions)}, lambda __e: (__e).e.x)"
    keys = [name for name, _ in element.fields if name != "x"]
    sorted_ = _descending(keys) if directions[0] else "list_sort({0}, 'ASC', 'NULLS FIRST')"
    return kept, f"list_transform({sorted_}, lambda __e: (__e).x)"


def ordered_value(call: AggregateCall) -> tuple[str, SqlType]:
    """SQL for a value behind what the call orders it by, as a struct, and its type.

    Structs are compared field by field; a flag in front of each key says where NULLs are.
    """
    parts, types = [], []
    for position, (key, descending, nulls_first) in enumerate(call.order_by):
        flag = "IS NULL" if nulls_first == descending else "IS NOT NULL"
        parts += [f"'n{position}': ({sql(key)}) {flag}", f"'k{position}': {sql(key)}"]
        types += [(f"n{position}", BOOLEAN), (f"k{position}", call.order_types[position])]
    element = struct(*types, ("x", call.argument_types[0]))
    return f"{{{', '.join(parts)}, 'x': {argument(call)}}}", element


_BY_VALUE = "list_sort(list_transform({0}, lambda __e: {{'x': (__e).x, 'e': __e}}), 'ASC', 'NULLS FIRST')"


def _by_each(directions: Sequence[bool]) -> str:
    """SQL for the kept structs, as the fields `e`, by keys of which some descend, and then by ascending value.

    They are sorted by the last key first, and by each before it what was found stays together: the place is compared, too.
    """
    found = _BY_VALUE
    for n, descending in reversed(list(enumerate(directions))):
        place, direction = ("-__i", "'DESC', 'NULLS LAST'") if descending else ("__i", "'ASC', 'NULLS FIRST'")
        fields = f"'n': (__p).e.n{n}, 'k': (__p).e.k{n}, 'place': {place}, 'e': (__p).e"
        found = f"list_sort(list_transform({found}, lambda __p, __i: {{{{{fields}}}}}), {direction})"
    return found


def _descending(keys: Sequence[str]) -> str:
    """SQL for the kept structs by descending `keys`, those that are equal in them by ascending value."""
    fields = ", ".join(f"'{key}': (__p).e.{key}" for key in keys)
    placed = f"list_transform({_BY_VALUE}, lambda __p, __i: {{{{{fields}, 'place': -__i, 'x': (__p).x}}}})"
    return f"list_sort({placed}, 'DESC', 'NULLS LAST')"


def holistic(call: AggregateCall) -> Decomposition:
    """MEDIAN, MODE, QUANTILE …: all values are kept, and DuckDB's function runs over them at the end."""
    kept, values = kept_values(call, nulls=False)
    return Decomposition((kept,), f"list_aggregate({values}, '{call.name}'{in_template(constants_of(call))})")
