"""GroupAggregate: groups that are kept up to date over updating rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from sqlstream_operators.plan.distinct_values_spec import DistinctValuesSpec
from sqlstream_operators.plan.group_aggregate_spec import ExpirySpec, GroupAggregateSpec
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.spec import SLICE_COLUMN, FragmentStep
from sqlstream_operators.plan.state_schema import Layout
from sqlstream_operators.plan.types import BIGINT, quote_identifier, spelled
from sqlstream_planner.aggregates.count import COUNT
from sqlstream_planner.aggregates.function import Decomposition
from sqlstream_planner.aggregates.registry import function_of
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.identity.form import Data
from sqlstream_planner.identity.parts import Columns, form_over
from sqlstream_planner.identity.relation import Meanings
from sqlstream_planner.identity.state import StateIdentity, StoredTable
from sqlstream_planner.logical import AggregateCall, Field, Node, Project, column, columns_of, sql
from sqlstream_planner.logical.text import duration
from sqlstream_planner.physical.block import Block, weight
from sqlstream_planner.physical.by_stage import by_stage, each, reads_of, result_of
from sqlstream_planner.physical.grouping import GROUPING, Grouping, Kept, Names, keep, within
from sqlstream_planner.physical.late_rows import LateRows
from sqlstream_planner.physical.multisets import MultisetPlan, plan_multisets
from sqlstream_planner.physical.operators.distinct_values import EXPLAINED as DISTINCT_VALUES
from sqlstream_planner.physical.operators.distinct_values import (
    DistinctPlan,
    counts_distinct,
    plan_distinct,
    plan_distinct_values,
)
from sqlstream_planner.physical.operators.explained import columns_text, one_line
from sqlstream_planner.physical.operators.planned_operator import Explained, PlannedOperator, closes, grows
from sqlstream_planner.physical.planner import Planner
from sqlstream_planner.physical.stages import Shipment
from sqlstream_planner.physical.state_node import KeptAccumulator, StateNode, clause_of
from sqlstream_planner.physical.time_keys import text_of, time_of
from sqlstream_planner.physical.weights import weight_of
from sqlstream_planner.streaming import GroupAggregate

#: Columns of the operators' own, which no column of the state may be called.
_RESERVED = ("count", "time", "found", "merged", "changed", WEIGHT_COLUMN)


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """One group aggregate, planned.

    `partial_schema` and `multiset_schemas` are what the exchange ships to its operator, from blocks and (the
    former) from the operators of `distinct`, which have exchanges of their own.
    """

    node: GroupAggregate
    spec: GroupAggregateSpec
    distinct: tuple[DistinctPlan, ...]
    partial_schema: Schema
    multiset_schemas: tuple[Schema, ...]
    grouping: Grouping
    retracting: bool
    kept: tuple[Kept, ...]
    multisets: tuple[MultisetPlan, ...]

    def partial_sql(self, block: Block) -> str:
        """Keys and accumulators over one block; NULL for those that `distinct` feeds."""
        grouped, items, group_by = self.grouping.grouped(block, (), ())
        weight = weight_of(grouped)
        partials = {}
        for kept in self.kept:
            made = _decomposed(within(kept.call, grouped), weight, retracting=self.retracting)
            partials[kept.name] = (
                f"CAST({made.accumulators[kept.position].partial} AS {kept.accumulator.type})"
            )
        for c in self.spec.accumulators:
            items.append((partials.get(c.name, f"CAST(NULL AS {spelled(c.type)})"), c.name))
        having = ""
        if self.retracting:
            # All accumulators are sums: a group whose changes cancel out is not worth a row.
            having = " OR ".join(f"{p} <> 0" for p in partials.values())
        elif () in self.grouping.sets:
            having = "count(*) > 0"  # the grand total of no rows is the seed's
        text = grouped.select(items, group_by=group_by)
        return f"{text}\nHAVING {having}" if having else text

    def multiset_sql(self, block: Block, position: int) -> str:
        """Keys, values and weights of the counted multiset at `position` over one block."""
        return self.multisets[position].partial_sql(block, self.grouping)

    def state_node(self, meanings: Meanings) -> StateNode:
        """What the state is made of."""
        multisets = {m.spec.name: m for m in self.multisets}
        return StateNode(
            self.node,
            meanings,
            {k.name: k.expression for k in self.grouping.keys},
            {
                name: {f.name: v for f, v in zip(m.fields, m.values, strict=True)}
                for name, m in multisets.items()
            },
            {name: m.conditions for name, m in multisets.items()},
            {k.name: KeptAccumulator(k.call, k.position, k.accumulator) for k in self.kept},
            tuple(d.spec for d in self.distinct),
            clause_of(self.node.meaning),
        )


def plan_group_aggregate(planner: Planner, node: Node) -> Block:
    """The stage of a group aggregate, and those of the operators that count its distinct values."""
    if not isinstance(node, GroupAggregate):
        raise InternalError(f"a {type(node).__name__} is no group aggregate")
    expiry = node.expiry
    over = with_key_columns(node) if expiry is None else node
    plan = plan_group(planner.meanings, over, retracting=planner.changes(node.input))
    spec = planner.states.keep(plan.spec, node.ttl_us, planner.ttls(node))
    planner.state_nodes[spec.state.state_id] = plan.state_node(planner.meanings)
    name = planner.stages.name(GroupAggregateSpec.kind)
    blocks = planner.blocks(over.input, timeless=expiry is not None and expiry.time.direct)
    if expiry is None and (plan.distinct or plan.multisets):
        blocks = _computed(planner, name, blocks, _columns_read(over))
    distinct = [
        plan_distinct_values(planner, f"{name}.distinct_{n}", d, blocks, over)
        for n, d in enumerate(plan.distinct, 1)
    ]
    draft = planner.stage_of(node, name, [*blocks, *distinct])
    keys = tuple(c.name for c in spec.keys)
    given = [(quote_identifier(c.name), c.name) for c in plan.partial_schema]
    shipped = [
        Shipment(f"{name}.in", each(plan.partial_sql), plan.partial_schema),
        *(
            Shipment(
                f"{name}.{c.name}", each(partial(plan.multiset_sql, position=n)), plan.multiset_schemas[n]
            )
            for n, c in enumerate(spec.multisets)
        ),
    ]
    late = _late_groups(planner, name, node)
    if late is not None and spec.expiry is not None:
        shipped = [_with_slices(s, spec.expiry.column) for s in shipped]
    inputs = planner.stages.ship(blocks, shipped, keys, late)
    for block in distinct:
        accumulators = each(lambda b: b.select(given))
        planner.stages.ship([block], [replace(shipped[0], text=accumulators)], keys)
    draft.run(name, spec, inputs)
    return replace(result_of(name, node, weighted=planner.changes(node)), stage=draft.id)


def _late_groups(planner: Planner, name: str, node: GroupAggregate) -> LateRows | None:
    """The rows that come too late for groups of windows."""
    if node.expiry is None:
        return None
    read = columns_of(node.key_expressions[node.expiry.position])
    end = next(f for f in node.input.fields if f.id in read)
    return planner.late_rows(name, node.input, end, node.expiry.time, node.expiry.lateness_us)


def _computed(planner: Planner, name: str, blocks: list[Block], wanted: Sequence[str]) -> list[Block]:
    """The rows of some blocks as one relation a stage, which several fragments then read."""
    made = []
    for stage, here in by_stage(blocks).items():
        weighted = any(WEIGHT_COLUMN in b.columns for b in here)
        times = {id_: _times(here, id_) for id_ in wanted}
        texts = []
        for n, b in enumerate(here):
            items = [(sql(columns[n]), id_) for id_, (columns, _) in times.items()] or [("1", "__one")]
            texts.append(b.select([*items, *([(sql(weight(b)), WEIGHT_COLUMN)] if weighted else [])]))
        step = FragmentStep(planner.stages.name(f"{name}.rows"), "\nUNION ALL\n".join(texts), reads_of(here))
        planner.stages[stage].steps.append(step)
        columns: dict[str, exp.Expr] = {
            id_: column(id_) if layout is None else text_of(column(id_), layout)
            for id_, (_, layout) in times.items()
        }
        if weighted:
            columns[WEIGHT_COLUMN] = column(WEIGHT_COLUMN)
        made.append(Block(stage, quote_identifier(step.name), (step.name,), columns))
    return made


def _times(blocks: Sequence[Block], id_: str) -> tuple[list[exp.Expr], exp.Literal | None]:
    """A column in each of some blocks: where all show a time in one format, the times and the format."""
    columns = [b.columns[id_] for b in blocks]
    found = [time_of(e) for e in columns]
    layout = found[0][1]
    if layout is None or any(other != layout for _, other in found):
        return columns, None
    return [time for time, _ in found], layout


def with_key_columns(node: GroupAggregate) -> GroupAggregate:
    """The same aggregate with keys that are computed by a projection below it, once for all that reads them."""
    fields, expressions, chosen = list(node.input.fields), [], []
    for f, e in zip(node.keys, node.key_expressions, strict=True):
        if isinstance(e.unnest(), exp.Column):
            chosen.append(e)
            continue
        made = Field(f"{f.id}.key", f.name, f.type, f.nullable)
        fields.append(made)
        expressions.append(e)
        chosen.append(column(made.id))
    if not expressions:
        return node
    below = Project(node.input, tuple(fields), (*(column(f.id) for f in node.input.fields), *expressions))
    return replace(node, input=below, key_expressions=tuple(chosen))


def _columns_read(node: GroupAggregate) -> list[str]:
    """The ids of the columns of its input that an aggregate reads, in the input's order."""
    read = set().union(*(columns_of(e) for e in node.expressions()))
    return [f.id for f in node.input.fields if f.id in read]


