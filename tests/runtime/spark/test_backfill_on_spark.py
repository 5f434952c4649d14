"""A backfill by Spark's tasks is that of the tasks in this process: states, and the rows of a new sink."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.runtime.loop.admission import Admission
from sqlstream.runtime.spark.stages import SparkJobRunner
from tests.properties.referee import assert_same
from tests.properties.updating import collecting
from tests.runtime.edits.backfilling import World, versions_of
from tests.runtime.edits.test_backfilled_rows import everything, give
from tests.runtime.edits.test_backfilled_windows import EVENTS, OLD, QUERIES, table


@pytest.mark.spark
def test_states_and_rows(tmp_path: Path, spark_runner: SparkJobRunner) -> None:
    made = World(tmp_path, table())
    made.lines("t/0.json", EVENTS[:20])
    made.lines("t/1.json", EVENTS[20:])
    query = QUERIES["hop"]
    with collecting():
        made.run(OLD, rows_per_epoch=7, max_epochs=4)
        plain = made.run(query, state="plain", rows_per_epoch=7, max_epochs=4)
    before = made.kept()
    found = made.backfill(
        query, sinks=["out"], runner=spark_runner, settings=made.settings(admission=Admission(fixed_rows=9))
    )
    assert made.kept() == before
    plan = made.plan(query).physical
    tables = made.tables_of(plan, found.versions)
    assert tables == made.tables_of(plan, versions_of(plain), "plain")
    assert any(tables.values())
    with collecting() as collected:
        give(made, query, found)
        made.adopt(query, found)
        made.run(query, rows_per_epoch=7)
    assert_same(collected.folded("out"), everything(made, query))
