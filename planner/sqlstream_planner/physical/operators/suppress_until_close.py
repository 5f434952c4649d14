"""SuppressUntilClose: holds the results of a window's groups back until the watermark closes it."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.spec import OperatorStep
from sqlstream_operators.plan.suppress_until_close_spec import SuppressUntilCloseSpec
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.identity.form import form
from sqlstream_planner.identity.parts import key_forms
from sqlstream_planner.identity.state import StateIdentity, Stored, StoredTable
from sqlstream_planner.logical import Node
from sqlstream_planner.physical.block import Block, hidden
from sqlstream_planner.physical.operators.planned_operator import Explained, PlannedOperator, closes
from sqlstream_planner.physical.planner import Planner
from sqlstream_planner.streaming import SuppressUntilClose


def plan_suppress_until_close(planner: Planner, node: Node) -> Block:
    """A step in the stage of the groups, by whose keys its state is."""
    if not isinstance(node, SuppressUntilClose):
        raise InternalError(f"a {type(node).__name__} is not held back until windows close")
    groups = planner.result(node.input)
    spec = _spec(planner, node, groups)
    spec = replace(spec, state=planner.states.add(spec.state, planner.ttls(node)))
    name = planner.stages.name(spec.kind)
    planner.stages[groups.stage].steps.append(OperatorStep(name, spec, groups.reads))
    columns: dict[str, exp.Expr] = {f.id: groups.columns[f.id] for f in node.fields}
    if planner.changes(node):
        columns |= hidden(groups)
    return Block(groups.stage, quote_identifier(name), (name,), columns)


def _spec(planner: Planner, node: SuppressUntilClose, groups: Block) -> SuppressUntilCloseSpec:
    """The gate over the groups' operator, of whose output `groups` says what its columns are called.

    The state's keys are the groups' in type, meaning and order, so that both are in one shard.
    """
    group = node.input
    expiry = group.expiry
    if expiry is None:
        raise InternalError("a gate needs groups that expire")
    inside = planner.meanings.columns(group.input)
    given = planner.meanings.columns(group)
    names = {f.id: _name(groups.columns[f.id]) for f in node.fields}
    forms = key_forms(group.keys, group.key_expressions, group.grouping, inside)
    keys: dict[str, Stored] = {}
    for f, meaning in zip(group.keys, forms, strict=True):
        keys.setdefault(meaning.digest, Stored(names[f.id], f.type, meaning))
    if group.grouping is not None:
        meaning = form("grouping", *forms)
        keys[meaning.digest] = Stored(names[group.grouping.id], group.grouping.type, meaning)
    chosen = {key.name for key in keys.values()}
    value = tuple(Stored(names[f.id], f.type, given[f.id]) for f in node.fields if names[f.id] not in chosen)
    identity = StateIdentity(
        "groups of open windows",
        planner.meanings.relation(node.meaning),
        tuple(key.meaning for key in keys.values()),
        {
            "window": [node.window.kind.value, node.window.size_us, node.window.slide_us],
            "rows can go": planner.changes(group),
            "lateness": expiry.lateness_us,
        },
        (StoredTable("held", "time", tuple(keys.values()), value=value),),
    )
    state = identity.schema(SuppressUntilCloseSpec.kind, "groups of windows that are open")
    columns = tuple(Column(names[f.id], f.type, f.nullable) for f in node.fields)
    return SuppressUntilCloseSpec(
        state=state,
        keys=tuple(f.name for f in state.tables[0].key),
        end=names[group.keys[expiry.position].id],
        columns=columns,
        weighted=planner.changes(group),
        final=not expiry.lateness_us,
        output=columns,
        watermark_sources=expiry.time.sources,
        tick_us=expiry.time.closes_us,
        slice_us=node.window.slice_us,
        offset_us=node.window.offset_us,
    )


def _name(expression: exp.Expr) -> str:
    if not isinstance(expression, exp.Column):
        raise InternalError("a column of a group aggregate is computed")
    return expression.name


def explain_suppress_until_close(name: str, spec: SuppressUntilCloseSpec) -> list[str]:
    """The lines of the operator's step."""
    return [
        f"  {name} = held until the window closes, corrections pass, state {spec.state.state_id}",
        f"    keys {', '.join(spec.keys)}, window end {spec.end}",
    ]


OPERATOR = PlannedOperator(
    SuppressUntilClose,
    plan_suppress_until_close,
    {SuppressUntilCloseSpec: Explained(explain_suppress_until_close, closes)},
)
