"""A window aggregate's operator spec, its state schema, and the SQL of its partial aggregates."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream_operators.plan.spec import SLICE_COLUMN, Column, DistinctSpec, Schema, WindowAggregateSpec
from sqlstream_operators.plan.state_schema import StateField, StateSchema, StateTable
from sqlstream_operators.plan.types import BIGINT, BOOLEAN, Kind, quote_identifier
from sqlstream_planner import window_sql
from sqlstream_planner.aggregates.count import COUNT
from sqlstream_planner.aggregates.registry import function_of, values_of
from sqlstream_planner.block import Block
from sqlstream_planner.fingerprint import Provenance, canonical, digest
from sqlstream_planner.logical import AggregateCall, Field, WindowAggregate, raw, sql
from sqlstream_planner.operator_plans.grouping import (
    GROUPING,
    Grouping,
    Kept,
    Names,
    column_hint,
    keep,
    within,
)

_RESERVED = (SLICE_COLUMN, "window_start", "window_end", "time", "found")


@dataclass(frozen=True, slots=True)
class _DistinctState:
    """State shared by all DISTINCT aggregates over the same arguments."""

    name: str
    values: tuple[tuple[str, exp.Expr], ...]
    flags: tuple[tuple[str, exp.Expr], ...]
    keep_nulls: bool
    everything: bool
    calls: tuple[tuple[AggregateCall, str, str | None], ...]  # (call, output column, flag)


@dataclass(frozen=True, slots=True)
class AggregatePlan:
    """What the physical planner needs of one window aggregate.

    `partial_schema` and `distinct_schemas` are what the exchange ships: SLICE_COLUMN, keys, accumulators or
    distinct values and flags.
    """

    node: WindowAggregate
    spec: WindowAggregateSpec
    partial_schema: Schema
    distinct_schemas: tuple[Schema, ...]
    distinguishing_state_id: str
    grouping: Grouping
    kept: tuple[Kept, ...]
    distinct: tuple[_DistinctState, ...]

    def with_state_id(self, state_id: str) -> AggregatePlan:
        """The same plan with its state under another id."""
        return replace(self, spec=replace(self.spec, state=replace(self.spec.state, state_id=state_id)))

    def partial_sql(self, block: Block, position: int) -> str:
        """The partial over one block: the accumulators at position 0, then one for each distinct state."""
        if position == 0:
            return self._accumulators_sql(block)
        return self._distinct_sql(block, self.distinct[position - 1])

    def _slice(self, block: Block) -> str:
        us = f"epoch_us({sql(block.columns[self.node.slice_column])})"
        return window_sql.slice_end(self.node.window, us) if self.node.window.shared_slices else us

    def _without_gaps(self, block: Block) -> Block:
        us = f"epoch_us({sql(block.columns[self.node.slice_column])})"
        gap = window_sql.in_some_window(self.node.window, us) if self.node.window.shared_slices else None
        if gap is None:
            return block
        return replace(block, where=(*block.where, raw(f"coalesce({gap}, TRUE)")))

    def _accumulators_sql(self, block: Block) -> str:
        block = self._without_gaps(block)
        grouped, items, group_by = self.grouping.grouped(block, [(self._slice(block), SLICE_COLUMN)], ())
        for kept in self.kept:
            call = within(kept.call, block if grouped is block else grouped)
            text = function_of(call).append_only(call).accumulators[kept.position].partial
            items.append((f"CAST({text} AS {kept.accumulator.type})", kept.name))
        return grouped.select(items, group_by=group_by)

    def _distinct_sql(self, block: Block, state: _DistinctState) -> str:
        block = self._without_gaps(block)
        conditions: list[exp.Expr] = []
        if not state.keep_nulls:
            conditions += [
                exp.Not(this=exp.Is(this=block.expression(v), expression=exp.Null())) for _, v in state.values
            ]
        if not state.everything:
            conditions.append(exp.or_(*(block.expression(f) for _, f in state.flags)))
        block = replace(block, where=(*block.where, *conditions))
        values = [(sql(block.expression(v)), name) for name, v in state.values]
        grouped, items, group_by = self.grouping.grouped(block, [(self._slice(block), SLICE_COLUMN)], values)
        for name, predicate in state.flags:
            source = block if grouped is block else grouped
            items.append((f"coalesce(bool_or({sql(source.expression(predicate))}), FALSE)", name))
        return grouped.select(items, group_by=group_by)


def plan_aggregate(node: WindowAggregate, provenance: Provenance) -> AggregatePlan:
    """Decompose a window aggregate; `provenance` gives the fingerprints."""
    inside = provenance.columns(node.input)
    names = Names(_RESERVED)
    grouping = Grouping.of(node.keys, node.key_expressions, node.sets, node.grouping, inside, names)
    key_names = {k.fingerprint: k.name for k in grouping.keys}
    distinct_calls = [c for c in node.calls if c.distinct and not function_of(c).distinct_is_noop]
    plain = [c for c in node.calls if c not in distinct_calls]
    rows = AggregateCall(Field("count", "count", BIGINT), COUNT.name, (), ())
    ordered, finals = keep(plain or [rows], lambda call: function_of(call).append_only(call), inside, names)
    name_of = {k.fingerprint: k.name for k in ordered}

    distinct = _distinct_states(distinct_calls, inside, names)
    for kept_distinct in distinct:
        for call, output, _ in kept_distinct.calls:
            text = quote_identifier(output)
            empty = function_of(call).empty
            finals[call.field.id] = f"coalesce({text}, {empty})" if empty is not None else text

    acc = StateTable.of(
        "acc",
        "time",
        key=[StateField(k.name, k.field.type, k.fingerprint) for k in grouping.keys],
        value=[StateField(k.name, k.accumulator.type, k.fingerprint) for k in ordered],
    )
    tables = [acc, *(_distinct_table(s, acc.key, inside, node) for s in distinct)]
    relation = provenance.relation(node)
    state = StateSchema(digest(relation), "window_aggregate", _describe(node), tuple(tables))
    key_schema = tuple(Column(f.name, f.type) for f in acc.key)
    accumulators = tuple(Column(f.name, f.type) for f in acc.value)
    spec = WindowAggregateSpec(
        state=state,
        window=node.window,
        keys=key_schema,
        accumulators=accumulators,
        merge=tuple(k.merge for k in ordered),
        emit=_emit(node, key_names, inside, finals),
        output=tuple(Column(f.id, f.type, f.nullable) for f in node.fields),
        watermark_sources=node.time.sources,
        tick_us=node.time.tick_us,
        distincts=tuple(
            DistinctSpec(
                s.name, tuple(Column(f.name, f.type) for f in t.sub_key), tuple(f.name for f in t.value)
            )
            for s, t in zip(distinct, tables[1:], strict=True)
        ),
        distinct_aggregates=tuple(
            tuple(
                (
                    output,
                    function_of(c).over_distinct(
                        c, tuple(quote_identifier(n) for n, _ in s.values), flag and quote_identifier(flag)
                    ),
                )
                for c, output, flag in s.calls
            )
            for s in distinct
        ),
    )
    slice_column = Column(SLICE_COLUMN, BIGINT)
    return AggregatePlan(
        node=node,
        spec=spec,
        partial_schema=(slice_column, *key_schema, *accumulators),
        distinct_schemas=tuple(
            (slice_column, *key_schema, *(Column(f.name, f.type) for f in (*t.sub_key, *t.value)))
            for t in tables[1:]
        ),
        distinguishing_state_id=digest(
            relation + repr(sorted(name_of)) + repr([t.to_json() for t in tables[1:]])
        ),
        grouping=grouping,
        kept=ordered,
        distinct=distinct,
    )


def _distinct_states(
    calls: list[AggregateCall], inside: dict[str, str], names: Names
) -> tuple[_DistinctState, ...]:
    grouped: dict[str, list[AggregateCall]] = {}
    for call in calls:
        forms = sorted({canonical(a, inside) for a, _ in values_of(call)})
        grouped.setdefault(" ".join(forms), []).append(call)
    states = []
    for fingerprint, members in sorted(grouped.items()):
        first = members[0]
        by_form = {canonical(a, inside): a for a, _ in values_of(first)}
        value_names = {f: names.take(f"distinct_{column_hint(a)}") for f, a in sorted(by_form.items())}
        flags: dict[str, tuple[str, exp.Expr]] = {}
        outputs: list[tuple[AggregateCall, str, str | None]] = []
        for call in members:
            flag = None
            if call.filter is not None:
                condition = canonical(call.filter, inside)
                if condition not in flags:
                    flags[condition] = (names.take("passes"), call.filter)
                flag = flags[condition][0]
            outputs.append((call, names.take(f"{call.name}_distinct"), flag))
        states.append(
            _DistinctState(
                name=f"distinct_{digest(fingerprint)}",
                values=tuple((value_names[f], a) for f, a in sorted(by_form.items())),
                flags=tuple(flags[c] for c in sorted(flags)),
                keep_nulls=any(function_of(c).keeps_nulls for c in members),
                everything=any(c.filter is None for c in members),
                calls=tuple(outputs),
            )
        )
    return tuple(states)


def _distinct_table(
    state: _DistinctState, key: tuple[StateField, ...], inside: dict[str, str], node: WindowAggregate
) -> StateTable:
    types = {}
    for call in node.calls:
        for argument, type_ in zip(call.arguments, call.argument_types, strict=True):
            types[canonical(argument, inside)] = type_
    return StateTable.of(
        state.name,
        "time",
        key=key,
        sub_key=[StateField(n, types[canonical(v, inside)], canonical(v, inside)) for n, v in state.values],
        value=[StateField(n, BOOLEAN, canonical(p, inside)) for n, p in state.flags],
    )


def _emit(
    node: WindowAggregate, key_names: dict[str, str], inside: dict[str, str], finals: dict[str, str]
) -> str:
    items = []
    for f, expression in zip(node.keys, node.key_expressions, strict=True):
        items.append((quote_identifier(key_names[canonical(expression, inside)]), f.id))
    items.append(('"window_start"', node.start.id))
    items.append(('"window_end"', node.end.id))
    time = "window_end - INTERVAL 1 MILLISECOND"
    cast = " AT TIME ZONE 'UTC'" if node.window_time.type.kind is Kind.TIMESTAMPTZ else ""
    items.append((f"({time}){cast}", node.window_time.id))
    if node.grouping is not None:
        items.append((quote_identifier(GROUPING), node.grouping.id))
    items += [(f"CAST({finals[c.field.id]} AS {c.field.type})", c.field.id) for c in node.calls]
    listed = ", ".join(f"{text} AS {quote_identifier(name)}" for text, name in items)
    return f"SELECT {listed} FROM merged"


def _describe(node: WindowAggregate) -> str:
    calls = ", ".join(c.field.name for c in node.calls)
    keys = ", ".join(f.name for f in node.keys) or "no keys"
    return f"{node.window.kind} window by {keys}: {calls or 'no aggregates'}"
