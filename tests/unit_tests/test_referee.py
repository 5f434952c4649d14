"""The rows of a pipeline, given in steps that are cut anywhere and drained, give what DuckDB's batch says of all of them."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from sqlstream.connectors.api import ConnectorContext, Limits
from sqlstream.connectors.registry import REGISTERED
from sqlstream.golden.check import Pipeline
from sqlstream.golden.compare import compare
from sqlstream.golden.results import expected_rows
from sqlstream.golden.rows import Rows
from sqlstream.unit_tests import content
from sqlstream.unit_tests.model import Step
from sqlstream.unit_tests.running import CLOCK_US
from sqlstream.unit_tests.script import ReadyStep
from sqlstream.unit_tests.steps import Steps
from sqlstream.unit_tests.versions import Text, Version
from sqlstream.unit_tests.worker import ready
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.schema import KIND_COLUMN
from sqlstream_operators.plan.spec import DimensionSpec, SourceSpec
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Span
from tests.examples import is_long

PIPELINES = Path(__file__).parents[2] / "pipelines"
#: The variables that bound their input, and how many rows are read of each table.
CASES = {
    "flights/departures": {},
    "flights/top_routes": {},
    "shop/orders": {},
    "fraud/suspects": {"events": "600"},
    "nexmark/q1": {"events": "400"},
    "nexmark/q3": {"events": "600"},
    "nexmark/q4": {"events": "600"},
    "nexmark/q5": {"events": "600"},
    "nexmark/q7": {"events": "600"},
    "nexmark/q8": {"events": "600"},
    "nexmark/q11": {"events": "600"},
    "nexmark/q13_lookup": {"events": "400"},
    "nexmark/q18": {"events": "600"},
    "nexmark/q20": {"events": "600"},
    "tpch/q3": {},
}
AT_ONCE = ("flights/departures", "shop/orders", "nexmark/q5", "nexmark/q13_lookup", "nexmark/q18")


def everything(
    spec: SourceSpec, folder: Path, scratch: Path, duck: DuckSession, *, changes: bool
) -> pa.Table:
    """All rows of a source, in its order."""
    context = ConnectorContext(
        CheckpointStore(str(scratch), sync=False), str(folder), folder=f"sources/{spec.name}", paced=False
    )
    source, position, made = REGISTERED.source(spec, context), None, []
    columns = [c.name for c in spec.physical] + [m.name for m in spec.metadata] + [KIND_COLUMN] * changes
    names = ", ".join(map(quote_identifier, columns))
    while True:
        plan = source.plan(source.initial_position() if position is None else position, Limits(tasks=1))
        for split in plan.splits:
            REGISTERED.reader(spec, str(folder)).open_strict(duck, "all_rows", split, queries=1)
            made.append(duck.query(f"SELECT {names} FROM all_rows"))
            duck.drop("all_rows")
        position = plan.next_position
        if plan.exhausted:
            return pa.concat_tables(made)


@pytest.mark.parametrize("name", CASES if is_long() else AT_ONCE)
def test_steps_give_what_the_batch_gives(name: str, tmp_path: Path) -> None:
    ready()
    file = PIPELINES / f"{name}.sql"
    planned = Pipeline.load(file, CASES[name], None, None).planned
    duck = DuckSession()
    version = Version(Text(file, "", (), ()), planned, planned.masked_sql)
    chance = random.Random(name)
    cuts: list[list[tuple[SourceSpec, pa.Table]]] = [[], [], []]
    for spec in planned.physical.sources:
        table = planned.catalog.table(spec.name)
        assert table is not None
        changes = table.descriptor.gives_changes(table.settings)
        rows = everything(spec.whole, file.parent, tmp_path, duck, changes=changes)
        first, second = sorted(chance.randint(0, rows.num_rows) for _ in range(2))
        for step, (start, end) in zip(
            cuts, ((0, first), (first, second), (second, rows.num_rows)), strict=True
        ):
            step.append((spec, rows.slice(start, end - start)))
    looked_up = tuple(
        (d.name.lower(), _dimension(d, file.parent, tmp_path, duck)) for d in planned.physical.dimensions
    )
    steps = Steps(
        duck,
        [
            ReadyStep(Step("", Span("", 1, 1), drain=number == 2), version, CLOCK_US, tuple(given), looked_up)
            for number, given in enumerate(cuts)
        ],
    )
    assert steps.failures() == ()
    expected = expected_rows(planned, file.parent)
    for sink in planned.physical.sinks:
        found = Rows(sink.schema, content.rows(steps.memory.content(sink), sink, duck))
        assert expected[sink.name].rows
        assert not compare(expected[sink.name], found), sink.name


def _dimension(spec: DimensionSpec, folder: Path, scratch: Path, duck: DuckSession) -> pa.Table:
    context = ConnectorContext(CheckpointStore(str(scratch), sync=False), str(folder))
    return pa.Table.from_batches(list(REGISTERED.dimension(spec, context).rows(duck)))
