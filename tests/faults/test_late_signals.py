"""A signal in the last moments of a command: what it did is done, and its exit code says so."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.commands import ENVIRONMENT, pipeline

LATE = """
import atexit, os, sys
atexit.register(os.kill, os.getpid(), int(sys.argv.pop(1)))
from sqlstream.cli.main import main
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(("file", "code"), [("p.sql", 0), ("none.sql", 2)])
@pytest.mark.sampled(2)
def test_the_exit_code_is_the_commands(tmp_path: Path, number: signal.Signals, file: str, code: int) -> None:
    pipeline(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", LATE, str(int(number)), "check", file],
        cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
