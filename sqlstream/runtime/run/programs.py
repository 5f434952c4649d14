"""What a run gives to the loop: the plan with the driver's halves of its connectors, and what its edit means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sqlstream.connectors.api import ConnectorContext, Sink, TargetEdit
from sqlstream.connectors.capabilities import TakingOver
from sqlstream.runtime.edits.plan.plan_parts import EditPlan
from sqlstream.runtime.edits.sinks.former_sinks import can_be_reached, check_passwords
from sqlstream.runtime.edits.sinks.sink_edit import SinkEdit, not_there
from sqlstream.runtime.edits.sinks.sink_places import same_place
from sqlstream.runtime.edits.transition import transition_of
from sqlstream.runtime.loop.committed_sinks import all_have_it
from sqlstream.runtime.loop.program import FormerSink, Program
from sqlstream.runtime.loop.recovery import (
    committed_epoch,
    is_fresh_fork,
    physical_plan,
    program_fingerprint,
)
from sqlstream.runtime.loop.source_positions import go_on, own_folders
from sqlstream.runtime.run.request import RunRequest
from sqlstream.storage.journal import Journal, digest_of
from sqlstream.storage.manifest import Manifest, RunInfo
from sqlstream_operators.plan import plan_json
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_planner.diagnostics import DiagnosticError


def program_of(
    request: RunRequest,
    journal: Journal,
    last: Manifest | None,
    decided: EditPlan,
    context: ConnectorContext,
    run: RunInfo,
) -> Program:
    """The program of a request, which goes on from `last` as was `decided`.

    Raises DiagnosticError (exit code 4) if the password of a sink is missing that must be written once more.
    """
    plan, secrets, connectors = request.plan, request.known_secrets, request.driver_connectors
    text = plan_json.to_text(plan).encode()
    digest = digest_of(text)
    forgot = last is not None and bool(last.forgotten)
    edits = decided.sink_edits
    names = {sink.spec.name: sink.known_as for sink in edits}
    sinks = {
        spec.name: connectors.sink(
            replace(secrets.resolved(spec), forgets=spec.forgets or forgot),
            replace(
                context, known_as=names.get(spec.name, spec.name), left_columns=_left_columns(spec, edits)
            ),
        )
        for spec in plan.sinks
    }
    former = _former_sinks(request, journal, last, edits, sinks, context, digest)
    positions = () if last is None else last.positions
    known = go_on(positions, plan.sources)
    folders = own_folders(known, plan.sources, taken=[state.folder for state in positions])
    return Program(
        plan=plan,
        text=text,
        fingerprint=program_fingerprint(plan),
        sources={
            spec.name: connectors.source(secrets.resolved(spec), replace(context, folder=folders[spec.name]))
            for spec in plan.sources
        },
        source_folders=folders,
        dimensions={
            spec.name: connectors.dimension(replace(spec, source=secrets.resolved(spec.source)), context)
            for spec in plan.dimensions
        },
        sinks=sinks,
        former_sinks=former,
        transition=transition_of(decided, plan, digest, last, run),
        known_as=names,
        secrets=secrets,
        sql=request.sql,
    )


def _former_sinks(
    request: RunRequest,
    journal: Journal,
    last: Manifest | None,
    edits: Iterable[SinkEdit],
    sinks: Mapping[str, Sink],
    context: ConnectorContext,
    digest: str,
) -> dict[str, FormerSink]:
    """The sinks of the program that wrote `last`, to commit it once more; `digest` is that of the present plan."""
    if last is None or is_fresh_fork(last):
        return {}
    plan, secrets = request.plan, request.known_secrets
    edits = tuple(edits)
    former: dict[str, FormerSink] = {}
    is_edit = bool(committed_epoch(last))
    goes_on = {sink.former.name: sink.spec for sink in edits if sink.former is not None}
    emptied = {s.former.name for s in edits if s.former is not None and s.target is TargetEdit.REWRITE}
    before = plan if last.plan_digest == digest else physical_plan(journal, last)
    missing = tuple(check_passwords(journal, last, goes_on, secrets))
    if missing:
        raise DiagnosticError(*missing, exit_code=4)
    for spec in before.sinks:
        now, name = goes_on.get(spec.name), spec.name
        if now is not None and (now == spec or _takes_over(sinks[now.name], spec)):
            elsewhere = (
                None if now == spec or same_place(now, spec, str(context.base_dir)) else not_there(name)
            )
            former[name] = FormerSink(sinks[now.name], elsewhere, emptied=name in emptied)
            continue
        if now is not None:
            spec = replace(spec, options=now.options)
        elif is_edit and not can_be_reached(spec, secrets) and all_have_it(journal.store, last):
            continue
        known_as = last.sink_names.get(name, name)
        sink = request.driver_connectors.sink(secrets.resolved(spec), replace(context, known_as=known_as))
        former[name] = FormerSink(sink, left=now is None and is_edit, emptied=name in emptied)
    return former


def _left_columns(spec: SinkSpec, edits: Iterable[SinkEdit]) -> tuple[str, ...]:
    """The columns that the former query gave a table which is a column less now."""
    former = next((e.former for e in edits if e.spec == spec and e.former is not None), None)
    given = {column.name.lower() for column in spec.schema}
    return tuple(c.name for c in former.schema if c.name.lower() not in given) if former is not None else ()


def _takes_over(sink: Sink, former: SinkSpec) -> bool:
    """Whether a sink says that it can commit what one with the spec `former` prepared (a new password …)."""
    return isinstance(sink, TakingOver) and sink.takes_over(former)
