"""COUNT(DISTINCT x), SUM(DISTINCT x), AVG(DISTINCT x): which values are counted, and what they add to a group.

All of them over the same x share one operator that knows each value once, with a flag for each FILTER; it emits
how the group's count and sum of distinct values change as values come and go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.changelog_spec import DistinctValuesSpec
from sqlstream_operators.plan.schema import Column, Schema
from sqlstream_operators.plan.state_schema import StateField, StateSchema, StateTable
from sqlstream_operators.plan.types import BIGINT, INTEGER, Kind, SqlType, quote_identifier
from sqlstream_planner.aggregates.function import Accumulator, Decomposition
from sqlstream_planner.aggregates.parts import row_count
from sqlstream_planner.aggregates.registry import function_of, values_of
from sqlstream_planner.block import Block
from sqlstream_planner.fingerprint import canonical, digest
from sqlstream_planner.logical import AggregateCall, sql
from sqlstream_planner.operator_plans.grouping import Grouping, Names, column_hint
from sqlstream_planner.operator_plans.weights import weight_of


@dataclass(frozen=True, slots=True)
class DistinctAccumulator:
    """An accumulator of the group aggregate that one of the distinct values' operators feeds.

    `partial` is an aggregate over its relation `changed`.
    """

    name: str
    fingerprint: str
    partial: str
    accumulator: Accumulator

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

    def with_state_of(self, state_id: str) -> DistinctPlan:
        """The same plan with a state id that belongs to the group aggregate with `state_id`."""
        values = " ; ".join(f.fingerprint for f in self.spec.state.tables[0].key)
        state = replace(self.spec.state, state_id=digest(f"{state_id} distinct {values}"))
        return replace(self, spec=replace(self.spec, state=state))


@dataclass(frozen=True, slots=True)
class DistinctDraft:
    """Calls over the same distinct values, before the group aggregate's accumulators are all known."""

    values: tuple[tuple[str, str, SqlType, exp.Expr], ...]  # (name, fingerprint, type, expression)
    flags: tuple[tuple[str, str, exp.Expr | None], ...]  # (name, fingerprint, condition)
    accumulators: tuple[DistinctAccumulator, ...]

    def plan(
        self, grouping: Grouping, keys: Sequence[StateField], accumulators: Schema, *, counted: bool
    ) -> DistinctPlan:
        """The operator; its state's id is set by `with_state_of`."""
        value_fields = [StateField(n, t, f"distinct value {f}") for n, f, t, _ in self.values]
        # Over rows that only come a flag is 0 or 1.
        flag_fields = [
            StateField(n, BIGINT if counted else SqlType(Kind.UTINYINT), f) for n, f, _ in self.flags
        ]
        table = StateTable.of("seen", "key", key=[*keys, *value_fields], value=flag_fields)
        described = f"distinct {', '.join(sql(e) for _, _, _, e in self.values)}"
        key_schema = tuple(Column(k.name, k.type) for k in keys)
        values = tuple(Column(n, t) for n, _, t, _ in self.values)
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
            state=StateSchema("unset", "distinct_values", described, (table,)),
            keys=key_schema,
            values=values,
            flags=flags,
            retracting=counted,
            emit=f"SELECT {', '.join(items)} FROM changed {grouped}",
            output=(*key_schema, *accumulators),
        )
        return DistinctPlan(
            spec,
            (*key_schema, *values, *(Column(n, BIGINT) for n in flags)),
            grouping,
            tuple(e for _, _, _, e in self.values),
            tuple(condition for _, _, condition in self.flags),
        )


def counts_distinct(call: AggregateCall) -> bool:
    """Whether a DISTINCT call is a sum over the values that came or went."""
    return _over_changes(call) is not None


def _over_changes(call: AggregateCall) -> Decomposition | None:
    over_changes = function_of(call).over_changes
    return over_changes(call) if over_changes is not None else None


def plan_distinct(
    calls: Sequence[AggregateCall], inside: dict[str, str], names: Names
) -> tuple[tuple[DistinctDraft, ...], dict[str, str]]:
    """The operators that `calls` need, and the calls' values by field id, over the merged accumulators."""
    groups: dict[str, list[AggregateCall]] = {}
    for call in calls:
        forms = sorted({canonical(a, inside) for a, _ in values_of(call)})
        groups.setdefault(" ; ".join(forms), []).append(call)
    drafts, finals = [], {}
    for identity, members in sorted(groups.items()):
        draft, values = _draft(identity, members, inside, names)
        drafts.append(draft)
        finals.update(values)
    return tuple(drafts), finals


def _draft(
    identity: str, members: list[AggregateCall], inside: dict[str, str], names: Names
) -> tuple[DistinctDraft, dict[str, str]]:
    first = members[0]
    by_form = {canonical(a, inside): (a, INTEGER if t.kind is Kind.NULL else t) for a, t in values_of(first)}
    values = tuple(
        (names.take(f"value_{column_hint(by_form[f][0])}"), f, by_form[f][1], by_form[f][0])
        for f in sorted(by_form)
    )
    hint = "_".join(column_hint(e) for _, _, _, e in values)[:24]
    flags: dict[str, tuple[str, str, exp.Expr | None]] = {}
    accumulators: dict[str, DistinctAccumulator] = {}
    finals = {}

    def kept(accumulator: Accumulator, where: str, change: str) -> str:
        fingerprint = f"distinct {accumulator.meaning} of {identity}{where}"
        if fingerprint not in accumulators:
            name = names.take(f"distinct_{accumulator.meaning}_{hint}")
            partial = accumulator.partial.format(x=quote_identifier(values[0][0]), change=change)
            accumulators[fingerprint] = DistinctAccumulator(name, fingerprint, partial, accumulator)
        return quote_identifier(accumulators[fingerprint].name)

    for call in members:
        where = f" where {canonical(call.filter, inside)}" if call.filter is not None else ""
        if where not in flags:
            name = names.take("rows" if call.filter is None else "passes")
            flags[where] = (name, f"rows{where}", call.filter)
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
        values, tuple(flags[w] for w in sorted(flags)), tuple(accumulators[f] for f in sorted(accumulators))
    )
    return draft, finals
