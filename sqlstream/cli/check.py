"""`sqlstream check`: every mistake that can be found without running, in well under half a second."""

from __future__ import annotations

from pathlib import Path

import click

from sqlstream.cli import options
from sqlstream.cli.render import show, to_json
from sqlstream.project import load_project, parse_pairs, plan
from sqlstream_planner.diagnostics import counted
from sqlstream_planner.explain.flink import differs_from_flink


@click.command(
    epilog="Example: sqlstream check pipelines/orders.sql --var limit=10",
)
@options.pipeline_argument
@options.var_option
@options.profile_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object: ok, file, diagnostics.")
def command(file: Path, variables: tuple[str, ...], profile: str | None, as_json: bool) -> None:
    """Find mistakes in a pipeline without running it.

    Parses FILE, checks every name, type and option, and plans it. Uses no Spark and reads no data. Exits
    with 1 if anything is wrong; warnings alone exit with 0.
    """
    project = load_project(file.parent, profile)
    planned = plan(file, project, parse_pairs(variables, "--var"))
    note = differs_from_flink(planned)
    diagnostics = (*planned.warnings, *([note] if note is not None else []))
    if as_json:
        click.echo(to_json(diagnostics, ok=True, file=str(file)))
        return
    show(diagnostics, planned.rendered.sources)
    physical = planned.physical
    parts = [
        counted(len(physical.sources), "source"),
        counted(len(physical.sinks), "sink"),
        counted(len(physical.states), "stateful operator"),
    ]
    if planned.warnings:
        parts.append(counted(len(planned.warnings), "warning"))
    click.echo(f"{file}: ok ({', '.join(parts)})")
