"""Runs that are told to stop by signals to all of their processes, as systemd, `timeout` and a terminal do it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sqlstream.runtime.loop.stop import SAME_SIGNAL_S
from tests.conftest import Sqlstream
from tests.e2e.killing import ROOT

ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(str(ROOT / p) for p in (".", "planner", "operators")),
}
ROWS = 40_000
NUMBERS = f"""
SET 'execution.single-task-rows' = '0';
CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '{ROWS}',
  'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '{ROWS}');
CREATE TABLE counts WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json') AS SELECT n FROM numbers;
"""


def started(folder: Path, *command: str, **environment: str) -> subprocess.Popen[str]:
    (folder / "pipeline.sql").write_text(NUMBERS)
    return subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=folder,
        env={**ENVIRONMENT, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_as_of_a_terminal,
    )


def _as_of_a_terminal() -> None:
    """Hear SIGHUP, though the tests may run below `nohup`."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def tree(root: int) -> list[int]:
    """A process and all below it, whatever groups they are in."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def numbers(folder: Path) -> list[int]:
    return sorted(
        json.loads(line)["n"]
        for file in (folder / "out").glob("*.json")
        for line in file.read_text().splitlines()
    )


@pytest.mark.spark
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("whom", "number"),
    [
        ("all", signal.SIGTERM),
        ("all", signal.SIGINT),
        ("all", signal.SIGHUP),
        ("group", signal.SIGTERM),
        ("group", signal.SIGHUP),
        ("group", signal.SIGINT),
    ],
)
def test_a_signal_to_all_processes_is_a_clean_stop(
    tmp_path: Path, sqlstream_here: Sqlstream, number: signal.Signals, whom: str
) -> None:
    """To all (systemd), to the process and then to its group (`timeout`, a terminal)."""
    run = ("run", "pipeline.sql", "--json", "--master", "local[2]", "--max-rows-per-epoch", "2000")
    process = started(tmp_path, "sqlstream", *run)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["epoch"] == 1
    if whom == "all":
        everyone = tree(process.pid)
        assert len(everyone) > 2  # Java, and Python's workers
        for pid in everyone:
            os.kill(pid, number)
    else:
        process.send_signal(number)
        os.killpg(process.pid, number)
    out, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "")
    end = json.loads(out.splitlines()[-1])
    assert (end["outcome"], "unfinished_epoch" in end) == ("stopped", False)
    assert 0 < len(numbers(tmp_path)) == 2000 * end["epochs"] < ROWS
    again = sqlstream_here("run", str(tmp_path / "pipeline.sql"))
    assert again.returncode == 0, again.stderr
    assert numbers(tmp_path) == list(range(1, ROWS + 1))


@pytest.mark.spark
def test_a_signal_while_spark_starts_is_a_clean_stop(tmp_path: Path) -> None:
    process = started(tmp_path, "sqlstream", "run", "pipeline.sql", "--master", "local[2]")
    assert process.stderr is not None
    assert "starting Spark" in process.stderr.readline()
    os.killpg(process.pid, signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "pipeline: stopped" in errors
    assert "Traceback" not in errors


@pytest.mark.sampled(2)
@pytest.mark.kill
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_the_local_runner_stops_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    process = started(tmp_path, "tests.e2e.driver", str(tmp_path), "1000", "2", HANDLE_SIGNALS="1")
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["ready\n", "epoch 1\n"]
    os.killpg(process.pid, number)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert out.splitlines()[-1] == "end stopped"
    assert started(tmp_path, "tests.e2e.driver", str(tmp_path), "9000", "2").wait(60) == 0
    assert numbers(tmp_path) == list(range(1, ROWS + 1))


@pytest.mark.sampled(2)
@pytest.mark.kill
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_run_at_once(tmp_path: Path, number: signal.Signals) -> None:
    sleeping = {"HANDLE_SIGNALS": "1", "SLEEP_AT": "run 2"}
    process = started(tmp_path, "tests.e2e.driver", str(tmp_path), "1000", "2", **sleeping)
    assert process.stdout is not None
    while process.stdout.readline() != "asleep\n":
        assert process.poll() is None
    os.killpg(process.pid, number)
    time.sleep(4 * SAME_SIGNAL_S)  # the process may hear of the first one late
    assert process.poll() is None, "the first signal waits for the epoch"
    os.killpg(process.pid, number)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (128 + number, "")
    assert started(tmp_path, "tests.e2e.driver", str(tmp_path), "9000", "2").wait(60) == 0
    assert numbers(tmp_path) == list(range(1, ROWS + 1))
