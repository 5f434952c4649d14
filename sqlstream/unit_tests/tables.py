"""The tables of a planned pipeline that a test names: what can be given to a source, and expected of a sink or a view."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlstream.unit_tests.model import TableRows, UnitTest
from sqlstream.unit_tests.typed_rows import Shape
from sqlstream.unit_tests.versions import Version
from sqlstream.unit_tests.yaml_nodes import Scalar
from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.spec import SinkSpec, SourceSpec
from sqlstream_planner.catalog.descriptor import ONE_ROW
from sqlstream_planner.catalog.tables import TableDef
from sqlstream_planner.diagnostics import refuse, suggestion
from sqlstream_planner.sql.statements import ComputedColumn


@dataclass(frozen=True, slots=True)
class Input:
    """A table that rows are given to: a source (`spec`), or one that is looked up (None)."""

    table: TableDef
    spec: SourceSpec | None
    shape: Shape


@dataclass(frozen=True, slots=True)
class Output:
    """A sink, or the table that the rows of a view are caught in."""

    name: str
    spec: SinkSpec
    is_view: bool

    @property
    def shape(self) -> Shape:
        """What rows can be expected of it."""
        return Shape(f"`{self.name}`", self.spec.schema, given=False)


def changelogs(version: Version) -> frozenset[str]:
    """The sources that give changes, in lower case."""
    planned = version.planned
    found = ((spec.name.lower(), planned.catalog.table(spec.name)) for spec in planned.physical.sources)
    return frozenset(
        name for name, table in found if table is not None and table.descriptor.gives_changes(table.settings)
    )


def input_of(version: Version, name: Scalar) -> Input:
    """The table of this name that the pipeline reads. Raises DiagnosticError (TST003)."""
    catalog, physical = version.planned.catalog, version.planned.physical
    specs = {spec.name.lower(): spec for spec in physical.sources if spec.connector != ONE_ROW}
    looked_up = {spec.name.lower() for spec in physical.dimensions}
    read = [s.name for s in specs.values()] + [d.name for d in physical.dimensions]
    lower = name.text.lower()
    table = catalog.table(name.text)
    if table is not None and (lower in specs or lower in looked_up):
        return Input(table, specs.get(lower), _shape(table))
    what = f"the pipeline has no table `{name.text}`"
    if catalog.view(name.text) is not None:
        what = f"`{name.text}` is a view: rows are given to the tables that it reads"
    elif table is not None:
        what = f"the pipeline does not read `{name.text}`"
    refuse(name.span, "TST003", what, notes=(_listed("it reads", read),), help=suggestion(name.text, read))


def output_of(version: Version, name: Scalar) -> Output:
    """The sink or view of this name. Raises DiagnosticError (TST003)."""
    sinks = {sink.name.lower(): sink for sink in version.planned.physical.sinks}
    lower = name.text.lower()
    caught = version.views.get(lower)
    if caught is not None:
        return Output(name.text, sinks[caught.lower()], True)
    hidden = {table.lower() for table in version.views.values()}
    if lower in sinks and lower not in hidden:
        return Output(sinks[lower].name, sinks[lower], False)
    known = outputs(version)
    what = f"the pipeline has no sink or view `{name.text}`"
    if version.planned.catalog.table(name.text) is not None:
        what = f"the pipeline does not write `{name.text}`"
    refuse(name.span, "TST003", what, notes=(_listed("it has", known),), help=suggestion(name.text, known))


def outputs(version: Version) -> list[str]:
    """The names of sinks and views."""
    hidden = {table.lower() for table in version.views.values()}
    sinks = [sink.name for sink in version.planned.physical.sinks if sink.name.lower() not in hidden]
    return sinks + [view.name for view in version.planned.catalog.views.values()]


def named_output(rows: TableRows, test: UnitTest, version: Version) -> Scalar:
    """The sink or view that rows are expected of: the one that is named, the test's `model`, or the only sink.

    Raises DiagnosticError (TST003) if that does not say which.
    """
    if rows.table is not None:
        return rows.table
    if test.model is not None:
        return test.model
    hidden = {table.lower() for table in version.views.values()}
    sinks = [sink.name for sink in version.planned.physical.sinks if sink.name.lower() not in hidden]
    if len(sinks) != 1:
        refuse(
            rows.rows.span,
            "TST003",
            "this does not say of which sink or view the rows are",
            notes=(_listed("the pipeline has", outputs(version)),),
            help="write `expect: {name: …}`, or `model: ` and the name above",
        )
    return Scalar(sinks[0], True, rows.rows.span)


def viewed(tests: Iterable[TableRows], test: UnitTest) -> list[str]:
    """The names that rows are expected of, in lower case: views are among them."""
    model = () if test.model is None else (test.model.text.lower(),)
    named = [one.table.text.lower() for one in tests if one.table is not None]
    return sorted({*named, *model})


def _shape(table: TableDef) -> Shape:
    """What rows of a table can have: the columns that its connector gives; others are computed."""
    columns = tuple(
        Column(c.name, c.type, c.nullable) for c in table.columns if not isinstance(c, ComputedColumn)
    )
    computed = tuple(
        (c.name, "is computed by the table") for c in table.columns if isinstance(c, ComputedColumn)
    )
    return Shape(f"`{table.name}`", columns, computed)


def _listed(what: str, names: Iterable[str]) -> str:
    return f"{what} {', '.join(f'`{name}`' for name in names) or 'none'}"
