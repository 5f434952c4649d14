"""The states of several plans in one. Importable without Arrow."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from .cut_down import cut_down
from .spec import (
    DimensionSpec,
    ExchangeInput,
    ExchangeOutput,
    LateStep,
    OperatorStep,
    PhysicalPlan,
    SourceInput,
    SourceSpec,
    Stage,
    Step,
)


def united(parts: Iterable[tuple[PhysicalPlan, Collection[str], Mapping[str, str]]]) -> PhysicalPlan:
    """One plan with these states of each of some plans, and no sinks; its options are those of the first.

    A part is a plan, the ids of its states that are wanted, which no other part has, and what its sources are called in the
    whole: those of one name are one, and those that are not named are left out.
    """
    parts = tuple(parts)
    stages: list[Stage] = []
    sources: dict[str, SourceSpec] = {}
    names: dict[str, str] = {}
    dimensions: dict[str, DimensionSpec] = {}
    for number, (plan, ids, called) in enumerate(parts, 1):
        stages += [_renamed(stage, f"{number}.", called) for stage in cut_down(plan, ids).stages]
        for source in plan.sources:
            if source.name in called:
                sources.setdefault(called[source.name], replace(source, name=called[source.name]))
        dimensions |= {d.name: d for d in plan.dimensions if d.name not in dimensions}
        names |= {column: name for column, name in plan.names.items() if column not in names}
    states = tuple(state for plan, ids, _ in parts for state in plan.states if state.state_id in ids)
    return PhysicalPlan(
        tuple(sources.values()),
        (),
        tuple(stages),
        states,
        parts[0][0].options,
        names,
        tuple(dimensions.values()),
    )


def _renamed(stage: Stage, prefix: str, called: Mapping[str, str]) -> Stage:
    inputs = tuple(
        replace(i, source=called[i.source])
        if isinstance(i, SourceInput)
        else replace(i, edge=f"{prefix}{i.edge}")
        if isinstance(i, ExchangeInput)
        else i
        for i in stage.inputs
    )
    outputs = tuple(
        replace(o, edge=f"{prefix}{o.edge}") if isinstance(o, ExchangeOutput) else o for o in stage.outputs
    )
    steps = tuple(_with_sources_renamed(step, called) for step in stage.steps)
    return replace(stage, id=f"{prefix}{stage.id}", inputs=inputs, steps=steps, outputs=outputs)


def _with_sources_renamed(step: Step, called: Mapping[str, str]) -> Step:
    """A step that goes by the watermarks of the sources as they are called now."""
    if isinstance(step, LateStep):
        return replace(step, watermark_sources=_names(step.watermark_sources, called))
    if isinstance(step, OperatorStep):
        spec = step.operator
        return replace(step, operator=spec.moved_by(_names(spec.watermark_sources, called)))
    return step


def _names(names: Iterable[str], called: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(called.get(name, name) for name in names)
