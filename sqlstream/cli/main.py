"""The command `sqlstream`: finds the subcommand, and turns errors into messages and exit codes."""

from __future__ import annotations

import importlib
import os
import sys
import traceback

import click

from sqlstream.cli.render import show
from sqlstream_planner.diagnostics import DiagnosticError

#: Subcommand -> module:function. Loaded when it is called: `check` must not wait for Spark, DuckDB or Arrow.
COMMANDS = {
    "init": "sqlstream.cli.init:init",
    "check": "sqlstream.cli.check:check",
    "explain": "sqlstream.cli.explain:explain",
    "run": "sqlstream.cli.run:run",
    "golden": "sqlstream.cli.golden:golden",
}

_SUMMARIES = {
    "init": "Make a new project with a pipeline that runs.",
    "check": "Say what is wrong with a pipeline file, without running it.",
    "explain": "Show the plan of a pipeline.",
    "run": "Run a pipeline on Spark.",
    "golden": "Compare pipelines with their expected results.",
}


class Lazy(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, in the order of a project's life."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command called `cmd_name`."""
        if cmd_name not in COMMANDS:
            return None
        module, _, function = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), function)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in --help, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_SUMMARIES.items()))


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sqlstream-spark", prog_name="sqlstream")
@click.option("--debug", is_flag=True, help="Show the traceback of an unexpected error.")
def cli(debug: bool) -> None:
    """Streaming SQL on Spark: one .sql file a pipeline.

    Example:

        sqlstream run pipelines/flights/departures.sql
    """
    if debug:
        os.environ["SQLSTREAM_DEBUG"] = "1"


def main() -> None:
    """Run the command line and exit: 0 ok, 1 SQL or data, 2 usage, 3 consent, 4 state, 70 a bug of ours."""
    sys.exit(run_cli(sys.argv[1:]))


def run_cli(arguments: list[str]) -> int:
    """Run the command line; the exit code."""
    try:
        result = cli.main(arguments, prog_name="sqlstream", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as ended:
        return int(ended.exit_code)
    except click.ClickException as error:
        error.show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("aborted", err=True)
        return 130
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): not an error, and nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except DiagnosticError as error:
        show(error.diagnostics)
        return error.exit_code
    except Exception as error:
        click.echo(f"internal error: {type(error).__name__}: {error}", err=True)
        click.echo(
            "This is a bug of sqlstream, not of your pipeline. Please report it with the file that", err=True
        )
        click.echo("shows it; SQLSTREAM_DEBUG=1 shows where it happened.", err=True)
        if os.environ.get("SQLSTREAM_DEBUG"):
            traceback.print_exc()
        return 70
