"""A group aggregate's operator specs, their state schemas, and the SQL of what the exchange brings them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.changelog_spec import ExpirySpec, GroupAggregateSpec
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.state_schema import Layout, StateField, StateSchema, StateTable
from sqlstream_operators.plan.types import BIGINT, quote_identifier
from sqlstream_planner.aggregates.count import COUNT
from sqlstream_planner.aggregates.function import Decomposition
from sqlstream_planner.aggregates.registry import function_of
from sqlstream_planner.block import Block
from sqlstream_planner.fingerprint import Provenance, digest
from sqlstream_planner.logical import AggregateCall, Field, GroupAggregate
from sqlstream_planner.operator_plans.counted_values import CountedPlan, plan_counted
from sqlstream_planner.operator_plans.distinct_values import DistinctPlan, counts_distinct, plan_distinct
from sqlstream_planner.operator_plans.grouping import GROUPING, Grouping, Kept, Names, keep, within
from sqlstream_planner.operator_plans.weights import weight_of

#: Columns of the operators' own, which no column of the state may be called.
_RESERVED = ("count", "time", "found", "merged", "changed", WEIGHT_COLUMN)


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What the physical planner needs of one group aggregate.

    `partial_schema` and `counted_schemas` are what the exchange ships to its operator, from blocks and (the
    former) from the operators of `distinct`, which have exchanges of their own.
    """

    node: GroupAggregate
    spec: GroupAggregateSpec
    distinct: tuple[DistinctPlan, ...]
    partial_schema: Schema
    counted_schemas: tuple[Schema, ...]
    distinguishing_state_id: str
    grouping: Grouping
    retracting: bool
    kept: tuple[Kept, ...]
    counted: tuple[CountedPlan, ...]

    def with_state_id(self, state_id: str) -> GroupPlan:
        """The same plan with its state under another id; the states of `distinct` follow it."""
        return replace(
            self,
            spec=replace(self.spec, state=replace(self.spec.state, state_id=state_id)),
            distinct=tuple(d.with_state_of(state_id) for d in self.distinct),
        )

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
        for column in self.spec.accumulators:
            items.append((partials.get(column.name, f"CAST(NULL AS {column.type})"), column.name))
        having = ""
        if self.retracting:
            # All accumulators are sums: a group whose changes cancel out is not worth a row.
            having = " OR ".join(f"{p} <> 0" for p in partials.values())
        elif () in self.grouping.sets:
            having = "count(*) > 0"  # the grand total of no rows is the seed's
        text = grouped.select(items, group_by=group_by)
        return f"{text}\nHAVING {having}" if having else text

    def counted_sql(self, block: Block, position: int) -> str:
        """Keys, values and weights of the counted multiset at `position` over one block."""
        return self.counted[position].partial_sql(block, self.grouping)


def plan_group(node: GroupAggregate, provenance: Provenance, *, retracting: bool) -> GroupPlan:
    """Decompose a group aggregate; `provenance` gives the fingerprints, `retracting` says that rows can go."""
    if not node.fields:
        raise InternalError("a group aggregate without any column")
    inside = provenance.columns(node.input)
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
    counted, counted_finals = plan_counted(valued, inside, names)
    finals = {**finals, **distinct_finals, **counted_finals}

    merges = {k.name: k.merge for k in kept}
    fields = [StateField(k.name, k.accumulator.type, k.fingerprint) for k in kept]
    for accumulator in (a for d in drafts for a in d.accumulators):
        merges[accumulator.name] = accumulator.merge
        fields.append(StateField(accumulator.name, accumulator.accumulator.type, accumulator.fingerprint))
    counts = {k.name for k in kept if k.accumulator.counts}
    counts |= {a.name for d in drafts for a in d.accumulators if a.accumulator.counts}
    layout: Layout = "time" if node.expiry is not None else "key"
    key = [StateField(k.name, k.field.type, k.fingerprint) for k in grouping.keys]
    acc = StateTable.of("acc", layout, key=key, value=fields)
    accumulators = tuple(Column(f.name, f.type) for f in acc.value)
    keys = tuple(Column(f.name, f.type) for f in acc.key)
    presence = next((k.name for k in kept if k.fingerprint == "count of "), None) if retracting else None
    relation = provenance.relation(node)
    tables = (acc, *(c.table(layout, acc.key) for c in counted))
    state = StateSchema(digest(relation), "group_aggregate", _describe(node), tables)
    distinct = tuple(d.plan(grouping, acc.key, accumulators, counted=retracting) for d in drafts)
    spec = GroupAggregateSpec(
        state=state,
        keys=keys,
        accumulators=accumulators,
        merge=tuple(merges[c.name] for c in accumulators),
        emit=_emit(node, grouping, finals),
        output=tuple(Column(f.id, f.type, f.nullable) for f in node.fields),
        presence=presence,
        seed=_seed(node, keys, accumulators, counts),
        multisets=tuple(c.spec for c in counted),
        expiry=_expiry(node, grouping),
    )
    content = repr([t.to_json() for t in tables]) + repr([d.spec.state.tables[0].to_json() for d in distinct])
    plan = GroupPlan(
        node=node,
        spec=spec,
        distinct=distinct,
        partial_schema=(*keys, *accumulators),
        counted_schemas=tuple(c.input_schema(keys) for c in counted),
        distinguishing_state_id=digest(relation + content),
        grouping=grouping,
        retracting=retracting,
        kept=kept,
        counted=counted,
    )
    return plan.with_state_id(state.state_id)


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
    for column in keys:
        # GROUPING has a bit for each key that is not in the set, here all of them.
        value = str(2 ** len(node.keys) - 1) if column.name == GROUPING else "NULL"
        items.append((value, column))
    items += [("0" if column.name in counts else "NULL", column) for column in accumulators]
    listed = ", ".join(f"CAST({value} AS {c.type}) AS {quote_identifier(c.name)}" for value, c in items)
    return f"SELECT {listed}"


def _expiry(node: GroupAggregate, grouping: Grouping) -> ExpirySpec | None:
    if node.expiry is None:
        return None
    position = next(i for i, f in enumerate(node.keys) if f.id == node.expiry.column)
    if any(position not in chosen for chosen in node.sets):
        raise InternalError("a grouping set without the key that groups expire by")
    return ExpirySpec(
        column=grouping.names[position],
        watermark_sources=node.expiry.time.sources,
        tick_us=node.expiry.time.tick_us,
        lateness_us=node.expiry.lateness_us,
    )


def _describe(node: GroupAggregate) -> str:
    calls = ", ".join(c.field.name for c in node.calls)
    keys = ", ".join(f.name for f in node.keys) or "no keys"
    return f"groups by {keys}: {calls or 'no aggregates'}"
