"""A killed executor: Spark runs its tasks again elsewhere, from the checkpoint store, and the result is the same."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.test_kill import QUERIES, data, start
from tests.properties.referee import Pipeline, assert_same


def _executors(driver: int) -> list[int]:
    """The executor JVMs among the descendants of a process."""
    parents: dict[int, int] = {}
    executors = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        parents[int(entry.name)] = int(stat[1])
        if b"CoarseGrainedExecutorBackend" in command:
            executors.append(int(entry.name))

    def below(pid: int) -> bool:
        while pid in parents:
            if pid == driver:
                return True
            pid = parents[pid]
        return False

    return [pid for pid in executors if below(pid)]


@pytest.mark.kill
@pytest.mark.spark
def test_an_executor_is_killed_under_way(tmp_path: Path) -> None:
    if not Path("/proc").is_dir():
        pytest.skip("finds executors through /proc")
    pipeline = Pipeline.create(tmp_path / "p", QUERIES, data(random.Random(11), 1500, 3), delay=5)
    driver = start(pipeline.folder, 250, 2, "local-cluster[2,1,1024]")
    assert driver.stdout is not None
    for _ in range(4):
        line = driver.stdout.readline()  # ready, and three epochs
        assert line, driver.communicate()[1]
    executors = _executors(driver.pid)
    assert executors, "no executor JVM of its own: the test would show nothing"
    time.sleep(0.05)
    os.kill(executors[0], signal.SIGKILL)
    _, errors = driver.communicate(timeout=300)
    assert driver.returncode == 0, errors
    assert_same(pipeline.output(1), pipeline.expected(1))
    assert_same(pipeline.output(2), pipeline.expected(2))
