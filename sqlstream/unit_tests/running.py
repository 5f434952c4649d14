"""Runs one test: each step is a run of the epoch loop on a state directory of its own, and is checked when it has ended."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlstream.golden.sources import CLOCK
from sqlstream.unit_tests.checks import Expected, check_error
from sqlstream.unit_tests.model import UnitTest, UnitTestFile, WrittenRows
from sqlstream.unit_tests.outcome import Failure, Outcome, Status
from sqlstream.unit_tests.script import ReadyStep, Refused, ready_steps
from sqlstream.unit_tests.steps import Steps
from sqlstream.unit_tests.tables import Output
from sqlstream.unit_tests.versions import Versions
from sqlstream.unit_tests.yaml_nodes import Mapping
from sqlstream_operators.duck.session import DuckSession
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, refuse

#: Where the clock of a test begins that sets none: at that of golden runs.
CLOCK_US = int(CLOCK.timestamp() * 1_000_000)


@dataclass(slots=True)
class FileRunner:
    """Runs the tests of one file, whose pipelines are planned once."""

    file: UnitTestFile
    duck: DuckSession
    versions: Versions

    @classmethod
    def of(cls, file: UnitTestFile) -> FileRunner:
        """A runner for the tests of a file."""
        return cls(file, DuckSession(prepares=True), Versions())

    def run(self, test: UnitTest) -> Outcome:
        """Run a test. Nothing that the pipeline, the test or a bug of ours causes is raised: the outcome says it.

        Raises OSError and MemoryError, by which the machine refuses.
        """
        started = time.perf_counter()
        made = self._outcome(test, Outcome(test.name, test.span, Status.PASSED, 0.0))
        return replace(made, seconds=time.perf_counter() - started)

    def _outcome(self, test: UnitTest, passed: Outcome) -> Outcome:
        try:
            texts = self.versions.texts(self.file.pipeline, test)
            steps, refused = ready_steps(test, texts, self.versions, self.duck, CLOCK_US)
            _check_expected(test)
            failures = self._failures(steps) or _of_refused(refused)
        except DiagnosticError as error:
            sources = self._sources(error.diagnostics)
            self.versions.files |= {Path(d.span.file) for d in error.diagnostics if d.span is not None}
            return replace(passed, status=Status.ERROR, diagnostics=error.diagnostics, sources=tuple(sources))
        except (OSError, MemoryError):
            raise
        except Exception as error:
            return replace(passed, status=Status.BUG, trace="".join(traceback.format_exception(error)))
        return replace(passed, status=Status.FAILED if failures else Status.PASSED, failures=failures)

    def _failures(self, steps: Sequence[ReadyStep]) -> tuple[Failure, ...]:
        """Run the steps, and say what is otherwise than expected of the first that is not as it should be.

        The rows of views are caught in tables, which would take part in an edit. So where there are both, the pipeline is
        run as it is, and once more for its views.
        """
        edited = any(step.step.edit is not None for step in steps)
        views = any(step.version.views for step in steps)
        if not (edited and views):
            return Steps(self.duck, steps).failures()
        plain = [replace(s, version=self.versions.version(s.version.text), outputs=_sinks(s)) for s in steps]
        found = Steps(self.duck, plain).failures()
        return found or Steps(self.duck, steps, of_views=True).failures()

    def _sources(self, diagnostics: Sequence[Diagnostic]) -> list[tuple[str, str]]:
        """The texts that diagnostics are about, as they were planned, where the file has another."""
        return self.versions.edited_texts({d.span.file for d in diagnostics if d.span is not None})


def _of_refused(refused: Refused | None) -> tuple[Failure, ...]:
    """What is otherwise than expected of a step that is refused before it runs."""
    if refused is None or refused.step.error is None:
        return ()
    failure = check_error(refused.step.label, refused.step.error, refused.diagnostics)
    return () if failure is None else (failure,)


def _check_expected(test: UnitTest) -> None:
    """Raise DiagnosticError (TST002) for a test that would pass whatever comes."""
    for step in test.steps:
        tables = [one.rows for one in (*step.expect, *step.late)]
        tables += [] if step.dead_letters is None else [step.dead_letters]
        if step.plan or step.error is not None or any(_says_something(rows) for rows in tables):
            return
    refuse(
        test.span,
        "TST002",
        f"the test `{test.name}` expects nothing",
        notes=("it would pass whatever the pipeline gives",),
        help="write `expect: {name: [{column: value}]}` with a sink or view, or `late`, `dead_letters`, `plan` or `error`",
    )


def _says_something(rows: WrittenRows) -> bool:
    """Whether rows are expected by any column, or none are."""
    if rows.items is None or not rows.items.items:
        return True
    return not all(isinstance(row, Mapping) and _is_empty(row) for row in rows.items.items)


def _is_empty(row: Mapping) -> bool:
    return all(isinstance(value, Mapping) and not value.entries for _, value in row)


def _sinks(step: ReadyStep) -> tuple[tuple[Output, Expected], ...]:
    """What is expected of sinks."""
    return tuple(one for one in step.outputs if not one[0].is_view)


def run_file(file: UnitTestFile, names: Sequence[str]) -> tuple[list[Outcome], frozenset[Path]]:
    """Run tests of a file by their names; and which files they are about."""
    runner = FileRunner.of(file)
    wanted = set(names)
    found = [runner.run(test) for test in file.tests if test.name in wanted]
    return found, frozenset({file.path, file.pipeline, *file.fixtures, *runner.versions.files})
