"""`sqlstream golden`: results against DuckDB's."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sqlstream.cli import options
from sqlstream.cli.render import colourful, show
from sqlstream.project import find_root, load_project, parse_pairs, pipeline_files
from sqlstream_planner.diagnostics import DiagnosticError

if TYPE_CHECKING:
    from sqlstream.golden.check import Outcome, SinkOutcome

_Command = TypeVar("_Command", bound=Callable[..., Any])

_files = click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE]...")
_golden_dir = click.option(
    "--golden-dir",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where golden files are. Default: golden/ of the project.",
)
_limit = click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Rows to show of each difference.",
)


@click.group(epilog="Example: sqlstream golden check pipelines/orders.sql")
def command() -> None:
    """Check results against DuckDB's, or rewrite them with DuckDB.

    A golden file has the rows that a sink must end up with: golden/<pipeline>/<sink>.csv for
    pipelines/<pipeline>.sql. DuckDB writes it from the same SQL, run as a batch over all input.
    """


@command.command(epilog="Example: sqlstream golden check pipelines/orders.sql --max-rows-per-epoch 1000")
@_files
@options.var_option
@_golden_dir
@_limit
@options.spark_options
@options.rows_option
@options.profile_option
def check(
    files: tuple[Path, ...],
    variables: tuple[str, ...],
    golden_dir: Path | None,
    limit: int,
    parallelism: int | None,
    master: str | None,
    settings: tuple[str, ...],
    max_rows_per_epoch: int | None,
    profile: str | None,
) -> int:
    """Run pipelines and compare their results with the golden files.

    All pipelines under pipelines/ if no FILE is given. Runs in temporary folders; nothing is written where the
    pipelines write. All input is one epoch, so that no row is late; --max-rows-per-epoch cuts it. Rows
    are compared as multisets, by type, floating-point numbers to 1e-9. Exits with 1 if anything differs.
    """
    chosen = _pipelines(files)
    given = parse_pairs(variables, "--var")
    from sqlstream.golden import check as golden
    from sqlstream.runtime.spark.on_demand import SparkOnDemand
    from sqlstream.runtime.tasks.no_pandas import hide_pandas_from_arrow

    hide_pandas_from_arrow()  # small epochs run here
    # All are planned before Spark starts: a mistake in the last file shows at once.
    pipelines = [golden.Pipeline.load(file, given, profile, golden_dir) for file in chosen]
    for pipeline in pipelines:
        show(pipeline.planned.warnings, pipeline.planned.rendered.sources)
    project = load_project(chosen[0].parent, profile)
    conf = {**project.conf, **parse_pairs(settings, "--conf")}
    runner = SparkOnDemand(master or project.master or "local[*]", conf)
    failed = 0
    try:
        for pipeline in pipelines:
            try:
                outcome = golden.check(
                    pipeline,
                    runner,
                    rows_per_epoch=max_rows_per_epoch,
                    parallelism=parallelism if parallelism is not None else project.parallelism,
                )
            except DiagnosticError as error:
                if len(pipelines) == 1:
                    raise
                click.echo(f"{_mark(False)} {pipeline.file}")
                show(error.diagnostics)
                failed += 1
                continue
            failed += not outcome.ok
            _show_check(pipeline.file, outcome, limit)
    finally:
        runner.close()
    if len(pipelines) > 1:
        click.echo(f"{len(pipelines) - failed} of {len(pipelines)} pipelines are as their golden files say")
    return 1 if failed else 0


@command.command(epilog="Example: sqlstream golden update pipelines/orders.sql")
@_files
@options.var_option
@_golden_dir
@_limit
@options.profile_option
def update(
    files: tuple[Path, ...],
    variables: tuple[str, ...],
    golden_dir: Path | None,
    limit: int,
    profile: str | None,
) -> None:
    """Write golden files with DuckDB, and show what changes in them.

    All pipelines under pipelines/ if no FILE is given. The rows come from the pipeline's SQL run as a batch
    by DuckDB, never from a run of the pipeline. Look at the differences before you commit them.
    """
    chosen = _pipelines(files)
    given = parse_pairs(variables, "--var")
    from sqlstream.golden import check as golden

    for pipeline in [golden.Pipeline.load(file, given, profile, golden_dir) for file in chosen]:
        show(pipeline.planned.warnings, pipeline.planned.rendered.sources)
        _show_update(pipeline.file, golden.update(pipeline), limit)


def _pipelines(files: tuple[Path, ...]) -> list[Path]:
    """The files that are given, else those of the project that have goldens. Raises DiagnosticError (GLD006)."""
    from sqlstream.golden.paths import with_goldens

    if files:
        return list(files)
    root = find_root(Path.cwd())
    return with_goldens(map(_short, pipeline_files(root)), root)


def _short(path: Path) -> Path:
    absolute = path.absolute()
    return absolute.relative_to(Path.cwd()) if absolute.is_relative_to(Path.cwd()) else absolute


def _mark(ok: bool) -> str:
    text = "ok  " if ok else "FAIL"
    return click.style(text, fg="green" if ok else "red", bold=True) if colourful(sys.stdout) else text


def _show_check(file: Path, outcome: Outcome, limit: int) -> None:
    from sqlstream.golden.show import counts, difference_lines

    sizes = ", ".join(f"{sink.sink} {sink.rows:,}" for sink in outcome.sinks)
    click.echo(f"{_mark(outcome.ok)} {file}  rows: {sizes}")
    for sink in outcome.sinks:
        if sink.difference is None:
            click.echo(f"     {_short(sink.file)} does not exist; `sqlstream golden update {file}` writes it")
        elif sink.difference:
            click.echo(f"     {_short(sink.file)}: {counts(sink.difference)}")
            for line in difference_lines(sink.difference, sink.schema, limit=limit):
                click.echo(f"       {line}")
    for path in outcome.stale:
        click.echo(f"     {_short(path)} belongs to no sink; `sqlstream golden update {file}` removes it")
    late = outcome.dead_letters.get("late", 0)
    if late and not outcome.ok:
        click.echo(
            f"     {late:,} rows were late, and DuckDB, which knows no time, counts them: "
            "give the watermark more delay, or don't cut the input (--max-rows-per-epoch)"
        )


def _show_update(file: Path, outcome: Outcome, limit: int) -> None:
    from sqlstream.golden.show import counts, difference_lines

    click.echo(str(file))
    for sink in outcome.sinks:
        what = _what_was_written(sink, counts)
        click.echo(f"  {_short(sink.file)}: {sink.rows:,} rows, {what}")
        if sink.difference:
            lines = difference_lines(
                sink.difference,
                sink.schema,
                limit=limit,
                missing="gone",
                extra="new",
                changed="changed: former value → new value",
            )
            for line in lines:
                click.echo(f"    {line}")
    for path in outcome.stale:
        click.echo(f"  {_short(path)}: removed, no sink has this name")


def _what_was_written(sink: SinkOutcome, counts: Callable[[Any], str]) -> str:
    if sink.difference is None:
        return "written"
    if not sink.difference:
        return "unchanged"
    return counts(sink.difference).replace("missing", "gone").replace("extra", "new")
