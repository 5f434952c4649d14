"""WindowAggregate: groups of windows that are emitted once, when the watermark closes the window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from sqlstream_operators.plan.spec import SLICE_COLUMN, Column, Schema
from sqlstream_operators.plan.types import BIGINT, BOOLEAN, Kind, quote_identifier
from sqlstream_operators.plan.window_aggregate_spec import DistinctSpec, WindowAggregateSpec
from sqlstream_planner.aggregates.count import COUNT
from sqlstream_planner.aggregates.registry import function_of, values_of
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.identity.form import Data, Form, form, sort_forms
from sqlstream_planner.identity.parts import Columns, form_over
from sqlstream_planner.identity.state import StateIdentity, Stored, StoredTable
from sqlstream_planner.logical import AggregateCall, Field, Node, raw, sql
from sqlstream_planner.logical.text import describe_window
from sqlstream_planner.physical.block import Block
from sqlstream_planner.physical.by_stage import by_stage, each, result_of
from sqlstream_planner.physical.grouping import (
    GROUPING,
    Grouping,
    Kept,
    Names,
    column_hint,
    keep,
    within,
)
from sqlstream_planner.physical.late_rows import LateRows
from sqlstream_planner.physical.operators.explained import columns_text
from sqlstream_planner.physical.operators.planned_operator import Explained, PlannedOperator, closes
from sqlstream_planner.physical.planner import Partial, Planner
from sqlstream_planner.physical.stages import Shipment
from sqlstream_planner.physical.state_node import KeptAccumulator, StateNode, clause_of
from sqlstream_planner.streaming import WindowAggregate
from sqlstream_planner.windows import window_time as window_sql

_RESERVED = (SLICE_COLUMN, "window_start", "window_end", "time", "found")


@dataclass(frozen=True, slots=True)
class _DistinctState:
    """State shared by all DISTINCT aggregates over the same arguments."""

    name: str
    values: tuple[tuple[Stored, exp.Expr], ...]
    flags: tuple[tuple[Stored, exp.Expr], ...]
    keep_nulls: bool
    everything: bool
    calls: tuple[tuple[AggregateCall, str, str | None], ...]  # (call, output column, flag)
    arguments: tuple[tuple[str, ...], ...]  # of each call the columns of its values, in its own order

    def table(self, key: tuple[Stored, ...]) -> StoredTable:
        """The state table."""
        return StoredTable(
            self.name, "time", key, tuple(s for s, _ in self.values), tuple(s for s, _ in self.flags)
        )


@dataclass(frozen=True, slots=True)
class AggregatePlan:
    """One window aggregate, planned.

    `partial_schema` and `distinct_schemas` are what the exchange ships: SLICE_COLUMN, keys, accumulators or
    distinct values and flags.
    """

    node: WindowAggregate
    spec: WindowAggregateSpec
    partial_schema: Schema
    distinct_schemas: tuple[Schema, ...]
    grouping: Grouping
    kept: tuple[Kept, ...]
    distinct: tuple[_DistinctState, ...]

    def partial(self, relation: str, blocks: Sequence[Block]) -> Partial:
        """What is shipped of some blocks, which is a relation of their stages."""
        names = {
            call.field.id: kept.name
            for call in self.node.calls
            for kept in self.kept
            if replace(kept.call, field=call.field) == call and kept.position == 0
        }
        return Partial(relation, frozenset(b.stage for b in blocks), self.grouping.names, names)

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
        values = [(sql(block.expression(v)), s.name) for s, v in state.values]
        grouped, items, group_by = self.grouping.grouped(block, [(self._slice(block), SLICE_COLUMN)], values)
        for flag, predicate in state.flags:
            source = block if grouped is block else grouped
            items.append((f"coalesce(bool_or({sql(source.expression(predicate))}), FALSE)", flag.name))
        return grouped.select(items, group_by=group_by)


def plan_window_aggregate(planner: Planner, node: Node) -> Block:
    """The stage of a window aggregate: partial aggregates before the exchange, slices of windows in its state."""
    if not isinstance(node, WindowAggregate):
        raise InternalError(f"a {type(node).__name__} is no window aggregate")
    plan = _plan(planner, node)
    spec = replace(plan.spec, state=planner.states.add(plan.spec.state, planner.ttls(node)))
    planner.state_nodes[spec.state.state_id] = StateNode(
        node,
        planner.meanings,
        {k.name: k.expression for k in plan.grouping.keys},
        {d.name: {s.name: e for s, e in d.values} for d in plan.distinct},
        accumulators={k.name: KeptAccumulator(k.call, k.position, k.accumulator) for k in plan.kept},
        at=clause_of(node.meaning),
    )
    name = planner.stages.name(WindowAggregateSpec.kind)
    # Rows without a time are taken out with the late ones.
    blocks = planner.blocks(node.input, timeless=node.time.direct)
    late = None
    if not node.time.direct:
        blocks = [_with_time(block, node) for block in blocks]
    if node.time.direct:
        late = LateRows(
            operator=name,
            window=node.window,
            slice_column=node.slice_column,
            time_column=node.time_column,
            time=node.time,
            rows=by_stage(planner.blocks(node.input, rows=True, timeless=True)),
            kept=f"{name}.kept",
        )
    draft = planner.stages.behind(name, blocks)
    edges = [f"{name}.in", *(f"{name}.{d.name}" for d in spec.distincts)]
    schemas = [plan.partial_schema, *plan.distinct_schemas]
    shipped = [
        Shipment(edge, each(partial(plan.partial_sql, position=position)), schema, f"{edge}.partial")
        for position, (edge, schema) in enumerate(zip(edges, schemas, strict=True))
    ]
    keys = tuple(c.name for c in spec.keys)
    draft.run(name, spec, planner.stages.ship(blocks, shipped, keys, late))
    if late is not None and node.grouping is None:
        planner.note_partial(node, plan.partial(f"{name}.kept", blocks))
    return result_of(name, node, weighted=False)


def _with_time(block: Block, node: WindowAggregate) -> Block:
    """The rows of a block that have a time: those behind a join need not, and belong to no window then."""
    f = next(f for f in node.input.fields if f.id == node.slice_column)
    if not f.nullable:
        return block
    missing = exp.Is(this=exp.paren(block.columns[f.id].copy()), expression=exp.Null())
    return replace(block, where=(*block.where, exp.Not(this=missing)))


def _plan(planner: Planner, node: WindowAggregate) -> AggregatePlan:
    """Decompose a window aggregate."""
    meanings = planner.meanings
    inside = meanings.columns(node.input).and_of(meanings.columns(node.meaning.inputs[0]))
    names = Names(_RESERVED)
    grouping = Grouping.of(node.keys, node.key_expressions, node.sets, node.grouping, inside, names)
    distinct_calls = [c for c in node.calls if c.distinct and not function_of(c).distinct_is_noop]
    plain = [c for c in node.calls if c not in distinct_calls]
    rows = AggregateCall(Field("count", "count", BIGINT), COUNT.name, (), ())
    ordered, finals = keep(plain or [rows], lambda call: function_of(call).append_only(call), inside, names)

    distinct = _distinct_states(distinct_calls, inside, names)
    for kept_distinct in distinct:
        for call, output, _ in kept_distinct.calls:
            text = quote_identifier(output)
            empty = function_of(call).empty
            finals[call.field.id] = f"coalesce({text}, {empty})" if empty is not None else text

    key = tuple(k.stored for k in grouping.keys)
    stored = (
        StoredTable("acc", "time", key, value=tuple(k.stored for k in ordered)),
        *(s.table(key) for s in distinct),
    )
    identity = StateIdentity(
        "groups of windows",
        meanings.relation(node.meaning),
        tuple(k.meaning for k in grouping.keys),
        _attributes(node, grouping, inside),
        stored,
    )
    state = identity.schema(WindowAggregateSpec.kind, _describe(node))
    acc, *tables = state.tables
    key_schema = tuple(Column(f.name, f.type) for f in acc.key)
    accumulators = tuple(Column(f.name, f.type) for f in acc.value)
    spec = WindowAggregateSpec(
        state=state,
        window=node.window,
        keys=key_schema,
        accumulators=accumulators,
        merge=tuple(k.merge for k in ordered),
        emit=_emit(node, grouping, finals),
        output=tuple(Column(f.id, f.type, f.nullable) for f in node.fields),
        watermark_sources=node.time.sources,
        tick_us=node.time.closes_us,
        distincts=tuple(
            DistinctSpec(
                s.name, tuple(Column(f.name, f.type) for f in t.sub_key), tuple(f.name for f in t.value)
            )
            for s, t in zip(distinct, tables, strict=True)
        ),
        distinct_aggregates=tuple(
            tuple(
                (
                    output,
                    function_of(c).over_distinct(
                        c, tuple(map(quote_identifier, arguments)), flag and quote_identifier(flag)
                    ),
                )
                for (c, output, flag), arguments in zip(s.calls, s.arguments, strict=True)
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
            for t in tables
        ),
        grouping=grouping,
        kept=ordered,
        distinct=distinct,
    )


def _attributes(node: WindowAggregate, grouping: Grouping, inside: Columns) -> dict[str, Data]:
    """What is compared of two such states besides the rows and keys: which windows, and how they are kept."""
    window = node.window
    return {
        "window": [window.kind.value, window.size_us, window.slide_us],
        "slices": window.slice_us if window.shared_slices else None,
        "grouping sets": grouping.set_forms,
    }


def _distinct_states(calls: list[AggregateCall], inside: Columns, names: Names) -> tuple[_DistinctState, ...]:
    grouped: dict[Form, list[AggregateCall]] = {}
    for call in calls:
        values = form("values", *sort_forms({form_over(a, inside) for a, _ in values_of(call)}))
        grouped.setdefault(values, []).append(call)
    states = []
    for meaning in sort_forms(grouped):
        members = grouped[meaning]
        by_form = {form_over(a, inside): (a, t) for a, t in values_of(members[0])}
        flags: dict[Form, tuple[Stored, exp.Expr]] = {}
        outputs: list[tuple[AggregateCall, str, str | None]] = []
        stored = tuple(
            (Stored(names.take(f"distinct_{column_hint(by_form[f][0])}"), by_form[f][1], f), by_form[f][0])
            for f in sort_forms(by_form)
        )
        named = {s.meaning: s.name for s, _ in stored}
        for call in members:
            flag = None
            if call.filter is not None:
                condition = form_over(call.filter, inside)
                if condition not in flags:
                    flags[condition] = (Stored(names.take("passes"), BOOLEAN, condition), call.filter)
                flag = flags[condition][0].name
            outputs.append((call, names.take(f"{call.name}_distinct"), flag))
        keep_nulls = any(function_of(c).keeps_nulls for c in members)
        everything = any(c.filter is None for c in members)
        # What is kept of the same values: one call alone would keep less, and another can't go on with that.
        more = [*(["nulls"] if keep_nulls else []), *(["unfiltered"] if everything and flags else [])]
        kept = form("values", *meaning.args, *more)
        states.append(
            _DistinctState(
                name=f"distinct_{kept.digest[:16]}",
                values=stored,
                flags=tuple(flags[c] for c in sort_forms(flags)),
                keep_nulls=keep_nulls,
                everything=everything,
                calls=tuple(outputs),
                arguments=tuple(tuple(named[form_over(a, inside)] for a, _ in values_of(c)) for c in members),
            )
        )
    return tuple(states)


def _emit(node: WindowAggregate, grouping: Grouping, finals: dict[str, str]) -> str:
    items = [(quote_identifier(name), f.id) for f, name in zip(node.keys, grouping.names, strict=True)]
    if node.start is not None:
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


def explain_window_aggregate(name: str, spec: WindowAggregateSpec) -> list[str]:
    """The lines of the operator's step."""
    lines = [f"  {name} = merge, state {spec.state.state_id}, {describe_window(spec.window, 'event time')}"]
    lines.append(f"    keys {columns_text(spec.keys) or 'none'}")
    for column, merge in zip(spec.accumulators, spec.merge, strict=True):
        lines.append(f"    {column.name} {column.type} = {merge}")
    for distinct in spec.distincts:
        lines.append(
            f"    distinct {columns_text(distinct.values)}"
            + (f" with {', '.join(distinct.flags)}" if distinct.flags else "")
        )
    lines.append(f"    when a window closes: {spec.emit}")
    return lines


def _title(spec: WindowAggregateSpec) -> str:
    return f"{spec.window.kind.value} aggregate"


OPERATOR = PlannedOperator(
    WindowAggregate,
    plan_window_aggregate,
    {WindowAggregateSpec: Explained(explain_window_aggregate, closes, _title)},
)
