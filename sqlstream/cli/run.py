"""`sqlstream run`: the epoch loop, with its progress on the terminal or as JSON lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlstream.cli import options
from sqlstream.cli.accepted import check_accepted
from sqlstream.cli.log import INFO, WARNING, Log, is_shown
from sqlstream.cli.opened import opened
from sqlstream.cli.output import OutputError
from sqlstream.cli.render import show
from sqlstream.project import check_paths, parse_pairs, pipeline_name
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from sqlstream.cli.progress import Progress
    from sqlstream.connectors.filesystem.orders import FileOrders
    from sqlstream.runtime.api import RunRequest
    from sqlstream_operators.plan.spec import PhysicalPlan
    from sqlstream_planner.diagnostics import Diagnostic


@click.command(
    epilog="Example: sqlstream run pipelines/orders.sql --var limit=10 --max-rows-per-epoch 100000",
)
@options.pipeline_argument
@options.var_option
@click.option(
    "--state-dir",
    metavar="DIR",
    help="State and progress, a path or URI. Default: .sqlstream/<pipeline> beside FILE.",
)
@options.from_option
@options.spark_options
@options.rows_option
@click.option(
    "--max-files-per-epoch",
    type=click.IntRange(min=1),
    metavar="N",
    help="Maximum files per epoch and source.",
)
@click.option(
    "--restart-attempts",
    type=click.IntRange(min=0),
    metavar="N",
    help="Attempts in a row after a database, disk or Spark failed; 0: none. Default: for ever, if files are watched.",
)
@click.option(
    "--restart-delay",
    type=options.DURATION,
    metavar="TIME",
    help="Time before each attempt, with a unit, such as '10 s'. Default: 1 s, growing to 1 min.",
)
@click.option(
    "--skip-file",
    "skipped",
    multiple=True,
    metavar="PATH",
    help="Go on without this file of a source, or without its present content (a glob: without these). Repeatable.",
)
@click.option(
    "--read-again",
    "read_again",
    multiple=True,
    metavar="PATH",
    help="Read this file of a source again from its beginning. Repeatable.",
)
@options.moved_option
@options.accept_option
@options.rewrite_option
@click.option(
    "--drain",
    is_flag=True,
    help="Close all windows at the end of the input, for good. A watched source ends, too.",
)
@click.option(
    "--metrics",
    type=options.ADDRESS,
    metavar="[HOST:]PORT",
    help="Serve metrics for Prometheus at http://HOST:PORT/metrics while it runs. HOST: 127.0.0.1 by default.",
)
@click.option(
    "--traces",
    metavar="URL",
    help="Send a trace of each epoch to a collector of OpenTelemetry (OTLP over HTTP), such as http://localhost:4318.",
)
@click.option(
    "--ui",
    type=options.ADDRESS,
    is_flag=False,
    flag_value="8321",
    metavar="[[HOST:]PORT]",
    help="Serve the dashboard of this pipeline while it runs. Default: http://127.0.0.1:8321/",
)
@options.profile_option
@options.log_options
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="One JSON line per epoch on standard output, and one with the totals at the end.",
)
def command(
    file: Path,
    variables: tuple[str, ...],
    state_dir: str | None,
    savepoints: tuple[str, ...],
    parallelism: int | None,
    master: str | None,
    settings: tuple[str, ...],
    max_rows_per_epoch: int | None,
    max_files_per_epoch: int | None,
    restart_attempts: int | None,
    restart_delay: float | None,
    skipped: tuple[str, ...],
    read_again: tuple[str, ...],
    source_moved: tuple[str, ...],
    accepted: tuple[str, ...],
    rewritten: tuple[str, ...],
    drain: bool,
    metrics: str | None,
    traces: str | None,
    ui: str | None,
    profile: str | None,
    log_format: str,
    log_level: str,
    as_json: bool,
) -> int:
    """Run a pipeline, or go on where it stopped.

    Ends with 0 when all that its bounded sources have is read and everything is committed. Run again on the same
    state directory, it reads only what is new; windows that are open at the end of one run go on in the next (--drain
    closes them). Ctrl-C, SIGTERM or SIGHUP finishes the epoch and ends with 0; a
    second one stops at once (nothing is lost: the next run repeats that epoch). Relative paths in
    the file are relative to its folder.

    Exit codes: 0 done, nothing new, or stopped; 1 the SQL or the data is wrong; 2 the command line is wrong;
    3 consent is needed (on a terminal the run asks for it); 4 the state does not fit the file, is damaged, or another run
    works on it; 5 the machine, Spark or a database refuses (run again when that is fixed); 70 a bug of sqlstream;
    130 or 143 interrupted.
    """
    conf = parse_pairs(settings, "--conf")
    pipeline = opened(file, profile, variables)
    project, planned, base_dir = pipeline.project, pipeline.planned, pipeline.base_dir
    name = pipeline_name(planned, file)
    log = Log(name, log_level, planned.secrets) if log_format == "json" else None
    if log is not None:
        log.diagnostics(planned.warnings)
    elif not as_json and is_shown(WARNING, log_level):
        show(planned.warnings, planned.rendered.sources)
    check_accepted(accepted, planned.physical)
    check_paths(planned, file.parent)
    state = pipeline.state(state_dir, savepoints)
    if log is not None:
        log.epoch = _last_committed(state)
    from sqlstream.runtime.edits.declared_moves import known_sources

    origin = pipeline.origin(savepoints, state)
    planned, moved = known_sources(planned, state, origin, source_moved, base_dir, pipeline.again)
    physical = _with_files_per_epoch(planned.physical, max_files_per_epoch)

    from sqlstream.runtime.tasks.no_pandas import hide_pandas_from_arrow

    hide_pandas_from_arrow()  # small epochs run here; before anything is imported that has Arrow look for it
    from sqlstream.cli.consent import until_agreed
    from sqlstream.runtime.api import RunRequest, run_pipeline
    from sqlstream.runtime.loop.epoch_warnings import EpochWarnings
    from sqlstream.runtime.loop.progress import EpochReport
    from sqlstream.runtime.loop.restarts import chosen_strategy
    from sqlstream.runtime.run.feedback import check_feedback
    from sqlstream.state.open_windows import left_open_after

    check_feedback(physical, planned.written, base_dir, state)
    progress = _progress(name, physical, state, log, log_level, as_json=as_json)
    tell = _Warnings(progress, planned.rendered.sources, log, log_level)
    warnings = EpochWarnings(physical, tell)

    def epoch(report: EpochReport) -> None:
        progress.epoch(report)
        warnings.epoch(report)

    request = RunRequest(
        physical,
        state_dir=state,
        secrets=planned.secrets,
        nodes=planned.state_nodes,
        rewrite=rewritten,
        sql=planned.masked_sql,
        parallelism=parallelism if parallelism is not None else project.parallelism,
        master=master or project.master or "local[*]",
        conf={**project.conf, **conf},
        max_rows_per_epoch=max_rows_per_epoch,
        on_epoch=epoch,
        on_phase=progress.phase,
        origin=origin,
        on_restart=progress.restart,
        restart=chosen_strategy(restart_attempts, restart_delay),
        handle_signals=True,
        name=name,
        base_dir=file.parent,
        written=planned.written,
        place_of=planned.place_of,
        orders=_orders(skipped, read_again, base_dir),
        moved=moved,
        tell=tell,
        drain=drain,
    )

    def attempt(accept: tuple[str, ...]) -> None:
        with progress:
            result = run_pipeline(replace(request, accept=accept))
            progress.finished(replace(result, left_open=left_open_after(state, result)))

    try:
        with _measured(request, metrics, traces) as request, _shown(name, state, ui, log):
            if as_json or log is not None:
                attempt(accepted)
                return 0
            needed = until_agreed(attempt, accepted, planned.rendered.sources)
        if needed is not None:
            sys.stderr.write(f"{name}: nothing was changed\n")
            return needed.exit_code
    except DiagnosticError as error:
        if log is not None:
            log.diagnostics(error.diagnostics)
        if log is None or as_json:
            raise
        return error.exit_code
    except OutputError as error:
        if error.reader_gone:
            sys.stderr.write(
                f"{name}: stopped, nobody reads what it writes any more; the next run goes on there\n"
            )
        raise
    finally:
        warning = warnings.at_the_end(state)
        if warning is not None:
            tell(warning)
    return 0


class _Warnings:
    """Prints each warning of a run once: an attempt that was agreed to meets the same again."""

    def __init__(self, progress: Progress, sources: Mapping[str, str], log: Log | None, level: str) -> None:
        self._progress = progress
        self._sources = sources
        self._log = log
        self._level = level
        self._printed: set[Diagnostic] = set()

    def __call__(self, warning: Diagnostic) -> None:
        if warning not in self._printed:
            self._printed.add(warning)
            if self._log is not None:
                self._log.diagnostics([warning])
            elif is_shown(WARNING, self._level):
                self._progress.clear()
                show([warning], self._sources)


def _last_committed(state: str) -> int | None:
    """The last epoch that is committed in a state directory; None if there is none, or the run is to say what is wrong."""
    from sqlstream.runtime.loop.recovery import committed_epoch, last_manifest
    from sqlstream.storage.journal import Journal
    from sqlstream_operators.state.checkpoint_store import CheckpointStore

    try:
        return committed_epoch(last_manifest(Journal(CheckpointStore(state)))) or None
    except (OSError, DiagnosticError):
        return None


@contextmanager
def _measured(request: RunRequest, address: str | None, traces: str | None) -> Iterator[RunRequest]:
    """The request of a run whose metrics are served and whose epochs are traced, if addresses are given."""
    with ExitStack() as stack:
        if address is not None:
            from sqlstream.metrics.server import measured

            request = stack.enter_context(measured(request, address))
        if traces is not None:
            from sqlstream.metrics.tracing import traced

            request = stack.enter_context(traced(request, traces))
        yield request


@contextmanager
def _shown(name: str, state: str, address: str | None, log: Log | None) -> Iterator[None]:
    """Serves the dashboard of a pipeline while inside, if an address is given. No log has its token."""
    if address is None:
        yield
        return
    from sqlstream.cli.log_handler import LogHandler
    from sqlstream.metrics.server import address_of
    from sqlstream.ui.server import TOKEN, needs_token, served
    from sqlstream_operators.state.checkpoint_store import CheckpointStore

    store = CheckpointStore(state)
    host, port = address_of(address)
    if log is not None and needs_token(host):
        raise DiagnosticError(
            Diagnostic(
                "ENV016",
                f"no dashboard can be served at {host}:{port}: its token would be known to nobody, as no log has it",
                help=f"set {TOKEN} to a token of your own",
            )
        )
    with served(lambda: [(name, store)], host, port, None if log is None else LogHandler(log)) as url:
        if log is None:
            sys.stderr.write(f"{name}: dashboard at {url}\n")
        else:
            bare, _, token = url.partition("#")
            more = f" (its token is that of {TOKEN})" if token else ""
            log.write(INFO, "dashboard", f"dashboard at {bare}{more}", url=bare)
        yield


def _progress(
    name: str, plan: PhysicalPlan, state: str, log: Log | None, level: str, *, as_json: bool
) -> Progress:
    """Where a run's progress goes."""
    from sqlstream.cli.live import LiveProgress
    from sqlstream.cli.logged_progress import LoggedLines, Together
    from sqlstream.cli.progress import JsonLines, QuietLines, TextLines

    logged = None if log is None else LoggedLines(log, plan, state)
    if as_json:
        lines = JsonLines(name, state)
        return lines if logged is None else Together(lines, logged)
    if logged is not None:
        return logged
    if not is_shown(INFO, level):
        return QuietLines(name, plan, state, level)
    return (LiveProgress if _moves_cursor() else TextLines)(name, plan, state)


def _moves_cursor() -> bool:
    """Whether standard error is a terminal whose lines can be written over."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _orders(skipped: Sequence[str], read_again: Sequence[str], base_dir: str) -> FileOrders | None:
    """What is to be done about single files; None if nothing is."""
    from sqlstream.connectors.filesystem.orders import FileOrders, Order

    orders: list[tuple[Order, str]] = [("skip", path) for path in skipped]
    orders += [("again", path) for path in read_again]
    return FileOrders(orders, (str(Path.cwd()), base_dir)) if orders else None


def _with_files_per_epoch(plan: PhysicalPlan, most: int | None) -> PhysicalPlan:
    """The plan with the most files of an epoch that the command line gives."""
    return plan if most is None else replace(plan, options=replace(plan.options, max_files_per_epoch=most))
