"""Which operators of a plan rows go between. Importable without Arrow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from .spec import ExchangeInput, ExchangeOutput, OperatorStep, PhysicalPlan, Stage, made_by, rows_from


def connected_operators(plan: PhysicalPlan) -> list[frozenset[str]]:
    """The steps of operators, each with those that it has rows from or gives rows to, by any way between them."""
    senders: dict[str, list[tuple[Stage, str]]] = defaultdict(list)
    for stage in plan.stages:
        for output in stage.outputs:
            if isinstance(output, ExchangeOutput):
                senders[output.edge].append((stage, output.input))
    groups: list[set[str]] = []
    for stage in plan.stages:
        for step in stage.steps:
            if isinstance(step, OperatorStep):
                found = {step.name}
                for name in step.inputs:
                    found |= set(_before(senders, stage, name))
                met = [group for group in groups if not group.isdisjoint(found)]
                groups = [group for group in groups if group.isdisjoint(found)]
                groups.append(found.union(*met))
    return [frozenset(group) for group in groups]


def _before(senders: Mapping[str, list[tuple[Stage, str]]], stage: Stage, relation: str) -> Iterator[str]:
    """The last operators before a relation of a stage."""
    step = next((s for s in stage.steps if relation in made_by(s)), None)
    if isinstance(step, OperatorStep):
        yield step.name
    elif step is not None:
        for name in rows_from(step):
            yield from _before(senders, stage, name)
    else:
        for read in stage.inputs:
            if read.name == relation and isinstance(read, ExchangeInput):
                for before, name in senders.get(read.edge, ()):
                    yield from _before(senders, before, name)
