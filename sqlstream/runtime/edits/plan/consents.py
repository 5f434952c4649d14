"""What of an edit somebody must agree to, as `plan` shows it and `run` asks for it: what begins in mid-input."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlstream.runtime.edits.consent import Consent
from sqlstream.runtime.edits.history.readings import sources_of
from sqlstream.runtime.edits.states.titles import title_of
from sqlstream_operators.plan.cut_down import sources_of_sink
from sqlstream_operators.plan.spec import PhysicalPlan
from sqlstream_planner.diagnostics import Diagnostic
from sqlstream_planner.edits.verdict import StateEdit


def consents_of(
    edits: Iterable[StateEdit],
    sinks: Iterable[str],
    now: PhysicalPlan,
    why: Diagnostic,
    gone: Collection[str],
) -> Iterable[Consent]:
    """What can't be had of an edit and of new sinks if sources `gone` can't be read again, as `why` says."""
    for edit in edits:
        read = () if edit.new is None or not edit.needs_history else sources_of(now, edit.new.state.state_id)
        if not set(gone).isdisjoint(read):
            yield consent_of(edit, why)
    for sink in sinks:
        if not set(gone).isdisjoint(sources_of_sink(now, sink)):
            yield sink_consent(sink, why)


def consent_of(edit: StateEdit, why: Diagnostic) -> Consent:
    """What begins empty if history is gone: the fields of a state that are not kept, or all of it."""
    what = ", ".join(dict.fromkeys(f.meaning for f in edit.missing))
    return Consent(f"fresh:{edit.step}", title_of(edit.state) if edit.old is None else what, why)


def sink_consent(sink: str, why: Diagnostic) -> Consent:
    """That a new table is not given what its sources have had so far."""
    return Consent(f"fresh:{sink}", f"`{sink}`", why, "will have only what is read from now on")
