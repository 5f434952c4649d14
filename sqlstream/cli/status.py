"""`sqlstream status`: how pipelines are, from whatever process or machine that sees their state directories."""

from __future__ import annotations

import click

from sqlstream.cli import options
from sqlstream.cli.output import json_line
from sqlstream_planner.diagnostics import DiagnosticError


@click.command(
    epilog="Example: sqlstream status pipelines/orders.sql, or sqlstream status s3://bucket/state/orders --json",
)
@click.argument("places", nargs=-1, metavar="[STATE_DIR|FILE]...")
@options.profile_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per pipeline and line.")
def command(places: tuple[str, ...], profile: str | None, as_json: bool) -> int:
    """Show how pipelines are: running or stopped, epoch, lag, rows per second, watermark, dead-letter rows.

    STATE_DIR is a pipeline's state directory, a path or URI, or a folder with some; FILE is a pipeline's .sql file.
    Without any, all pipelines of the project. Reads the state directories only, and disturbs no run. A run writes
    its lag and its rate every 5 seconds; epoch, watermark and state are those of the last committed epoch.

    Exit codes: 0 all are shown; 4 there is no such state directory, or one is damaged: the others are shown.
    """
    from sqlstream.cli.places import stores
    from sqlstream.cli.status_text import status_lines
    from sqlstream.state.overview import DAMAGED, damaged, overview

    found = []
    for name, store in stores(places, profile):
        try:
            found.append(overview(store, name))
        except DiagnosticError as error:
            if error.exit_code != 4:
                raise
            found.append(damaged(store, name, error))
    for line in map(json_line, (one.to_json() for one in found)) if as_json else status_lines(found):
        click.echo(line)
    return 4 if any(one.state == DAMAGED for one in found) else 0
