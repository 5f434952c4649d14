"""`sqlstream explain`: the plan of a pipeline, for people and for tools."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sqlstream.cli import options
from sqlstream.cli.painted import explained
from sqlstream.cli.render import colourful, show
from sqlstream.project import load_project, parse_pairs, plan

FORMATS = ("text", "json", "mermaid", "duckdb")


@click.command(epilog="Example: sqlstream explain pipelines/orders.sql --format duckdb")
@options.pipeline_argument
@click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    default="text",
    help="text (default); json; mermaid: a flowchart; duckdb: the whole pipeline as batch SQL.",
)
@options.var_option
@options.profile_option
def command(file: Path, format_: str, variables: tuple[str, ...], profile: str | None) -> None:
    """Show the plan of a pipeline: its stages, its state, or its DuckDB SQL.

    The text begins with the graph of the plan, sources first. It names for every node its changelog mode,
    keys and event time, and for every stateful operator the schema of its state. The same file always gives
    the same output, so it can be kept and compared.
    """
    planned = plan(file, load_project(file.parent, profile), parse_pairs(variables, "--var"))
    show(planned.warnings, planned.rendered.sources)
    if format_ == "duckdb":
        from sqlstream_planner.batch.to_duckdb import to_duckdb

        text = to_duckdb(planned).text
    else:
        from sqlstream_planner.explain import plan as explain

        text = {
            "text": lambda found: explained(found, colour=colourful(sys.stdout)),
            "json": explain.explain_json,
            "mermaid": explain.explain_mermaid,
        }[format_](planned)
    click.echo(text, nl=not text.endswith("\n"), color=True)
