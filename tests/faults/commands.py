"""Commands as processes of their own, as a shell starts them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

ROOT = Path(__file__).parent.parent.parent
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(str(ROOT / p) for p in (".", "planner", "operators")),
}
COMMAND = (sys.executable, "-m", "tests.faults.without_spark")

COUNTS = """
CREATE TABLE t (k STRING, v INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'csv');
CREATE TABLE o (k STRING, s BIGINT) WITH ('connector' = 'print');
INSERT INTO o SELECT k, SUM(v) FROM t GROUP BY k;
"""


def pipeline(folder: Path, sql: str = COUNTS, rows: str = "k,v\na,1\nb,2\na,3\n") -> Path:
    """A pipeline `p.sql` with its input in a folder."""
    (folder / "in").mkdir()
    (folder / "in/1.csv").write_text(rows)
    file = folder / "p.sql"
    file.write_text(sql)
    return file


def sqlstream(
    folder: Path,
    *arguments: str,
    stdout: IO[str] | None = None,
    stderr: IO[str] | None = None,
    prefix: tuple[str, ...] = (),
) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder to its end; what it writes goes to open files, or comes back.

    It is forked from a process that has its libraries; `prefix` is the command that this was started by. How the command
    starts is for `in_shell` to show.
    """
    with TemporaryDirectory() as scratch:
        out, errors = Path(scratch, "out"), Path(scratch, "err")
        out.touch()
        errors.touch()
        request = {
            "folder": str(folder),
            "arguments": arguments,
            "stdout": stdout.name if stdout else str(out),
            "stderr": stderr.name if stderr else str(errors),
        }
        server = _server(prefix)
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        code = server.stdout.readline()
        assert code, "the process that forks has ended"
        return subprocess.CompletedProcess(arguments, int(code), out.read_text(), errors.read_text())


@cache
def _server(prefix: tuple[str, ...]) -> subprocess.Popen[str]:
    command = [*prefix, sys.executable, "-m", "tests.faults.fork_server"]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    )


def started(
    folder: Path, *arguments: str, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """The command as a process that begins in another environment."""
    return subprocess.run(
        [*COMMAND, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )  # fmt: skip


def in_shell(folder: Path, line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in a folder, in which `sqlstream` is the command; the exit code is the command's."""
    words = " ".join(COMMAND)
    script = f'sqlstream() {{ {words} "$@"; local code=$?; echo $code > code; return $code; }}\n{line}\n'
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, capture_output=True, text=True, timeout=60, check=False,
        env={**ENVIRONMENT, **environment},
    )  # fmt: skip
    done.returncode = int((folder / "code").read_text())
    return done
