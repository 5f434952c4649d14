"""Restart: a driver that is really killed, at random instants, loses nothing and doubles nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.properties.referee import Pipeline, assert_same

ROOT = Path(__file__).parents[2]
KILLS = 30
QUERIES = (
    "SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS v, COUNT(DISTINCT s) AS u FROM "
    "TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end, k",
    "SELECT k, v, ts FROM t WHERE v % 3 = 0",
)


def _data(rng: random.Random, rows: int, files: int) -> list[list[dict[str, Any]]]:
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
    """The driver as a process group of its own; Spark runs epochs of up to `single_task_rows` as one task."""
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


def kill_after(driver: subprocess.Popen[str], seconds: float, *, epochs: int = 0) -> bool:
    """SIGKILL the driver's process group `seconds` after it is ready and has committed `epochs`.

    False if it had ended by itself.
    """
    assert driver.stdout is not None
    for _ in range(1 + epochs):
        driver.stdout.readline()
    time.sleep(seconds)
    ended = driver.poll() is not None
    if not ended:
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    return not ended


@pytest.mark.kill
def test_thirty_kills_at_random_instants(tmp_path: Path) -> None:
    rng = random.Random(20240101)
    kills = rounds = 0
    while kills < KILLS:
        rounds += 1
        folder = tmp_path / f"round-{rounds}"
        pipeline = Pipeline.create(folder, QUERIES, _data(rng, 3000, 3), delay=5)
        while True:
            driver = start(folder, rows_per_epoch=60, parallelism=rng.choice([1, 2, 3]))
            # Half of them have committed something, so that the work goes on where the machine is slow.
            if kills < KILLS and kill_after(driver, rng.uniform(0.0, 1.2), epochs=rng.choice([0, 1])):
                kills += 1
                continue
            out, errors = driver.communicate(timeout=300)
            assert driver.returncode == 0, out + errors
            break
        assert_same(pipeline.output(1), pipeline.expected(1))
        assert_same(pipeline.output(2), pipeline.expected(2))
        assert pipeline.dead_letters() == []
    assert kills >= KILLS


@pytest.mark.kill
@pytest.mark.spark
def test_kills_of_a_driver_with_spark(tmp_path: Path) -> None:
    rng = random.Random(7)
    pipeline = Pipeline.create(tmp_path / "p", QUERIES, _data(rng, 3000, 3), delay=5)
    for single_task_rows in (0, 300, 0):
        driver = start(pipeline.folder, 300, 2, "local[2]", single_task_rows=single_task_rows)
        assert driver.stdout is not None
        for _line in range(3):
            driver.stdout.readline()  # ready, and two epochs
        time.sleep(rng.uniform(0, 0.4))
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    driver = start(pipeline.folder, 300, 2, "local[2]")
    _, errors = driver.communicate(timeout=300)
    assert driver.returncode == 0, errors
    assert_same(pipeline.output(1), pipeline.expected(1))
    assert_same(pipeline.output(2), pipeline.expected(2))


@pytest.mark.kill
def test_two_drivers_on_one_state_directory(tmp_path: Path) -> None:
    pipeline = Pipeline.create(tmp_path / "p", QUERIES, _data(random.Random(3), 3000, 3), delay=5)
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
