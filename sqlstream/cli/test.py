"""`sqlstream test`: unit tests of pipelines."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sqlstream.cli.output import json_line
from sqlstream.cli.render import colourful, diagnostic_text, show
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from sqlstream.unit_tests.outcome import FileOutcome
    from sqlstream.unit_tests.selection import Matches

_BUG = 70
_INTERRUPTED = 128 + signal.SIGINT


@click.command(epilog="Example: sqlstream test pipelines/orders.sql -k late")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE]...")
@click.option(
    "-k", "expression", metavar="EXPRESSION", help="Only tests whose names match: words, and, or, not."
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Processes that run tests. Default: the cores, if there are enough tests for them.",
)
@click.option(
    "--junit", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write JUnit XML."
)
@click.option("--watch", is_flag=True, help="Run again whenever a file changes that a test is about.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Rows to show of each difference.",
)
@click.option("-v", "--verbose", is_flag=True, help="A line for each test.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option(
    "--new",
    "new",
    type=click.Path(path_type=Path),
    metavar="PIPELINE",
    help="Write a test file for PIPELINE, with rows of its sources where they can be read.",
)
def command(
    files: tuple[Path, ...],
    expression: str | None,
    jobs: int | None,
    junit: Path | None,
    watch: bool,
    limit: int,
    verbose: bool,
    as_json: bool,
    new: Path | None,
) -> int:
    """Run the unit tests of pipelines: rows given to sources in steps, and what sinks and views must have then.

    The tests of x.sql are in x.test.yaml beside it. FILE is a test file, a pipeline or a folder; without one all below
    pipelines/ run. Needs no Spark; reads no source, writes no sink, and contacts no broker or database.

    Exit codes: 0 all pass; 1 one does not, or a test file has a mistake; 2 the command line is wrong.
    """
    if new is not None:
        if files or expression or junit or watch or as_json:
            raise click.UsageError("--new PIPELINE stands alone")
        return _write_new(new)
    if watch and as_json:
        raise click.UsageError("--watch and --json exclude each other")
    from sqlstream.unit_tests.selection import selection

    matches = None if expression is None else selection(expression)
    run = _Run(files, matches, jobs or os.cpu_count() or 1, junit, limit, verbose, as_json)
    return run.watch() if watch else run.once()


class _Run:
    """What the command line asks for."""

    def __init__(
        self,
        files: Sequence[Path],
        matches: Matches | None,
        jobs: int,
        junit: Path | None,
        limit: int,
        verbose: bool,
        as_json: bool,
    ) -> None:
        self._files = files
        self._matches = matches
        self._jobs = jobs
        self._junit = junit
        self._limit = limit
        self._verbose = verbose
        self._json = as_json

    def once(self) -> int:
        """Run all. Raises DiagnosticError (TST009, exit code 2) if there are none."""
        try:
            found, seconds = self._run(self._known())
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            return _INTERRUPTED
        if not found:
            from sqlstream.unit_tests.discovery import none_found

            raise DiagnosticError(none_found(self._known()), exit_code=2)
        return self._end(found, seconds)

    def watch(self) -> int:
        """Run all, and then those of the files whose tests are about what changes, until Ctrl-C."""
        from sqlstream.unit_tests.watching import look, wait

        last: dict[Path, FileOutcome] = {}
        due = self._known()
        try:
            while True:
                seen = look(self._watched(last))
                if due or not last:
                    found, seconds = self._run(due)
                    last |= {one.path: one for one in found}
                    self._end(found, seconds)
                    seen = {**look(self._watched(last)), **seen}
                    click.echo("watching; Ctrl-C ends it\n", err=True)
                changed = wait(seen, self._there)
                due = [p for p in self._there() if p not in last or last[p].watched & changed]
        except KeyboardInterrupt:
            return 0 if all(one.ok for one in last.values()) else 1

    def _known(self) -> list[Path]:
        from sqlstream.unit_tests.discovery import test_files

        return test_files(self._files)

    def _there(self) -> list[Path]:
        """Those that are there: an editor may take a file away for a moment, to put another in its place."""
        try:
            return self._known()
        except DiagnosticError:
            known = (self._of(path) for path in self._files)
            return list(dict.fromkeys(path for paths in known for path in paths))

    @staticmethod
    def _of(path: Path) -> list[Path]:
        from sqlstream.unit_tests.discovery import test_files

        try:
            return test_files([path])
        except DiagnosticError:
            return []

    def _watched(self, last: dict[Path, FileOutcome]) -> set[Path]:
        return {*self._there(), *(path for one in last.values() for path in one.watched)}

    def _run(self, files: Sequence[Path]) -> tuple[list[FileOutcome], float]:
        from sqlstream.unit_tests.parallel import run_all, selected

        started = time.monotonic()
        found = []
        for outcome in run_all(selected(files, self._matches), self._jobs):
            found.append(outcome)
            if not self._json:
                self._show(outcome)
        return found, time.monotonic() - started

    def _show(self, outcome: FileOutcome) -> None:
        from sqlstream.unit_tests.report import file_lines

        colour = colourful(sys.stdout)

        def shown(diagnostic: Diagnostic, sources: dict[str, str]) -> str:
            return diagnostic_text(diagnostic, sources, colour=colour)

        for line in file_lines(outcome, shown, limit=self._limit, verbose=self._verbose, colour=colour):
            click.echo(line, color=True)

    def _end(self, found: Sequence[FileOutcome], seconds: float) -> int:
        from sqlstream.unit_tests.outcome import Status
        from sqlstream.unit_tests.report import summary

        ok = all(one.ok for one in found)
        if self._json:
            document = {"ok": ok, "seconds": round(seconds, 3), "files": [one.to_json() for one in found]}
            click.echo(json_line(document))
        else:
            click.echo(summary(found, seconds))
        if self._junit is not None:
            self._write_junit(found, self._junit)
        if any(one.count(Status.BUG) for one in found):
            return _BUG
        return 0 if ok else 1

    def _write_junit(self, found: Sequence[FileOutcome], file: Path) -> None:
        from sqlstream.unit_tests.junit import to_junit

        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(to_junit(found, diagnostic_text), encoding="utf-8")


def _write_new(pipeline: Path) -> int:
    from sqlstream.unit_tests.skeleton import write_skeleton

    made = write_skeleton(pipeline)
    show(made.warnings)
    click.echo(f"wrote {made.file}: look at what it expects")
    return 0
