"""`sqlstream test --new`: a test file with rows of the pipeline's sources, and what the pipeline gives for them now."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlstream.connectors.api import ConnectorContext, Limits, Split, SplitReader
from sqlstream.connectors.registry import REGISTERED
from sqlstream.golden.rows import Row
from sqlstream.storage.run_folder import RunFolder
from sqlstream.unit_tests.content import cells_of, rows
from sqlstream.unit_tests.discovery import test_file_of
from sqlstream.unit_tests.model import Step, UnitTest
from sqlstream.unit_tests.reading import SUFFIX, read_tests
from sqlstream.unit_tests.running import CLOCK_US
from sqlstream.unit_tests.script import ready_steps
from sqlstream.unit_tests.steps import Steps
from sqlstream.unit_tests.tables import input_of
from sqlstream.unit_tests.typed_rows import Shape
from sqlstream.unit_tests.versions import Version, Versions
from sqlstream.unit_tests.worker import ready
from sqlstream.unit_tests.yaml_nodes import Scalar
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError, OperatorError
from sqlstream_operators.plan.schema import KIND_COLUMN, Column
from sqlstream_operators.plan.spec import DimensionSpec, SourceSpec
from sqlstream_operators.plan.types import NESTED, VARCHAR, Kind, SqlType, quote_identifier
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.catalog.descriptor import ONE_ROW
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span, counted

#: How many rows of a source are given, and of how many at most a sink is expected to have what it has.
_ROWS, _EXPECTED = 5, 200
_SAMPLED = "__unit_test_sample"
#: A text that YAML takes as it is, and for nothing else.
_PLAIN = re.compile(r"-?[A-Za-z0-9_./+][A-Za-z0-9_./ +-]*(:[0-9][A-Za-z0-9_./ +-]*)*")
_NULLS = frozenset({"null", "~", ""})


@dataclass(frozen=True, slots=True)
class Skeleton:
    """What was written, and why of some sources no rows could be read."""

    file: Path
    warnings: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows of a table as text cells, the kinds of changes in front where it gives changes.

    `unread` are rows of a source that can't be read.
    """

    name: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    changes: bool = False
    unread: int = 0


def write_skeleton(pipeline: Path) -> Skeleton:
    """Write the test file of a pipeline; what it expects is what the pipeline gives now, to be looked at.

    Raises DiagnosticError: TST009 (exit code 2) if there is one already, and what is wrong with the pipeline.
    """
    file = test_file_of(pipeline)
    if pipeline.name.endswith(SUFFIX) or file.exists():
        raise DiagnosticError(
            Diagnostic(
                "TST009", f"{file} is there already", help="write another test below its `unit_tests:`"
            ),
            exit_code=2,
        )
    ready()
    versions, duck = Versions(), DuckSession()
    span = Span(str(file), 1, 1)
    (text,) = versions.texts(pipeline, UnitTest("", span, (Step("", span),)))
    version = versions.version(text)
    samples, warnings = [], []
    for spec, dimension in _read(version):
        shape = input_of(version, Scalar(spec.name, True, span)).shape
        try:
            samples.append(_sample(version, spec, shape, pipeline.parent, duck, dimension=dimension))
        except (DiagnosticError, OperatorError, OSError) as error:
            samples.append(Sample(spec.name, shape.columns, []))
            why = (
                error.diagnostics[0].message
                if isinstance(error, DiagnosticError)
                else str(error).splitlines()[0]
            )
            warnings.append(_unread(f"`{spec.name}`: no rows were read", why))
        else:
            if samples[-1].unread:
                found = f"`{spec.name}`: {counted(samples[-1].unread, 'row')} could not be read"
                warnings.append(_unread(found, "a test can't give malformed rows: the others are in it"))
    file.write_text("\n".join(_lines(pipeline, samples, ())) + "\n", encoding="utf-8")
    try:
        made = _results(file, versions, duck)
    except DiagnosticError as error:
        warnings += error.diagnostics
    else:
        file.write_text("\n".join(_lines(pipeline, samples, made)) + "\n", encoding="utf-8")
    return Skeleton(file, tuple(warnings))


def _results(file: Path, versions: Versions, duck: DuckSession) -> list[Sample]:
    """What each sink has after the rows of the one test of a file. Raises DiagnosticError."""
    tests = read_tests(file)
    (test,) = tests.tests
    ready, _ = ready_steps(test, versions.texts(tests.pipeline, test), versions, duck, CLOCK_US)
    steps = Steps(duck, ready)
    steps.failures()
    sinks = ready[-1].version.planned.physical.sinks
    return [Sample(s.name, s.schema, rows(steps.memory.content(s), s, duck)) for s in sinks]


def _read(version: Version) -> Iterator[tuple[SourceSpec, bool]]:
    """The tables that are read; True: it is looked up."""
    physical = version.planned.physical
    yield from ((spec.whole, False) for spec in physical.sources if spec.connector != ONE_ROW)
    yield from ((dimension.source.whole, True) for dimension in physical.dimensions)


