"""Which steps of a stage read which relation, and how often."""

from __future__ import annotations

from collections import defaultdict

from sqlstream_operators.plan.spec import (
    FragmentStep,
    LateStep,
    SourceInput,
    Stage,
)


def readers_of(stage: Stage) -> dict[str, list[str]]:
    """For each relation, the kinds of what reads it whenever the stage runs."""
    readers: dict[str, list[str]] = defaultdict(list)
    for step in stage.steps:
        if isinstance(step, LateStep):
            for name in (step.input, *step.also):
                readers[name].append("table")
        else:
            for name in step.inputs:
                readers[name].append("fragment" if isinstance(step, FragmentStep) else "table")
    for output in stage.outputs:
        readers[output.input].append("table")
    return readers


def read_once(stage: Stage) -> frozenset[str]:
    """The fragments that at most one other fragment reads: they are part of its query."""
    readers = readers_of(stage)
    return frozenset(
        step.name
        for step in stage.steps
        if readers[step.name] in ([], ["fragment"])
        and not (isinstance(step, FragmentStep) and step.materialized)
    )


def readings(stage: Stage) -> int:
    """How many queries of the stage read its source."""
    readers = readers_of(stage)
    return sum(len(readers[i.name]) for i in stage.inputs if isinstance(i, SourceInput))
