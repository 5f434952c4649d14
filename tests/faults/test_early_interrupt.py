"""Ctrl-C while the command is still importing its parts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.commands import ENVIRONMENT


@pytest.mark.parametrize("ignored", [False, True])
def test_a_ctrl_c_before_the_command_is_there(tmp_path: Path, ignored: bool) -> None:
    (tmp_path / "click.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nraise SystemExit('went on')\n"
    )
    path = os.pathsep.join((str(tmp_path), ENVIRONMENT["PYTHONPATH"]))
    done = subprocess.run(
        [sys.executable, "-m", "sqlstream", "check", "p.sql"],
        env={**ENVIRONMENT, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN if ignored else signal.SIG_DFL),
    )
    assert "Traceback" not in done.stderr
    if ignored:
        assert (done.returncode, done.stderr) == (1, "went on\n")
    else:
        assert (done.returncode, done.stderr) == (-signal.SIGINT, "")
