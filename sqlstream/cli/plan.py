"""`sqlstream plan`: what an edited file keeps of a state, adapts, computes anew and drops, before anything runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlstream.cli import options
from sqlstream.cli.accepted import check_accepted
from sqlstream.cli.opened import Opened, opened
from sqlstream.cli.render import colourful, show
from sqlstream.cli.state_directory import is_missing
from sqlstream.project import plan

if TYPE_CHECKING:
    from sqlstream.runtime.edits.plan.plan_parts import EditPlan
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
    help="Compare FILE with the file OLD, without any state.",
)
@options.accept_option
@options.rewrite_option
@options.moved_option
@options.profile_option
@click.option("--graph", is_flag=True, help="Also draw the plan of FILE, with what becomes of each state.")
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
    graph: bool,
    as_json: bool,
) -> int:
    """Show what FILE keeps of its state, adapts, computes anew and drops, before it runs.

    Plans FILE against the last epoch of its state directory: each operator's state and each field, what sources read
    and what sinks get, and how exact the results are then. Uses no Spark, changes nothing, and may be called while the
    pipeline runs.

    Exit codes: 0 nothing to consent to; 1 the SQL is wrong; 2 the command line is wrong; 3 consent is needed; 4 refused.
    """
    if old is not None and (savepoints or state_dir or source_moved or accepted or rewritten):
        raise click.UsageError(
            "--diff looks at no state: leave --from, --state-dir, --source-moved, --accept and --rewrite out"
        )
    pipeline = opened(file, profile, variables)
    planned = pipeline.planned
    check_accepted(accepted, planned.physical)
    if old is not None:
        made, planned = _against_file(pipeline, old)
        against = f"against {old}"
    else:
        state = pipeline.state(state_dir, savepoints)
        against = f"in {state}"
        if state_dir is not None and is_missing(state):
            against += ", which is not there: a run makes it"
        made = _against_state(
            pipeline, state, savepoints, accepted, rewritten, own=state_dir is None, tables=source_moved
        )
    if as_json:
        click.echo(json.dumps({"file": str(file), **made.to_json()}, ensure_ascii=False))
        return made.exit_code
    from sqlstream.cli.painted import graph_paint
    from sqlstream.cli.plan_text import plan_lines
    from sqlstream_planner.explain.graph import clauses_of, graph_of
    from sqlstream_planner.explain.graph_text import graph_lines, plain

    show((*planned.warnings, *made.warnings, *(c.why for c in made.consents)), planned.rendered.sources)
    show(made.problems, planned.rendered.sources)
    colour = colourful(sys.stdout)
    if graph:
        places, verdicts = (
            clauses_of(planned),
            {f"op:{s.name}": s.shown_verdict for s in made.states if s.edit.new},
        )
        paint = graph_paint if colour else plain
        for line in graph_lines(graph_of(planned.physical), places, verdicts=verdicts, paint=paint):
            click.echo(line, color=True)
        click.echo()
    for line in plan_lines(made, str(file), against, planned.rendered.sources, colour=colour):
        click.echo(line, color=True)
    return made.exit_code


def _against_file(pipeline: Opened, old: Path) -> tuple[EditPlan, Planned]:
    """The plan against that of another file; beside it the file's own, by the identities of the other's sources."""
    from sqlstream.runtime.edits.declared_moves import respelled_in
    from sqlstream.runtime.edits.plan.edit_plan import edit_diff

    planned, base_dir = pipeline.planned, pipeline.base_dir
    before = plan(old, pipeline.project, pipeline.variables)
    known_as = respelled_in(before.physical.sources, planned.physical.sources, base_dir)
    planned = pipeline.again(known_as) if known_as else planned
    made = edit_diff(
        before.physical,
        planned.physical,
        written=planned.written,
        nodes=planned.state_nodes,
        base_dir=base_dir,
    )
    return made, planned


def _against_state(
    pipeline: Opened,
    state: str,
    savepoints: Sequence[str],
    accepted: tuple[str, ...],
    rewritten: tuple[str, ...],
    *,
    own: bool,
    tables: Sequence[str],
) -> EditPlan:
    """The plan against what a state directory or a savepoint has; the sources of `tables` have moved."""
    from sqlstream.runtime.run.planned_edit import planned_edit
    from sqlstream.runtime.run.request import RunRequest

    planned = pipeline.planned
    request = RunRequest(
        planned.physical,
        state_dir=state,
        secrets=planned.secrets,
        base_dir=pipeline.base_dir,
        origin=pipeline.origin(savepoints, state),
        accept=accepted,
        rewrite=rewritten,
    )
    return planned_edit(planned, request, own=own, tables=tables, again=pipeline.again)
