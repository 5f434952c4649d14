"""What a run would do, before it runs: the plan of an edit against a state directory or a savepoint. Nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlstream.connectors.api import Source
from sqlstream.runtime.edits.deciding import decide
from sqlstream.runtime.edits.declared_moves import declared_moves
from sqlstream.runtime.edits.plan.plan_parts import EditPlan
from sqlstream.runtime.edits.savepoints.fork import has_begun
from sqlstream.runtime.edits.sinks.former_sinks import check_passwords
from sqlstream.runtime.edits.sinks.sink_edits import check_rewrite
from sqlstream.runtime.edits.sinks.sink_places import Looks, looking
from sqlstream.runtime.edits.sources.moved_sources import Moves, taken_over
from sqlstream.runtime.edits.sources.source_looks import look_at_new_sources, source_problems_now
from sqlstream.runtime.loop.recovery import committed_epoch, last_manifest
from sqlstream.runtime.loop.source_positions import go_on
from sqlstream.runtime.run.request import RunRequest
from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import Manifest
from sqlstream.storage.run_folder import RunFolder
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic

if TYPE_CHECKING:
    from sqlstream_planner.pipeline import Planned


def planned_edit(
    planned: Planned,
    request: RunRequest,
    *,
    own: bool,
    tables: Sequence[str],
    again: Callable[[Mapping[str, str]], Planned],
) -> EditPlan:
    """What happens when `request` is carried out, of the file that was `planned`; the sources of `tables` have moved.

    `own`: the state directory is the pipeline's own, beside which a savepoint begins another. `again` plans the file with
    `Catalog.moved`. Raises DiagnosticError as a run does.
    """
    store, origin = CheckpointStore(request.uri), request.origin
    if origin is not None and not own and has_begun(origin, store):
        # A run goes on from its last epoch, and has begun with its options.
        origin, last = None, last_manifest(Journal(store))
        request = replace(request, rewrite=() if committed_epoch(last) else request.rewrite)
    while True:
        journal = Journal(store if origin is None else origin.store)
        last = last_manifest(journal) if origin is None else origin.savepoint.manifest
        prefix = "" if origin is None else origin.savepoint.prefix
        sources = planned.physical.sources
        moved = declared_moves(last, sources, tables, journal.store, prefix, request.base)
        now = again(moved.known_as) if moved.known_as else planned
        current = replace(
            request,
            plan=now.physical,
            sql=now.masked_sql,
            written=now.written,
            nodes=now.state_nodes,
            secrets=now.secrets,
            origin=origin,
        )
        made = _against(current, journal, last, prefix, moved)
        seen = None if origin is not None or last is None else (last_manifest(journal) or last).epoch
        if last is None or seen is None or not made.problems or seen == last.epoch:
            return made
        # A run has gone on meanwhile, and what was seen of its tables is newer than the state that was read.


def _against(
    request: RunRequest, journal: Journal, last: Manifest | None, prefix: str, moved: Moves
) -> EditPlan:
    """The plan against `last`, whose folders of sources are below `prefix` of the journal's store."""
    away: list[Diagnostic] = []
    store = CheckpointStore(request.uri)
    looks = looking(
        lambda spec, known_as: request.sink_of(spec, store, known_as),
        lambda one: None if one in away else away.append(one),
        base_dir=request.base,
    )
    if last is None:
        check_rewrite(request.rewrite, request.plan)
        with RunFolder("first-") as scratch:
            first = CheckpointStore(scratch.path, sync=False)
            look_at_new_sources(request.plan.sources, (), first, request.source_of)
        return _with_away(decide(request.edited, journal, None, looks=looks, rewrite=request.rewrite), away)
    origin = request.origin
    made, manifest = _looked_ahead(request, journal, last, prefix, moved, looks)
    made = _with_away(made, away)
    if origin is not None:
        return made.beside(origin.where, origin.notes)
    goes_on = {sink.former.name: sink for sink in made.sink_edits if sink.former is not None}
    missing = check_passwords(journal, manifest, goes_on, request.known_secrets)
    return replace(made, problems=(*made.problems, *missing))


def _looked_ahead(
    request: RunRequest, journal: Journal, last: Manifest, prefix: str, moved: Moves, looks: Looks
) -> tuple[EditPlan, Manifest]:
    """What is decided once the sources have moved, and what a look at them says; with the manifest as it would be then."""
    plan = request.plan
    with RunFolder("moved-") as scratch:  # what moved sources take over is not written to the state
        here = CheckpointStore(scratch.path, sync=False)
        manifest, _ = taken_over(journal, last, plan, moved, here, request.source_of, prefix)

        def kept(folder: str) -> tuple[CheckpointStore, str]:
            return (here, folder) if here.list(folder) else (journal.store, f"{prefix}{folder}")

        def source_of(spec: SourceSpec, folder: str) -> Source:
            return request.source_of(spec, *kept(folder))

        made = decide(
            request.edited,
            journal,
            manifest,
            looks=looks,
            rewrite=request.rewrite,
            origin=request.origin,
            source_of=source_of,
        )
        if not (made.problems or made.consents):
            known = go_on(manifest.positions, plan.sources)
            seen = CheckpointStore(f"{scratch.path}/looks", sync=False)
            specs = {spec.name: spec for spec in plan.sources}
            problems = source_problems_now(specs, known, kept, seen, request.source_of)
            look_at_new_sources(plan.sources, known, seen, request.source_of)
            made = replace(made, problems=tuple(problems))
    return made, manifest


def _with_away(made: EditPlan, away: Sequence[Diagnostic]) -> EditPlan:
    """A plan that says which tables could not be looked at."""
    warnings = (
        replace(one, severity="warning", help="a run looks at it, and may refuse what is planned here")
        for one in away
    )
    return replace(made, warnings=(*made.warnings, *warnings))