def _with_slices(shipment: Shipment, end: str) -> Shipment:
    """The same with the window's end as a slice as well, by which late rows are taken out."""
    slices = f"epoch_us({quote_identifier(end)}) AS {quote_identifier(SLICE_COLUMN)}"

    def text(blocks: Sequence[Block]) -> str:
        inner = shipment.text(blocks).replace("\n", "\n  ")
        return f"SELECT *, {slices}\nFROM (\n  {inner}\n) AS t"

    return replace(shipment, text=text)


def plan_group(meanings: Meanings, node: GroupAggregate, *, retracting: bool) -> GroupPlan:
    """Decompose a group aggregate; `retracting` says that its input is updating."""
    if not node.fields:
        raise InternalError("a group aggregate without any column")
    inside = meanings.columns(node.input)
    names = Names(_RESERVED, {"count": "row_count"})
    grouping = Grouping.of(node.keys, node.key_expressions, node.sets, node.grouping, inside, names)
    calls = [replace(c, distinct=c.distinct and not function_of(c).distinct_is_noop) for c in node.calls]
    # An expiring group's values must go with it, and distinct values of their own operator would not.
    apart = [c for c in calls if c.distinct and node.expiry is None and counts_distinct(c)]
    rest = [c for c in calls if c not in apart]
    summed = [c for c in rest if not c.distinct and _is_decomposed(c, retracting=retracting)]
    valued = [c for c in rest if c not in summed]

    def accumulators_of(call: AggregateCall) -> Decomposition:
        return _decomposed(call, None, retracting=retracting)

    rows = AggregateCall(Field("count", "count", BIGINT), COUNT.name, (), ())
    exists = [rows] if retracting or not (grouping.keys or summed) else []
    kept, finals = keep([*exists, *summed], accumulators_of, inside, names)
    drafts, distinct_finals = plan_distinct(apart, inside, names)
    multisets, multiset_finals = plan_multisets(valued, inside, names)
    finals = {**finals, **distinct_finals, **multiset_finals}

    merges = {k.name: k.merge for k in kept}
    fields = [k.stored for k in kept]
    for accumulator in (a for d in drafts for a in d.accumulators):
        merges[accumulator.name] = accumulator.merge
        fields.append(accumulator.stored)
    counts = {k.name for k in kept if k.accumulator.counts}
    counts |= {a.name for d in drafts for a in d.accumulators if a.accumulator.counts}
    layout: Layout = "time" if node.expiry is not None else "key"
    key = tuple(k.stored for k in grouping.keys)
    rows_of = meanings.relation(node.meaning)
    identity = StateIdentity(
        "groups",
        rows_of,
        tuple(k.meaning for k in grouping.keys),
        _attributes(node, grouping, inside, retracting=retracting),
        (StoredTable("acc", layout, key, value=tuple(fields)), *(c.table(layout, key) for c in multisets)),
    )
    state = identity.schema(GroupAggregateSpec.kind, _describe(node))
    acc = state.tables[0]
    accumulators = tuple(Column(f.name, f.type) for f in acc.value)
    keys = tuple(Column(f.name, f.type) for f in acc.key)
    presence = next((k.name for k in kept if k.call is rows), None) if retracting else None
    distinct = tuple(d.plan(grouping, rows_of, key, accumulators, retracting=retracting) for d in drafts)
    spec = GroupAggregateSpec(
        state=state,
        keys=keys,
        accumulators=accumulators,
        merge=tuple(merges[c.name] for c in accumulators),
        emit=_emit(node, grouping, finals),
        output=tuple(Column(f.id, f.type, f.nullable) for f in node.fields),
        presence=presence,
        seed=_seed(node, keys, accumulators, counts),
        multisets=tuple(c.spec for c in multisets),
        expiry=_expiry(node, grouping),
    )
    return GroupPlan(
        node=node,
        spec=spec,
        distinct=distinct,
        partial_schema=(*keys, *accumulators),
        multiset_schemas=tuple(c.input_schema(keys) for c in multisets),
        grouping=grouping,
        retracting=retracting,
        kept=kept,
        multisets=multisets,
    )


