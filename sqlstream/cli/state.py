"""`sqlstream state`: what a pipeline keeps, as relations of SQL, while it runs or when it has stopped."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from sqlstream.cli.output import json_line
from sqlstream.cli.state_directory import of_store
from sqlstream_planner.diagnostics import DiagnosticError

if TYPE_CHECKING:
    from sqlstream_operators.state.checkpoint_store import CheckpointStore

_at_option = click.option(
    "--at",
    metavar="EPOCH|SAVEPOINT",
    help="After an epoch that is retained, or in a savepoint. Default: after the last epoch.",
)


@click.group(
    epilog='Example: sqlstream state query pipelines/orders.sql "SELECT * FROM group_aggregate_1 LIMIT 10"'
)
def command() -> None:
    """Look at what the operators of a pipeline keep, while it runs or when it has stopped.

    Nothing is written, and a run is not disturbed. docs/state.md says what the relations are.
    """


@command.command(name="list")
@of_store
@_at_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
def list_(store: CheckpointStore, at: str | None, as_json: bool) -> None:
    """List the relations that can be selected from, with the rows and bytes that are stored."""
    from sqlstream.cli.state_text import list_lines, listed
    from sqlstream.state.committed import find_committed

    committed = find_committed(store, at)
    if as_json:
        for found in listed(committed):
            click.echo(json_line(found))
    else:
        for line in list_lines(committed):
            click.echo(line)


@command.command()
@of_store
@click.argument("name")
@_at_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def show(store: CheckpointStore, name: str, at: str | None, as_json: bool) -> None:
    """Show a relation: its columns and what they mean, its keys, and what each shard has."""
    from sqlstream.cli.state_text import details, details_text
    from sqlstream.state.committed import find_committed

    found = details(find_committed(store, at), name)
    click.echo(json_line(found) if as_json else details_text(found))


@command.command()
@of_store
@_at_option
def check(store: CheckpointStore, at: str | None) -> None:
    """Compare every file that the state needs with its checksum. Reads all of them; exits with 4 if one is damaged.

    A run does not notice while the machine that it is on has the state in its cache; another machine needs the files.
    """
    from sqlstream.cli.state_text import check_lines
    from sqlstream.state.committed import find_committed

    for line in check_lines(find_committed(store, at)):
        click.echo(line)


@command.command()
@of_store
@click.argument("sql", metavar="SELECT")
@_at_option
@click.option("--json", "form", flag_value="json", help="One JSON object per row.")
@click.option("--csv", "form", flag_value="csv", help="CSV, with the names of the columns.")
@click.pass_context
def query(context: click.Context, store: CheckpointStore, sql: str, at: str | None, form: str | None) -> None:
    """Run a SELECT of DuckDB over the relations. A condition on all columns of a key reads only these keys."""
    from sqlstream.cli.render import show as show_diagnostics
    from sqlstream.state.query import FILE, run_query

    try:
        run_query(store, at, sql, form or "table", sys.stdout)
    except DiagnosticError as error:
        if form == "json":
            raise
        show_diagnostics(error.diagnostics, {FILE: sql})
        context.exit(error.exit_code)
