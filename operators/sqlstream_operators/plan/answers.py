"""Whether the whole result that a sink has been given is in the state, so that it can be given to another one.

Some operators keep what they have emitted and not retracted (`OperatorFacts.keeps_answer`). What is emitted once and for
all (windows that close, rows without state) is not kept, and neither is what state with a time to live has forgotten.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sqlstream_operators.plan.epoch_values import EPOCH_RELATION
from sqlstream_operators.plan.spec import (
    DimensionInput,
    EpochInput,
    ExchangeInput,
    ExchangeOutput,
    FragmentStep,
    JoinStep,
    LateStep,
    OperatorSpec,
    OperatorStep,
    PhysicalPlan,
    SinkOutput,
    SourceInput,
    Stage,
)


def missing_answers(
    plan: PhysicalPlan, sink: str, *, forgetful: Collection[str] | None = None
) -> tuple[str, ...]:
    """What a sink is fed by whose rows are not in the state, in words; nothing if its whole result is there.

    `forgetful` are the ids of states that have forgotten keys (None: all with a time to live may have).
    """
    missing: dict[str, None] = {}
    for source in _answers(plan, sink):
        if isinstance(source, str):
            of_epoch = source == EPOCH_RELATION
            missing["the epochs' clock times" if of_epoch else f"rows of the table `{source}`"] = None
            continue
        state_id = source.state.state_id
        forgot = source.ttl_us is not None if forgetful is None else state_id in forgetful
        if forgot or not source.facts.keeps_answer:
            missing[f"{source.state.description or source.kind}"] = None
    return tuple(missing)


def answering_states(plan: PhysicalPlan, sink: str) -> frozenset[str]:
    """The ids of the states that have what a sink was given."""
    return frozenset(s.state.state_id for s in _answers(plan, sink) if not isinstance(s, str))


def _answers(plan: PhysicalPlan, sink: str) -> Iterator[OperatorSpec | str]:
    """The last operators before a sink, and the names of sources and dimension tables with none between them and it."""
    for stage in plan.stages:
        for output in stage.outputs:
            if isinstance(output, SinkOutput) and output.sink == sink:
                yield from _look(plan, stage, output.input)


def _look(plan: PhysicalPlan, stage: Stage, relation: str) -> Iterator[OperatorSpec | str]:
    made = next((step for step in stage.steps if step.name == relation), None)
    match made:
        case OperatorStep(operator=spec):
            yield spec
        case FragmentStep(inputs=inputs) | JoinStep(inputs=inputs):
            for name in inputs:
                yield from _look(plan, stage, name)
        case LateStep(input=name):
            yield from _look(plan, stage, name)
        case None:
            for read in stage.inputs:
                if read.name == relation and isinstance(read, SourceInput):
                    yield read.source
                elif read.name == relation and isinstance(read, DimensionInput):
                    yield read.dimension  # what was found there then, nobody has
                elif read.name == relation and isinstance(read, EpochInput) and read.gives_once:
                    yield EPOCH_RELATION  # what its clock was then, nobody has
                elif read.name == relation and isinstance(read, ExchangeInput):
                    for before in plan.stages:
                        for output in before.outputs:
                            if isinstance(output, ExchangeOutput) and output.edge == read.edge:
                                yield from _look(plan, before, output.input)
