"""Accumulators from values that are kept one by one: a SUM where a multiset for MIN is, a MIN where distinct values are.

A multiset says how often each value is there, so that any sum over its values can be had. Distinct values without a
number give what does not depend on how often a value came: extremes, and AND and OR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from sqlstream_operators.plan.distinct_values_spec import DistinctValuesSpec
from sqlstream_operators.plan.state_schema import TIME, StateField, StateTable
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.aggregates.count import changed_count
from sqlstream_planner.aggregates.function import Accumulator, Decomposition
from sqlstream_planner.aggregates.registry import function_of
from sqlstream_planner.aggregates.sums import changed_sum
from sqlstream_planner.edits.derivations.stored import Stored
from sqlstream_planner.identity.form import Form, form
from sqlstream_planner.identity.parts import form_over
from sqlstream_planner.logical import AggregateCall, column
from sqlstream_planner.physical.multisets import name_of_multiset
from sqlstream_planner.physical.state_node import KeptAccumulator, StateNode

#: Accumulators for which a value may come any number of times.
_HOWEVER_OFTEN = frozenset({"min", "max", "bool_and", "bool_or", "bit_and", "bit_or"})


@dataclass(frozen=True, slots=True)
class Values:
    """Values of old groups, one per row: `value` is the column, `count` how often it is there (None: that is not kept).

    `condition` is what rows must pass to be values. `table` is the table that they are in.
    """

    table: StateTable
    value: StateField
    count: str | None = None
    condition: str | None = None

    def accumulated(self, kept: KeptAccumulator) -> str | None:
        """The accumulator as a DuckDB aggregate over these rows."""
        call = replace(kept.call, arguments=(column(self.value.name),), filter=None)
        return over_counted(
            call, kept.accumulator, None if self.count is None else quote_identifier(self.count)
        )


def over_counted(call: AggregateCall, wanted: Accumulator, count: str | None) -> str | None:
    """An accumulator as a DuckDB aggregate over rows of which each is there `count` times (SQL; None: it is not known)."""
    function = function_of(call)
    made: Decomposition | None = None
    if count is not None and function.weighted is not None:
        made = function.weighted(call, count)
    elif wanted.meaning in _HOWEVER_OFTEN and function.any_order is not None:
        made = function.any_order(call)
    found = _same(made, wanted)
    if found is None and count is not None and wanted.meaning in _HOWEVER_OFTEN:
        found = _same(function.any_order(call) if function.any_order is not None else None, wanted)
    if found is None:
        return None
    empty = "0" if wanted.counts else "NULL"
    return f"coalesce(CAST({found.partial} AS {found.type}), {empty})"


def _same(made: Decomposition | None, wanted: Accumulator) -> Accumulator | None:
    """The accumulator that holds what `wanted` does, if it is among those."""
    among = made.accumulators if made is not None else ()
    return next((a for a in among if (a.meaning, a.type) == (wanted.meaning, wanted.type)), None)


def _argument(kept: KeptAccumulator, node: StateNode) -> Form | None:
    """What the call's one argument means; None if it is not about the values of one argument alone."""
    call = kept.call
    if len(call.arguments) != 1 or call.distinct or call.order_by:
        return None
    return form_over(call.arguments[0], node.meanings.columns(node.node.inputs[0]))


def _filter(kept: KeptAccumulator, node: StateNode) -> Form | None:
    where = kept.call.filter
    return form_over(where, node.meanings.columns(node.node.inputs[0])) if where is not None else None


def multisets_of(old: Stored, kept: KeptAccumulator, node: StateNode) -> Iterator[Values]:
    """The multisets of old groups that hold the values of a call's argument, of the rows that it is over."""
    x = _argument(kept, node)
    if x is None:
        return
    columns = node.meanings.columns(node.node.inputs[0])
    for nulls in (False, True):
        name = name_of_multiset(kept.call, columns, nulls=nulls)
        for table in (old.table(name), old.table(f"{name}_last")):
            value = old.fields(table.sub_key).get(x) if table is not None else None
            if table is not None and value is not None:
                yield Values(table, value, "count")


def distinct_in_windows(old: Stored, kept: KeptAccumulator, node: StateNode) -> Iterator[Values]:
    """The distinct values of old groups of windows that are those of a call's argument, of the rows that it is over."""
    x, where = _argument(kept, node), _filter(kept, node)
    if x is None:
        return
    for table in old.spec.state.tables[1:]:
        values, flags = old.fields(table.sub_key), old.fields(table.value)
        if values.keys() != {x}:
            continue
        if where in flags:
            yield Values(table, values[x], condition=quote_identifier(flags[where].name))
        elif where is None and (not flags or table.name in _names_of_all(x)):
            yield Values(table, values[x])


def _names_of_all(x: Form) -> set[str]:
    """The names of tables that hold every distinct value, whichever FILTERs there are beside."""
    kinds = (("unfiltered",), ("nulls", "unfiltered"))
    return {f"distinct_{form('values', x, *kind).digest[:16]}" for kind in kinds}


