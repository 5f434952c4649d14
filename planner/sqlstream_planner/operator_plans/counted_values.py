"""Aggregates that need their values one by one: which values are counted, and the aggregate over them.

Calls over the same rows and values share one counted multiset. Only what the order of state decides (the least
or greatest value of a plain type) reads one value; the others read the group. Values that are equal are one row
with a count, so an aggregate repeats a value as often as it is there, in ascending order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.changelog_spec import MultisetSpec
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.state_schema import Layout, StateField, StateTable
from sqlstream_operators.plan.types import BIGINT, INTEGER, Kind, SqlType, quote_identifier, struct
from sqlstream_planner.block import Block
from sqlstream_planner.fingerprint import canonical, digest
from sqlstream_planner.logical import AggregateCall, order_term, sql
from sqlstream_planner.operator_plans.grouping import Grouping, Names, column_hint
from sqlstream_planner.operator_plans.weighted import row_count, weight_of

#: Types whose order in the state is not DuckDB's: NULLs inside them come first in the one, last in the other.
_NESTED = (Kind.ARRAY, Kind.MAP, Kind.STRUCT)
_LISTS = frozenset({"list", "array_agg", "collect", "string_agg"})
_PICKS = {"min": "first", "any_value": "first", "arg_min": "first", "max": "last", "arg_max": "last"}
#: What a call is over no values, where that is not NULL.
_EMPTY = {"count": "0", "entropy": "0"}


@dataclass(frozen=True, slots=True)
class _Value:
    expression: exp.Expr
    type: SqlType
    fingerprint: str


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What one call needs: `values` (the aggregate's own order), of rows where all of `present` are not NULL."""

    call: AggregateCall
    values: tuple[_Value, ...]
    present: tuple[exp.Expr, ...]
    pick: str


@dataclass(frozen=True, slots=True)
class CountedPlan:
    """One multiset of counted values: its spec, and the SQL of what comes and goes in it."""

    spec: MultisetSpec
    fields: tuple[StateField, ...]
    values: tuple[exp.Expr, ...]
    conditions: tuple[exp.Expr, ...]

    def table(self, layout: Layout, key: Sequence[StateField]) -> StateTable:
        """The state table."""
        return StateTable.of(
            self.spec.name,
            layout,
            key=key,
            sub_key=self.fields,
            value=[StateField("count", BIGINT, "count")],
        )

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


def plan_counted(
    calls: Sequence[AggregateCall], inside: dict[str, str], names: Names
) -> tuple[tuple[CountedPlan, ...], dict[str, str]]:
    """The counted multisets that `calls` need, and the calls' values by field id, over columns of `merged`."""
    groups: dict[str, list[_Wanted]] = {}
    for call in calls:
        wanted = _wanted(call, inside)
        groups.setdefault(_identity(wanted, inside), []).append(wanted)
    plans, finals = [], {}
    for identity, members in sorted(groups.items()):
        picks = {m.pick for m in members}
        for pick in ("all",) if "all" in picks else sorted(picks):
            served = [m for m in members if pick in ("all", m.pick)]
            plan, columns = _plan(identity, served, pick, names)
            plans.append(plan)
            for member, name in zip(served, columns, strict=True):
                empty = _EMPTY.get(member.call.name)
                text = quote_identifier(name)
                finals[member.call.field.id] = f"coalesce({text}, {empty})" if empty is not None else text
    return tuple(plans), finals


def _plan(identity: str, members: list[_Wanted], pick: str, names: Names) -> tuple[CountedPlan, list[str]]:
    first = members[0]
    by_form = {v.fingerprint: v for v in first.values}
    fields = tuple(
        StateField(names.take(f"value_{column_hint(by_form[f].expression)}"), by_form[f].type, f)
        for f in sorted(by_form)
    )
    name_of = {f.fingerprint: quote_identifier(f.name) for f in fields}
    columns: dict[tuple[str, SqlType], str] = {}
    given = []
    for member in members:
        call = member.call
        text = _aggregate(call, tuple(name_of[v.fingerprint] for v in member.values))
        item = (f"CAST({text} AS {call.field.type})", call.field.type)
        if item not in columns:
            columns[item] = names.take(f"{call.name}_{column_hint(first.values[0].expression)}")
        given.append(columns[item])
    filter_ = first.call.filter
    spec = MultisetSpec(
        # The greatest value has a multiset of its own: one pick reads one end of it.
        name=f"values_{digest(identity)}{'_last' if pick == 'last' else ''}",
        values=tuple(Column(f.name, f.type) for f in fields),
        pick=pick,
        columns=tuple(Column(name, type_) for (_, type_), name in columns.items()),
        aggregates=tuple(text for text, _ in columns),
    )
    not_null = tuple(exp.Not(this=exp.Is(this=exp.paren(e), expression=exp.Null())) for e in first.present)
    plan = CountedPlan(
        spec,
        fields,
        tuple(by_form[f.fingerprint].expression for f in fields),
        (*not_null, *([filter_] if filter_ is not None else [])),
    )
    return plan, given


