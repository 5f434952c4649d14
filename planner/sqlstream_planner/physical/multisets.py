"""Aggregates that need their values one by one: which values are counted, and the aggregate over them.

Calls over the same rows and values share one counted multiset. Only what the order of state decides (the least
or greatest value of a plain type) reads one value; the others read the group. Values that are equal are one row
with a count, so an aggregate repeats a value as often as it is there, in ascending order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.group_aggregate_spec import MultisetSpec
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.state_schema import Layout
from sqlstream_operators.plan.types import BIGINT, INTEGER, NESTED, Kind, SqlType, quote_identifier, struct
from sqlstream_planner.aggregates.function import AggregateFunction
from sqlstream_planner.aggregates.parts import over_value, row_count
from sqlstream_planner.aggregates.registry import function_of, values_of
from sqlstream_planner.identity.form import Form, form, sort_forms
from sqlstream_planner.identity.parts import Columns, form_over
from sqlstream_planner.identity.state import Stored, StoredTable
from sqlstream_planner.logical import AggregateCall, columns_of, sql
from sqlstream_planner.physical.block import Block
from sqlstream_planner.physical.grouping import Grouping, Names, column_hint
from sqlstream_planner.physical.weights import weight_of


@dataclass(frozen=True, slots=True)
class _Value:
    expression: exp.Expr
    type: SqlType
    meaning: Form


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What one call needs: `values` (the aggregate's own order), of rows where all of `present` are not NULL."""

    call: AggregateCall
    values: tuple[_Value, ...]
    present: tuple[exp.Expr, ...]
    pick: str


@dataclass(frozen=True, slots=True)
class MultisetPlan:
    """One multiset of counted values: its spec, and the SQL of what is inserted into it and retracted."""

    spec: MultisetSpec
    fields: tuple[Stored, ...]
    values: tuple[exp.Expr, ...]
    conditions: tuple[exp.Expr, ...]

    def table(self, layout: Layout, key: Sequence[Stored]) -> StoredTable:
        """The state table."""
        count = Stored("count", BIGINT, form("how often"))
        return StoredTable(self.spec.name, layout, tuple(key), self.fields, (count,))

    def input_schema(self, keys: Schema) -> Schema:
        """What the exchange ships."""
        return (*keys, *self.spec.values, Column(WEIGHT_COLUMN, BIGINT))

    def partial_sql(self, block: Block, grouping: Grouping) -> str:
        """Keys, values and how many of each came, less those that went; nothing where that is 0."""
        conditions = [block.expression(c) for c in self.conditions]
        values = [
            (f"CAST({sql(block.expression(v))} AS {f.type})", f.name)
            for v, f in zip(self.values, self.fields, strict=True)
        ]
        rows = replace(block, where=(*block.where, *conditions))
        grouped, items, group_by = grouping.grouped(rows, (), values)
        weight = weight_of(grouped)
        count = row_count(weight)
        having = f"\nHAVING {count} <> 0" if weight is not None else ""
        return grouped.select([*items, (count, WEIGHT_COLUMN)], group_by=f"{group_by}{having}")


def plan_multisets(
    calls: Sequence[AggregateCall], inside: Columns, names: Names
) -> tuple[tuple[MultisetPlan, ...], dict[str, str]]:
    """The counted multisets that `calls` need, and the calls' values by field id, over columns of `merged`."""
    groups: dict[Form, list[_Wanted]] = {}
    for call in calls:
        wanted = _wanted(call, inside)
        groups.setdefault(_multiset(wanted, inside), []).append(wanted)
    plans, finals = [], {}
    for multiset in sort_forms(groups):
        members = groups[multiset]
        picks = {m.pick for m in members}
        for pick in ("all",) if "all" in picks else sorted(picks):
            served = [m for m in members if pick in ("all", m.pick)]
            plan, columns = _plan(multiset, served, pick, names)
            plans.append(plan)
            for member, name in zip(served, columns, strict=True):
                empty = function_of(member.call).empty
                text = quote_identifier(name)
                finals[member.call.field.id] = f"coalesce({text}, {empty})" if empty is not None else text
    return tuple(plans), finals


