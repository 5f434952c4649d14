"""`sqlstream dead-letters`: rows that pipelines could not use, counted, shown, and read again when they are mended."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import click

from sqlstream.cli import options
from sqlstream.cli.output import json_line

_places = click.argument("places", nargs=-1, metavar="[STATE_DIR|FILE]...")
#: So many rows are shown if nothing else is asked for.
_SHOWN = 20


@click.group(epilog="Example: sqlstream dead-letters show pipelines/orders.sql --kind malformed --limit 5")
def command() -> None:
    """Look at the rows that pipelines could not use, and replay those that were mended.

    STATE_DIR is a pipeline's state directory, a path or URI, or a folder with some; FILE is a pipeline's .sql file.
    Without any, all pipelines of the project. docs/running/dead-letters.md says what the kinds are.
    """


@command.command(
    name="list",
    epilog="Example: sqlstream dead-letters list, or sqlstream dead-letters list s3://bucket/state/orders",
)
@_places
@options.profile_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line: source, kind and operator.")
def list_(places: tuple[str, ...], profile: str | None, as_json: bool) -> None:
    """Count dead-letter rows by source, kind and operator, with their epochs and reasons.

    Withdrawn are those whose source was read again, replayed those that were mended. Nothing is written, and a run is not
    disturbed.

    Exit codes: 0 they are counted; 4 there is no such state directory (STA033), or it is damaged (STA001).
    """
    from sqlstream.cli.dead_letters_text import count_lines
    from sqlstream.cli.places import stores
    from sqlstream.state.dead_letters import count_dead_letters

    found = [(name, count_dead_letters(store)) for name, store in stores(places, profile)]
    if as_json:
        for name, groups in found:
            for group in groups:
                click.echo(json_line({"pipeline": name, **group.to_json()}))
        return
    for line in count_lines(found):
        click.echo(line)


def _filters(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which rows are shown."""
    for option in (
        click.option(
            "--replayed", is_flag=True, help="Those that were replayed, instead of those that were not."
        ),
        click.option(
            "--withdrawn", is_flag=True, help="Those that were withdrawn: their source was read again."
        ),
        click.option("--epoch", type=click.IntRange(min=1), metavar="N", help="Those of this epoch."),
        click.option(
            "--reason",
            default="",
            metavar="TEXT",
            help="Those whose reason has this text, or is it, as `list` shows it.",
        ),
        click.option("--operator", default="", metavar="NAME", help="Those of this operator."),
        click.option(
            "--kind",
            type=click.Choice(["late", "no-time", "malformed", "failed"]),
            default=None,
            help="Those of this kind.",
        ),
        click.option("--source", default="", metavar="TABLE", help="Those of this source."),
    ):
        function = option(function)
    return function


@command.command(
    epilog="Example: sqlstream dead-letters show pipelines/orders.sql --source orders --limit 0 --json"
)
@_places
@_filters
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=_SHOWN,
    show_default=True,
    metavar="N",
    help="Maximum rows; 0: all of them.",
)
@click.option(
    "--offset",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Leave out so many rows first.",
)
@options.profile_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per row and line.")
def show(
    places: tuple[str, ...],
    source: str,
    kind: str | None,
    operator: str,
    reason: str,
    epoch: int | None,
    withdrawn: bool,
    replayed: bool,
    limit: int,
    offset: int,
    profile: str | None,
    as_json: bool,
) -> None:
    """Show dead-letter rows in the order of their epochs: where each comes from, why it is one, and the row.

    Exit codes: 0 they are shown; 4 there is no such state directory (STA033), or it is damaged (STA001).
    """
    from sqlstream.cli.dead_letters_text import row_lines
    from sqlstream.cli.places import stores
    from sqlstream.state.dead_letters import Wanted, read_dead_letters

    wanted = Wanted(source, kind or "", operator, reason, epoch, withdrawn, replayed)
    rows = (
        (name, row) for name, store in stores(places, profile) for row in read_dead_letters(store, wanted)
    )
    behind = islice(rows, min(offset, sys.maxsize), None)
    shown = 0
    for name, row in islice(behind, min(limit, sys.maxsize) or None):
        if as_json:
            click.echo(json_line({"pipeline": name, **row.to_json()}))
        else:
            for line in row_lines(name, row):
                click.echo(line)
        shown += 1
    if not shown:
        sys.stderr.write("there are no dead-letter rows" + (" of these\n" if wanted != Wanted() else "\n"))
    elif limit and next(behind, None) is not None:
        sys.stderr.write(f"there are more: --offset {offset + shown} goes on, --limit 0 shows all\n")


@command.command(
    epilog="Example: sqlstream dead-letters replay pipelines/orders.sql --from letters.jsonl, where letters.jsonl is what "
    "sqlstream dead-letters show pipelines/orders.sql --json has written, with some rows mended"
)
@options.pipeline_argument
@click.option(
    "--from",
    "mended",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    required=True,
    metavar="PATH",
    help='The rows as `show --json` writes them, with the mended text in "row". Others are passed over.',
)
@options.var_option
@click.option(
    "--state-dir",
    metavar="DIR",
    help="The pipeline's state directory, a path or URI. Default: what `run` takes.",
)
@options.profile_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def replay(
    file: Path,
    mended: Path,
    variables: tuple[str, ...],
    state_dir: str | None,
    profile: str | None,
    as_json: bool,
) -> None:
    """Have malformed rows that were mended read once more: once, by the next run or the one that watches the files.

    A row is replayed once, whatever is killed and however often the command is given. Rows of files of text can be
    replayed that could not be read; a row that came late can't be made to have been in time.

    Exit codes: 0 the rows will be read, or there are none to replay; 1 one can't be replayed (DAT017), and none is;
    4 a run is beginning (STA002), or there is no state (STA020).
    """
    from sqlstream.cli.dead_letters_text import replayed_lines
    from sqlstream.cli.opened import opened
    from sqlstream.cli.state_directory import is_missing
    from sqlstream.connectors.api import ConnectorContext
    from sqlstream.connectors.registry import REGISTERED
    from sqlstream.runtime.edits.declared_moves import known_sources
    from sqlstream.state.replaying import no_state, read_mended, replay
    from sqlstream_operators.plan.spec import SourceSpec
    from sqlstream_operators.state.checkpoint_store import CheckpointStore

    pipeline = opened(file, profile, variables)
    given = read_mended(str(mended), mended.read_text(encoding="utf-8").splitlines())
    state = pipeline.state(state_dir, ())
    if is_missing(state):
        raise no_state(state)
    store = CheckpointStore(state if "://" in state else Path(state).absolute())
    planned, _ = known_sources(pipeline.planned, state, None, (), pipeline.base_dir, pipeline.again)

    def source_of(spec: SourceSpec, folder: str) -> Any:
        context = ConnectorContext(store, pipeline.base_dir, folder=folder)
        return REGISTERED.source(planned.secrets.resolved(spec), context)

    done = replay(store, given, planned.physical.sources, source_of)
    if as_json:
        click.echo(json_line(done.to_json()))
        return
    for line in replayed_lines(done):
        click.echo(line)