def _identity(wanted: _Wanted, inside: dict[str, str]) -> str:
    values = " ; ".join(sorted({v.fingerprint for v in wanted.values}))
    present = " ; ".join(sorted({canonical(e, inside) for e in wanted.present}))
    filter_ = wanted.call.filter
    where = canonical(filter_, inside) if filter_ is not None else ""
    return f"values {values} present {present} where {where}"


def _wanted(call: AggregateCall, inside: dict[str, str]) -> _Wanted:
    name = call.name
    if name in ("arg_min", "arg_max"):
        return _pair(call, inside)
    x = _value(call.arguments[0], call.argument_types[0], inside)
    if name == "count":
        each = zip(call.arguments, call.argument_types, strict=True)
        return _Wanted(call, tuple(_value(a, t, inside) for a, t in each), call.arguments, "all")
    if call.distinct and any(canonical(e, inside) != x.fingerprint for e, _, _ in call.order_by):
        raise InternalError(
            f"{name}(DISTINCT …) ordered by something else than its argument came to the planner"
        )
    present = () if name in ("list", "array_agg") else (call.arguments[0],)
    if call.order_by and not call.distinct and (name in _LISTS or name == "any_value"):
        terms = zip(call.order_by, call.order_types, strict=True)
        keys = tuple(_value(e, type_, inside) for (e, _, _), type_ in terms)
        return _Wanted(call, (x, *keys), present, "all")
    pick = _PICKS.get(name, "all") if x.type.kind not in _NESTED else "all"
    return _Wanted(call, (x,), present, pick)


def _value(expression: exp.Expr, type_: SqlType, inside: dict[str, str]) -> _Value:
    return _Value(expression, INTEGER if type_.kind is Kind.NULL else type_, canonical(expression, inside))


def _pair(call: AggregateCall, inside: dict[str, str]) -> _Wanted:
    """ARG_MIN(x, by) and ARG_MAX: one value {by, x}, so that the order of state is by both."""
    x, by = (_value(a, t, inside) for a, t in zip(call.arguments, call.argument_types, strict=True))
    both = exp.Struct(
        expressions=[
            exp.PropertyEQ(this=exp.to_identifier(name), expression=v.expression.copy())
            for name, v in (("by", by), ("x", x))
        ]
    )
    value = _Value(both, struct(("by", by.type), ("x", x.type)), f"by {by.fingerprint} value {x.fingerprint}")
    nested = x.type.kind in _NESTED or by.type.kind in _NESTED
    return _Wanted(call, (value,), call.arguments, "all" if nested else _PICKS[call.name])


def _aggregate(call: AggregateCall, values: tuple[str, ...]) -> str:
    """The call over the columns `values` and `count` of the distinct values (and their counts) of a group."""
    name, x = call.name, values[0]
    extra = "".join(f", {sql(a)}" for a in call.arguments[1:])
    if name in ("min", "max", "bool_and", "bool_or", "bit_and", "bit_or"):
        return f"{name}({x})"
    if name in ("arg_min", "arg_max"):
        return f"struct_extract({name.removeprefix('arg_')}({x}), 'x')"
    order = _order(call, values)
    if name == "any_value":
        return f"first({x} ORDER BY {order})" if call.order_by else f"min({x})"
    if name == "string_agg":
        separator = sql(call.arguments[1]) if len(call.arguments) > 1 else "','"
        return f"array_to_string({_repeated(call, f'CAST({x} AS VARCHAR)', order)}, {separator})"
    if name in _LISTS:
        return _repeated(call, x, order)
    if call.distinct:
        return _over_distinct(call, x, extra)
    if name == "mode":
        return f'first({x} ORDER BY "count" DESC, {x})'
    if name == "bit_xor":
        return f'bit_xor(CASE WHEN "count" % 2 = 1 THEN {x} ELSE CAST(0 AS {call.argument_types[0]}) END)'
    return f"list_aggregate({_repeated(call, x, order)}, '{name}'{extra})"


def _over_distinct(call: AggregateCall, x: str, extra: str) -> str:
    match call.name:
        case "count":
            return "count(*)"
        case "mode":
            return f"min({x})"
        case name:
            return f"{name}({x}{extra} ORDER BY {x})"


def _repeated(call: AggregateCall, element: str, order: str) -> str:
    if call.distinct:
        return f"list({element} ORDER BY {order})"
    return f'flatten(list(repeat([{element}], "count") ORDER BY {order}))'


def _order(call: AggregateCall, values: tuple[str, ...]) -> str:
    """The call's ORDER BY, and then by value: what is left to chance elsewhere has one answer here."""
    x = values[0]
    keys = values[1:] or (x,)
    terms = [
        order_term(key, descending=descending, nulls_first=nulls_first)
        for key, (_, descending, nulls_first) in zip(keys, call.order_by, strict=False)
    ]
    return ", ".join([*terms, f"{x} ASC NULLS LAST"])