def distinct_of_groups(
    before: Sequence[Stored], groups: Stored, kept: KeptAccumulator, node: StateNode
) -> Iterator[tuple[Stored, Values]]:
    """The states of distinct values of the same old groups that have those of a call's argument."""
    x, where = _argument(kept, node), _filter(kept, node)
    if x is None:
        return
    for state, value in distinct_states(before, groups):
        if state.meaning(value) != form("distinct value", x):
            continue
        spec = state.spec
        assert isinstance(spec, DistinctValuesSpec)
        table = spec.state.tables[0]
        flag = state.fields(table.value).get(form("rows", where))
        if flag is None:
            continue
        if spec.retracting:
            yield state, Values(table, value, flag.name)
        else:
            yield state, Values(table, value, condition=f"{quote_identifier(flag.name)} > 0")


def distinct_states(before: Sequence[Stored], groups: Stored) -> Iterator[tuple[Stored, StateField]]:
    """The states of distinct values, of one column each, of old groups, with the column."""
    keys = groups.keys()
    for state in before:
        if not isinstance(state.spec, DistinctValuesSpec) or state.rows != groups.rows:
            continue
        if state.forgetful or groups.forgetful:
            continue  # a value is forgotten while its group, which others touch, goes on counting it
        values = state.distinct_values()
        same = {m: f.name for m, f in state.keys().items() if m not in values}
        if len(values) == 1 and same == {m: f.name for m, f in keys.items()}:
            yield state, next(iter(values.values()))


def flag_of_distinct(meaning: Form | None, state: Stored, value: StateField) -> StateField | None:
    """The column of a state of distinct values which says how many rows have a value, of those that an accumulator of
    distinct values is over; None if it is over others.
    """
    if meaning is None or meaning.op != "accumulator" or "distinct" not in meaning.args:
        return None
    _, _, _, of, where = meaning.args
    if not isinstance(of, Form) or state.meaning(value) not in [form("distinct value", x) for x in of.args]:
        return None
    if len(of.args) != 1:
        return None
    return state.fields(state.spec.state.tables[0].value).get(form("rows", where))


def accumulated_distinct(meaning: Form | None, field: StateField) -> str | None:
    """An accumulator of distinct values over such values, each once: as if all of which there are `{rows}` had just come."""
    assert meaning is not None
    made = {"count": changed_count(), "sum": changed_sum(field.type)}.get(str(meaning.args[0]))
    return None if made is None else made.partial.format(x="{value}", change="CAST({rows} > 0 AS INTEGER)")


def known_values(
    node: StateNode, missing: Iterable[str], values_of: Callable[[KeptAccumulator], Iterable[Values]]
) -> dict[str, tuple[Values, str]]:
    """Those of the accumulators `missing` that follow from values of old groups: the values, and the aggregate over them."""
    found: dict[str, tuple[Values, str]] = {}
    for name in missing:
        kept = node.accumulators.get(name)
        if kept is None:
            continue
        for values in values_of(kept):
            text = values.accumulated(kept)
            if text is not None:
                found.setdefault(name, (values, text))
    return found


class Read(Protocol):
    """Rows of a table, of which those count that pass a condition."""

    @property
    def table(self) -> StateTable:
        """The table."""
        ...

    @property
    def condition(self) -> str | None:
        """The condition as SQL; None: all count."""
        ...


def joined(old: Stored, found: Mapping[str, tuple[Read, str]]) -> tuple[str, dict[str, str], tuple[str, ...]]:
    """LEFT JOINs of the first table of a state with values of its groups: their SQL, and by column of `found` what it is.

    `found` are aggregates over values. Also the tables that are read.
    """
    first = old.spec.state.tables[0]
    keys = [*([TIME] if first.layout == "time" else []), *(f.name for f in first.key)]
    text, items, tables = "", {}, []
    for number, (name, (values, aggregate)) in enumerate(found.items(), 1):
        alias, result = f"values{number}", f"~{number}.value"
        named = [f"{quote_identifier(k)} AS {quote_identifier(f'~{number}.{k}')}" for k in keys]
        by = f" GROUP BY {', '.join(quote_identifier(k) for k in keys)}" if keys else ""
        where = f" WHERE {values.condition}" if values.condition is not None else ""
        listed = ", ".join([*named, f"{aggregate} AS {quote_identifier(result)}"])
        inner = f"SELECT {listed} FROM {quote_identifier(f'old.{values.table.name}')}{where}{by}"
        same = " AND ".join(
            f"{quote_identifier(k)} IS NOT DISTINCT FROM {quote_identifier(f'~{number}.{k}')}" for k in keys
        )
        text += f"\nLEFT JOIN ({inner}) AS {alias} ON {same or 'TRUE'}"
        items[name] = quote_identifier(result)
        tables.append(values.table.name)
    return text, items, tuple(dict.fromkeys(tables))
