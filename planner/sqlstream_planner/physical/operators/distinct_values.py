"""COUNT(DISTINCT x), SUM(DISTINCT x), AVG(DISTINCT x): which values are counted, and what they add to a group.

All of them over the same x share one operator that knows each value once, with a flag for each FILTER; it emits
how the group's count and sum of distinct values change as values are inserted and retracted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.distinct_values_spec import DistinctValuesSpec
from sqlstream_operators.plan.schema import Column, Schema
from sqlstream_operators.plan.types import BIGINT, INTEGER, Kind, SqlType, quote_identifier
from sqlstream_planner.aggregates.function import Accumulator, Decomposition
from sqlstream_planner.aggregates.parts import row_count
from sqlstream_planner.aggregates.registry import function_of, values_of
from sqlstream_planner.identity.form import Form, form, sort_forms
from sqlstream_planner.identity.parts import Columns, form_over
from sqlstream_planner.identity.state import StateIdentity, Stored, StoredTable
from sqlstream_planner.logical import AggregateCall, column, sql
from sqlstream_planner.physical.block import Block
from sqlstream_planner.physical.by_stage import each
from sqlstream_planner.physical.grouping import Grouping, Names, column_hint
from sqlstream_planner.physical.operators.explained import columns_text, one_line
from sqlstream_planner.physical.operators.planned_operator import Explained, grows
from sqlstream_planner.physical.planner import Planner
from sqlstream_planner.physical.stages import Shipment
from sqlstream_planner.physical.state_node import StateNode, clause_of
from sqlstream_planner.physical.weights import weight_of
from sqlstream_planner.streaming import GroupAggregate


@dataclass(frozen=True, slots=True)
class DistinctAccumulator:
    """An accumulator of the group aggregate that one of the distinct values' operators feeds.

    `partial` is an aggregate over its relation `changed`.
    """

    name: str
    meaning: Form
    partial: str
    accumulator: Accumulator

    @property
    def stored(self) -> Stored:
        """The accumulator as a field of the group aggregate's state."""
        return Stored(self.name, self.accumulator.type, self.meaning)

    @property
    def merge(self) -> str:
        """The expression that merges several of it."""
        return self.accumulator.merge.format(f=quote_identifier(self.name))


@dataclass(frozen=True, slots=True)
class DistinctPlan:
    """One operator that counts values: its spec, what it reads, and the SQL of that."""

    spec: DistinctValuesSpec
    input_schema: Schema
    grouping: Grouping
    values: tuple[exp.Expr, ...]
    flags: tuple[exp.Expr | None, ...]

    @property
    def exchange_keys(self) -> tuple[str, ...]:
        """The columns that its input is sharded by, in the order of its state: keys and values mixed."""
        return tuple(f.name for f in self.spec.state.tables[0].key)

    def partial_sql(self, block: Block) -> str:
        """Keys, values, and for each flag how many rows came, less those that went, in one block."""
        conditions: list[exp.Expr] = [
            exp.Not(this=exp.Is(this=exp.paren(block.expression(v)), expression=exp.Null()))
            for v in self.values
        ]
        filters = [f for f in self.flags if f is not None]
        if len(filters) == len(self.flags):
            conditions.append(exp.paren(exp.or_(*(block.expression(f) for f in filters))))
        rows = replace(block, where=(*block.where, *conditions))
        values = [
            (f"CAST({sql(block.expression(v))} AS {c.type})", c.name)
            for v, c in zip(self.values, self.spec.values, strict=True)
        ]
        grouped, items, group_by = self.grouping.grouped(rows, (), values)
        weight = weight_of(grouped)
        counts = [
            row_count(weight, *([f"({sql(grouped.expression(f))})"] if f is not None else []))
            for f in self.flags
        ]
        having = f"\nHAVING {' OR '.join(f'{c} <> 0' for c in counts)}" if weight is not None else ""
        items += list(zip(counts, self.spec.flags, strict=True))
        return grouped.select(items, group_by=f"{group_by}{having}")


@dataclass(frozen=True, slots=True)
class DistinctDraft:
    """Calls over the same distinct values, before the group aggregate's accumulators are all known."""

    values: tuple[tuple[Stored, exp.Expr], ...]
    flags: tuple[tuple[str, Form, exp.Expr | None], ...]  # (name, meaning, condition)
    accumulators: tuple[DistinctAccumulator, ...]

    def plan(
        self,
        grouping: Grouping,
        rows: Form,
        keys: Sequence[Stored],
        accumulators: Schema,
        *,
        retracting: bool,
    ) -> DistinctPlan:
        """The operator that counts the values in each group of `rows`."""
        value_fields = [Stored(s.name, s.type, form("distinct value", s.meaning)) for s, _ in self.values]
        # Over append-only rows a flag is 0 or 1.
        flag_fields = [
            Stored(n, BIGINT if retracting else SqlType(Kind.UTINYINT), f) for n, f, _ in self.flags
        ]
        identity = StateIdentity(
            "distinct values",
            rows,
            tuple(s.meaning for s in (*keys, *value_fields)),
            {"rows can go": retracting},
            (StoredTable("seen", "key", (*keys, *value_fields), (), tuple(flag_fields)),),
        )
        described = f"distinct {', '.join(sql(e) for _, e in self.values)}"
        key_schema = tuple(Column(k.name, k.type) for k in keys)
        values = tuple(Column(s.name, s.type) for s, _ in self.values)
        flags = tuple(n for n, _, _ in self.flags)
        mine = {a.name: a.partial for a in self.accumulators}
        items = [quote_identifier(c.name) for c in key_schema]
        items += [
            f"CAST({mine.get(c.name, 'NULL')} AS {c.type}) AS {quote_identifier(c.name)}"
            for c in accumulators
        ]
        # Without keys an aggregate over no rows at all would be a row.
        positions = ", ".join(str(i + 1) for i in range(len(key_schema)))
        grouped = f"GROUP BY {positions}" if key_schema else "HAVING count(*) > 0"
        spec = DistinctValuesSpec(
            state=identity.schema(DistinctValuesSpec.kind, described),
            keys=key_schema,
            values=values,
            flags=flags,
            retracting=retracting,
            emit=f"SELECT {', '.join(items)} FROM changed {grouped}",
            output=(*key_schema, *accumulators),
        )
        return DistinctPlan(
            spec,
            (*key_schema, *values, *(Column(n, BIGINT) for n in flags)),
            grouping,
            tuple(e for _, e in self.values),
            tuple(condition for _, _, condition in self.flags),
        )


