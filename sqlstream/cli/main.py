"""The command `sqlstream`: its sub-commands, and how every error ends.

A sub-command's module is imported when it is called, so that `--help` and `check` answer at once.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress

import click

from sqlstream import __version__
from sqlstream.cli.log import ERROR, log_of
from sqlstream.cli.output import OutputError, drop_output, open_streams
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

_SIGNALLED = 128
_BUG = 70
_EXIT_CODES = {"PRJ": 2, "STA": 4, "ENV": 5}

#: Name -> the line that `--help` shows. The module `sqlstream.cli.<name>` has the command as `command` (`-` is `_` there).
COMMANDS = {
    "init": "Make a small project that runs.",
    "check": "Find mistakes in a pipeline without running it.",
    "explain": "Show the plan of a pipeline: stages, state, or its DuckDB SQL.",
    "plan": "Show what an edited pipeline keeps of its state, before it runs.",
    "run": "Run a pipeline, or go on where it stopped.",
    "status": "Show how pipelines are: running or stopped, lag, watermark, errors.",
    "ui": "Show pipelines in a browser: graph, epochs, state, the plan of an edit.",
    "stop": "Ask a run to end after its epoch, from another process or machine.",
    "dead-letters": "Look at the rows that pipelines could not use, and why.",
    "savepoint": "Name the state of a pipeline; list, show, export and import savepoints.",
    "state": "Look at what a pipeline keeps, with SQL, while it runs or when it has stopped.",
    "sql": "Query sources, sinks and state by SQL, at a prompt or from a script.",
    "test": "Run unit tests: rows for the sources, and what sinks and views must have then.",
    "golden": "Check results against DuckDB's, or rewrite them with DuckDB.",
}


class LazyGroup(click.Group):
    """A group whose commands are modules, imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order in which a newcomer meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"sqlstream.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 the SQL or the data is wrong, 2 the command line is wrong, 3 consent is needed, 4 the "
    "state does not fit, is damaged or in use, 5 the machine, Spark or a database refuses, 70 a bug of sqlstream, 130 "
    "interrupted (Ctrl-C), 143 terminated. Example: sqlstream init shop && cd shop && sqlstream run pipelines/orders.sql",
)
@click.version_option(__version__, prog_name="sqlstream")
@click.option("--debug", is_flag=True, help="Show the traceback of an unexpected error (SQLSTREAM_DEBUG=1).")
def cli(debug: bool) -> None:
    """Flink's streaming SQL on Spark: a pipeline is one .sql file, its results are checked against DuckDB."""
    if debug:
        os.environ["SQLSTREAM_DEBUG"] = "1"


def main() -> None:
    """Run the command line and exit the process.

    Exit codes: 0 ok, 1 the user's SQL or data, 2 usage, 3 consent needed, 4 state incompatible, 5 the machine, Spark or a
    server refuses, 70 a bug of ours, 130 interrupted, 143 terminated.
    """
    # Loading the planner makes some 300,000 objects that stay: looking through them for garbage every 700 takes a
    # tenth of the time that `check` takes.
    gc.set_threshold(100_000, 20, 20)
    open_streams()
    if sys.argv[1:2] in (["check"], ["explain"], ["plan"]):  # these end at once
        gc.disable()
    code = run_cli(sys.argv[1:])
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OutputError:
        drop_output()
    # The interpreter looks through all of them several times more when it ends, unless they are frozen: a sixth of
    # the time of `check`. What DuckDB's binding made must be collected, though: it complains of what is left.
    if "duckdb" not in sys.modules:
        gc.freeze()
    # All is printed: a signal while it is tidied up would only end in a traceback, or another exit code.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.exit(code)


def run_cli(arguments: Sequence[str]) -> int:
    """Run the command line; returns the exit code. User mistakes never end in a traceback."""
    # Arrow warns of buffers at odd addresses on standard error, though it copes with them; no user can do a thing about it.
    os.environ.setdefault("ACERO_ALIGNMENT_HANDLING", "reallocate")
    try:
        return _run(arguments)
    except OutputError as error:
        return _output_failed(error)


def _run(arguments: Sequence[str]) -> int:
    try:
        result = cli.main(list(arguments), prog_name="sqlstream", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except DiagnosticError as error:
        _report(error.diagnostics, arguments)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        with suppress(OutputError):
            _interrupted(arguments)
        first = error.__cause__ if isinstance(error, click.Abort) else error  # click makes another of it
        return _SIGNALLED + int(getattr(first, "number", signal.SIGINT))
    except OutputError:
        raise
    except Exception as error:
        from sqlstream.cli.known_errors import known

        diagnostic = known(error)
        if diagnostic is not None:
            _report([diagnostic], arguments)
            return _EXIT_CODES.get(diagnostic.code[:3], 1)
        with suppress(OutputError):
            _bug(error, arguments)
        return _BUG


def _output_failed(error: OutputError) -> int:
    if error.reader_gone:  # as in `sqlstream explain … | head`: nobody reads any more, and nothing is wrong
        drop_output()
        return 0
    from sqlstream.cli.render import show

    diagnostic = Diagnostic(
        "ENV005",
        f"standard output can't be written: {error}",
        notes=(
            "nothing of the state is lost, but rows that a `print` sink could not write are not shown again",
        ),
        help="fix it and run again; the run goes on where it stopped",
    )
    with suppress(OutputError):
        show([diagnostic])
    drop_output()
    return _EXIT_CODES["ENV"]


def _wants_json(arguments: Sequence[str]) -> bool:
    """Whether the command has --json; errors are JSON then too, whatever else is wrong."""
    followed = zip(arguments, [*arguments[1:], ""], strict=True)
    return any(a in ("--json", "--format=json") or (a, b) == ("--format", "json") for a, b in followed)


def _report(diagnostics: Sequence[Diagnostic], arguments: Sequence[str]) -> None:
    from sqlstream.cli.render import show, to_json

    with suppress(OutputError):
        if not _wants_json(arguments):
            log = log_of(arguments)
            show(diagnostics) if log is None else log.diagnostics(diagnostics)
            return
        try:
            click.echo(to_json(diagnostics, ok=False))
        except OutputError:  # what is wrong is reported all the same
            show(diagnostics)


def _interrupted(arguments: Sequence[str]) -> None:
    text, log = "interrupted: what was not committed is done again by the next run", log_of(arguments)
    if log is None:
        sys.stderr.write(f"\n{text}\n")
    else:
        log.write(ERROR, "interrupted", text)


def _bug(error: Exception, arguments: Sequence[str]) -> None:
    debug = os.environ.get("SQLSTREAM_DEBUG", "") not in ("", "0")
    first = (str(error).strip() or "no message").split("\n")[0]
    log = log_of(arguments)
    if log is not None:
        trace = {"traceback": "".join(traceback.format_exception(error))} if debug else {}
        text = f"sqlstream failed, and this is a bug of ours: {type(error).__name__}: {first}"
        log.write(ERROR, "bug", text, **trace)
        return
    if debug:
        traceback.print_exception(error)
    sys.stderr.write(f"sqlstream failed, and this is a bug of ours: {type(error).__name__}: {first}\n")
    if not debug:
        sys.stderr.write("  run again with SQLSTREAM_DEBUG=1 to see where\n")
    sys.stderr.write(
        "  please report it with this message and, if you can, the pipeline file (CONTRIBUTING.md)\n"
    )
