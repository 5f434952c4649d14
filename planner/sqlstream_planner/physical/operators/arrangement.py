"""Arrangement: the rows of a relation by a key, which are kept once for all joins that read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlstream_operators.plan.arranged_spec import ANSWER, ROWS, AnswerRows, ArrangeSpec
from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.spec import OperatorStep
from sqlstream_operators.plan.state_schema import StateSchema
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.identity.form import Data, Form, form
from sqlstream_planner.identity.state import StateIdentity
from sqlstream_planner.logical import Node, StreamingOperator, sql
from sqlstream_planner.physical.block import Block, stateless
from sqlstream_planner.physical.by_stage import each, result_of
from sqlstream_planner.physical.join_sides import Side
from sqlstream_planner.physical.operators.planned_operator import Explained, PlannedOperator, grows
from sqlstream_planner.physical.planner import Planner
from sqlstream_planner.physical.stages import Draft, Shipment
from sqlstream_planner.physical.state_node import StateNode, clause_of
from sqlstream_planner.streaming import Arrangement


def plan_arrangement(planner: Planner, node: Node) -> Block:
    """Keeps the rows by their keys, in one stage with all arrangements of its group: joins read several of them.

    Where an operator has the rows, that is what is read.
    """
    if not isinstance(node, Arrangement):
        raise InternalError(f"a {type(node).__name__} is no arrangement")
    for one in planner.arrangements[node.group]:
        if one.answered:
            planner.note(one, planner.result(one.kept_by))
    group = [one for one in planner.arrangements[node.group] if not one.answered]
    names = [planner.stages.name(ArrangeSpec.kind) for _ in group]
    inputs = [planner.blocks(one.input) for one in group]
    every = [block for blocks in inputs for block in blocks]
    for name, one, blocks in zip(names, group, inputs, strict=True):
        planner.note(one, _keep(planner, name, one, blocks, planner.stage_of(one, names[0], every)))
    return planner.result(node)


def _keep(planner: Planner, name: str, node: Arrangement, blocks: Sequence[Block], draft: Draft) -> Block:
    side = side_of(planner, node)
    values, types = side.keys, side.types
    schema = _identity(planner, node, side).schema(
        ArrangeSpec.kind, f"rows by {', '.join(sql(value) for value in values)}"
    )
    state = planner.states.add(schema, planner.ttls(node))
    keys = tuple(Column(key, type_, node.whole) for key, type_ in zip(side.key_names, types, strict=True))
    spec = ArrangeSpec(state, keys, side.spec, node.whole)
    planner.state_nodes[state.state_id] = StateNode(node, planner.meanings, {}, at=clause_of(node.meaning))
    hashed = tuple(field.name for field in state.tables[0].key)
    shipped = planner.stages.ship(blocks, [Shipment(f"{name}.rows", each(side.sql), side.shipped)], hashed)
    draft.inputs += shipped
    draft.steps.append(OperatorStep(name, spec, tuple(i.name for i in shipped)))
    return replace(result_of(name, node, weighted=False), stage=draft.id)


def side_of(planner: Planner, node: Arrangement) -> Side:
    """The rows of an arrangement as a side of the joins that read it."""
    values = tuple(key.expression.unnest() for key in node.keys)
    return Side.over(
        planner, node.input, ROWS, values, tuple(key.type for key in node.keys), whole=node.whole
    )


def answer_rows(planner: Planner, node: Arrangement, state: StateSchema) -> AnswerRows:
    """How the rows of an arrangement are made of the result that an operator keeps in `state`."""
    chain: list[Node] = []
    below = node.input
    while below is not node.kept_by:
        chain.append(below)
        [below] = below.inputs
    given = planner.result(below)
    blocks = [replace(given, source=quote_identifier(ANSWER), reads=(ANSWER,))]
    for one in reversed(chain):
        blocks = stateless(one, [blocks])
    [block] = blocks
    key = state.tables[0].key
    kept_by = below.answer_keys(planner.changes) if isinstance(below, StreamingOperator) else None
    kept = [kept_by[name] for name in node.answered] if kept_by is not None else []
    [source] = below.inputs
    if [f.fingerprint for f in key] != [planner.meanings.expression(e, source).digest for e in kept]:
        raise InternalError(f"{node.keys} are not the keys of {state.state_id} in its order")
    side = side_of(planner, node)
    # What is a key is given as a column too.
    every = replace(side.spec, keys=("",) * len(side.keys), counted=False)
    return AnswerRows(replace(side, spec=every).sql(block), tuple(f.name for f in key))


def _identity(planner: Planner, node: Arrangement, side: Side) -> StateIdentity:
    """What the state means: which rows, by what, and which columns of them."""
    by = arranged_by(planner, node)
    attributes: dict[str, Data] = {
        "payload": side.payload(),
        "rows can go": side.spec.retracting,
        "rows without a key": node.whole,
        # What is joined has the same order of its keys: it is not that of what they mean.
        "order of keys": by if len(by) > 1 else None,
    }
    rows = planner.meanings.relation(node.meaning)
    return StateIdentity("arranged rows", rows, by, attributes, (side.table(by, as_listed=len(by) > 1),))


def arranged_by(planner: Planner, node: Arrangement) -> tuple[Form, ...]:
    """What the keys mean."""
    return tuple(
        form("by", planner.meanings.expression(key.expression, node.input), str(key.type))
        for key in node.keys
    )


def explain_arrangement(name: str, spec: ArrangeSpec) -> list[str]:
    """The lines of the operator's step."""
    lines = [f"  {name} = rows kept for joins, state {spec.state.state_id}, all of them are kept"]
    for key, plain in zip(spec.keys, spec.rows.keys, strict=True):
        lines.append(f"    {key.name}: {plain or 'an expression'}")
    lines.append(f"    columns {', '.join(column.name for column in spec.rows.columns)}")
    if spec.whole:
        lines.append("    rows without a key are kept too")
    return lines


OPERATOR = PlannedOperator(
    Arrangement, plan_arrangement, {ArrangeSpec: Explained(explain_arrangement, grows)}
)
