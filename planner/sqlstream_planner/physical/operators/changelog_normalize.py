"""ChangelogNormalize: a changelog with a key, of which the last change of each key decides."""

from __future__ import annotations

from sqlstream_operators.plan.changelog_normalize_spec import ChangelogNormalizeSpec
from sqlstream_operators.plan.schema import KIND_COLUMN, Column
from sqlstream_operators.plan.types import VARCHAR
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
from sqlstream_planner.streaming import ChangelogNormalize


def plan_changelog_normalize(planner: Planner, node: Node) -> Block:
    """The stage that keeps the row of each key."""
    if not isinstance(node, ChangelogNormalize):
        raise InternalError(f"a {type(node).__name__} normalizes no changelog")
    meanings = planner.meanings.columns(node.input)
    fields = node.input.fields
    key = stored_fields(tuple(f for f in fields if f.id in node.keys), meanings)
    value = stored_fields(tuple(f for f in fields if f.id not in node.keys), meanings)
    identity = StateIdentity(
        "last row of each key",
        planner.meanings.relation(node.meaning),
        tuple(s.meaning for s in key),
        {"time to live": node.ttl_us},
        (StoredTable("row", "key", key, value=value),),
    )
    names = ", ".join(f.name for f in fields if f.id in node.keys)
    state = identity.schema(ChangelogNormalizeSpec.kind, f"the row of each {names}")
    columns = columns_of_rows(fields)
    spec = planner.states.keep(
        ChangelogNormalizeSpec(state, tuple(f.name for f in state.tables[0].key), columns, columns),
        node.ttl_us,
        planner.ttls(node),
    )
    planner.state_nodes[spec.state.state_id] = StateNode(
        node, planner.meanings, {f.id: column(f.id) for f in fields if f.id in node.keys}
    )
    rows = RowsInput((*columns, Column(KIND_COLUMN, VARCHAR, False)), tuple(f.id for f in fields))
    name = planner.stages.name(spec.kind)
    return run_over_rows(planner, node, spec, rows, planner.blocks(node.input), weighted=True, name=name)


def explain_changelog_normalize(name: str, spec: ChangelogNormalizeSpec) -> list[str]:
    """The lines of the operator's step."""
    return [
        f"  {name} = last change of each key, state {spec.state.state_id}",
        f"    keys {', '.join(spec.keys)}",
    ]


OPERATOR = PlannedOperator(
    ChangelogNormalize,
    plan_changelog_normalize,
    {ChangelogNormalizeSpec: Explained(explain_changelog_normalize, grows)},
)