def _sample(
    version: Version, spec: SourceSpec, shape: Shape, folder: Path, duck: DuckSession, *, dimension: bool
) -> Sample:
    """The first rows of a table, where they can be read without a server."""
    descriptor = REGISTERED.descriptors[spec.connector]
    if any(option.secret for option in descriptor.all_options):
        raise DiagnosticError(Diagnostic("TST011", f"the connector '{spec.connector}' reads from a server"))
    table = version.planned.catalog.table(spec.name)
    changes = not dimension and table is not None and descriptor.gives_changes(table.settings)
    # Metadata that nothing asks for is not read.
    asked = {c.name for c in spec.physical} | {m.name for m in spec.metadata}
    given = tuple(c for c in shape.columns if c.name in asked)
    columns = (*given, *((Column(KIND_COLUMN, VARCHAR),) if changes else ()))
    with RunFolder("sample-") as scratch:
        context = ConnectorContext(
            CheckpointStore(scratch.path, sync=False), str(folder.absolute()), folder="sources/0", paced=False
        )
        if dimension:
            reading = DuckSession()  # what is left of its result is open until it is closed
            try:
                first = next(iter(REGISTERED.dimension(DimensionSpec(spec), context).rows(reading)), None)
                if first is None:
                    return Sample(spec.name, shape.columns, [])
                duck.connection.register(_SAMPLED, first)
                return Sample(spec.name, shape.columns, _texts(duck, columns))
            finally:
                reading.close()
        source = REGISTERED.source(spec, context)
        plan = source.plan(source.initial_position(), Limits(rows=_ROWS, tasks=1))
        if not plan.splits:
            return Sample(spec.name, shape.columns, [])
        found, unread = _read_from(REGISTERED.reader(spec, context.base_dir), plan.splits[0], columns, duck)
    if changes:
        found = [(row[-1], *row[:-1]) for row in found]
    return Sample(spec.name, columns[: len(columns) - changes], found, changes, unread)


def _read_from(
    reader: SplitReader, split: Split, columns: Sequence[Column], duck: DuckSession
) -> tuple[Sequence[Row], int]:
    """The first rows of a split, and how many of it are malformed."""
    try:
        reader.open_strict(duck, _SAMPLED, split, queries=1)
        return _texts(duck, columns), 0
    except DataError:
        duck.drop(_SAMPLED)
        bad = reader.open_lenient(duck, _SAMPLED, split)
        return _texts(duck, columns), len(bad)
    finally:
        duck.drop(_SAMPLED)


def _texts(duck: DuckSession, columns: Sequence[Column]) -> Sequence[Row]:
    names = ", ".join(quote_identifier(column.name) for column in columns)
    return cells_of(duck.query(f"SELECT {names} FROM {_SAMPLED} LIMIT {_ROWS}"), tuple(columns), duck)


def _unread(message: str, why: str) -> Diagnostic:
    return Diagnostic(
        "TST011", message, notes=(why,), help="write rows of it into the file", severity="warning"
    )


def _lines(pipeline: Path, samples: Sequence[Sample], results: Sequence[Sample]) -> Iterator[str]:
    yield f"# sqlstream test {pipeline}"
    yield "unit_tests:"
    yield "  - name: the first rows"
    yield "    given:" if samples else "    given: {}"
    for sample in samples:
        yield from table_lines(sample)
    if results:
        yield "    # What the pipeline gives now: keep it if it is right."
    is_written = any(len(result.rows) <= _EXPECTED for result in results)
    yield "    expect:" if is_written else "    expect: {}"
    for result in results:
        if len(result.rows) > _EXPECTED:
            yield f"      # {json.dumps(result.name)} has {len(result.rows)} rows, which is too many to write: give fewer"
        else:
            yield from table_lines(result)


def table_lines(sample: Sample) -> Iterator[str]:
    """A table with its rows as YAML."""
    name = _scalar(sample.name, VARCHAR)
    if not sample.rows:
        columns = ", ".join(f"{column.name}: …" for column in sample.columns)
        yield f"      {name}: []   # {{{columns}}}"
        return
    yield f"      {name}:" if not sample.changes else f"      {name}:\n        changes:"
    for row in sample.rows:
        cells = row[1:] if sample.changes else row
        pairs = [
            f"{_scalar(c.name, VARCHAR)}: {_scalar(cell, c.type)}"
            for c, cell in zip(sample.columns, cells, strict=True)
            if cell is not None
        ] or [f"{_scalar(sample.columns[0].name, VARCHAR)}: null"]
        kind = f"{row[0]}: " if sample.changes else ""
        inner = "{" + ", ".join(pairs) + "}"
        yield f"          - {kind}{inner}" if sample.changes else f"        - {inner}"


def _scalar(text: str | None, type_: SqlType) -> str:
    """A cell as YAML; nested values are JSON, which is YAML."""
    if text is None:
        return "null"
    if type_.kind in NESTED or (type_.kind is Kind.JSON and text.startswith(("{", "["))):
        return _escaped(text)
    if _PLAIN.fullmatch(text) and text.lower() not in _NULLS and text == text.strip():
        return text
    return _escaped(json.dumps(text, ensure_ascii=False))


def _escaped(text: str) -> str:
    """A text whose strings are in double quotes, with what YAML does not allow in them as it says it."""
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in text)
