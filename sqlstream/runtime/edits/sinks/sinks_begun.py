"""Sinks that begin, as nothing of this state directory is in their places: what each is given first, or why it can't."""

from __future__ import annotations

from dataclasses import replace

from sqlstream.connectors.api import TargetEdit
from sqlstream.runtime.edits.consent import Consent
from sqlstream.runtime.edits.sinks.sink_edit import NOTHING_CHANGED, Begins, Given, SinkEdit, beginning
from sqlstream.runtime.edits.sinks.sink_places import descriptor_of
from sqlstream.runtime.edits.states.forgetting import Forgotten
from sqlstream_operators.plan.answers import missing_answers
from sqlstream_operators.plan.spec import PhysicalPlan, SinkSpec
from sqlstream_planner.catalog.descriptor import Past
from sqlstream_planner.diagnostics import Diagnostic, Written


def written_anew(edit: SinkEdit, now: PhysicalPlan, given: Given) -> SinkEdit:
    """A sink of `--rewrite`, whose place must be empty."""
    spec = edit.spec
    at = given.written.get(spec.name, Written())
    edit = replace(edit, begins=beginning(spec, now, given), target=TargetEdit.REWRITE)
    if not given.looks.is_vacant(spec, edit.known_as):
        # One that was left out or moved has old rows there, with which no run goes on (STA030).
        goes_on = "without --rewrite it goes on with what it has; " if edit.former is not None else ""
        diagnostic = Diagnostic(
            "STA026",
            f"the table `{spec.name}` would be rewritten, but its target is not empty",
            at.table,
            ("rows that are there would be mixed with its result",),
            f"empty it, or name another place; {goes_on}{NOTHING_CHANGED}",
        )
        return replace(edit, diagnostics=(diagnostic,))
    what = {
        Begins.ANSWER: _whole(now, spec, given.forgotten),
        Begins.NOTHING_READ: ("nothing was read for it so far",),
        Begins.NOW: ("what was read before is not in it, as accepted",),
        Begins.HISTORY: ("what was read is read again for it, up to where the sources are",),
    }[edit.begins or Begins.HISTORY]
    code = "STA016" if edit.begins is Begins.NOW else "STA017"
    diagnostic = Diagnostic(
        code, f"the table `{spec.name}` is written anew", at.query, what, severity="warning"
    )
    return replace(edit, diagnostics=(diagnostic,))


def new_sink(edit: SinkEdit, now: PhysicalPlan, given: Given, *, moved: bool) -> SinkEdit:
    """A sink that nothing was given to; with `moved` a table of its name was written in another place."""
    spec = edit.spec
    at = given.written.get(spec.name, Written())
    begins = beginning(spec, now, given)
    edit = replace(edit, begins=begins)
    if moved and begins is Begins.HISTORY and spec.changelog == "append":
        descriptor = descriptor_of(spec)
        if descriptor is not None and descriptor.sink.past is Past.DROPPED:
            return replace(edit, begins=Begins.NOW)
        why = Diagnostic(
            "STA013",
            f"the table `{spec.name}` is written to another target than before",
            at.table,
            ("the rows that it has so far stay in the former target",),
            f"to write the full result to the new target, run with `--rewrite {spec.name}`",
        )
        then = "will have only what is read from now on"
        consent = Consent(f"fresh:{spec.name}", f"`{spec.name}`", why, then, "let it begin there now")
        return replace(edit, consents=(consent,))
    place = "written to another target than before, and starts there from nothing" if moved else "new"
    table = f"the table `{spec.name}` is {place}"
    match begins:
        case Begins.ANSWER:
            diagnostic = Diagnostic(
                "STA017",
                table,
                at.query,
                _whole(now, spec, given.forgotten),
                severity="warning",
            )
        case Begins.NOW:
            diagnostic = Diagnostic(
                "STA016",
                f"{table}, and gets rows from now on",
                at.query,
                ("what was read before is not in it, as accepted",),
                severity="warning",
            )
        case Begins.HISTORY:
            diagnostic = Diagnostic(
                "STA017",
                f"{table}, and gets the history of the sources",
                at.query,
                ("what was read is read again for it, up to where the sources are",),
                f"to begin it with what is read from now on: --accept fresh:{spec.name}"
                if spec.changelog == "append"
                else None,
                severity="warning",
            )
        case _:
            return edit
    return replace(edit, diagnostics=(diagnostic,))


def _whole(now: PhysicalPlan, spec: SinkSpec, forgotten: Forgotten) -> tuple[str, ...]:
    """Notes about a sink that gets its result from the state."""
    if not missing_answers(now, spec.name, forgetful=forgotten.now):
        return ("its full result is in the state: it gets that first, exactly once",)
    return (
        "it gets what the state has of its result first, exactly once",
        "keys that the state has forgotten, by its time to live, are not in it until a row of theirs comes",
    )
