"""What happens to each state: its part of an edit's plan, and from which sources it can be made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sqlstream.runtime.edits.consent import Consent
from sqlstream.runtime.edits.history.readings import (
    History,
    Reading,
    SourceOf,
    history,
    needs_of,
    reads_epoch,
    sources_of,
)
from sqlstream.runtime.edits.plan.consents import consent_of
from sqlstream.runtime.edits.plan.plan_parts import (
    SinkPart,
    Size,
    StatePart,
)
from sqlstream.runtime.edits.sources.unread_rows import UnreadRows
from sqlstream.runtime.edits.states.titles import title_of
from sqlstream.storage.manifest import SourceState
from sqlstream_operators.plan.cut_down import cut_down
from sqlstream_operators.plan.spec import PhysicalPlan
from sqlstream_operators.plan.state_schema import StateSchema
from sqlstream_planner.edits.verdict import FieldEdit, StateEdit, Verdict
from sqlstream_planner.explain.meaning import field_meaning, field_meanings


def read_again_whole(edit: StateEdit, now: PhysicalPlan, unread: UnreadRows) -> StateEdit:
    """The edit with why nothing is kept of a state: rows that were dead letters belong to it."""
    if edit.new is None or edit.old is not None or not unread.sources:
        return edit
    of_others = [n for n in sources_of(now, edit.new.state.state_id) if n in unread.sources]
    if not of_others:
        return edit
    reason = f"rows of {' and '.join(of_others)} that could not be read before may be rows now"
    fields = tuple(replace(f, reason=reason) for f in edit.fields)
    return replace(edit, reason=reason, fields=fields)


def history_of(
    edits: Iterable[StateEdit],
    sinks: Iterable[SinkPart],
    now: PhysicalPlan,
    known: Mapping[str, SourceState],
    source_of: SourceOf | None,
    rows_per_second: float | None,
) -> History:
    """What is there of the sources that a state with missing fields, or a new sink, is made of."""
    parts = [
        cut_down(now, {edit.new.state.state_id})
        for edit in edits
        if edit.new is not None and edit.needs_history
    ]
    parts += [cut_down(now, (), {sink.name}) for sink in sinks if sink.from_history]
    wanted = {source.name for part in parts for source in part.sources}
    # Where nothing was read, nothing was looked up.
    read = [part for part in parts if any(source.name in known for source in part.sources)]
    looked_up = {d.name: d for part in read for d in part.dimensions}
    specs = [s for s in now.sources if s.name in wanted]
    of_epochs = any(reads_epoch(part) for part in read)
    return history(specs, known, source_of, rows_per_second, looked_up.values(), of_epochs=of_epochs)


def agreed(edit: StateEdit, now: PhysicalPlan, there: History) -> StateEdit:
    """The edit as it can be carried out: what can't be read again begins empty."""
    if edit.new is None or not edit.missing:
        return edit
    if there.missing.keys().isdisjoint(needs_of(now, {edit.new.state.state_id})):
        return edit
    return edit.fresh()


def state_part(edit: StateEdit, sizes: Mapping[str, Size], now: PhysicalPlan, there: History) -> StatePart:
    """What becomes of a state; `sizes` are those of the states that there are."""
    readings: tuple[Reading, ...] = ()
    if edit.new is not None and edit.needs_history:
        readings = tuple(there.readings[name] for name in sources_of(now, edit.new.state.state_id))
    title = title_of(edit.state)
    was = "" if edit.old is None or edit.new is None else title_of(edit.old.state)
    return StatePart(
        edit,
        title,
        "" if was == title else was,
        edit.fields or tuple(_dropped(edit.state)),
        None if edit.old is None else sizes.get(edit.old.state.state_id),
        readings,
    )


def _dropped(state: StateSchema) -> Iterable[FieldEdit]:
    meanings = field_meanings(state)
    for table in state.tables:
        for part, fields in (("key", table.key), ("sub_key", table.sub_key), ("value", table.value)):
            for f in fields:
                yield FieldEdit(Verdict.DROP, table.name, part, f.name, field_meaning(f, meanings))


def state_consents(part: StatePart, now: PhysicalPlan, there: History) -> Iterable[Consent]:
    """The consents that a state needs which begins empty."""
    if part.edit.verdict is Verdict.FRESH:
        why = there.gone(needs_of(now, {part.edit.state.state_id}))
        if why is not None:
            yield consent_of(part.edit, why)


def fresh_results(states: Iterable[StatePart]) -> Iterable[str]:
    """What is not exact of states, as some of it begins empty."""
    for part in states:
        missing = dict.fromkeys(f.meaning for f in part.fields if f.verdict is Verdict.FRESH)
        if missing and part.edit.old is None:
            yield f"Not exact: `{part.name}` ({part.title}) begins empty, and counts only from now on."
        elif missing:
            yield f"Not exact: {', '.join(missing)} of `{part.name}` only from now on."
