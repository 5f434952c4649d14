"""What each sink gets when a pipeline goes on with another file: as `sink_edits` and a fork decide it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sqlstream.connectors.api import TargetEdit
from sqlstream.runtime.edits.history.readings import History, needs_of
from sqlstream.runtime.edits.plan.plan_parts import SinkChange, SinkPart
from sqlstream.runtime.edits.sinks.sink_edit import Begins, SinkEdit
from sqlstream.runtime.edits.sinks.sink_edits import without_history
from sqlstream.runtime.edits.states.forgetting import NOTHING_FORGOTTEN, Forgotten
from sqlstream.runtime.loop.watermarks import WindowEnds, window_ends
from sqlstream.storage.manifest import SourceState
from sqlstream_operators.plan.answers import missing_answers
from sqlstream_operators.plan.cut_down import cut_down, sources_of_sink
from sqlstream_operators.plan.spec import (
    DimensionInput,
    EpochInput,
    ExchangeInput,
    ExchangeOutput,
    PhysicalPlan,
    SinkOutput,
    SinkSpec,
    Stage,
    made_by,
    rows_from,
)
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN
from sqlstream_planner.diagnostics import Diagnostic

_EPOCH_0 = datetime(1970, 1, 1, tzinfo=UTC)


def sink_parts(
    before: PhysicalPlan | None,
    now: PhysicalPlan,
    sources: Sequence[SourceState],
    edits: Sequence[SinkEdit],
    *,
    new_sinks: bool = False,
    forgotten: Forgotten = NOTHING_FORGOTTEN,
) -> list[SinkPart]:
    """The sinks of `now`, of which `edits` were decided, then those of `before` that it lacks.

    `before` is None if nothing was read yet. With `new_sinks` all are new beside the state, and get the result that it has.
    `sources` are where the sources go on. States may have `forgotten` keys.
    """
    if new_sinks:
        return [_refused(edit) or _begun(edit, now, forgotten) for edit in edits]
    if before is None:
        first = {edit.spec.name: _refused(edit) for edit in edits}
        return [
            first.get(spec.name) or SinkPart(spec.name, spec.connector, SinkChange.WHOLE)
            for spec in now.sinks
        ]
    parts = [_part(edit, now, sources) for edit in edits]
    kept = {edit.former.name for edit in edits if edit.former is not None}
    here = {edit.spec.name for edit in edits}
    for spec in before.sinks:
        if spec.name not in kept and spec.name not in here:
            parts.append(SinkPart(spec.name, spec.connector, SinkChange.DROPPED, "what it has stays"))
    return parts


def _refused(edit: SinkEdit) -> SinkPart | None:
    """The part of a sink that is refused, if it is."""
    diagnostic = next((d for d in edit.diagnostics if d.severity == "error"), None)
    if diagnostic is None:
        return None
    change = SinkChange.REFUSED
    return SinkPart(
        edit.spec.name,
        edit.spec.connector,
        change,
        diagnostic.code,
        diagnostic.notes,
        diagnostic.span,
        diagnostics=edit.diagnostics,
    )


def with_history(part: SinkPart, spec: SinkSpec, now: PhysicalPlan, there: History) -> SinkPart:
    """A sink that is given what the sources have had for it, with what is read again: as it can be carried out.

    Where that is not there any more, one of rows has only those from now on, and one that holds a result is refused.
    """
    read = sources_of_sink(now, spec.name)
    gone = there.gone(needs_of(now, (), {spec.name}))
    if gone is None:
        detail = "what was read is read again for it"
        return replace(part, detail=detail, readings=tuple(there.readings[name] for name in read))
    if spec.changelog == "append" and part.is_new:
        detail, result = _only_from_now_on(spec.name)
        change = SinkChange.FROM_NOW_ON
        return replace(part, change=change, detail=detail, result=result, diagnostics=(), from_history=False)
    problem = without_history(gone, [spec.name])
    return replace(
        part,
        change=SinkChange.REFUSED,
        detail=problem.code,
        notes=problem.notes,
        diagnostics=(problem,),
        from_history=False,
    )


def _only_from_now_on(sink: str) -> tuple[str, str]:
    detail = "only what is read from now on"
    return detail, f"`{sink}` has {detail}."


def _part(edit: SinkEdit, now: PhysicalPlan, sources: Sequence[SourceState]) -> SinkPart:
    spec = edit.spec
    diagnostic = next((d for d in edit.diagnostics), None)
    why = diagnostic or next((consent.why for consent in edit.consents), None)
    notes, at = (why.notes, why.span) if why is not None else ((), None)
    was = "" if edit.former is None or edit.former.name == spec.name else f"was called {edit.former.name}"

    def part(change: SinkChange, *details: str, result: str = "") -> SinkPart:
        detail = "; ".join(filter(None, (was, *details)))
        return SinkPart(
            spec.name,
            spec.connector,
            change,
            detail,
            notes,
            at,
            result,
            edit.diagnostics,
            edit.is_new,
            edit.from_history and not edit.consents,
        )

    if diagnostic is not None and diagnostic.severity == "error":
        return part(SinkChange.REFUSED, diagnostic.code)
    if edit.is_new:
        if edit.consents or edit.begins is Begins.NOW:
            detail, result = _only_from_now_on(spec.name)
            return part(SinkChange.FROM_NOW_ON, detail, result=result)
        return part(SinkChange.WHOLE, "what was read is read again for it" if edit.from_history else "")
    if edit.target is TargetEdit.REPLACE:
        return part(SinkChange.REPLACED, "what was read is read again for it" if edit.from_history else "")
    if edit.reemitted:
        return part(SinkChange.BROUGHT)
    if diagnostic is None:
        return part(SinkChange.GOES_ON)
    detail = _from_when(spec, now, sources)
    result = f"`{spec.name}` has {detail}; rows that it has stay as they are."
    altered = "its table is altered" if edit.target is TargetEdit.ALTER else ""
    return part(SinkChange.FROM_NOW_ON, detail, altered, result=result)


def _begun(edit: SinkEdit, plan: PhysicalPlan, forgotten: Forgotten) -> SinkPart:
    """A sink beside a savepoint, which was given nothing yet of what the state has."""
    spec = edit.spec
    missing = missing_answers(plan, spec.name, forgetful=forgotten.now)
    if edit.from_history:
        return SinkPart(spec.name, spec.connector, SinkChange.WHOLE, from_history=True)
    if missing and spec.changelog == "retract":
        problem = Diagnostic(
            "SAV007",
            f"the table `{spec.name}` would have only what changes from the savepoint on",
            notes=(f"its result up to there is not in the state: {', '.join(missing)}",),
            help=f"run with --rewrite {spec.name}, which reads the sources' history again for it; run the file from the "
            "beginning with another --state-dir; or leave this table out",
        )
        return SinkPart(
            spec.name, spec.connector, SinkChange.REFUSED, problem.code, problem.notes, diagnostics=(problem,)
        )
    if missing:
        return SinkPart(
            spec.name,
            spec.connector,
            SinkChange.FROM_NOW_ON,
            "only what comes after the savepoint",
            result=f"`{spec.name}` has only what comes after the savepoint.",
            diagnostics=edit.diagnostics,
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
    step = next((step for step in stage.steps if relation in made_by(step)), None)
    if step is not None:
        return all(_comes_through(plan, stage, name, windows) for name in rows_from(step))
    read = next(i for i in stage.inputs if i.name == relation)
    if isinstance(read, DimensionInput | EpochInput):
        return True  # it comes with the rows that read it
    return isinstance(read, ExchangeInput) and all(
        _comes_through(plan, before, output.input, windows)
        for before in plan.stages
        for output in before.outputs
        if isinstance(output, ExchangeOutput) and output.edge == read.edge
    )


def _last_end(ends: WindowEnds, watermark: int) -> int:
    """The end of the last window that is closed at a watermark, µs."""
    return ends.offset_us + (watermark + ends.tick_us - ends.offset_us) // ends.slice_us * ends.slice_us


def _time(us: int) -> str:
    try:
        found = _EPOCH_0 + timedelta(microseconds=us)
    except OverflowError:
        return f"{us} µs since 1970"
    return found.replace(tzinfo=None).isoformat(" ", "milliseconds" if us % 1_000_000 else "seconds")
