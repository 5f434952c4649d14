"""`sqlstream plan`: what an edited file keeps of a state, adapts, computes anew and drops, before anything runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlstream.cli import options
from sqlstream.cli.accepted import check_accepted
from sqlstream.cli.moved import declared_moves, last_manifest
from sqlstream.cli.renamed import check_renamed
from sqlstream.cli.render import colourful, show
from sqlstream.cli.state_directory import check_folder, is_missing
from sqlstream.project import load_project, parse_pairs, plan, state_directory

if TYPE_CHECKING:
    from sqlstream.project import Project
    from sqlstream.runtime.edits.plan_parts import EditPlan
    from sqlstream_planner.diagnostics import Diagnostic
    from sqlstream_planner.pipeline import Planned


@click.command(
    epilog="Example: sqlstream plan pipelines/orders.sql, or sqlstream plan --diff old.sql new.sql",
)
@options.pipeline_argument
@options.var_option
@click.option(
    "--state-dir",
    metavar="DIR",
    help="State and progress, a path or URI. Default: what `run` takes.",
)
@options.from_option
@click.option(
    "--diff",
    "old",
    type=click.Path(path_type=Path),
    metavar="OLD",
    help="Compare FILE with the file OLD; no state is looked at.",
)
@options.accept_option
@options.rewrite_option
@options.moved_option
@options.profile_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def command(
    file: Path,
    variables: tuple[str, ...],
    state_dir: str | None,
    savepoints: tuple[str, ...],
    old: Path | None,
    accepted: tuple[str, ...],
    rewritten: tuple[str, ...],
    source_moved: tuple[str, ...],
    profile: str | None,
    as_json: bool,
) -> int:
    """Show what FILE keeps of its state, adapts, computes anew and drops, before it runs.

    Plans FILE against the last epoch of its state directory: each operator's state and each field, what sources read
    and what sinks are given, and what the results mean then. Uses no Spark, changes nothing, and may be asked while the
    pipeline runs.

    Exit codes: 0 nothing to consent to; 1 the SQL is wrong; 2 the command line is wrong; 3 consent is needed; 4 refused.
    """
    if old is not None and (savepoints or state_dir or source_moved or accepted or rewritten):
        raise click.UsageError(
            "--diff looks at no state: leave --from, --state-dir, --source-moved, --accept and --rewrite out"
        )
    project = load_project(file.parent, profile)
    given = parse_pairs(variables, "--var")
    planned = plan(file, project, given)
    check_accepted(accepted, planned.physical)
    if old is not None:
        from sqlstream.runtime.edits.edit_plan import edit_diff

        before = plan(old, project, given)
        against = f"against {old}"
        made = edit_diff(
            before.physical, planned.physical, written=planned.written, nodes=planned.state_nodes
        )
    else:
        state = state_directory(planned, file, project, state_dir)
        check_folder(state)
        if state_dir is None and planned.physical.options.state_dir is None and not savepoints:
            check_renamed(planned, file, project, state)
        against = f"in {state}"
        if state_dir is not None and is_missing(state):
            against += ", which is not there: a run makes it"
        made = _against_state(
            planned,
            file,
            project,
            state,
            savepoints,
            accepted,
            rewritten,
            own=state_dir is None,
            tables=source_moved,
            again=lambda known_as: plan(file, project, given, known_as),
        )
    if as_json:
        click.echo(json.dumps({"file": str(file), **made.to_json()}, ensure_ascii=False))
        return made.exit_code
    from sqlstream.cli.plan_text import plan_lines

    show((*planned.warnings, *made.warnings, *(c.why for c in made.consents)), planned.rendered.sources)
    show(made.problems, planned.rendered.sources)
    for line in plan_lines(made, str(file), against, planned.rendered.sources, colour=colourful(sys.stdout)):
        click.echo(line, color=True)
    return made.exit_code


def _against_state(
    planned: Planned,
    file: Path,
    project: Project,
    state: str,
    savepoints: Sequence[str],
    accepted: tuple[str, ...],
    rewritten: tuple[str, ...],
    *,
    own: bool,
    tables: Sequence[str],
    again: Callable[[Mapping[str, str]], Planned],
) -> EditPlan:
    """The plan against what a state directory or a savepoint has; the sources of `tables` have moved."""
    from sqlstream.cli.origins import origin_of
    from sqlstream.connectors.api import ConnectorContext, Sink, Source
    from sqlstream.connectors.registry import REGISTERED
    from sqlstream.runtime.edits.edit_plan import edit_plan, first_plan
    from sqlstream.runtime.edits.source_looks import source_problems_now
    from sqlstream.runtime.loop.fork import has_begun
    from sqlstream.runtime.loop.former_sinks import check_passwords
    from sqlstream.runtime.loop.moved_sources import taken_over
    from sqlstream.runtime.loop.recovery import committed_epoch
    from sqlstream.runtime.loop.sink_edits import check_rewrite
    from sqlstream.runtime.loop.sink_places import looking
    from sqlstream.runtime.loop.source_positions import go_on
    from sqlstream.storage.journal import Journal
    from sqlstream.storage.run_folder import RunFolder
    from sqlstream_operators.plan.spec import SinkSpec, SourceSpec
    from sqlstream_operators.state.checkpoint_store import CheckpointStore

    store = CheckpointStore(state)
    owns, base_dir = state_directory(planned, file, project, None), str(file.parent.absolute())
    origin = click.get_current_context().with_resource(
        origin_of(savepoints, owns, state, base_dir, planned.secrets)
    )
    if origin is not None and not own and has_begun(origin, store):
        origin = None  # a run goes on from its last epoch, and has begun with what it was told
        last = last_manifest(Journal(store))
        rewritten = () if committed_epoch(last) else rewritten
    journal = Journal(store if origin is None else origin.store)
    manifest = last_manifest(journal) if origin is None else origin.savepoint.manifest
    prefix = "" if origin is None else origin.savepoint.prefix
    moved = declared_moves(manifest, planned.physical.sources, tables, journal.store, prefix, base_dir)
    planned = again(moved.known_as) if moved.known_as else planned
    away: list[Diagnostic] = []

    def source_in(spec: SourceSpec, where: CheckpointStore, folder: str) -> Source:
        context = ConnectorContext(where, base_dir, folder=folder)
        return REGISTERED.source(planned.secrets.resolved(spec), context)

    def sink_of(spec: SinkSpec, known_as: str) -> Sink:
        context = ConnectorContext(store, base_dir, known_as=known_as)
        return REGISTERED.sink(planned.secrets.resolved(spec), context)

    looks = looking(sink_of, lambda told: None if told in away else away.append(told))
    if manifest is None:
        check_rewrite(rewritten, planned.physical)
        return _with_away(first_plan(planned.physical, looks), away)
    with RunFolder("moved-") as scratch:  # what moved sources take over is not written to the state
        here = CheckpointStore(scratch.path, sync=False)
        manifest, _ = taken_over(journal, manifest, planned.physical, moved, here, source_in, prefix)

        def source_of(spec: SourceSpec, folder: str) -> Source:
            if here.list(folder):
                return source_in(spec, here, folder)
            return source_in(spec, journal.store, f"{prefix}{folder}")

        made = edit_plan(
            journal,
            manifest,
            planned.physical,
            sql=planned.masked_sql,
            written=planned.written,
            savepoint=None if origin is None else origin.savepoint,
            apart=() if origin is None else origin.apart,
            source_of=source_of,
            nodes=planned.state_nodes,
            accept=accepted,
            rewrite=rewritten,
            looks=looks,
        )
        if not (made.problems or made.consents):
            specs = {spec.name: spec for spec in planned.physical.sources}
            problems = source_problems_now(
                specs,
                go_on(manifest.positions, planned.physical.sources),
                lambda folder: (here, folder) if here.list(folder) else (journal.store, f"{prefix}{folder}"),
                CheckpointStore(f"{scratch}/looks", sync=False),
                source_in,
            )
            made = replace(made, problems=tuple(problems))
    if origin is None and made.problems and (last_manifest(journal) or manifest).epoch != manifest.epoch:
        # A run has gone on meanwhile, and what was seen of its tables is newer than the state that was read.
        return _against_state(
            planned,
            file,
            project,
            state,
            savepoints,
            accepted,
            rewritten,
            own=own,
            tables=tables,
            again=again,
        )
    made = _with_away(made, away)
    if origin is None:
        goes_on = {sink.former.name: sink for sink in made.sink_edits if sink.former is not None}
        missing = check_passwords(journal, manifest, goes_on, planned.secrets)
        return replace(made, problems=(*made.problems, *missing))
    return made.beside(origin.where, origin.notes)


def _with_away(made: EditPlan, away: Sequence[Diagnostic]) -> EditPlan:
    """A plan that says which tables could not be looked at."""
    told = (
        replace(one, severity="warning", help="a run looks at it, and may refuse what is planned here")
        for one in away
    )
    return replace(made, warnings=(*made.warnings, *told))
