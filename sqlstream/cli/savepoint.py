"""`sqlstream savepoint`: names for the state of a pipeline, while it runs or when it has stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from sqlstream.cli.output import json_line
from sqlstream.cli.state_directory import of_store
from sqlstream_planner.text.masking import without_password

if TYPE_CHECKING:
    from sqlstream.storage.savepoints import Savepoint
    from sqlstream_operators.state.checkpoint_store import CheckpointStore


@click.group(epilog="Example: sqlstream savepoint create pipelines/orders.sql before-release")
def command() -> None:
    """Name the state of a pipeline, and keep it until the name is deleted.

    A savepoint costs the same however large the state is, and can be made while the pipeline runs.
    `sqlstream run FILE --from NAME --state-dir NEW` starts from one.
    """


@command.command()
@of_store
@click.argument("name", required=False)
def create(store: CheckpointStore, name: str | None) -> None:
    """Name the state after the last epoch that was committed. The default for NAME says time and epoch."""
    from sqlstream.storage.savepoints import Savepoints

    made = Savepoints(store).create(name)
    click.echo(f"savepoint {made.name}: epoch {made.manifest.epoch:,} of {without_password(store.uri)}")


@command.command(name="list")
@of_store
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
def list_(store: CheckpointStore, as_json: bool) -> None:
    """List the savepoints, by epoch and name."""
    from sqlstream.cli.savepoint_text import about, savepoint_lines
    from sqlstream.storage.savepoints import Savepoints

    found = Savepoints(store).all()
    if as_json:
        for savepoint in found:
            click.echo(json_line(about(savepoint)))
    elif found:
        for line in savepoint_lines(found):
            click.echo(line)
    else:
        click.echo(f"no savepoints in {without_password(store.uri)}", err=True)


@command.command()
@of_store
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def show(store: CheckpointStore, name: str, as_json: bool) -> None:
    """Show what a savepoint has: the query as it was, source offsets and watermarks, and each state with its size."""
    from sqlstream.cli.savepoint_text import details, details_text
    from sqlstream.storage.savepoints import Savepoints

    found = details(store, Savepoints(store).find(name))
    click.echo(json_line(found) if as_json else details_text(found))


@command.command()
@of_store
@click.argument("name")
def delete(store: CheckpointStore, name: str) -> None:
    """Forget a savepoint. Files that nothing else needs go when the pipeline starts the next time."""
    from sqlstream.storage.savepoints import Savepoints

    Savepoints(store).delete(name)
    click.echo(f"savepoint {name} is deleted")


@command.command()
@of_store
@click.argument("name")
@click.argument("directory", metavar="DIR")
def export(store: CheckpointStore, name: str, directory: str) -> None:
    """Copy a savepoint with all that it needs to DIR, a new folder (or a URI)."""
    from sqlstream.storage.savepoint_copies import export_savepoint
    from sqlstream.storage.savepoints import Savepoints
    from sqlstream_operators.state.checkpoint_store import CheckpointStore

    savepoint: Savepoint = Savepoints(store).find(name)
    export_savepoint(store, savepoint, CheckpointStore(directory))
    click.echo(f"savepoint {name} is in {directory}")


@command.command(name="import")
@of_store
@click.argument("directory", metavar="DIR")
@click.argument("name", required=False)
def import_(store: CheckpointStore, directory: str, name: str | None) -> None:
    """Copy what `export` made into the pipeline's state directory, under its name or NAME."""
    from sqlstream.storage.savepoint_copies import import_savepoint
    from sqlstream_operators.state.checkpoint_store import CheckpointStore

    made = import_savepoint(CheckpointStore(directory), store, name)
    click.echo(f"savepoint {made.name} is in {without_password(store.uri)}")