def _attributes(
    node: GroupAggregate, grouping: Grouping, inside: Columns, *, retracting: bool
) -> dict[str, Data]:
    """What is compared of two such states besides the rows and keys."""
    expiry = node.expiry
    return {
        "rows can go": retracting,
        "time to live": node.ttl_us,
        "expires": form_over(node.key_expressions[expiry.position], inside) if expiry is not None else None,
        "lateness": expiry.lateness_us if expiry is not None else None,
        "grouping sets": grouping.set_forms,
    }


def _decomposed(call: AggregateCall, weight: str | None, *, retracting: bool) -> Decomposition:
    made = function_of(call).decomposed(call, weight, retracting=retracting)
    if made is None:
        raise InternalError(f"{call.name} is no accumulator")
    return made


def _is_decomposed(call: AggregateCall, *, retracting: bool) -> bool:
    return function_of(call).decomposed(call, None, retracting=retracting) is not None


def _emit(node: GroupAggregate, grouping: Grouping, finals: dict[str, str]) -> str:
    items = [(quote_identifier(name), f.id) for name, f in zip(grouping.names, grouping.fields, strict=True)]
    if node.grouping is not None:
        items.append((quote_identifier(GROUPING), node.grouping.id))
    items += [(f"CAST({finals[c.field.id]} AS {c.field.type})", c.field.id) for c in node.calls]
    listed = ", ".join(f"{text} AS {quote_identifier(name)}" for text, name in items)
    return f"SELECT {listed} FROM merged"


