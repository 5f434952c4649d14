"""RegularJoin over Arrangements: it keeps nothing, and may join more than two of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream_operators.plan.arranged_spec import ArrangedJoinSpec, ArrangedSide
from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.spec import JoinStep, OperatorStep
from sqlstream_operators.plan.state_schema import StateSchema
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.logical import JoinKind, Node, Project, column, sql, substitute
from sqlstream_planner.physical.block import Block
from sqlstream_planner.physical.by_stage import result_of
from sqlstream_planner.physical.operators.arrangement import answer_rows, side_of
from sqlstream_planner.physical.operators.explained import one_line
from sqlstream_planner.physical.operators.over_rows import columns_of_rows
from sqlstream_planner.physical.planner import Planner
from sqlstream_planner.streaming import Arrangement, RegularJoin


def plan_arranged_join(planner: Planner, node: RegularJoin) -> Block:
    """Joins in the stage where the arrangements are, with the joins below that are computed together with it."""
    sides: list[_Side] = []
    conditions: list[str] = []
    scope = _scope(node, sides, conditions, several=_reads_a_join(node))
    where = [planner.result(side.arrangement) for side in sides]
    draft = planner.stages[where[0].stage]
    specs = {step.name: step.operator for step in draft.steps if isinstance(step, OperatorStep)}
    read = [
        _read(planner, side, specs[block.reads[0]].state) for side, block in zip(sides, where, strict=True)
    ]
    by = side_of(planner, sides[0].arrangement)
    output = columns_of_rows(node.fields)
    given = tuple(scope[column.name] for column in output)
    spec = ArrangedJoinSpec(
        node.kind.lower(),
        tuple(Column(name, type_, False) for name, type_ in zip(by.key_names, by.types, strict=True)),
        tuple(read),
        " AND ".join(f"({condition})" for condition in conditions) or None,
        output,
        given,
        any(not _shows_all(side, given) for side in _shown(node, sides)),
    )
    name = planner.stages.name("join")
    draft.steps.append(JoinStep(name, spec, tuple(block.reads[0] for block in where)))
    planner.join_stages.note(node, draft.id, node.keys)
    return replace(result_of(name, node, weighted=spec.emits_changes), stage=draft.id)


@dataclass(frozen=True, slots=True)
class _Side:
    """An arrangement as it is read: each column as it is there, what it is called in the join, and in the arrangement."""

    arrangement: Arrangement
    columns: tuple[tuple[Column, str, str], ...]


def _read(planner: Planner, side: _Side, state: StateSchema) -> ArrangedSide:
    """A side as the join reads it in `state`."""
    node = side.arrangement
    return ArrangedSide(
        state.state_id,
        tuple(replace(shown, name=called) for shown, called, _ in side.columns),
        tuple(stored for _, _, stored in side.columns),
        planner.changes(node.input),
        answer_rows(planner, node, state) if node.answered else None,
    )


def _scope(join: RegularJoin, sides: list[_Side], conditions: list[str], *, several: bool) -> dict[str, str]:
    """What the columns that a join gives, or could, are called; its sides and conditions are added.

    Where `several` joins are computed together, columns of two sides may have one id.
    """
    scope: dict[str, str] = {}
    for node in join.inputs:
        names = {f.id: f.id for f in node.fields}
        below = node
        while isinstance(below, Project):
            items = {f.id: e.unnest().name for f, e in zip(below.fields, below.items, strict=True)}
            names = {id_: items[name] for id_, name in names.items()}
            below = below.input
        if isinstance(below, RegularJoin):
            inside = _scope(below, sides, conditions, several=several)
            scope |= {id_: inside[name] for id_, name in names.items()}
        elif isinstance(below, Arrangement):
            prefix = f"s{len(sides)}." if several else ""
            listed = zip(columns_of_rows(node.fields), node.fields, strict=True)
            sides.append(_Side(below, tuple((c, f"{prefix}{f.id}", names[f.id]) for c, f in listed)))
            scope |= {f.id: f"{prefix}{f.id}" for f in node.fields}
        else:
            raise InternalError(f"a {type(below).__name__} is no side of a delta join")
    if join.condition is not None:
        named: dict[str, exp.Expr] = {id_: column(name) for id_, name in scope.items()}
        conditions.append(sql(substitute(join.condition, named)))
    return scope


def _reads_a_join(join: RegularJoin) -> bool:
    below: list[Node] = list(join.inputs)
    for number, node in enumerate(below):
        while isinstance(node, Project):
            node = node.input
        below[number] = node
    return any(isinstance(node, RegularJoin) for node in below)


def _shown(node: RegularJoin, sides: list[_Side]) -> list[_Side]:
    """The sides whose rows are given."""
    return sides[:1] if node.kind in (JoinKind.SEMI, JoinKind.ANTI) else sides


def _shows_all(side: _Side, given: tuple[str, ...]) -> bool:
    """Whether two rows of an arrangement that differ are still different in what the join gives."""
    shown = {stored for _, name, stored in side.columns if name in given}
    return shown >= {f.id for f in side.arrangement.fields}


def arranged_join_title(spec: ArrangedJoinSpec) -> str:
    """The join in some words."""
    return f"{spec.type} join of {len(spec.sides)} arrangements"


def explain_arranged_join(step: JoinStep) -> list[str]:
    """The lines of the join's step."""
    spec = step.join
    lines = [f"  {step.name} = {spec.type} join of {', '.join(step.inputs)}, kept up to date, without state"]
    lines.append(f"    by {', '.join(key.name for key in spec.keys)}")
    if spec.condition is not None:
        lines.append(f"    where {spec.condition}")
    for name, side in zip(step.inputs, spec.sides, strict=True):
        if side.answer is not None:
            lines.append(
                one_line(f"rows of {name}, which has them by {', '.join(side.answer.by)}", side.answer.sql)
            )
    return lines