def counts_distinct(call: AggregateCall) -> bool:
    """Whether a DISTINCT call is a sum over the values that came or went."""
    return _over_changes(call) is not None


def _over_changes(call: AggregateCall) -> Decomposition | None:
    over_changes = function_of(call).over_changes
    return over_changes(call) if over_changes is not None else None


def plan_distinct(
    calls: Sequence[AggregateCall], inside: Columns, names: Names
) -> tuple[tuple[DistinctDraft, ...], dict[str, str]]:
    """The operators that `calls` need, and the calls' values by field id, over the merged accumulators."""
    groups: dict[Form, list[AggregateCall]] = {}
    for call in calls:
        values = form("values", *sort_forms({form_over(a, inside) for a, _ in values_of(call)}))
        groups.setdefault(values, []).append(call)
    drafts, finals = [], {}
    for meaning in sort_forms(groups):
        draft, found = _draft(meaning, groups[meaning], inside, names)
        drafts.append(draft)
        finals.update(found)
    return tuple(drafts), finals


def _draft(
    meaning: Form, members: list[AggregateCall], inside: Columns, names: Names
) -> tuple[DistinctDraft, dict[str, str]]:
    first = members[0]
    by_form = {form_over(a, inside): (a, INTEGER if t.kind is Kind.NULL else t) for a, t in values_of(first)}
    values = tuple(
        (Stored(names.take(f"value_{column_hint(by_form[f][0])}"), by_form[f][1], f), by_form[f][0])
        for f in sort_forms(by_form)
    )
    hint = "_".join(column_hint(e) for _, e in values)[:24]
    flags: dict[Form | None, tuple[str, Form, exp.Expr | None]] = {}
    accumulators: dict[Form, DistinctAccumulator] = {}
    finals = {}

    def kept(accumulator: Accumulator, where: Form | None, change: str) -> str:
        of = form("accumulator", accumulator.meaning, str(accumulator.type), "distinct", meaning, where)
        if of not in accumulators:
            name = names.take(f"distinct_{accumulator.meaning}_{hint}")
            partial = accumulator.partial.format(x=quote_identifier(values[0][0].name), change=change)
            accumulators[of] = DistinctAccumulator(name, of, partial, accumulator)
        return quote_identifier(accumulators[of].name)

    for call in members:
        where = form_over(call.filter, inside) if call.filter is not None else None
        if where not in flags:
            name = names.take("rows" if call.filter is None else "passes")
            flags[where] = (name, form("rows", where), call.filter)
        flag = flags[where][0]
        after, before = (
            f"CAST({quote_identifier(f'{flag}.{when}')} IS TRUE AS INTEGER)" for when in ("after", "before")
        )
        change = f"({after} - {before})"
        made = _over_changes(call)
        if made is None:
            raise InternalError(f"{call.name}(DISTINCT …) is no sum over changes")
        finals[call.field.id] = made.final.format(*(kept(a, where, change) for a in made.accumulators))
    draft = DistinctDraft(
        values,
        tuple(sorted(flags.values(), key=lambda flag: flag[1].digest)),
        tuple(accumulators[f] for f in sort_forms(accumulators)),
    )
    return draft, finals


def plan_distinct_values(
    planner: Planner, name: str, plan: DistinctPlan, blocks: list[Block], node: GroupAggregate
) -> Block:
    """The stage of one such operator; its result is accumulators for the group aggregate."""
    spec = planner.states.keep(plan.spec, node.ttl_us, planner.ttls(node))
    planner.state_nodes[spec.state.state_id] = StateNode(
        node,
        planner.meanings,
        {k.name: k.expression for k in plan.grouping.keys}
        | {c.name: v for c, v in zip(spec.values, plan.values, strict=True)},
        {"seen": {n: e for n, e in zip(spec.flags, plan.flags, strict=True) if e is not None}},
        at=clause_of(node.meaning),
    )
    draft = planner.stages.behind(name, blocks)
    keys = tuple(f.name for f in spec.state.table("seen").key)
    shipment = Shipment(f"{name}.in", each(plan.partial_sql), plan.input_schema)
    draft.run(name, spec, planner.stages.ship(blocks, [shipment], keys))
    columns: dict[str, exp.Expr] = {c.name: column(c.name) for c in spec.output}
    return Block(name, quote_identifier(name), (name,), columns)


def explain_distinct_values(name: str, spec: DistinctValuesSpec) -> list[str]:
    """The lines of the operator's step."""
    counted = "counted" if spec.retracting else "seen once"
    return [
        f"  {name} = values that come or go, {counted}, state {spec.state.state_id}",
        f"    keys {columns_text(spec.keys) or 'none'}",
        f"    values {columns_text(spec.values)} with {', '.join(spec.flags)}",
        one_line("for each change", spec.emit),
    ]


EXPLAINED = Explained(explain_distinct_values, grows)
