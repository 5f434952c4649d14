"""Spark's JVM that ends while a run goes on: told as what it is, and a watched run starts another one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sqlstream.runtime.loop.reporting import Totals
from sqlstream.runtime.loop.restarts import Restarts, RestartStrategy
from sqlstream.runtime.loop.stop import StopFlag
from sqlstream.runtime.spark.lost_jvm import Ended, how_it_ended, killed_for_memory
from sqlstream.runtime.spark.on_demand import SparkOnDemand
from sqlstream.runtime.spark.stages import job_error
from sqlstream.runtime.tasks.failures import EpochTooLargeError
from sqlstream_planner.diagnostics import DiagnosticError


def test_how_often_the_kernel_ended_processes_for_memory(tmp_path: Path) -> None:
    file = tmp_path / "vmstat"
    assert killed_for_memory(file) is None
    file.write_text("nr_free_pages 12\noom_kill 3\noom_killer 9\n")
    assert killed_for_memory(file) == 3
    file.write_text("nr_free_pages 12\n")
    assert killed_for_memory(file) is None


def ended_by(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code])


def test_how_a_process_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = [4]
    monkeypatch.setattr("sqlstream.runtime.spark.lost_jvm.killed_for_memory", lambda: counted[0])
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert how_it_ended(ended_by("raise SystemExit(3)"), 4) == Ended("it ended with exit code 3")
    assert how_it_ended(ended_by(killed), 4) == Ended("it was ended by SIGKILL")
    assert how_it_ended(ended_by(killed), None) == Ended("it was ended by SIGKILL")
    counted[0] = 5
    assert how_it_ended(ended_by(killed), 4) == Ended("it was ended by SIGKILL", for_memory=True)
    crashed = killed.replace("SIGKILL", "SIGTERM")
    assert how_it_ended(ended_by(crashed), 4) == Ended("it was ended by SIGTERM")
    assert how_it_ended(None, 4) == Ended("it can't be reached any more")


def test_memory_is_named_where_something_says_so() -> None:
    gone = job_error("Answer from Java side is empty", 7, lost=Ended("it was ended by SIGKILL"))
    assert isinstance(gone, DiagnosticError)
    [diagnostic] = gone.diagnostics
    assert diagnostic.code == "ENV004"
    assert diagnostic.message == "Spark's JVM is gone, which epoch 7 ran on: it was ended by SIGKILL"
    assert "fit" not in str(diagnostic)
    for text, lost in [
        ("Answer from Java side is empty", Ended("it was ended by SIGKILL", for_memory=True)),
        ("java.lang.OutOfMemoryError: Java heap space", Ended("it ended with exit code 3")),
    ]:
        error = job_error(text, 7, lost=lost)
        assert isinstance(error, EpochTooLargeError)
        assert error.runner_lost


KILLED = "SparkException: Python worker exited unexpectedly (crashed): EOFException"


@pytest.mark.parametrize(
    ("text", "for_memory", "code", "expected"),
    [
        (KILLED, False, "ENV004", "no sign of a lack of memory was found"),
        (KILLED, None, "ENV004", "whether memory ran out there is not known"),
        (
            "ExecutorLostFailure: Command exited with code 137",
            None,
            "ENV004",
            "whether memory ran out there is not known",
        ),
        (KILLED, True, "ENV007", "the system ended a worker process for want of memory"),
        ("Pod was OOMKilled", None, "ENV007", "the system ended an executor for want of memory"),
    ],
)
def test_a_worker_that_ended_is_no_want_of_memory_without_a_sign_of_it(
    text: str, for_memory: bool | None, code: str, expected: str
) -> None:
    error = job_error(text, 7, for_memory=for_memory)
    assert isinstance(error, EpochTooLargeError)  # its epoch is planned smaller in any case
    for diagnostic in (*error.diagnostics, *error.unrecoverable(6).diagnostics):
        assert diagnostic.code == code
        assert expected in " ".join((diagnostic.message, *diagnostic.notes))
        assert ("memory" in (diagnostic.help or "")) == (code == "ENV007")
    assert error.exit_code == 5


@pytest.mark.parametrize(
    "error", [job_error("x", 1, lost=Ended("y")), job_error("x", 1, lost=Ended("y", for_memory=True))]
)
def test_a_run_is_begun_again(error: Exception) -> None:
    attempts: list[int] = []

    def attempt() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            raise error
        return "well"

    restarts = Restarts(RestartStrategy(3, 0.001, 0.001), StopFlag(), Totals())
    assert restarts.run(attempt) == "well"
    assert len(attempts) == 2


class Runner:
    """Spark that is gone after its first epoch, or while it runs it."""

    parallelism = known_parallelism = 2

    def __init__(self, made: list[Runner], dies: str) -> None:
        self.has_ended = self.is_lost = self.given_up = False
        self.dies = dies if not made else "never"
        made.append(self)

    def run(self, job: Any) -> str:
        self.has_ended = self.is_lost = self.dies != "never"
        if self.dies == "meanwhile":
            raise job_error("x", 1, lost=Ended("y"))
        return "done"

    def give_up(self) -> None:
        self.given_up = True


@pytest.mark.parametrize("dies", ["meanwhile", "afterwards"])
def test_the_next_epoch_has_another_one(monkeypatch: pytest.MonkeyPatch, dies: str) -> None:
    made: list[Runner] = []
    monkeypatch.setattr("sqlstream.runtime.spark.on_demand.begin", lambda *_: None)
    monkeypatch.setattr(
        "sqlstream.runtime.spark.stages.SparkJobRunner",
        SimpleNamespace(start=lambda *_, **__: Runner(made, dies)),
    )
    spark = SparkOnDemand("local[2]", {"spark.python.x": "no epoch runs here"})
    if dies == "meanwhile":
        with pytest.raises(DiagnosticError):
            spark.run(None)  # type: ignore[arg-type]
    else:
        assert str(spark.run(None)) == "done"  # type: ignore[arg-type]
    assert str(spark.run(None)) == "done"  # type: ignore[arg-type]
    assert [runner.given_up for runner in made] == [True, False]


SCRIPT = """
import os, signal, sys, threading
from pathlib import Path
from pyspark import SparkContext
from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.loop.stop import StopFlag
from sqlstream.runtime.spark import stages

