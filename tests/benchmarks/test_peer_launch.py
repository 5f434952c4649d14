from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import peer_launch
from benchmarks.peer_launch import ADDITIONS, with_additions


def test_a_script_that_lacks_the_line_is_refused() -> None:
    with pytest.raises(ValueError, match="found 0 times"):
        with_additions("spark_ss_bench.py", "print(1)\n")


def test_a_script_that_has_the_line_twice_is_refused() -> None:
    [(line, _)] = ADDITIONS["spark_ss_bench.py"]
    with pytest.raises(ValueError, match="found 2 times"):
        with_additions("spark_ss_bench.py", line * 2)


def test_the_script_runs_in_the_harness_with_its_arguments_and_our_queries(tmp_path: Path) -> None:
    script = tmp_path / "duckdb_bench.py"
    [(line, _)] = ADDITIONS["duckdb_bench.py"]
    script.write_text(
        "import os, sys\nQ, meta, tables = {}, {}, ()\n"
        f"{line}\nprint(os.getcwd(), sys.argv[1:], sorted(Q), sys.path[0])\n"
    )
    out = subprocess.run(
        [sys.executable, peer_launch.__file__, str(tmp_path), "duckdb_bench.py", "--query", "q5_hop"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert out == f"{tmp_path} ['--query', 'q5_hop'] ['q14', 'q21', 'q22', 'q5_hop'] {tmp_path}\n"
