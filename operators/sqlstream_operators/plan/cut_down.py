"""A plan without what does not feed some of its states and sinks. Importable without Arrow."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from .spec import (
    DimensionInput,
    ExchangeInput,
    ExchangeOutput,
    OperatorStep,
    PhysicalPlan,
    SinkOutput,
    SourceInput,
    Stage,
    Step,
    made_by,
    read_by,
)


def cut_down(plan: PhysicalPlan, states: Collection[str], sinks: Collection[str] = ()) -> PhysicalPlan:
    """The part of a plan that makes the states of these ids and the rows of these sinks, by name.

    It computes them as the whole plan does; operators below them keep their states too. Stage levels are counted anew where
    nothing is left of one. Raises KeyError for a state or a sink that the plan does not have.
    """
    known = {state.state_id for state in plan.states} | {sink.name for sink in plan.sinks}
    missing = {*states, *sinks} - known
    if missing:
        raise KeyError(f"the plan has no {', '.join(sorted(missing))}")
    edges: set[str] = set()
    kept: dict[str, Stage] = {}
    for stage in sorted(plan.stages, key=lambda stage: -stage.level):
        cut = _cut(stage, states, sinks, edges)
        if cut is not None:
            kept[stage.id] = cut
            edges |= {i.edge for i in cut.inputs if isinstance(i, ExchangeInput)}
    levels = {level: n for n, level in enumerate(sorted({0, *(s.level for s in kept.values())}))}
    stages = tuple(
        replace(kept[stage.id], level=levels[stage.level]) for stage in plan.stages if stage.id in kept
    )
    read = {i.source for stage in stages for i in stage.inputs if isinstance(i, SourceInput)}
    part = replace(
        plan,
        sources=tuple(source for source in plan.sources if source.name in read),
        sinks=tuple(sink for sink in plan.sinks if sink.name in sinks),
        stages=stages,
    )
    kept_states = {step.operator.state.state_id for step in part.operators}
    looked_up = {i.dimension for stage in stages for i in stage.inputs if isinstance(i, DimensionInput)}
    part = replace(part, dimensions=tuple(d for d in plan.dimensions if d.name in looked_up))
    return replace(part, states=tuple(state for state in plan.states if state.state_id in kept_states))


def sources_of_sink(plan: PhysicalPlan, sink: str) -> tuple[str, ...]:
    """The names of the sources whose rows a sink of the plan is made of."""
    return tuple(source.name for source in cut_down(plan, (), (sink,)).sources)


def _cut(
    stage: Stage, states: Collection[str], sinks: Collection[str], edges: Collection[str]
) -> Stage | None:
    """What is left of a stage whose rows are needed on these edges; None if nothing is."""
    outputs = tuple(
        output
        for output in stage.outputs
        if (isinstance(output, ExchangeOutput) and output.edge in edges)
        or (isinstance(output, SinkOutput) and output.sink in sinks)
    )
    needed = {output.input for output in outputs}
    steps: list[Step] = []
    for step in reversed(stage.steps):
        wanted = isinstance(step, OperatorStep) and step.operator.state.state_id in states
        if wanted or needed.intersection(made_by(step)):
            steps.append(step)
            needed.update(read_by(step))
    if not steps and not outputs:
        return None
    inputs = tuple(i for i in stage.inputs if i.name in needed)
    return replace(stage, inputs=inputs, steps=tuple(reversed(steps)), outputs=outputs)
