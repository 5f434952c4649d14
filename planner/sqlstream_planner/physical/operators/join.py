"""RegularJoin: pairs of the rows of two relations, which are both kept."""

from __future__ import annotations

from dataclasses import replace

from sqlstream_operators.plan.join_spec import JoinSpec
from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.spec import FragmentStep, OperatorStep
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.identity.form import Data, form
from sqlstream_planner.identity.state import StateIdentity
from sqlstream_planner.logical import Node, sql
from sqlstream_planner.physical.block import Block
from sqlstream_planner.physical.by_stage import each, reads_of, result_of
from sqlstream_planner.physical.join_sides import (
    SIDES,
    Side,
    described,
    equal_forms,
    relational,
    shared_attributes,
)
from sqlstream_planner.physical.operators.arranged_join import plan_arranged_join
from sqlstream_planner.physical.operators.over_rows import columns_of_rows
from sqlstream_planner.physical.operators.planned_operator import Explained, PlannedOperator, grows
from sqlstream_planner.physical.planner import Planner
from sqlstream_planner.physical.stages import Shipment
from sqlstream_planner.physical.state_node import StateNode, clause_of
from sqlstream_planner.streaming import RegularJoin, is_arranged


def plan_join(planner: Planner, node: Node) -> Block:
    """Keeps the rows of both sides by their keys, in a stage of its own or in that of a join by the same keys, unless
    arrangements keep them.
    """
    if not isinstance(node, RegularJoin):
        raise InternalError(f"a {type(node).__name__} is no join")
    if is_arranged(node):
        return plan_arranged_join(planner, node)
    sides = [Side.of(planner, node, side) for side in SIDES]
    identity = _identity(planner, node, sides)
    keys = tuple(
        Column(name, key.type, False) for name, key in zip(sides[0].key_names, node.keys, strict=True)
    )
    spec = planner.states.keep(
        JoinSpec(
            identity.schema(JoinSpec.kind, described(node)),
            node.kind.lower(),
            keys,
            sides[0].spec,
            sides[1].spec,
            sql(node.condition) if node.condition is not None else None,
            columns_of_rows(node.fields),
        ),
        node.ttl_us,
        planner.ttls(node),
    )
    planner.state_nodes[spec.state.state_id] = StateNode(
        node, planner.meanings, {}, at=clause_of(node.meaning)
    )
    name = planner.stages.name(spec.kind)
    blocks = [planner.blocks(side.node) for side in sides]
    hashed = tuple(f.name for f in spec.state.tables[0].key)
    by_name = dict(zip(sides[0].key_names, node.keys, strict=True))
    by = tuple(by_name[key] for key in hashed)
    home = planner.join_stages.home(planner.stages, node, by, blocks)
    there: frozenset[int] = frozenset()
    if home is None:
        draft = planner.stages.behind(name, [*blocks[0], *blocks[1]])
    else:
        draft, there = home
    reads = []
    for number, (side, mine) in enumerate(zip(sides, blocks, strict=True)):
        text = each(side.sql)
        if number in there:
            step = FragmentStep(f"{name}.{side.name}", text(mine), reads_of(mine))
            draft.steps.append(step)
            reads.append(step.name)
        else:
            shipped = planner.stages.ship(mine, [Shipment(f"{name}.{side.name}", text, side.shipped)], hashed)
            draft.inputs += shipped
            reads += [i.name for i in shipped]
    draft.steps.append(OperatorStep(name, spec, tuple(reads)))
    planner.join_stages.note(node, draft.id, by)
    return replace(result_of(name, node, weighted=spec.emits_changes), stage=draft.id)


def _identity(planner: Planner, node: RegularJoin, sides: list[Side]) -> StateIdentity:
    """What the state of a join means: the rows of both sides, by what is equal, and what it makes of them."""
    left, right = sides
    meaning, equal = relational(node), equal_forms(planner, node)
    attributes: dict[str, Data] = {
        **shared_attributes(node, sides),
        "left rows can go": left.spec.retracting,
        "right rows can go": right.spec.retracting,
        "time to live": node.ttl_us,
    }
    rows = form("sides", planner.meanings.relation(meaning.left), planner.meanings.relation(meaning.right))
    tables = tuple(side.table(equal) for side in sides)
    return StateIdentity("joined rows", rows, equal, attributes, tables)


def explain_join(name: str, spec: JoinSpec) -> list[str]:
    """The lines of the operator's step."""
    lines = [
        f"  {name} = {spec.type} join, kept up to date, state {spec.state.state_id}, all rows of both sides are kept"
    ]
    for key, left, right in zip(spec.keys, spec.left.keys, spec.right.keys, strict=True):
        sides = " = ".join(
            f"{side}'s {column or 'expression'}" for side, column in (("left", left), ("right", right))
        )
        lines.append(f"    {key.name}: {sides}")
    if not spec.keys:
        lines.append("    by no key: all rows are in one shard")
    if spec.condition is not None:
        lines.append(f"    where {spec.condition}")
    return lines


OPERATOR = PlannedOperator(RegularJoin, plan_join, {JoinSpec: Explained(explain_join, grows)})
