"""`sqlstream sql`: a prompt for SQL over the sources, sinks and state of a pipeline."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from sqlstream.cli import options
from sqlstream.cli.render import show
from sqlstream_planner.diagnostics import DiagnosticError

_MOST_ROWS = 1_000


@click.command(epilog="Example: sqlstream sql pipelines/orders.sql -c 'SELECT * FROM orders LIMIT 10'")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("-c", "--command", "text", metavar="SQL", help="Run these statements, and end.")
@click.option(
    "-f",
    "--file",
    "script",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="SCRIPT",
    help="Run the statements of a file, and end.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="How rows are printed; json: an object per line.",
)
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    default=1_000,
    show_default=True,
    metavar="N",
    help="Rows that are read of a source, and of a sink's table, at most.",
)
@click.option(
    "--max-rows",
    type=click.IntRange(min=0),
    default=_MOST_ROWS,
    show_default=True,
    metavar="N",
    help="Rows of a result that a table shows at most; 0: all. CSV and JSON have all.",
)
@options.var_option
@options.profile_option
@click.option(
    "--state-dir",
    metavar="DIR",
    help="The pipeline's state directory, a path or URI. Default: what `run` takes.",
)
def command(
    file: Path | None,
    text: str | None,
    script: Path | None,
    form: str,
    sample: int,
    max_rows: int,
    variables: tuple[str, ...],
    profile: str | None,
    state_dir: str | None,
) -> int:
    """Query the sources, views, sinks and state of a pipeline FILE by SQL, at a prompt.

    Sources are read as samples, sinks and state as they are committed; nothing is changed. Without FILE, tables are
    what CREATE TABLE and CREATE VIEW declare at the prompt. From a pipe, or with -c or -f, statements are run one after
    the other, up to the first error.

    Exit codes: 0 all were run, or the prompt was left; 1 a statement is wrong; 2 the command line is wrong; 4 the state
    is damaged; 5 a source can't be reached, or a package is missing.
    """
    from sqlstream.cli.sql_script import run_all, run_script
    from sqlstream.cli.sql_text import Printer
    from sqlstream.cli.state_directory import check_folder
    from sqlstream.project import load_project, parse_pairs
    from sqlstream.runtime.tasks.no_pandas import hide_pandas_from_arrow
    from sqlstream.shell.opening import opened
    from sqlstream.shell.samples import Bounds
    from sqlstream.shell.session import Session

    hide_pandas_from_arrow()  # samples are read here
    if text is not None and script is not None:
        raise click.UsageError("-c and -f can't be given together")
    if state_dir is not None:
        check_folder(state_dir)
    folder = file.parent if file is not None else Path()
    found = opened(file, load_project(folder, profile), parse_pairs(variables, "--var"), state_dir)
    session = Session(found, Bounds(rows=sample))
    printer = Printer(form, max_rows or None)
    at_prompt = text is None and script is None and sys.stdin.isatty()
    if found.mistakes and not at_prompt:
        raise DiagnosticError(*found.mistakes)
    show(found.mistakes)
    if text is not None:
        return run_all(session, printer, text.splitlines(keepends=True), "-c")
    if script is not None:
        return run_script(session, printer, script)
    if at_prompt:
        from sqlstream.cli.sql_prompt import prompt

        return prompt(session, printer)
    return run_all(session, printer, iter(sys.stdin.readline, ""), "stdin")
