"""A test made ready: its rows typed by the tables that they are about, all of its mistakes found before anything runs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from sqlstream.unit_tests.checks import Expected
from sqlstream.unit_tests.clocks import latest_us
from sqlstream.unit_tests.model import Step, TableRows, UnitTest, WrittenRows
from sqlstream.unit_tests.tables import Output, changelogs, input_of, named_output, output_of, viewed
from sqlstream.unit_tests.typed_rows import Shape, typed_rows
from sqlstream.unit_tests.versions import Text, Version, Versions
from sqlstream.unit_tests.yaml_nodes import Scalar
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.plan.types import JSON, VARCHAR, quote_literal
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, refuse, suggestion

#: What can be expected of dead letters.
LETTERS = tuple(
    Column(name, JSON if name == "row" else VARCHAR)
    for name in (
        "kind",
        "source",
        "operator",
        "reason",
        "expression",
        "event_time",
        "window_start",
        "window_end",
        "row",
    )
)


@dataclass(frozen=True, slots=True)
class ReadyStep:
    """A step with typed rows. `version` is the pipeline as it runs; `clock_us` its clock.

    `given` are rows of sources, `looked_up` the rows that tables for lookup joins have from now on, by their names in lower
    case, `watermarks` (µs) what those of sources are moved to. `outputs` are what rows are expected of, `late` the rows of
    sources that must be late.
    """

    step: Step
    version: Version
    clock_us: int
    given: tuple[tuple[SourceSpec, pa.Table], ...] = ()
    looked_up: tuple[tuple[str, pa.Table], ...] = ()
    watermarks: tuple[tuple[SourceSpec, int], ...] = ()
    outputs: tuple[tuple[Output, Expected], ...] = ()
    late: tuple[tuple[SourceSpec, Expected], ...] = ()
    dead_letters: Expected | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """A step whose text is refused before it runs, where it must end with an error."""

    step: Step
    diagnostics: tuple[Diagnostic, ...]


@dataclass(slots=True)
class _Making:
    """What is collected while a test is made ready."""

    test: UnitTest
    duck: DuckSession
    mistakes: list[Diagnostic] = field(default_factory=list)


def ready_steps(
    test: UnitTest, texts: list[Text], versions: Versions, duck: DuckSession, clock_us: int
) -> tuple[list[ReadyStep], Refused | None]:
    """The steps of a test, ready to run; and its last step, if that is to end with an error and its text can't be planned.

    Without a clock of its own, a test begins at `clock_us`. Until it writes one, the clock goes on to the latest time that
    was given: see `latest_us`.

    Raises DiagnosticError with all mistakes of the pipeline, or all of the test.
    """
    making = _Making(test, duck)
    names = viewed([one for step in test.steps for one in step.expect], test)
    made: list[ReadyStep] = []
    edits, is_written = 0, False
    refused: Refused | None = None
    for number, (step, text) in enumerate(zip(test.steps, texts, strict=True), 1):
        edits += step.edit is not None
        try:
            version = versions.version(text, names, edits)
        except DiagnosticError as error:
            if step.error is None:
                raise
            refused = Refused(step, error.diagnostics)
            _check_end(step, step.error, making, is_last=number == len(texts))
            break
        clock_us = _clock(step.clock, clock_us, making, is_first=not made)
        ready = _ready(step, version, clock_us, making)
        is_written = is_written or step.clock is not None
        if not is_written:
            clock_us = latest_us(clock_us, ready.given, ready.watermarks, duck)
        made.append(replace(ready, clock_us=clock_us))
        if step.error is not None:
            _check_end(step, step.error, making, is_last=number == len(texts))
    if making.mistakes:
        raise DiagnosticError(*dict.fromkeys(making.mistakes))
    return made, refused


def _check_end(step: Step, error: Scalar, making: _Making, *, is_last: bool) -> None:
    """Nothing can be expected of a step that ends with an error, or behind it."""
    if not is_last:
        message, instead = (
            "nothing runs after a step that ends with an error",
            "write what comes then as another test",
        )
    elif step.expect or step.late or step.dead_letters is not None:
        message, instead = (
            "a step that ends with an error gives no rows",
            "write `expect` in a step before it",
        )
    else:
        return
    making.mistakes.append(Diagnostic("TST002", message, error.span, help=instead))


def _ready(step: Step, version: Version, clock_us: int, making: _Making) -> ReadyStep:
    given, looked_up = [], []
    for rows in step.given:
        try:
            spec, table = _given(rows, version, making.duck)
        except DiagnosticError as error:
            making.mistakes += error.diagnostics
            continue
        if spec is not None:
            given.append((spec, table))
        elif rows.table is not None:
            looked_up.append((rows.table.text.lower(), table))
    marks, outputs, late = [], [], []
    for name, value in step.watermarks:
        try:
            marks.append((_timed(name, version), _micros(value, "a watermark", making.duck)))
        except DiagnosticError as error:
            making.mistakes += error.diagnostics
    for rows in step.expect:
        try:
            output = output_of(version, named_output(rows, making.test, version))
            outputs.append((output, _expected(f"`{output.name}`", rows.rows, output.shape, making.duck)))
        except DiagnosticError as error:
            making.mistakes += error.diagnostics
    for rows in step.late:
        try:
            late.append(_late(rows, version, making.duck))
        except DiagnosticError as error:
            making.mistakes += error.diagnostics
    letters = None
    try:
        if step.dead_letters is not None:
            shape = Shape("a dead letter", LETTERS, given=False)
            letters = _expected("dead letters", step.dead_letters, shape, making.duck)
        _check_verdicts(step)
    except DiagnosticError as error:
        making.mistakes += error.diagnostics
    return ReadyStep(
        step,
        version,
        clock_us,
        tuple(given),
        tuple(looked_up),
        tuple(marks),
        tuple(outputs),
        tuple(late),
        letters,
    )


def _given(rows: TableRows, version: Version, duck: DuckSession) -> tuple[SourceSpec | None, pa.Table]:
    assert rows.table is not None
    found = input_of(version, rows.table)
    gives_changes = found.table.name.lower() in changelogs(version)
    if rows.rows.changes and not gives_changes:
        refuse(
            rows.rows.span,
            "TST002",
            f"`{found.table.name}` gives rows, and no changes of rows",
            notes=("its connector and format know only rows that come",),
            help="write `rows:`",
        )
    typed = typed_rows(rows.rows, found.shape, duck)
    return found.spec, typed.with_kinds if gives_changes else typed.table


def _late(rows: TableRows, version: Version, duck: DuckSession) -> tuple[SourceSpec, Expected]:
    assert rows.table is not None
    found = input_of(version, rows.table)
    if found.spec is None:
        refuse(rows.table.span, "TST003", f"`{found.table.name}` is looked up: none of its rows can be late")
    shape = Shape(found.shape.what, found.shape.columns, found.shape.others, given=False)
    return found.spec, _expected(f"late rows of `{found.table.name}`", rows.rows, shape, duck)


def _expected(about: str, rows: WrittenRows, shape: Shape, duck: DuckSession) -> Expected:
    return Expected(about, typed_rows(rows, shape, duck), rows.span, rows.ordered, rows.changes)


def _timed(name: Scalar, version: Version) -> SourceSpec:
    """The source of this name, which has a watermark. Raises DiagnosticError (TST003)."""
    found = input_of(version, name)
    if found.spec is None or found.spec.watermark is None:
        timed = [s.name for s in version.planned.physical.sources if s.watermark is not None]
        refuse(
            name.span,
            "TST003",
            f"`{found.table.name}` has no watermark",
            notes=(f"sources with one: {', '.join(timed) or 'none'}",),
            help="declare it: WATERMARK FOR ts AS ts - INTERVAL '5' SECOND",
        )
    return found.spec


def _clock(written: Scalar | None, before: int, making: _Making, *, is_first: bool) -> int:
    """The clock of a step: the one that it sets, or that of the step before."""
    if written is None:
        return before
    try:
        now = _micros(written, "a clock", making.duck)
    except DiagnosticError as error:
        making.mistakes += error.diagnostics
        return before
    if now < before and not is_first:
        making.mistakes.append(
            Diagnostic(
                "TST005",
                "the clock goes back",
                written.span,
                (f"it is {_shown(before)} by now: without `clock:` it is the latest time given",),
                help="write that time or a later one, or a clock in the first step",
            )
        )
    return now


def _shown(time_us: int) -> str:
    return str(datetime.fromtimestamp(0, UTC).replace(tzinfo=None) + timedelta(microseconds=time_us))


def _micros(value: Scalar, what: str, duck: DuckSession) -> int:
    """A time in µs since 1970, in UTC where it says nothing else. Raises DiagnosticError (TST005)."""
    try:
        found = duck.query(f"SELECT epoch_us(CAST({quote_literal(value.text)} AS TIMESTAMPTZ)) AS t")
    except DataError:
        refuse(
            value.span,
            "TST005",
            f"{what} is a time, and '{value.text}' is none",
            help="write 2024-01-31 12:00:00",
        )
    return int(found.column(0)[0].as_py())


def _check_verdicts(step: Step) -> None:
    """Raise DiagnosticError (TST002) for a plan that is expected of a step without an edit."""
    if step.plan and step.edit is None:
        refuse(
            step.plan[0][0].span,
            "TST002",
            "`plan` stands in a step without `edit`",
            help="write `edit:` there",
        )


def check_names(step: Step, known: list[tuple[str, str, str]]) -> None:
    """Raise DiagnosticError (TST003) for an operator or sink of `plan` that the plan of the edit does not have."""
    names = [name for name, _, _ in known]
    for name, _ in step.plan:
        if name.text.lower() not in {one.lower() for one in names}:
            refuse(
                name.span,
                "TST003",
                f"the edit is about no operator or sink `{name.text}`",
                notes=(f"it is about {', '.join(f'{n} ({v})' for n, v, _ in known)}",),
                help=suggestion(name.text, names),
            )