stop, staged = StopFlag(), stages.SparkJobRunner._staged

def killing(runner, program, plan):
    made = staged(runner, program, plan)
    if program.context.epoch == 2 and not killed:
        killed.append(runner._jvm.process.pid)
        os.kill(killed[0], signal.SIGKILL)
    return made

killed, restarts = [], []
stages.SparkJobRunner._staged = killing

def on_epoch(report):
    if report.epoch == 3:
        stop.request()
    Path(f"in/{report.epoch + 1}.json").write_text('{"k": "b"}\\n')

run_pipeline(RunRequest(plan_file(Path("p.sql")).physical, state_dir="state", base_dir=".", master="local[2]", stop=stop,
    on_epoch=on_epoch, on_restart=restarts.append))
for restart in restarts:
    print(*(d.code + " " + d.message for d in restart.diagnostics))
"""


@pytest.mark.spark
def test_a_watched_run_goes_on_with_another_jvm(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.json").write_text(json.dumps({"k": "a"}) + "\n")
    (tmp_path / "p.sql").write_text(
        "SET 'execution.single-task-rows' = '0';\n"
        "CREATE TABLE t (k STRING) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json', "
        "'source.monitor-interval' = '50 ms', 'source.settle-time' = '0 s');\n"
        "CREATE TABLE o WITH ('connector' = 'duckdb', 'path' = 'o.duckdb') AS SELECT k, COUNT(*) AS n FROM t GROUP BY k;\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    signals = signal.SIGKILL.name
    assert done.stdout.splitlines() == [
        f"ENV004 Spark's JVM is gone, which epoch 2 ran on: it was ended by {signals}"
    ]
    assert done.stderr == ""
    import duckdb

    with duckdb.connect(str(tmp_path / "o.duckdb")) as connection:
        assert connection.execute("SELECT k, n FROM o ORDER BY k").fetchall() == [("a", 1), ("b", 2)]


WAITING = """
import logging
from types import SimpleNamespace
from sqlstream.runtime.spark.session import _connected

def gateway():
    # py4j reports a signal that ends what waits for Java by its own name in the root's log, with a stack trace.
    exec(compile("logging.exception('while sending command')", "/x/py4j/java_gateway.py", "exec"), {"logging": logging})
    raise KeyboardInterrupt

_connected(SimpleNamespace(gateway=gateway))
"""


def test_a_signal_while_java_is_waited_for_prints_nothing_of_py4j() -> None:
    """A master that does not answer keeps the session from being made for a minute; the second SIGTERM ends that."""
    done = subprocess.run([sys.executable, "-c", WAITING], capture_output=True, text=True, check=False)
    assert "KeyboardInterrupt" in done.stderr
    assert "while sending command" not in done.stderr
