"""Restart: a driver that is really killed, at any step, loses nothing and doubles nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.e2e.killing import POINTS, Killer, Order, steps_within
from tests.properties.referee import Pipeline, assert_same

ROOT = Path(__file__).parents[2]
QUERIES = (
    "SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS v, COUNT(DISTINCT s) AS u FROM "
    "TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end, k",
    "SELECT k, v, ts FROM t WHERE v % 3 = 0",
)


def data(rng: random.Random, rows: int, files: int) -> list[list[dict[str, Any]]]:
    """Rows for `t` in so many files, each up to three seconds out of order."""
    start = datetime(2024, 1, 1)
    made: list[list[dict[str, Any]]] = [[] for _ in range(files)]
    for number in range(rows):
        moment = start + timedelta(milliseconds=number * 50 - rng.randrange(3000))
        text = f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"
        row = {"k": rng.randrange(5), "s": rng.choice("abcdef"), "v": rng.randrange(100), "ts": text}
        made[number * files // rows].append(row)
    return made


def start(
    folder: Path,
    rows_per_epoch: int,
    parallelism: int,
    master: str | None = None,
    *,
    single_task_rows: int = 0,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.Popen[str]:
    """The driver as a process group of its own; epochs of up to `single_task_rows` run in it, without Spark."""
    command = [sys.executable, "-m", "tests.e2e.driver", str(folder), str(rows_per_epoch), str(parallelism)]
    path = os.pathsep.join(str(ROOT / p) for p in (".", "planner", "operators"))
    return subprocess.Popen(
        [*command, *([master] if master else [])],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "SINGLE_TASK_ROWS": str(single_task_rows), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def killed(driver: subprocess.Popen[str]) -> None:
    """Wait until a driver that was told to has killed itself and its Spark."""
    _, errors = driver.communicate(timeout=300)
    assert driver.returncode == -signal.SIGKILL, errors


def _same(pipeline: Pipeline) -> None:
    assert_same(pipeline.output(1), pipeline.expected(1))
    assert_same(pipeline.output(2), pipeline.expected(2))
    assert pipeline.dead_letters() == []


@pytest.mark.kill
def test_kills_at_each_point_of_an_epoch(tmp_path: Path) -> None:
    """Also with another number of shards after it, so that the epoch that was begun is given up, and killed there."""
    pipeline = Pipeline.create(tmp_path / "p", QUERIES, data(random.Random(3), 2400, 3), delay=5)
    with Killer.running(tmp_path) as killer:
        for occurrence in (1, 3):
            for shards, point in enumerate(POINTS):
                killer.kill(Order(str(pipeline.folder), 60, 1 + shards % 3, point, occurrence))
            killer.kill(Order(str(pipeline.folder), 60, 1, "planned"))
            killer.kill(Order(str(pipeline.folder), 60, 2, "voided"))
        killer.finish(Order(str(pipeline.folder), 600, 2))
    _same(pipeline)


@pytest.mark.kill
def test_kills_at_steps_anywhere(tmp_path: Path) -> None:
    """Nine kills at calls in our code, spread evenly over what two epochs and the start of a run make."""
    rng = random.Random(20240101)
    pipeline = Pipeline.create(tmp_path / "p", QUERIES, data(rng, 1800, 3), delay=5)
    with Killer.running(tmp_path) as killer:
        first = killer.run(Order(str(pipeline.folder), 60, 2, "collected", 2, counted=True))
        assert first.killed, first.errors
        for step in steps_within(rng, first.steps, 6):
            killer.kill(Order(str(pipeline.folder), 60, rng.choice([1, 2, 3]), step=step))
        killer.finish(Order(str(pipeline.folder), 600, 2))
    _same(pipeline)


@pytest.mark.kill
@pytest.mark.spark
def test_kills_of_a_driver_with_spark(tmp_path: Path) -> None:
    """While tasks run, and between the manifest and the sinks; then it goes on with small epochs in its own process."""
    pipeline = Pipeline.create(tmp_path / "p", QUERIES, data(random.Random(7), 1500, 3), delay=5)
    for at in ("planned 3 0.1", "published 2"):
        killed(start(pipeline.folder, 300, 2, "local[2]", environment={"KILL_AT": at}))
    driver = start(pipeline.folder, 300, 2, "local[2]", single_task_rows=300)
    _, errors = driver.communicate(timeout=300)
    assert driver.returncode == 0, errors
    _same(pipeline)


@pytest.mark.kill
def test_two_drivers_on_one_state_directory(tmp_path: Path) -> None:
    pipeline = Pipeline.create(tmp_path / "p", QUERIES, data(random.Random(3), 1800, 3), delay=5)
    first = start(pipeline.folder, 60, 2)
    assert first.stdout is not None
    first.stdout.readline()
    first.stdout.readline()  # its first epoch is committed
    second = start(pipeline.folder, 60, 2)
    _, refusal = second.communicate(timeout=120)
    assert second.returncode == 4, refusal
    assert "error[STA" in refusal
    assert str(first.pid) in refusal, refusal
    _, errors = first.communicate(timeout=300)
    assert first.returncode == 0, errors
    assert_same(pipeline.output(1), pipeline.expected(1))
    assert_same(pipeline.output(2), pipeline.expected(2))
