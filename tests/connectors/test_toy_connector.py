"""To add a connector is to write and register it: this one is planned, run and judged, and nothing else is touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from sqlstream.connectors.api import BadRow, ConnectorContext, Limits, Position, SourcePlan, Split
from sqlstream.connectors.registry import REGISTERED, Connector, Registry
from sqlstream.golden.results import actual_rows, expected_rows
from sqlstream.planning import plan_file
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream.runtime.tasks.task_program import of_registry
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.catalog.descriptor import ConnectorDescriptor
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.explain import plan as explain

SOURCE = (Role.SOURCE,)
SQUARES = ConnectorDescriptor(
    "squares",
    "numbers and their squares",
    SOURCE,
    (
        OptionDef("up-to", ValueKind.INTEGER, "the last number", required=True, roles=SOURCE, minimum=0),
        OptionDef(
            "at-once",
            ValueKind.INTEGER,
            "how many in one split",
            default="3",
            roles=SOURCE,
            minimum=1,
            changes_rows=False,
        ),
    ),
)


@dataclass(frozen=True)
class Squares:
    """All parts of the source."""

    spec: SourceSpec | None = None
    bounded: bool = True

    def source(self, spec: SourceSpec, context: ConnectorContext) -> Squares:
        return Squares(spec)

    def reader(self, spec: SourceSpec, base_dir: str) -> Squares:
        return Squares(spec)

    lenient_reader = reader

    def initial_position(self) -> Position:
        return {"next": 0}

    def plan(self, position: Position, limits: Limits) -> SourcePlan:
        assert self.spec is not None
        first, end = position["next"], int(self.spec.options["up-to"]) + 1
        step = int(self.spec.options.get("at-once", "3"))
        stop = min(end, first + (limits.rows or end))
        splits = [
            Split(self.spec.name, {"first": n, "end": min(n + step, stop)}, min(n + step, stop) - n)
            for n in range(first, stop, step)
        ]
        return SourcePlan(tuple(splits), {"next": stop}, stop == end)

    def lag(self, position: Position) -> int | None:
        return None

    def open_strict(self, duck: DuckSession, relation: str, split: Split, *, queries: int) -> None:
        assert self.spec is not None
        numbers = list(range(split.payload["first"], split.payload["end"]))
        values = {"n": numbers, "square": [n * n for n in numbers]}
        duck.register(relation, pa.table({c: pa.array(values[c], pa.int64()) for c in self.spec.columns}))

    def open_lenient(self, duck: DuckSession, relation: str, split: Split) -> Sequence[BadRow]:
        self.open_strict(duck, relation, split, queries=1)
        return []


REGISTRY: Registry = REGISTERED.with_connector(Connector(SQUARES, source=Squares()))
SQL = """
CREATE TABLE squares (n BIGINT, square BIGINT, odd AS n % 2 = 1)
WITH ('connector' = 'squares', 'up-to' = '20', 'at-once' = '4');
SELECT odd, COUNT(*) AS n, SUM(square) AS s FROM squares GROUP BY odd;
"""


def test_it_is_planned_explained_run_and_judged(tmp_path: Path) -> None:
    planned = plan_file(SQL, file="p.sql", registry=REGISTRY)
    assert "source squares (squares)" in explain.explain_text(planned)
    assert "read_parquet(['squares.parquet']" in to_duckdb(planned).text
    runner = InProcessRunner(2, of_registry(REGISTRY))
    actual = actual_rows(planned, tmp_path, runner, rows_per_epoch=6, registry=REGISTRY)
    expected = expected_rows(planned, tmp_path, REGISTRY)
    assert sorted(actual.sinks["result"].rows) == sorted(expected["result"].rows)
    assert len(expected["result"].rows) == 2
    assert actual.result.epochs >= 4


def test_its_options_are_checked() -> None:
    with pytest.raises(DiagnosticError, match="`up-to` can"):
        plan_file(SQL.replace("'20'", "'-1'"), file="p.sql", registry=REGISTRY)
    with pytest.raises(DiagnosticError, match="needs the option `up-to`"):
        plan_file(SQL.replace("'up-to' = '20',", ""), file="p.sql", registry=REGISTRY)
    with pytest.raises(DiagnosticError, match="there is no connector"):
        plan_file(SQL, file="p.sql")


def test_its_identity_is_what_its_descriptor_says() -> None:
    def state(sql: str) -> str:
        return plan_file(sql, file="p.sql", registry=REGISTRY).physical.states[0].state_id

    assert state(SQL) == state(SQL.replace("'at-once' = '4'", "'at-once' = '5'"))
    assert state(SQL) != state(SQL.replace("'20'", "'21'"))
