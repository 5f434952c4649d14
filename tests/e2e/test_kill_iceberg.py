"""Drivers that are killed at each point of an epoch and at steps, with Iceberg tables that others write to, as well."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from tests.e2e.killing import POINTS, Killer, Order, steps_within
from tests.e2e.test_kill import QUERIES, data
from tests.properties.referee import Pipeline, assert_same

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")
pytestmark = pytest.mark.kill

from tests.connectors.iceberg.tables import OPTIONS, compact, create, expire, table  # noqa: E402


def test_sinks_are_right_after_kills_at_points_and_steps(tmp_path: Path) -> None:
    """Between the runs somebody else compacts the tables, and expires the snapshots that have the epochs."""
    rng = random.Random(12)
    pipeline = Pipeline.create(tmp_path / "p", QUERIES, data(rng, 1000, 3), delay=5)
    text = pipeline.folder / "pipeline.sql"
    sink = r"'connector' = 'filesystem', 'path' = '(out_\d)', 'format' = 'parquet'"
    interval = ", 'sink.commit-interval' = '300 ms', 'auto-compaction' = 'true'"
    changed, found = re.subn(sink, lambda one: f"{OPTIONS.format(name=one[1])}{interval}", text.read_text())
    assert found == 2
    text.write_text(changed)
    order = Order(str(pipeline.folder), 60, 2, environment={"COMPACTED_FILES": "3"})
    with Killer.running(tmp_path) as killer:
        for shards, point in enumerate(POINTS):
            killer.kill(replace(order, parallelism=1 + shards % 3, point=point, occurrence=2))
            compact(pipeline.folder, "out_1")
            expire(pipeline.folder, "out_1")
        first = killer.run(replace(order, point="collected", occurrence=2, counted=True))
        assert first.killed, first.errors
        for step in steps_within(rng, first.steps, 4):
            killer.kill(replace(order, parallelism=rng.choice([1, 2, 3]), step=step))
        killer.finish(replace(order, rows_per_epoch=600))
    for number in (1, 2):
        rows = table(pipeline.folder, f"out_{number}").scan().to_arrow().to_pylist()
        found_rows = [tuple(row.values()) for row in rows]
        assert found_rows
        assert_same(found_rows, pipeline.expected(number))


def test_a_source_is_right_after_kills_at_points_and_steps(tmp_path: Path) -> None:
    """The referee reads the same rows as JSON. Between runs the table gets rows, and is compacted."""
    rng = random.Random(13)
    batches = data(rng, 1200, 20)
    pipeline = Pipeline.create(tmp_path / "p", QUERIES, batches, delay=5)
    text = pipeline.folder / "pipeline.sql"
    declared = (
        "CREATE TABLE t (k INT, s STRING, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) "
        f"WITH ({OPTIONS.format(name='source')})"
    )
    changed, found = re.subn(
        r"CREATE TABLE t \(.*?\) WITH \([^)]*\)", declared, text.read_text(), count=1, flags=re.DOTALL
    )
    assert found == 1
    text.write_text(changed)
    shape = pa.schema([("k", pa.int32()), ("s", pa.string()), ("v", pa.int64()), ("ts", pa.timestamp("us"))])
    create(pipeline.folder, shape, name="source")

    def append() -> bool:
        batch = next(waiting, None)
        if batch is None:
            return False
        rows = [{**row, "ts": datetime.fromisoformat(row["ts"])} for row in batch]
        table(pipeline.folder, "source").append(pa.Table.from_pylist(rows, schema=shape))
        return True

    waiting = iter(batches)
    for _ in range(8):
        append()
    with Killer.running(tmp_path) as killer:
        for shards, point in enumerate(POINTS):
            killer.kill(Order(str(pipeline.folder), 60, 1 + shards % 3, point, 2))
            append()
            compact(pipeline.folder, "source")
        while append():
            pass
        first = killer.run(Order(str(pipeline.folder), 60, 2, "collected", 2, counted=True))
        assert first.killed, first.errors
        for step in steps_within(rng, first.steps, 4):
            killer.kill(Order(str(pipeline.folder), 60, rng.choice([1, 2, 3]), step=step))
        killer.finish(Order(str(pipeline.folder), 600, 2))
    for number in (1, 2):
        assert_same(pipeline.output(number), pipeline.expected(number))
    assert pipeline.output(1)
