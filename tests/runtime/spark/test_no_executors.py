"""A standalone master that has no workers: the run says so, and a second SIGTERM ends it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqlstream.runtime.loop.stop import SAME_SIGNAL_S
from sqlstream.runtime.spark.java import find_java
from sqlstream.runtime.spark.jvm import spark_home
from sqlstream.runtime.spark.masters import check_answers
from sqlstream_planner.diagnostics import DiagnosticError
from tests.e2e.test_signals import ENVIRONMENT, NUMBERS

pytestmark = pytest.mark.spark


@pytest.fixture
def master(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A standalone master without workers, and the port of its web page."""
    home = spark_home(os.environ)
    assert home is not None
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        port, page = one.getsockname()[1], other.getsockname()[1]
    java = find_java(os.environ)
    command = [str(java.executable), "-cp", f"{home}/jars/*", "org.apache.spark.deploy.master.Master"]
    address = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)]
    process = subprocess.Popen(
        [*command, *address], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(300):
            try:
                check_answers(f"spark://127.0.0.1:{port}")
                break
            except DiagnosticError:
                time.sleep(0.2)
        yield f"spark://127.0.0.1:{port}", str(page)
    finally:
        process.kill()
        process.wait()


def test_a_master_without_workers_is_told_and_a_second_signal_ends_the_run(
    tmp_path: Path, master: tuple[str, str]
) -> None:
    url, page = master
    options = ["--master", url, "--parallelism", "1", "--conf", f"spark.master.ui.port={page}"]
    (tmp_path / "pipeline.sql").write_text(NUMBERS)
    process = subprocess.Popen(
        [sys.executable, "-m", "sqlstream", "run", "pipeline.sql", *options],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stderr is not None
        lines = [process.stderr.readline()]
        while "no executor" not in lines[-1]:
            lines.append(process.stderr.readline())
            assert lines[-1], lines
        assert "starting Spark" in lines[0]
        reported = f"pipeline: no executor of {url} has started for 15 s: the master has no workers\n"
        assert lines[-1] == reported
        for _ in range(2):
            process.send_signal(signal.SIGTERM)
            time.sleep(1.4 * SAME_SIGNAL_S)  # what comes sooner is the same signal
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 143, errors
        assert "Traceback" not in errors
        assert "interrupted" in errors
    finally:
        process.kill()
