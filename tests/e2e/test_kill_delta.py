"""Drivers that are killed at each point of an epoch and at steps, with Delta tables as sinks, to which others write, too."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.killing import POINTS, Killer, Order, steps_within
from tests.e2e.test_kill import QUERIES, data
from tests.properties.referee import Pipeline, assert_same

deltalake = pytest.importorskip("deltalake")
pytestmark = pytest.mark.kill


def test_kills_at_points_and_steps(tmp_path: Path) -> None:
    rng = random.Random(9)
    pipeline = Pipeline.create(tmp_path / "p", QUERIES, data(rng, 1000, 3), delay=5)
    text = pipeline.folder / "pipeline.sql"
    sink = r"'connector' = 'filesystem', 'path' = '(out_\d)', 'format' = 'parquet'"
    delta = r"'connector' = 'delta', 'table-path' = '\1', 'auto-compaction' = 'true', 'sink.commit-interval' = '300 ms'"
    text.write_text(re.sub(sink, delta, text.read_text()))
    order = Order(str(pipeline.folder), 60, 2, environment={"COMPACTED_FILES": "3"})
    with Killer.running(tmp_path) as killer:
        for shards, point in enumerate(POINTS):
            killer.kill(replace(order, parallelism=1 + shards % 3, point=point, occurrence=2))
            table = deltalake.DeltaTable(str(pipeline.folder / "out_1"))
            table.optimize.compact()  # as a job at night does
        first = killer.run(replace(order, point="collected", occurrence=2, counted=True))
        assert first.killed, first.errors
        for step in steps_within(rng, first.steps, 5):
            killer.kill(replace(order, parallelism=rng.choice([1, 2, 3]), step=step))
        killer.finish(order)
    for number in (1, 2):
        table = deltalake.DeltaTable(str(pipeline.folder / f"out_{number}"))
        log = Path(pipeline.folder / f"out_{number}" / "_delta_log").glob("*.json")
        assert any("part-compacted-" in version.read_text() for version in log)
        expected = pipeline.expected(number)
        found = [tuple(row.values()) for row in table.to_pyarrow_table().to_pylist()]
        assert found
        assert_same(found, expected)
