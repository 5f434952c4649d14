"""Commands as processes of their own, as a shell starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

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


def sqlstream(folder: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder to its end; `options` are those of subprocess.run."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": ENVIRONMENT, **options}
    return subprocess.run([*COMMAND, *arguments], cwd=folder, text=True, timeout=60, check=False, **options)


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
