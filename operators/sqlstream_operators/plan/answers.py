"""Whether the whole answer that a sink has been given is in the state, so that it can be given to another one.

A group aggregate, a Top-N, a deduplication, a join and a normalised changelog keep what they have emitted and not taken
back. What is emitted once and for all (windows that close, rows without state) is not kept, nor what state forgets.
"""

from __future__ import annotations

from sqlstream_operators.plan.changelog_spec import (
    ChangelogNormalizeSpec,
    DeduplicateSpec,
    GroupAggregateSpec,
    JoinSpec,
    TopNSpec,
)
from sqlstream_operators.plan.spec import (
    ExchangeInput,
    ExchangeOutput,
    FragmentStep,
    LateStep,
    OperatorSpec,
    OperatorStep,
    PhysicalPlan,
    SinkOutput,
    SourceInput,
    Stage,
)


def keeps_answer(spec: OperatorSpec) -> bool:
    """Whether an operator's state has all that it has emitted and not taken back."""
    match spec:
        case GroupAggregateSpec(expiry=None, ttl_us=None) | TopNSpec(ttl_us=None):
            return True
        case DeduplicateSpec(ttl_us=None) | ChangelogNormalizeSpec(ttl_us=None) | JoinSpec(ttl_us=None):
            return True
    return False


def missing_answers(plan: PhysicalPlan, sink: str) -> tuple[str, ...]:
    """What a sink is fed by whose rows are not in the state, in words; nothing if its whole answer is there."""
    missing: dict[str, None] = {}
    for stage in plan.stages:
        for output in stage.outputs:
            if isinstance(output, SinkOutput) and output.sink == sink:
                _look(plan, stage, output.input, missing)
    return tuple(missing)


def _look(plan: PhysicalPlan, stage: Stage, relation: str, missing: dict[str, None]) -> None:
    """Note what feeds a relation of a stage without keeping its rows."""
    made = next((step for step in stage.steps if step.name == relation), None)
    match made:
        case OperatorStep(operator=spec):
            if not keeps_answer(spec):
                missing[f"{spec.state.description or spec.kind}"] = None
        case FragmentStep(inputs=inputs):
            for name in inputs:
                _look(plan, stage, name, missing)
        case LateStep(input=name):
            _look(plan, stage, name, missing)
        case None:
            for read in stage.inputs:
                if read.name == relation and isinstance(read, SourceInput):
                    missing[f"rows of the table `{read.source}`"] = None
                elif read.name == relation and isinstance(read, ExchangeInput):
                    for before in plan.stages:
                        for output in before.outputs:
                            if isinstance(output, ExchangeOutput) and output.edge == read.edge:
                                _look(plan, before, output.input, missing)
