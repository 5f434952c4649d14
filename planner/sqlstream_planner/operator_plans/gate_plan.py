"""The operator that holds a window's groups back until it closes: its spec and its state."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.changelog_spec import SuppressUntilCloseSpec
from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.state_schema import StateField, StateSchema, StateTable, disambiguated
from sqlstream_planner.block import Block
from sqlstream_planner.fingerprint import Provenance, canonical, digest
from sqlstream_planner.logical import WindowGate
from sqlstream_planner.properties import changes


def plan_gate(node: WindowGate, groups: Block, provenance: Provenance) -> SuppressUntilCloseSpec:
    """The gate over the groups' operator, of whose output `groups` says what its columns are called.

    The state's keys are the groups' in type, meaning and order, so that both are in one shard.
    """
    group = node.input
    expiry = group.expiry
    if expiry is None:
        raise InternalError("a gate needs groups that expire")
    meanings = provenance.columns(node)
    inside = provenance.columns(group.input)
    names = {f.id: _name(groups.columns[f.id]) for f in node.fields}
    keys: dict[str, StateField] = {}
    for f, e in zip(group.keys, group.key_expressions, strict=True):
        keys.setdefault(canonical(e, inside), StateField(names[f.id], f.type, canonical(e, inside)))
    if group.grouping is not None:
        meaning = f"grouping({', '.join(canonical(e, inside) for e in group.key_expressions)})"
        keys[meaning] = StateField(names[group.grouping.id], group.grouping.type, meaning)
    chosen = {key.name for key in keys.values()}
    value = disambiguated(
        StateField(names[f.id], f.type, meanings[f.id]) for f in node.fields if names[f.id] not in chosen
    )
    table = StateTable.of("held", "time", key=keys.values(), value=value)
    relation = provenance.relation(node)
    state = StateSchema(digest(relation), "suppress_until_close", "groups of windows that are open", (table,))
    columns = tuple(Column(names[f.id], f.type, f.nullable) for f in node.fields)
    return SuppressUntilCloseSpec(
        state=state,
        keys=tuple(f.name for f in table.key),
        end=names[expiry.column],
        columns=columns,
        weighted=changes(group),
        final=not expiry.lateness_us,
        output=columns,
        watermark_sources=expiry.time.sources,
        tick_us=expiry.time.tick_us,
        slice_us=node.window.slice_us,
        offset_us=node.window.offset_us,
    )


def _name(expression: exp.Expr) -> str:
    if not isinstance(expression, exp.Column):
        raise InternalError("a column of a group aggregate is computed")
    return expression.name
