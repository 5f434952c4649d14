"""FirstRow: the first row that arrives of each key, of append-only rows."""

from __future__ import annotations

from sqlstream_operators.plan.first_row_spec import FirstRowSpec
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.identity.state import StateIdentity, StoredTable
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
from sqlstream_planner.streaming import FirstRow


def plan_first_row(planner: Planner, node: Node) -> Block:
    """The stage that remembers which keys came."""
    if not isinstance(node, FirstRow):
        raise InternalError(f"a {type(node).__name__} is no first row")
    meanings = planner.meanings.columns(node.input)
    fields = node.input.fields
    key = stored_fields(tuple(f for f in fields if f.id in node.keys), meanings)
    identity = StateIdentity(
        "keys that came",
        planner.meanings.relation(node.meaning),
        tuple(s.meaning for s in key),
        {"time to live": node.ttl_us},
        (StoredTable("row", "key", key),),
    )
    names = ", ".join(f.name for f in fields if f.id in node.keys)
    state = identity.schema(FirstRowSpec.kind, f"each {names} that came")
    columns = columns_of_rows(fields)
    spec = planner.states.keep(
        FirstRowSpec(state, tuple(f.name for f in state.tables[0].key), columns, columns),
        node.ttl_us,
        planner.ttls(node),
    )
    planner.state_nodes[spec.state.state_id] = StateNode(
        node, planner.meanings, {f.id: column(f.id) for f in fields if f.id in node.keys}
    )
    rows = RowsInput(columns, tuple(f.id for f in fields))
    name = planner.stages.name(spec.kind)
    return run_over_rows(planner, node, spec, rows, planner.blocks(node.input), weighted=False, name=name)


def explain_first_row(name: str, spec: FirstRowSpec) -> list[str]:
    """The lines of the operator's step."""
    return [
        f"  {name} = first row that comes of each key, state {spec.state.state_id}",
        f"    keys {', '.join(spec.keys)}",
    ]


OPERATOR = PlannedOperator(FirstRow, plan_first_row, {FirstRowSpec: Explained(explain_first_row, grows)})
