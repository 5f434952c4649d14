"""How it is planned: `planner/sqlstream_planner/physical/operators/every_nth.py`."""

from __future__ import annotations

from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.types import BIGINT
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.identity.form import form
from sqlstream_planner.identity.state import StateIdentity, Stored, StoredTable
from sqlstream_planner.logical import Node, column
from sqlstream_planner.physical.block import Block
from sqlstream_planner.physical.operators.over_rows import (
    RowsInput,
    columns_of_rows,
    run_over_rows,
    stored_fields,
)
from sqlstream_planner.physical.operators.planned_operator import Explained, PlannedOperator, grows
from sqlstream_planner.physical.planner import Planner
from sqlstream_planner.physical.state_node import StateNode
from tests.planner.streaming.every_nth.node import EveryNth
from tests.planner.streaming.every_nth.spec import ROWS, TABLE, EveryNthSpec


def plan_every_nth(planner: Planner, node: Node) -> Block:
    """The stage that counts."""
    if not isinstance(node, EveryNth):
        raise InternalError(f"a {type(node).__name__} is no every nth")
    keys = tuple(f for f in node.input.fields if f.id in node.partition)
    key = stored_fields(keys, planner.meanings.columns(node.input))
    rows = planner.meanings.relation(node.meaning)
    identity = StateIdentity(
        "numbers of rows",
        rows,
        tuple(s.meaning for s in key),
        {"time to live": node.ttl_us},
        (StoredTable(TABLE, "key", key, value=(Stored(ROWS, BIGINT, form("number of rows", rows)),)),),
    )
    state = identity.schema(EveryNthSpec.kind, f"how many of each {', '.join(f.name for f in keys)} came")
    columns = columns_of_rows(node.input.fields)
    names = tuple(f.name for f in state.tables[0].key)
    output = (*columns, Column(node.number.id, BIGINT))
    made = EveryNthSpec(state, names, node.every, node.number.id, columns, output)
    spec = planner.states.keep(made, node.ttl_us, planner.ttls(node))
    planner.state_nodes[spec.state.state_id] = StateNode(
        node, planner.meanings, {f.id: column(f.id) for f in keys}
    )
    blocks = planner.blocks(node.input)
    shipped = RowsInput(columns, tuple(f.id for f in node.input.fields))
    name = planner.stages.name(spec.kind)
    # A spec of `OperatorSpec` in the tree where it is registered.
    return run_over_rows(planner, node, spec, shipped, blocks, weighted=False, name=name)  # type: ignore[arg-type]


def explain_every_nth(name: str, spec: EveryNthSpec) -> list[str]:
    """The lines of the operator's step."""
    return [f"  {name} = every {spec.every}th row of each key, state {spec.state.state_id}"]


OPERATOR = PlannedOperator(EveryNth, plan_every_nth, {EveryNthSpec: Explained(explain_every_nth, grows)})  # type: ignore[dict-item]
