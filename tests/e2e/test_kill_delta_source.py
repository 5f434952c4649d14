"""Drivers that are killed at each point of an epoch and at steps, with a Delta table as the source; others write to it."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.e2e.killing import POINTS, Killer, Order, steps_within
from tests.e2e.test_kill import QUERIES, data
from tests.properties.referee import Pipeline, assert_same

deltalake = pytest.importorskip("deltalake")
pytestmark = pytest.mark.kill


def append(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Add a version with these rows."""
    columns = {
        "k": pa.array([row["k"] for row in rows], pa.int32()),
        "s": [row["s"] for row in rows],
        "v": pa.array([row["v"] for row in rows], pa.int64()),
        "ts": pa.array([datetime.fromisoformat(row["ts"]) for row in rows], pa.timestamp("us")),
    }
    deltalake.write_deltalake(str(path), pa.table(columns), mode="append")


def test_kills_at_points_and_steps(tmp_path: Path) -> None:
    """The referee reads the same rows as JSON. Between runs the table gets rows, is compacted, and gets checkpoints."""
    rng = random.Random(11)
    batches = data(rng, 1500, 25)
    pipeline = Pipeline.create(tmp_path / "p", QUERIES, batches, delay=5)
    text = pipeline.folder / "pipeline.sql"
    source = r"CREATE TABLE t \(.*?\) WITH \([^)]*\)"
    declared = (
        "CREATE TABLE t (k INT, s STRING, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) "
        "WITH ('connector' = 'delta', 'table-path' = 'lake')"
    )
    changed, found = re.subn(source, declared, text.read_text(), count=1, flags=re.DOTALL)
    assert found == 1
    text.write_text(changed)
    lake = pipeline.folder / "lake"
    waiting = iter(batches)
    for _ in range(10):
        append(lake, next(waiting))
    with Killer.running(tmp_path) as killer:
        for shards, point in enumerate(POINTS):
            killer.kill(Order(str(pipeline.folder), 60, 1 + shards % 3, point, 2))
            append(lake, next(waiting))
            deltalake.DeltaTable(str(lake)).optimize.compact()
            deltalake.DeltaTable(str(lake)).create_checkpoint()
        for rest in waiting:
            append(lake, rest)
        first = killer.run(Order(str(pipeline.folder), 60, 2, "collected", 2, counted=True))
        assert first.killed, first.errors
        for step in steps_within(rng, first.steps, 5):
            killer.kill(Order(str(pipeline.folder), 60, rng.choice([1, 2, 3]), step=step))
        killer.finish(Order(str(pipeline.folder), 600, 2))
    for number in (1, 2):
        assert_same(pipeline.output(number), pipeline.expected(number))
    assert pipeline.output(1)
