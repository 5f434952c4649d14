"""Stages of aggregates over windows, which give each window once: partial aggregates before the exchange."""

from __future__ import annotations

from functools import partial

from sqlglot import exp

from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.block import Block
from sqlstream_planner.fingerprint import Provenance
from sqlstream_planner.logical import WindowAggregate, column
from sqlstream_planner.operator_plans.window_aggregates import AggregatePlan, plan_aggregate
from sqlstream_planner.physical.late_rows import LateRows
from sqlstream_planner.physical.places import BlocksOf, by_place, each, result_of
from sqlstream_planner.physical.stages import Shipment, Stages
from sqlstream_planner.physical.states import States


class WindowAggregates:
    """Plans each window aggregate once; one with the same state gives its columns to all that ask for them."""

    def __init__(self, stages: Stages, states: States, provenance: Provenance, blocks_of: BlocksOf) -> None:
        self._stages = stages
        self._states = states
        self._provenance = provenance
        self._blocks_of = blocks_of
        self._blocks: dict[int, Block] = {}
        self._planned: list[tuple[AggregatePlan, str]] = []

    def block(self, node: WindowAggregate) -> Block:
        """Where an aggregate's result is; its stage is made when it is first asked for."""
        if id(node) not in self._blocks:
            plan = plan_aggregate(node, self._provenance)
            self._blocks[id(node)] = self._shared(node, plan) or self._plan(node, plan)
        return self._blocks[id(node)]

    def _shared(self, node: WindowAggregate, plan: AggregatePlan) -> Block | None:
        """The result of an operator that is there already and gives all that is asked for."""
        meanings = self._provenance.columns(node)
        for known, name in self._planned:
            if known.spec.state != plan.spec.state:
                continue
            outputs = {m: id_ for id_, m in self._provenance.columns(known.node).items()}
            if all(m in outputs for m in meanings.values()):
                columns: dict[str, exp.Expr] = {id_: column(outputs[m]) for id_, m in meanings.items()}
                return Block(name, quote_identifier(name), (name,), columns)
        return None

    def _plan(self, node: WindowAggregate, plan: AggregatePlan) -> Block:
        plan = self._states.disambiguated(plan)
        self._states.add(plan.spec.state)
        name = self._stages.name("window_aggregate")
        # Rows without a time are taken out with the late ones.
        blocks = self._blocks_of(node.input, timeless=node.time.direct)
        late = None
        if node.time.direct:
            late = LateRows(
                operator=name,
                window=node.window,
                slice_column=node.slice_column,
                time_column=node.time_column,
                time=node.time,
                rows=by_place(self._blocks_of(node.input, rows=True, timeless=True)),
                kept=f"{name}.kept",
            )
        draft = self._stages.behind(name, blocks)
        edges = [f"{name}.in", *(f"{name}.{d.name}" for d in plan.spec.distincts)]
        schemas = [plan.partial_schema, *plan.distinct_schemas]
        shipped = [
            Shipment(edge, each(partial(plan.partial_sql, position=position)), schema, f"{edge}.partial")
            for position, (edge, schema) in enumerate(zip(edges, schemas, strict=True))
        ]
        keys = tuple(c.name for c in plan.spec.keys)
        draft.run(name, plan.spec, self._stages.ship(blocks, shipped, keys, late))
        self._planned.append((plan, name))
        return result_of(name, node, weighted=False)