def _plan(multiset: Form, members: list[_Wanted], pick: str, names: Names) -> tuple[MultisetPlan, list[str]]:
    first = members[0]
    by_form = {v.meaning: v for v in first.values}
    fields = tuple(
        Stored(names.take(f"value_{column_hint(by_form[f].expression)}"), by_form[f].type, f)
        for f in sort_forms(by_form)
    )
    name_of = {f.meaning: quote_identifier(f.name) for f in fields}
    columns: dict[tuple[str, SqlType], str] = {}
    given = []
    for member in members:
        call = member.call
        values = tuple(name_of[v.meaning] for v in member.values)
        text = function_of(call).values.over_values(call, values)
        item = (f"CAST({text} AS {call.field.type})", call.field.type)
        if item not in columns:
            columns[item] = names.take(f"{call.name}_{column_hint(first.values[0].expression)}")
        given.append(columns[item])
    filter_ = first.call.filter
    spec = MultisetSpec(
        # The greatest value has a multiset of its own: one pick reads one end of it.
        name=f"values_{multiset.digest[:16]}{'_last' if pick == 'last' else ''}",
        values=tuple(Column(f.name, f.type) for f in fields),
        pick=pick,
        columns=tuple(Column(name, type_) for (_, type_), name in columns.items()),
        aggregates=tuple(text for text, _ in columns),
    )
    not_null = tuple(exp.Not(this=exp.Is(this=exp.paren(e), expression=exp.Null())) for e in first.present)
    plan = MultisetPlan(
        spec,
        fields,
        tuple(by_form[f.meaning].expression for f in fields),
        (*not_null, *([filter_] if filter_ is not None else [])),
    )
    return plan, given


def _multiset(wanted: _Wanted, inside: Columns) -> Form:
    filter_ = wanted.call.filter
    return _of_values(
        (form("value", v.meaning, str(v.type)) for v in wanted.values),
        (form_over(e, inside) for e in wanted.present),
        form_over(filter_, inside) if filter_ is not None else None,
    )


def _of_values(values: Iterable[Form], present: Iterable[Form], filter_: Form | None) -> Form:
    return form(
        "multiset",
        form("values", *sort_forms(set(values))),
        form("present", *sort_forms(set(present))),
        filter_,
    )


def name_of_values(values: Iterable[Form], present: Iterable[Form], filter_: Form | None) -> str:
    """What the multiset is called that holds these `values` of the rows in which those of `present` are not NULL."""
    return f"values_{_of_values(values, present, filter_).digest[:16]}"


def name_of_multiset(call: AggregateCall, inside: Columns, *, nulls: bool) -> str:
    """What the multiset is called that holds the values of a call's one argument; with `nulls` NULLs are among them."""
    x = _value(call.arguments[0], call.argument_types[0], inside)
    held = _Wanted(call, (x,), () if nulls else (call.arguments[0],), "all")
    return f"values_{_multiset(held, inside).digest[:16]}"


def _wanted(call: AggregateCall, inside: Columns) -> _Wanted:
    function = function_of(call)
    if function.values.paired:
        return _pair(call, inside, function)
    x = _value(call.arguments[0], call.argument_types[0], inside)
    if function.arguments.of_rows != 1:
        given = values_of(call)
        values = tuple(_value(a, t, inside) for a, t in given)
        return _Wanted(call, values, () if function.keeps_nulls else tuple(a for a, _ in given), "all")
    if call.distinct and any(columns_of(over_value(e, x.expression, "x")) for e, _, _ in call.order_by):
        raise InternalError(
            f"{call.name}(DISTINCT …) ordered by something else than its argument came to the planner"
        )
    present = () if function.keeps_nulls else (call.arguments[0],)
    if call.order_by and not call.distinct and function.order_sensitive:
        terms = zip(call.order_by, call.order_types, strict=True)
        keys = tuple(_value(e, type_, inside) for (e, _, _), type_ in terms)
        return _Wanted(call, (x, *keys), present, "all")
    pick = function.values.pick if x.type.kind not in NESTED else "all"
    return _Wanted(call, (x,), present, pick)


def _value(expression: exp.Expr, type_: SqlType, inside: Columns) -> _Value:
    return _Value(expression, INTEGER if type_.kind is Kind.NULL else type_, form_over(expression, inside))


def _pair(call: AggregateCall, inside: Columns, function: AggregateFunction) -> _Wanted:
    """ARG_MIN(x, by) and ARG_MAX: one value {by, x}, so that the order of state is by both."""
    x, by = (_value(a, t, inside) for a, t in zip(call.arguments, call.argument_types, strict=True))
    both = exp.Struct(
        expressions=[
            exp.PropertyEQ(this=exp.to_identifier(name), expression=v.expression.copy())
            for name, v in (("by", by), ("x", x))
        ]
    )
    value = _Value(both, struct(("by", by.type), ("x", x.type)), form("pair", by.meaning, x.meaning))
    nested = x.type.kind in NESTED or by.type.kind in NESTED
    present = call.arguments[1:] if function.keeps_nulls else call.arguments
    # The order of state has NULLs first, a struct's least and greatest have them last.
    read_all = nested or function.keeps_nulls
    return _Wanted(call, (value,), present, "all" if read_all else function.values.pick)
