"""A queue that keeps its rows for a while: what a state needs of those that are gone is told by the plan, and refused."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import pytest

from sqlstream.connectors.api import ConnectorContext, Dimension, Limits, Position, Sink, Source, SourcePlan
from sqlstream.connectors.registry import REGISTERED
from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest
from sqlstream.runtime.edits.plan.plan_parts import EditPlan
from sqlstream.runtime.run.planned_edit import planned_edit
from sqlstream_operators.plan.spec import DimensionSpec, SinkSpec, SourceSpec
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from sqlstream_planner.pipeline import Planned
from tests.properties.in_process import run_here

TABLES = """
CREATE TABLE t (k INT, v INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE o WITH ({sink}) AS {query};
"""
BLACKHOLE = "'connector' = 'blackhole'"
SUMS = "SELECT k, SUM(v) AS s FROM t GROUP BY k"
RENAMED = "SELECT k AS key_, SUM(v) AS s FROM t GROUP BY k"
LEAST = "SELECT k, MIN(v) AS s FROM t GROUP BY k"
CHANGES = """
CREATE TABLE changes (k INT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'debezium-json');
INSERT INTO changes SELECT k, v FROM t UNION ALL SELECT k, COUNT(*) FROM t GROUP BY k;
"""
GONE = Diagnostic(
    "DAT008",
    "the topic of `t` has no rows before offset 500 any more",
    notes=("the state was made of offsets 0 to 700 of partition 0",),
)


@dataclass
class Queue:
    """The rows of a folder; those before some offset are gone, if `gone`."""

    rows: Source
    gone: bool

    @property
    def bounded(self) -> bool:
        return True

    def initial_position(self) -> Position:
        return self.rows.initial_position()

    def plan(self, position: Position, limits: Limits) -> SourcePlan:
        return self.rows.plan(position, limits)

    def lag(self, position: Position) -> int | None:
        return self.rows.lag(position)

    def until(self, position: Position) -> Source:
        if self.gone:
            raise DiagnosticError(GONE, exit_code=4)
        return self.rows.until(position)  # type: ignore[attr-defined, no-any-return]


@dataclass
class Queues:
    """The registered connectors, with queues for sources."""

    gone: bool = True

    def source(self, spec: SourceSpec, context: ConnectorContext) -> Source:
        return Queue(REGISTERED.source(spec, context), self.gone)

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> Sink:
        return REGISTERED.sink(spec, context)

    def dimension(self, spec: DimensionSpec, context: ConnectorContext) -> Dimension:
        return REGISTERED.dimension(spec, context)


def planned(query: str, sink: str = BLACKHOLE, more: str = "") -> Planned:
    return plan_file(TABLES.format(query=query, sink=sink) + more, file="p.sql")


def begun(folder: Path, query: str = SUMS, sink: str = BLACKHOLE) -> None:
    (folder / "in").mkdir()
    (folder / "in/0.json").write_text("".join(json.dumps({"k": n % 3, "v": n}) + "\n" for n in range(20)))
    run_here(planned(query, sink), folder, connectors=Queues())


def edit_plan_of(
    folder: Path, query: str, *, gone: bool, accept: Collection[str] = (), more: str = ""
) -> EditPlan:
    now = planned(query, more=more)
    wanted = RunRequest(
        now.physical,
        state_dir=folder / "state",
        base_dir=folder,
        nodes=now.state_nodes,
        connectors=Queues(gone),
        accept=accept,
    )
    return planned_edit(now, wanted, own=True, tables=(), again=lambda moved: now)


def test_what_needs_no_history_goes_on(tmp_path: Path) -> None:
    begun(tmp_path)
    assert edit_plan_of(tmp_path, RENAMED, gone=True).exit_code == 0
    assert run_here(planned(RENAMED), tmp_path, connectors=Queues()).outcome == "nothing new"


def test_a_state_whose_rows_are_gone_is_not_made_without_consent(tmp_path: Path) -> None:
    begun(tmp_path)
    assert edit_plan_of(tmp_path, LEAST, gone=False).exit_code == 0, "a backfill"
    made = edit_plan_of(tmp_path, LEAST, gone=True)
    assert made.exit_code == 3
    (consent,) = made.consents
    assert (consent.why.code, consent.why.message) == ("DAT008", GONE.message)
    before = sorted(p.name for p in (tmp_path / "state/epochs").iterdir())
    with pytest.raises(DiagnosticError, match="DAT008") as caught:
        run_here(planned(LEAST), tmp_path, connectors=Queues())
    assert caught.value.exit_code == 3
    assert sorted(p.name for p in (tmp_path / "state/epochs").iterdir()) == before
    accept = [consent.accept]
    assert edit_plan_of(tmp_path, LEAST, gone=True, accept=accept).exit_code == 0
    assert run_here(planned(LEAST), tmp_path, connectors=Queues(), accept=accept).outcome != "stopped"


def test_a_table_that_can_not_be_right_without_them_is_refused(tmp_path: Path) -> None:
    begun(tmp_path)
    made = edit_plan_of(tmp_path, SUMS, gone=True, more=CHANGES)
    assert (made.exit_code, [d.code for d in made.problems]) == (4, ["DAT008"])
    assert GONE.message in (made.problems[0].message, *made.problems[0].notes)
    with pytest.raises(DiagnosticError, match="DAT008") as caught:
        run_here(planned(SUMS, more=CHANGES), tmp_path, connectors=Queues())
    assert caught.value.exit_code == 4
    assert not (tmp_path / "out").exists()
    assert edit_plan_of(tmp_path, SUMS, gone=False, more=CHANGES).exit_code == 0
