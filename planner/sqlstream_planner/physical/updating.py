"""Stages of the operators whose results change: group aggregates, Top-N, normalised changelogs, first rows, gates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from sqlglot import exp

from sqlstream_operators.plan.changelog_spec import WindowTopNSpec
from sqlstream_operators.plan.spec import (
    SLICE_COLUMN,
    WEIGHT_COLUMN,
    FragmentStep,
    OperatorSpec,
    OperatorStep,
)
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.block import Block, hidden, weight
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.fingerprint import Provenance
from sqlstream_planner.logical import (
    EventTime,
    Field,
    GroupAggregate,
    KeepFirst,
    Node,
    Normalize,
    Project,
    TopN,
    WindowGate,
    column,
    columns_of,
    sql,
    walk,
)
from sqlstream_planner.operator_plans.distinct_values import DistinctPlan
from sqlstream_planner.operator_plans.gate_plan import plan_gate
from sqlstream_planner.operator_plans.group_plan import plan_group
from sqlstream_planner.operator_plans.time_keys import text_of, time_of
from sqlstream_planner.operator_plans.top_plan import RowsPlan, plan_keep_first, plan_normalize, plan_top
from sqlstream_planner.physical.late_rows import LateRows
from sqlstream_planner.physical.places import BlocksOf, by_place, each, reads_of, result_of
from sqlstream_planner.physical.stages import Shipment, Stages
from sqlstream_planner.physical.states import States
from sqlstream_planner.properties import changes

UpdatingNode: TypeAlias = GroupAggregate | WindowGate | TopN | Normalize | KeepFirst


class UpdatingOperators:
    """Plans each such operator once, also where two nodes mean the same."""

    def __init__(self, stages: Stages, states: States, provenance: Provenance, blocks_of: BlocksOf) -> None:
        self._stages = stages
        self._states = states
        self._provenance = provenance
        self._blocks_of = blocks_of
        self._blocks: dict[int, Block] = {}
        self._planned: dict[tuple[object, ...], list[UpdatingNode]] = {}

    def block(self, node: UpdatingNode) -> Block:
        """Where an operator's result is; its stage is made when it is first asked for."""
        if id(node) in self._blocks:
            return self._blocks[id(node)]
        meaning = (type(node).__name__, self._provenance.relation(node), self._times_to_live(node))
        meanings = self._provenance.columns(node)
        for known in self._planned.get(meaning, []):
            outputs = {m: id_ for id_, m in self._provenance.columns(known).items()}
            if all(meanings[f.id] in outputs for f in node.fields):
                block = self._blocks[id(known)]
                columns = {f.id: block.columns[outputs[meanings[f.id]]] for f in node.fields}
                self._blocks[id(node)] = replace(block, columns={**columns, **hidden(block)})
                return self._blocks[id(node)]
        self._blocks[id(node)] = self._plan(node)
        self._planned.setdefault(meaning, []).append(node)
        return self._blocks[id(node)]

    def _plan(self, node: UpdatingNode) -> Block:
        match node:
            case GroupAggregate():
                return self._group(node)
            case WindowGate():
                return self._gate(node)
            case TopN():
                return self._top(node)
            case Normalize():
                return self._rows(node, plan_normalize(node, self._provenance), weighted=True)
            case KeepFirst():
                return self._rows(node, plan_keep_first(node, self._provenance), weighted=False)

    def _times_to_live(self, node: Node) -> frozenset[tuple[str, str, int]]:
        """The operators at and below a node that forget, which no fingerprint says, and when they do."""
        found = []
        for below in walk((node,)):
            ttl_us = getattr(below, "ttl_us", None)
            if ttl_us is not None:
                found.append((type(below).__name__, self._provenance.relation(below), ttl_us))
        return frozenset(found)

    # ---------------------------------------------------------------------------------- group aggregates

    def _group(self, node: GroupAggregate) -> Block:
        expiry = node.expiry
        over = with_key_columns(node) if expiry is None else node
        plan = plan_group(over, self._provenance, retracting=changes(node.input))
        plan = self._states.disambiguated(plan)
        spec = self._states.keep(plan.spec, node.ttl_us)
        name = self._stages.name("group_aggregate")
        blocks = self._blocks_of(over.input, timeless=expiry is not None and expiry.time.direct)
        if expiry is None and (plan.distinct or plan.counted):
            blocks = self._computed(name, blocks, columns_read(over))
        distinct = [
            self._distinct(f"{name}.distinct_{n}", d, blocks, node.ttl_us)
            for n, d in enumerate(plan.distinct, 1)
        ]
        draft = self._stages.behind(name, [*blocks, *distinct])
        keys = tuple(c.name for c in spec.keys)
        given = [(quote_identifier(c.name), c.name) for c in plan.partial_schema]
        shipped = [
            Shipment(f"{name}.in", each(plan.partial_sql), plan.partial_schema),
            *(
                Shipment(
                    f"{name}.{c.name}", each(partial(plan.counted_sql, position=n)), plan.counted_schemas[n]
                )
                for n, c in enumerate(spec.multisets)
            ),
        ]
        late = self._late_groups(name, node)
        if late is not None and spec.expiry is not None:
            shipped = [_with_slices(s, spec.expiry.column) for s in shipped]
        inputs = self._stages.ship(blocks, shipped, keys, late)
        for block in distinct:
            accumulators = each(lambda b: b.select(given))
            self._stages.ship([block], [replace(shipped[0], text=accumulators)], keys)
        draft.run(name, spec, inputs)
        return result_of(name, node, weighted=changes(node))

    def _late_groups(self, name: str, node: GroupAggregate) -> LateRows | None:
        """The rows that come too late for groups of windows."""
        if node.expiry is None:
            return None
        [read] = [
            columns_of(e)
            for f, e in zip(node.keys, node.key_expressions, strict=True)
            if f.id == node.expiry.column
        ]
        end = next(f for f in node.input.fields if f.id in read)
        return self._late_rows(name, node.input, end, node.expiry.time, node.expiry.lateness_us)

    def _computed(self, name: str, blocks: list[Block], wanted: Sequence[str]) -> list[Block]:
        """The rows of some blocks as one relation a stage, which several fragments then read."""
        made = []
        for place, here in by_place(blocks).items():
            weighted = any(WEIGHT_COLUMN in b.columns for b in here)
            times = {id_: _times(here, id_) for id_ in wanted}
            texts = []
            for n, b in enumerate(here):
                items = [(sql(columns[n]), id_) for id_, (columns, _) in times.items()] or [("1", "__one")]
                texts.append(b.select([*items, *([(sql(weight(b)), WEIGHT_COLUMN)] if weighted else [])]))
            step = FragmentStep(
                self._stages.name(f"{name}.rows"), "\nUNION ALL\n".join(texts), reads_of(here)
            )
            self._stages[place].steps.append(step)
            columns: dict[str, exp.Expr] = {
                id_: column(id_) if layout is None else text_of(column(id_), layout)
                for id_, (_, layout) in times.items()
            }
            if weighted:
                columns[WEIGHT_COLUMN] = column(WEIGHT_COLUMN)
            made.append(Block(place, quote_identifier(step.name), (step.name,), columns))
        return made

    def _distinct(self, name: str, plan: DistinctPlan, blocks: list[Block], ttl_us: int | None) -> Block:
        spec = self._states.keep(plan.spec, ttl_us)
        draft = self._stages.behind(name, blocks)
        keys = tuple(f.name for f in spec.state.table("seen").key)
        shipment = Shipment(f"{name}.in", each(plan.partial_sql), plan.input_schema)
        draft.run(name, spec, self._stages.ship(blocks, [shipment], keys))
        columns: dict[str, exp.Expr] = {c.name: column(c.name) for c in spec.output}
        return Block(name, quote_identifier(name), (name,), columns)

    def _gate(self, node: WindowGate) -> Block:
        """Runs where its groups are, by whose keys its state is."""
        groups = self.block(node.input)
        spec = plan_gate(node, groups, self._provenance)
        spec = replace(spec, state=self._states.add(spec.state))
        name = self._stages.name(spec.kind)
        self._stages[groups.place].steps.append(OperatorStep(name, spec, groups.reads))
        columns: dict[str, exp.Expr] = {f.id: groups.columns[f.id] for f in node.fields}
        if changes(node):
            columns |= hidden(groups)
        return Block(groups.place, quote_identifier(name), (name,), columns)

    # ------------------------------------------------------------------------------- operators over rows

    def _top(self, node: TopN) -> Block:
        plan = plan_top(node, self._provenance, retracting=changes(node.input))
        if isinstance(plan.spec, WindowTopNSpec):
            spec: OperatorSpec = replace(plan.spec, state=self._states.add(plan.spec.state))
        else:
            spec = self._states.keep(plan.spec, node.ttl_us)
        name = self._stages.name(spec.kind)
        late, timeless = None, False
        if node.window_end is not None and node.time is not None:
            end = next(f for f in node.input.fields if f.id == node.window_end)
            timeless = node.time.direct
            late = self._late_rows(name, node.input, end, node.time)
        blocks = self._blocks_of(node.input, timeless=timeless)
        return self._over_rows(name, node, plan, spec, blocks, weighted=changes(node), late=late)

    def _rows(self, node: Normalize | KeepFirst, plan: RowsPlan, *, weighted: bool) -> Block:
        if isinstance(plan.spec, WindowTopNSpec):
            raise InternalError("a window's Top-N is planned with its window")
        spec = self._states.keep(plan.spec, node.ttl_us)
        name = self._stages.name(spec.kind)
        return self._over_rows(name, node, plan, spec, self._blocks_of(node.input), weighted=weighted)

    def _over_rows(
        self,
        name: str,
        node: TopN | Normalize | KeepFirst,
        plan: RowsPlan,
        spec: OperatorSpec,
        blocks: list[Block],
        *,
        weighted: bool,
        late: LateRows | None = None,
    ) -> Block:
        draft = self._stages.behind(name, blocks)
        keys = tuple(f.name for f in spec.state.tables[0].key)
        shipment = Shipment(f"{name}.in", each(plan.partial_sql), plan.input_schema)
        draft.run(name, spec, self._stages.ship(blocks, [shipment], keys, late))
        return result_of(name, node, weighted=weighted)

    def _late_rows(
        self, name: str, input_: Node, end: Field, time: EventTime, lateness_us: int = 0
    ) -> LateRows | None:
        """The rows of an operator's input whose window is closed; `end` is its column with the window's end."""
        if end.window is None or not time.direct:
            return None
        # The column with a row's own event time tells how late it is.
        event_time = next((f.id for f in input_.fields if f.time is not None and f.window is None), None)
        return LateRows(
            operator=name,
            window=replace(end.window.window, shared_slices=False),
            slice_column=end.id,
            time_column=event_time,
            time=time,
            rows=by_place(self._blocks_of(input_, rows=True, timeless=True)),
            lateness_us=lateness_us,
        )


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