def _seed(node: GroupAggregate, keys: Schema, accumulators: Schema, counts: set[str]) -> str | None:
    """The grand total, which SQL gives even over no rows: counts are 0, the rest NULL."""
    if () not in node.sets:
        return None
    items = []
    for c in keys:
        # GROUPING has a bit for each key that is not in the set, here all of them.
        value = str(2 ** len(node.keys) - 1) if c.name == GROUPING else "NULL"
        items.append((value, c))
    items += [("0" if c.name in counts else "NULL", c) for c in accumulators]
    listed = ", ".join(f"CAST({value} AS {c.type}) AS {quote_identifier(c.name)}" for value, c in items)
    return f"SELECT {listed}"


def _expiry(node: GroupAggregate, grouping: Grouping) -> ExpirySpec | None:
    if node.expiry is None:
        return None
    position = node.expiry.position
    if any(position not in chosen for chosen in node.sets):
        raise InternalError("a grouping set without the key that groups expire by")
    return ExpirySpec(
        column=grouping.names[position],
        watermark_sources=node.expiry.time.sources,
        tick_us=node.expiry.time.closes_us,
        lateness_us=node.expiry.lateness_us,
    )


def _describe(node: GroupAggregate) -> str:
    calls = ", ".join(c.field.name for c in node.calls)
    keys = ", ".join(f.name for f in node.keys) or "no keys"
    return f"groups by {keys}: {calls or 'no aggregates'}"


def explain_group_aggregate(name: str, spec: GroupAggregateSpec) -> list[str]:
    """The lines of the operator's step."""
    lines = [f"  {name} = merge, kept up to date, state {spec.state.state_id}"]
    lines.append(f"    keys {columns_text(spec.keys) or 'none'}")
    for c, merge in zip(spec.accumulators, spec.merge, strict=True):
        mark = ", the group's rows" if c.name == spec.presence else ""
        lines.append(f"    {c.name} {c.type} = {merge}{mark}")
    for multiset in spec.multisets:
        read = {"first": "the first is read", "last": "the last is read", "all": "all are read"}[
            multiset.pick
        ]
        lines.append(f"    multiset of {columns_text(multiset.values)}, {read}")
        for c, text in zip(multiset.columns, multiset.aggregates, strict=True):
            lines.append(f"      {c.name} {c.type} = {text}")
    if spec.expiry is not None:
        late = f", {duration(spec.expiry.lateness_us)} late" if spec.expiry.lateness_us else ""
        lines.append(f"    groups go when the watermark passes {spec.expiry.column}{late}")
    return [*lines, one_line("for each group that changed", spec.emit)]


def _bounds(spec: GroupAggregateSpec) -> str:
    return grows(spec) if spec.expiry is None else closes(spec)


OPERATOR = PlannedOperator(
    GroupAggregate,
    plan_group_aggregate,
    {
        GroupAggregateSpec: Explained(explain_group_aggregate, _bounds),
        DistinctValuesSpec: DISTINCT_VALUES,
    },
)
