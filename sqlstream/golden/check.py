"""One pipeline's golden check and update, as data; the command line shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlstream.golden import files
from sqlstream.golden.compare import CANCELLED, Difference, compare
from sqlstream.golden.paths import directives, golden_file, golden_folder
from sqlstream.golden.results import actual_rows, expected_rows
from sqlstream.golden.rows import Rows
from sqlstream.project import check_paths, load_project, plan
from sqlstream.runtime.tasks.job import JobRunner
from sqlstream_operators.plan.spec import Schema
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from sqlstream_planner.pipeline import Planned


@dataclass(frozen=True, slots=True)
class SinkOutcome:
    """A sink against its golden file, or a new golden file against the one before.

    `rows` of the new side; `difference` None: there was no file.
    """

    sink: str
    file: Path
    schema: Schema
    rows: int
    difference: Difference | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """A pipeline's sinks, the files that no sink has any more, and the late rows of the run by kind."""

    sinks: tuple[SinkOutcome, ...]
    stale: tuple[Path, ...]
    dead_letters: Mapping[str, int]
    warnings: tuple[Diagnostic, ...]
    planned: Planned

    @property
    def ok(self) -> bool:
        """Whether everything is as the golden files say."""
        return not self.stale and all(s.difference is not None and not s.difference for s in self.sinks)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline file, planned with the variables of golden runs."""

    file: Path
    folder: Path
    planned: Planned

    @classmethod
    def load(
        cls, file: Path, variables: Mapping[str, str], profile: str | None, golden_dir: Path | None
    ) -> Pipeline:
        """Plan a file: the project's variables, then the file's `-- golden: var`, then `variables`."""
        project = load_project(file.parent, profile)
        defaults = directives(file).variables if file.is_file() else {}
        planned = plan(file, project, {**defaults, **variables})
        check_paths(planned, file.parent)
        return cls(file, golden_folder(file, golden_dir), planned)


def check(
    pipeline: Pipeline,
    runner: JobRunner,
    *,
    rows_per_epoch: int | None = None,
    parallelism: int | None = None,
) -> Outcome:
    """Run the pipeline on Spark and compare each sink with its golden file."""
    actual = actual_rows(
        pipeline.planned,
        pipeline.file.parent,
        runner,
        rows_per_epoch=rows_per_epoch,
        parallelism=parallelism,
    )
    sinks = []
    for name, rows in actual.sinks.items():
        file = golden_file(pipeline.folder, name)
        difference = (
            compare(files.read(file, rows.schema), rows, cancelled=CANCELLED) if file.is_file() else None
        )
        sinks.append(SinkOutcome(name, file, rows.schema, len(rows.rows), difference))
    return _outcome(pipeline, sinks, actual.result.dead_letters)


def update(pipeline: Pipeline) -> Outcome:
    """Write the golden files with DuckDB; the differences are those to the files that were there."""
    sinks = []
    for name, rows in expected_rows(pipeline.planned, pipeline.file.parent).items():
        file = golden_file(pipeline.folder, name)
        difference = _against_former(file, rows)
        file.parent.mkdir(parents=True, exist_ok=True)
        text = files.encode(rows)
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8", newline="\n")
        sinks.append(SinkOutcome(name, file, rows.schema, len(rows.rows), difference))
    outcome = _outcome(pipeline, sinks, {})
    for path in outcome.stale:
        path.unlink()
    return outcome


def _against_former(file: Path, rows: Rows) -> Difference | None:
    if not file.is_file():
        return None
    try:
        former = files.read(file, rows.schema)
    except DiagnosticError:  # other columns: nothing to compare with
        return None
    return compare(former, rows, cancelled=CANCELLED)


def _outcome(pipeline: Pipeline, sinks: list[SinkOutcome], dead_letters: Mapping[str, int]) -> Outcome:
    known = {sink.file for sink in sinks}
    there = pipeline.folder.glob("*.csv") if pipeline.folder.is_dir() else ()
    return Outcome(
        tuple(sinks),
        tuple(sorted(path for path in there if path not in known)),
        dict(dead_letters),
        pipeline.planned.warnings,
        pipeline.planned,
    )