def _times(blocks: Sequence[Block], id_: str) -> tuple[list[exp.Expr], exp.Literal | None]:
    """A column in each of some blocks: where all show a time in one format, the times and the format."""
    columns = [b.columns[id_] for b in blocks]
    found = [time_of(e) for e in columns]
    layout = found[0][1]
    if layout is None or any(other != layout for _, other in found):
        return columns, None
    return [time for time, _ in found], layout


def columns_read(node: GroupAggregate) -> list[str]:
    """The ids of the columns of its input that an aggregate reads, in the input's order."""
    expressions = [*node.key_expressions]
    for call in node.calls:
        expressions += [*call.arguments, *(e for e, _, _ in call.order_by)]
        expressions += [call.filter] if call.filter is not None else []
    read = set().union(*(columns_of(e) for e in expressions)) if expressions else set()
    return [f.id for f in node.input.fields if f.id in read]


def _with_slices(shipment: Shipment, end: str) -> Shipment:
    """The same with the window's end as a slice as well, by which late rows are taken out."""
    slices = f"epoch_us({quote_identifier(end)}) AS {quote_identifier(SLICE_COLUMN)}"

    def text(blocks: Sequence[Block]) -> str:
        inner = shipment.text(blocks).replace("\n", "\n  ")
        return f"SELECT *, {slices}\nFROM (\n  {inner}\n) AS t"

    return replace(shipment, text=text)
