"""What becomes of a sink that needs what the sources have had, where that is gone, and which history a backfill is of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.edits.history.backfill import _Side
from sqlstream.runtime.edits.history.readings import History
from sqlstream.runtime.edits.plan.plan_parts import SinkChange, SinkPart
from sqlstream.runtime.edits.plan.sink_parts import with_history
from sqlstream.runtime.loop.program import LoopSettings
from sqlstream.storage.journal import Journal
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic
from tests.runtime.support import World, rows_of

SQL = """
CREATE TABLE t (k INT, v INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE answer WITH ('connector' = 'duckdb', 'path' = 'o.duckdb') AS SELECT k, SUM(v) AS s FROM t GROUP BY k;
CREATE TABLE given WITH ('connector' = 'filesystem', 'path' = 'o', 'format' = 'json') AS SELECT k FROM t;
"""
GONE = History({}, {"t": Diagnostic("DAT008", "the files of `t` are gone")})


@pytest.mark.parametrize("is_new", [True, False])
def test_a_table_with_an_answer_is_refused(is_new: bool) -> None:
    """It would be short of all that was read before, and nobody could see it."""
    plan = plan_file(SQL, file="p.sql").physical
    [spec] = (sink for sink in plan.sinks if sink.name == "answer")
    part = SinkPart("answer", spec.connector, SinkChange.WHOLE, is_new=is_new, from_history=True)
    found = with_history(part, spec, plan, GONE)
    assert found.change is SinkChange.REFUSED
    assert [d.code for d in found.diagnostics] == ["DAT008"]
    assert not found.from_history


def test_new_rows_begin_now_and_say_so() -> None:
    plan = plan_file(SQL, file="p.sql").physical
    [spec] = (sink for sink in plan.sinks if sink.name == "given")
    part = SinkPart("given", spec.connector, SinkChange.WHOLE, is_new=True, from_history=True)
    found = with_history(part, spec, plan, GONE)
    assert (found.change, found.result) == (
        SinkChange.FROM_NOW_ON,
        "`given` has only what is read from now on.",
    )
    again = with_history(replace(part, is_new=False), spec, plan, GONE)
    assert again.change is SinkChange.REFUSED


def test_a_backfill_begins_anew_where_the_watermark_moved_without_rows(tmp_path: Path) -> None:
    """What was computed up to one watermark has windows that another one has closed."""
    world = World(tmp_path, rows_of((1, "a"), (12, "b")))
    world.run(max_epochs=1)
    store = CheckpointStore(world.state, sync=False)
    journal = Journal(store)
    until = journal.manifest(journal.epochs()[1][-1])
    known = {state.name: state for state in until.sources}
    settings = LoopSettings(2, str(tmp_path), str(tmp_path / "cache"))

    def folder(applied: int) -> str:
        ends = dict.fromkeys(known, applied)
        return _Side(store, world.plan, ends, known, until, settings).folder

    assert folder(5) == folder(5)
    assert folder(5) != folder(6)
