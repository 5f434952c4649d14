"""Files and folders that a run has no right to: it says which, exits 5, and goes on where it was when it may."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.commands import pipeline, sqlstream

FILES = """
CREATE TABLE t (k STRING, v INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'csv');
CREATE TABLE o (k STRING, v INT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');
INSERT INTO o SELECT k, v FROM t;
"""
_RIGHTS = "-dac_override,-dac_read_search,-fowner"
#: root may do everything, unless it gives that up.
AS_A_USER = ("setpriv", f"--bounding-set={_RIGHTS}", f"--inh-caps={_RIGHTS}") if os.geteuid() == 0 else ()


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return sqlstream(folder, "run", "p.sql", *options, prefix=AS_A_USER)


@contextmanager
def mode(path: Path, bits: int) -> Iterator[None]:
    """Other rights for a while."""
    before = path.stat().st_mode
    path.chmod(bits)
    try:
        yield
    finally:
        path.chmod(before)


def refused(done: subprocess.CompletedProcess[str], path: Path) -> None:
    assert done.returncode == 5, done.stderr
    assert "error[ENV005]: a file can't be read or written: " in done.stderr
    assert f"Permission denied: {path}\n" in done.stderr
    assert "run again" in done.stderr
    assert "skip-file" not in done.stderr


def rows(folder: Path) -> list[int]:
    files = sorted((folder / "out").glob("*.json"))
    return sorted(json.loads(line)["v"] for file in files for line in file.read_text().splitlines())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("what", ["in", "in/sub", "in/1.csv"])
def test_input(tmp_path: Path, what: str) -> None:
    pipeline(tmp_path, FILES)
    (tmp_path / "in/sub").mkdir()
    (tmp_path / "in/sub/2.csv").write_text("c,4\n")
    with mode(tmp_path / what, 0):
        refused(run(tmp_path), tmp_path / what)
    assert run(tmp_path).returncode == 0
    assert rows(tmp_path) == [1, 2, 3, 4]


def test_a_folder_that_can_be_listed_and_not_entered(tmp_path: Path) -> None:
    pipeline(tmp_path, FILES)
    with mode(tmp_path / "in", 0o600):
        refused(run(tmp_path), tmp_path / "in/1.csv")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format_", ["csv", "json", "parquet"])
def test_input_that_was_listed(tmp_path: Path, format_: str) -> None:
    """The first run lists both files, and reads one: the other is damaged."""
    sql = FILES.replace("'json'", "'changelog-json'").replace("'csv'", f"'{format_}'")
    pipeline(tmp_path, sql)
    (tmp_path / "in/1.csv").unlink()
    _write(tmp_path / "in/1", format_, 1)
    damaged = tmp_path / "in/2.gz"
    damaged.write_bytes(b"no archive, and no table")
    assert run(tmp_path, "--max-files-per-epoch", "1").returncode == 1
    with mode(damaged, 0):
        refused(run(tmp_path), damaged)
    assert run(tmp_path, "--skip-file", str(damaged)).returncode == 0
    files = list((tmp_path / "out").glob("*.json"))
    assert sum(len(file.read_text().splitlines()) for file in files) == 1


def _write(path: Path, format_: str, value: int) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    row = {"k": "a", "v": value}
    if format_ == "parquet":
        parquet.write_table(pa.Table.from_pylist([row]), path)
    elif format_ == "csv":
        path.write_text(f"a,{value}\n")
    else:
        path.write_text(json.dumps(row) + "\n")


@pytest.mark.parametrize("what", [".sqlstream/p", ".sqlstream/p/epochs", "out"])
@pytest.mark.sampled(4)
def test_state_and_sink(tmp_path: Path, what: str) -> None:
    pipeline(tmp_path, FILES)
    assert run(tmp_path).returncode == 0
    (tmp_path / "in/2.csv").write_text("c,4\n")
    for bits in (0o500, 0):
        with mode(tmp_path / what, bits):
            done = run(tmp_path)
            assert done.returncode == 5, done.stderr
            assert str(tmp_path / what) in done.stderr
            assert "Traceback" not in done.stderr
    assert run(tmp_path).returncode == 0
    assert rows(tmp_path) == [1, 2, 3, 4]


def test_the_projects_file(tmp_path: Path) -> None:
    pipeline(tmp_path, FILES)
    (tmp_path / "sqlstream.toml").write_text("")
    with mode(tmp_path / "sqlstream.toml", 0):
        done = run(tmp_path)
    assert (done.returncode, "error[PRJ002]" in done.stderr) == (2, True)
    assert "can't be read: Permission denied" in done.stderr
