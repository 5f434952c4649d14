"""Operators in `explain`: each operator's own file says what it merges, keeps and emits."""

from __future__ import annotations

from sqlstream_operators.plan.spec import OperatorSpec, WindowAggregateSpec
from sqlstream_planner.logical.text import duration
from sqlstream_planner.physical.operators.registry import EXPLANATIONS


def operator_title(spec: OperatorSpec) -> str:
    """An operator in two or three words."""
    if isinstance(spec, WindowAggregateSpec):
        return f"{spec.window.kind.value} aggregate"
    return spec.kind.replace("_", " ")


def operator_lines(name: str, spec: OperatorSpec) -> list[str]:
    """The lines of an operator's step."""
    lines = EXPLANATIONS[type(spec)](name, spec)
    ttl_us = getattr(spec, "ttl_us", None)
    if ttl_us is not None:
        lines.append(f"    forgets keys that nothing touched for {duration(ttl_us)}")
    return lines
