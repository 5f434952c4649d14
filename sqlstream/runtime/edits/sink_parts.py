"""What each sink gets when a pipeline goes on with another file: as `edits_by_sink` and a fork decide it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from sqlstream.runtime.edits.plan_parts import SinkChange, SinkPart
from sqlstream.runtime.loop.fork import without_answer
from sqlstream.runtime.loop.sink_edits import NOTHING_FORGOTTEN, NOWHERE, Forgotten, edits_by_sink
from sqlstream.runtime.loop.watermarks import WindowEnds, window_ends
from sqlstream.storage.manifest import SourceState
from sqlstream_operators.plan.answers import missing_answers
from sqlstream_operators.plan.cut_down import cut_down
from sqlstream_operators.plan.spec import (
    ExchangeInput,
    ExchangeOutput,
    LateStep,
    PhysicalPlan,
    SinkOutput,
    SinkSpec,
    Stage,
    Step,
)
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN
from sqlstream_planner.diagnostics import Diagnostic, Written

_EPOCH_0 = datetime(1970, 1, 1, tzinfo=UTC)
_CHANGES = {
    "STA013": SinkChange.REFUSED,
    "STA014": SinkChange.REFUSED,
    "STA015": SinkChange.REFUSED,
    "STA016": SinkChange.FROM_NOW_ON,
    "STA017": SinkChange.BROUGHT,
}


def sink_parts(
    before: PhysicalPlan | None,
    now: PhysicalPlan,
    sources: Sequence[SourceState],
    *,
    same_text: bool,
    new_sinks: bool,
    written: Mapping[str, Written] = NOWHERE,
    accepted: Callable[[str], bool] = lambda name: False,
    forgotten: Forgotten = NOTHING_FORGOTTEN,
) -> tuple[list[SinkPart], list[Diagnostic]]:
    """The sinks of `now`, then those of `before` that it lacks; and what a run says of them.

    `before` is None if nothing was read yet. With `new_sinks` all are new beside the state, and get the answer that it has.
    `sources` are where the sources go on; of a sink it may be `accepted` that it begins in the middle of the input. States
    may have `forgotten` keys.
    """
    if new_sinks:
        problems = dict(without_answer(now, forgotten))
        return [_new(spec, now, problems) for spec in now.sinks], list(problems.values())
    if before is None:
        return [SinkPart(spec.name, spec.connector, SinkChange.WHOLE) for spec in now.sinks], []
    parts: list[SinkPart] = []
    told: list[Diagnostic] = []
    former = {spec.name for spec in before.sinks}
    read = {state.name for state in sources}
    unread = frozenset(spec.name for spec in now.sources if spec.name not in read)
    for spec, found in edits_by_sink(
        before,
        now,
        same_text=same_text,
        written=written,
        unread=unread,
        accepted=accepted,
        forgotten=forgotten,
    ):
        told += found
        if not found:
            change = SinkChange.GOES_ON if spec.name in former else SinkChange.WHOLE
            parts.append(SinkPart(spec.name, spec.connector, change))
            continue
        [first, *_] = found
        change = _CHANGES[first.code]
        detail = result = ""
        if spec.name not in former and change is SinkChange.BROUGHT:
            change = SinkChange.WHOLE
            detail = "what was read is read again for it" if missing_answers(now, spec.name) else ""
        if change is SinkChange.FROM_NOW_ON and spec.name not in former:
            detail = "only what is read from now on"
            result = f"`{spec.name}` has {detail}."
        elif change is SinkChange.FROM_NOW_ON:
            detail = _from_when(spec, now, sources)
            result = f"`{spec.name}` has {detail}; what it was given before stays as it is."
        elif change is SinkChange.REFUSED:
            detail = first.code
        parts.append(SinkPart(spec.name, spec.connector, change, detail, first.notes, first.span, result))
    names = {spec.name for spec in now.sinks}
    for spec in before.sinks:
        if spec.name not in names:
            parts.append(SinkPart(spec.name, spec.connector, SinkChange.DROPPED, "what it has stays"))
    return parts, told


def _new(spec: SinkSpec, plan: PhysicalPlan, problems: Mapping[str, Diagnostic]) -> SinkPart:
    """A sink that was given nothing yet of what the state has."""
    if spec.name in problems:
        problem = problems[spec.name]
        return SinkPart(spec.name, spec.connector, SinkChange.REFUSED, problem.code, problem.notes)
    if missing_answers(plan, spec.name):
        return SinkPart(
            spec.name,
            spec.connector,
            SinkChange.FROM_NOW_ON,
            "only what comes after the savepoint",
            result=f"`{spec.name}` has only what comes after the savepoint.",
        )
    return SinkPart(spec.name, spec.connector, SinkChange.WHOLE, "from the state, before new input")


def _from_when(spec: SinkSpec, plan: PhysicalPlan, sources: Iterable[SourceState]) -> str:
    """From when on a sink whose rows stay as they were given has those of the new query, in words."""
    applied = {s.name: s.resume if s.applied >= WATERMARK_MAX else s.applied for s in sources}
    fed = cut_down(plan, (), {spec.name})
    steps = {step.name for stage in fed.stages for step in stage.steps}
    ends = [e for e in window_ends(plan) if e.step in steps and e.slice_us > 1]
    marks = [e.least(applied) for e in ends if set(e.sources) <= applied.keys()]
    windows = {end.step for end in ends}
    outputs = [(stage, o.input) for stage in fed.stages for o in stage.outputs if isinstance(o, SinkOutput)]
    if not all(_comes_through(fed, stage, name, windows) for stage, name in outputs):
        return "the new query from the next row on"
    if len(marks) < len(ends) or not all(WATERMARK_MIN < mark < WATERMARK_MAX for mark in marks):
        return "the new query in all windows that close from now on"
    last = min(_last_end(end, mark) for end, mark in zip(ends, marks, strict=True))
    return f"the new query in windows that end after {_time(last)}"


def _comes_through(plan: PhysicalPlan, stage: Stage, relation: str, windows: Collection[str]) -> bool:
    """Whether every row of a relation was held by one of these operators before."""
    if relation in windows:
        return True
    step = next((step for step in stage.steps if relation in (step.name, *_also(step))), None)
    if step is not None:
        inputs = (step.input, *step.also) if isinstance(step, LateStep) else step.inputs
        return all(_comes_through(plan, stage, name, windows) for name in inputs)
    read = next(i for i in stage.inputs if i.name == relation)
    return isinstance(read, ExchangeInput) and all(
        _comes_through(plan, before, output.input, windows)
        for before in plan.stages
        for output in before.outputs
        if isinstance(output, ExchangeOutput) and output.edge == read.edge
    )


def _also(step: Step) -> tuple[str, ...]:
    return tuple(f"{name}.kept" for name in step.also) if isinstance(step, LateStep) else ()


def _last_end(ends: WindowEnds, watermark: int) -> int:
    """The end of the last window that is closed at a watermark, µs."""
    return ends.offset_us + (watermark + ends.tick_us - ends.offset_us) // ends.slice_us * ends.slice_us


def _time(us: int) -> str:
    try:
        found = _EPOCH_0 + timedelta(microseconds=us)
    except OverflowError:
        return f"{us} µs since 1970"
    return found.replace(tzinfo=None).isoformat(" ", "milliseconds" if us % 1_000_000 else "seconds")
