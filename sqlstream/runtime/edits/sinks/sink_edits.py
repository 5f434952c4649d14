"""What an edit of a pipeline means to its sinks: what each goes on with, is reconciled with, begins with, or why it is
refused.

A table and a changelog have the result of one query: with another one they are reconciled, from the state or from the
sources' history. Rows in files, in tables that are only appended to, and on the terminal stay as they were given; another
query may go on with them from now on, if the user says so. A sink is known by its place: what its table is called means
nothing, and another place begins anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from sqlstream.connectors.api import TargetEdit
from sqlstream.runtime.edits.consent import Consent
from sqlstream.runtime.edits.sinks.sink_edit import (
    NOTHING_CHANGED,
    Given,
    SinkEdit,
    answer_is_kept,
    beginning,
)
from sqlstream.runtime.edits.sinks.sink_places import Looks, descriptor_of, former_sinks, target_names
from sqlstream.runtime.edits.sinks.sinks_begun import new_sink, written_anew
from sqlstream.runtime.edits.sinks.sinks_kept import going_on
from sqlstream.storage.manifest import Manifest
from sqlstream_operators.plan.cut_down import cut_down
from sqlstream_operators.plan.spec import PhysicalPlan, SinkSpec
from sqlstream_planner.catalog.descriptor import Past
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Written, did_you_mean


def sink_edits(before: PhysicalPlan, now: PhysicalPlan, given: Given) -> tuple[SinkEdit, ...]:
    """What becomes of each sink of `now` when it goes on from `before`.

    Errors are STA014 (another query), STA015 (another way to write, or declaration) and STA026 (it can't begin anew);
    consents STA013 (append-only rows, in another place) and STA019 (a table is altered); warnings STA016 (rows of another
    query from now on) and STA017 (reconciled with another result, or given a full one).
    Raises DiagnosticError (STA026, exit code 2) for a sink to rewrite that the query does not have.
    """
    check_rewrite(given.rewrite, now)
    former = former_sinks(before, now, given.names, given.looks, given.epochs)
    known_as = target_names(now.sinks, former, given.names)
    was = {spec.name: spec for spec in before.sinks}
    made = []
    for spec in now.sinks:
        edit = SinkEdit(spec, former.get(spec.name), known_as[spec.name])
        if spec.name.lower() in {name.lower() for name in given.rewrite}:
            made.append(written_anew(edit, now, given))
        elif edit.former is None:
            made.append(new_sink(edit, now, given, moved=spec.name in was))
        else:
            made.append(going_on(edit, edit.former, before, now, given))
    return tuple(made)


def begun_sinks(now: PhysicalPlan, given: Given) -> tuple[SinkEdit, ...]:
    """The sinks of a state directory that begins with a savepoint: all are new, and get the result that the state has.

    One to rewrite of which the state has none is given what the sources have had for it. Raises as `sink_edits`.
    """
    check_rewrite(given.rewrite, now)
    wanted = {name.lower() for name in given.rewrite}
    return tuple(
        SinkEdit(spec, None, spec.name, beginning(spec, now, given))
        if spec.name.lower() in wanted
        else SinkEdit(
            spec,
            None,
            spec.name,
            diagnostics=tuple(_from_then_on(spec, now, given)),
            consents=tuple(_gap(spec, now, given)),
        )
        for spec in now.sinks
    )


def _from_then_on(spec: SinkSpec, now: PhysicalPlan, given: Given) -> Iterator[Diagnostic]:
    """What is reported of a sink whose rows are in no state, and that keeps what it is given."""
    descriptor = descriptor_of(spec)
    keeps = descriptor is None or descriptor.sink.past is not Past.DROPPED
    if spec.changelog == "append" and keeps and not answer_is_kept(now, spec, given.forgotten):
        yield Diagnostic(
            "STA016",
            f"the table `{spec.name}` gets only what comes after the savepoint",
            given.written.get(spec.name, Written()).query,
            ("rows that were written before stay where they are",),
            f"to have all of it here, run with --rewrite {spec.name}",
            severity="warning",
        )


def _gap(spec: SinkSpec, now: PhysicalPlan, given: Given) -> Iterator[Consent]:
    """The consent for a sink that goes on behind several savepoints, of which not all have emitted what is before that."""
    if (
        spec.changelog != "append"
        or answer_is_kept(now, spec, given.forgotten)
        or given.accepts("fresh", spec.name)
    ):
        return
    apart = [s.name for s in cut_down(now, (), (spec.name,)).sources if s.name in given.apart]
    if apart:
        at = given.written.get(spec.name, Written())
        why = Diagnostic(
            "SAV009",
            f"the table `{spec.name}` may miss rows between the savepoints",
            at.query,
            (
                f"not all of them stand at one place of {' and '.join(f'`{name}`' for name in apart)}, and what is before "
                "the furthest is not given any more",
            ),
            f"run with --rewrite {spec.name}, which gives it the whole history; or let the pipelines read all that there "
            "is, and make other savepoints",
        )
        then = "will have only what comes after the furthest savepoint"
        yield Consent(f"fresh:{spec.name}", f"`{spec.name}`", why, then, "let it go on there")


def untouched_sinks(now: PhysicalPlan, given: Given) -> tuple[SinkEdit, ...]:
    """The sinks of a state directory in which no epoch was committed."""
    check_rewrite(given.rewrite, now)
    names = target_names(now.sinks, {spec.name: spec for spec in now.sinks}, given.names)
    return tuple(SinkEdit(spec, spec, names[spec.name]) for spec in now.sinks)


def still_to_rewrite(
    names: Collection[str], last: Manifest, now: PhysicalPlan, looks: Looks
) -> tuple[str, ...]:
    """Those that the last epoch has not begun anew; one that it has, and that is not empty any more, goes on."""
    specs = {spec.name.lower(): spec for spec in now.sinks}

    def is_done(name: str) -> bool:
        spec = specs.get(name.lower())
        if spec is None or last.sink_edits.get(spec.name) != TargetEdit.REWRITE:
            return False
        return not looks.is_vacant(spec, last.sink_names.get(spec.name, spec.name))

    return tuple(name for name in names if not is_done(name))


def check_rewrite(names: Collection[str], now: PhysicalPlan) -> None:
    """Raises DiagnosticError (STA026, exit code 2) for a sink to rewrite that the query does not have."""
    there = {spec.name.lower() for spec in now.sinks}
    for name in names:
        if name.lower() not in there:
            near = did_you_mean(name, [spec.name for spec in now.sinks])
            raise DiagnosticError(
                Diagnostic(
                    "STA026",
                    f"--rewrite: the query writes no table `{name}`",
                    help=f"did you mean `{near}`?" if near else None,
                ),
                exit_code=2,
            )


def without_history(missing: Diagnostic, sinks: Collection[str]) -> Diagnostic:
    """What is reported of history that is gone, of which tables that are kept up to date need all."""
    which = ", ".join(f"`{name}`" for name in sinks)
    return replace(
        missing,
        notes=(*missing.notes, f"the result of {which} is not in the state, and can't be had without it"),
        help=f"put the files back as they were, or leave {which} out; {NOTHING_CHANGED}",
    )
