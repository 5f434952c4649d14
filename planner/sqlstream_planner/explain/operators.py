"""Operators in `explain`: each operator's own file says what it merges, keeps and emits."""

from __future__ import annotations

from sqlstream_operators.plan.spec import JoinStep, OperatorSpec, OperatorStep
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.logical.text import duration
from sqlstream_planner.physical.operators.arranged_join import arranged_join_title, explain_arranged_join
from sqlstream_planner.physical.operators.planned_operator import Explained
from sqlstream_planner.physical.operators.registry import EXPLAINED


def step_title(step: OperatorStep | JoinStep) -> str:
    """The operator of a step in some words."""
    if isinstance(step, JoinStep):
        return arranged_join_title(step.join)
    spec = step.operator
    title = _explained(spec).title
    return spec.kind.replace("_", " ") if title is None else title(spec)


def step_lines(step: OperatorStep | JoinStep) -> list[str]:
    """The lines of an operator's step."""
    if isinstance(step, JoinStep):
        return explain_arranged_join(step)
    spec = step.operator
    lines = _explained(spec).lines(step.name, spec)
    if spec.ttl_us is not None:
        lines.append(f"    forgets keys that nothing touched for {duration(spec.ttl_us)}")
    return lines


def state_bounds(spec: OperatorSpec) -> str:
    """What keeps an operator's state from growing for ever, or what would."""
    if spec.ttl_us is not None:
        return "bounded by its time to live: keys that nothing touched for so long are forgotten"
    return _explained(spec).bounds(spec)


def _explained(spec: OperatorSpec) -> Explained:
    if type(spec) not in EXPLAINED:
        raise InternalError(f"no explanation of a {type(spec).__name__}")
    return EXPLAINED[type(spec)]
