"""A test file as plain data, as it is written: nothing is known of the pipeline's tables yet."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sqlstream.unit_tests.yaml_nodes import Items, Scalar
from sqlstream_planner.diagnostics import Span


class RowsFormat(StrEnum):
    """How rows are written."""

    DICT = "dict"
    CSV = "csv"
    SQL = "sql"


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """Rows, or with `changes` changes of rows, as a list (`items`), or as the text of CSV or of a SELECT.

    `fixture` is the file that the text was read from, "" if it stands in the test file. With `ordered` their order counts.
    """

    format: RowsFormat
    items: Items | None
    text: str
    span: Span
    fixture: str = ""
    changes: bool = False
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of a table or view; `table` None: of the one that the test is about."""

    table: Scalar | None
    rows: WrittenRows


@dataclass(frozen=True, slots=True)
class Edit:
    """What becomes of the pipeline's text: another file, or texts of it that are replaced; other variables.

    `accept` and `rewrite` are what `sqlstream run` would be given.
    """

    span: Span
    file: Scalar | None = None
    replacements: tuple[tuple[Scalar, Scalar], ...] = ()
    variables: tuple[tuple[Scalar, Scalar], ...] = ()
    accept: tuple[str, ...] = ()
    rewrite: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """A step: an edit, then rows, then what must be so. `label` says which one it is, in words.

    `watermarks` are moved once the rows are read. `late` are rows of sources that must be late in this step, `plan` what
    must become of operators and sinks by the edit, `error` the code of the message that the step must end with.
    """

    label: str
    span: Span
    given: tuple[TableRows, ...] = ()
    watermarks: tuple[tuple[Scalar, Scalar], ...] = ()
    clock: Scalar | None = None
    edit: Edit | None = None
    expect: tuple[TableRows, ...] = ()
    late: tuple[TableRows, ...] = ()
    dead_letters: WrittenRows | None = None
    plan: tuple[tuple[Scalar, Scalar], ...] = ()
    drain: bool = False
    error: Scalar | None = None


@dataclass(frozen=True, slots=True)
class UnitTest:
    """A test. `model` is the sink or view that rows without a name are expected of; `env` are environment variables."""

    name: str
    span: Span
    steps: tuple[Step, ...]
    model: Scalar | None = None
    variables: tuple[tuple[str, str], ...] = ()
    env: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class UnitTestFile:
    """A test file, and the pipeline that its tests are about."""

    path: Path
    pipeline: Path
    tests: tuple[UnitTest, ...]

    @property
    def fixtures(self) -> frozenset[Path]:
        """The files that rows are read from."""
        steps = [step for test in self.tests for step in test.steps]
        tables = [one.rows for step in steps for one in (*step.given, *step.expect, *step.late)]
        letters = [step.dead_letters for step in steps if step.dead_letters is not None]
        return frozenset(Path(rows.fixture) for rows in (*tables, *letters) if rows.fixture)
