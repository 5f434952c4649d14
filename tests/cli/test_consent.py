"""`sqlstream run` asks on a terminal for what `--accept` says elsewhere."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.planning import plan_file
from sqlstream.storage.journal import Journal
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from tests.properties.in_process import run_here

ROOT = Path(__file__).parent.parent.parent
PATH = os.pathsep.join(str(ROOT / part) for part in (".", "planner", "operators"))
ENVIRONMENT = {**os.environ, "PYTHONPATH": PATH, "NO_COLOR": "1", "TERM": "dumb"}
QUESTION = "Go on? [y/N] "
SUMS = "INSERT INTO sums SELECT k, SUM(v) FROM t GROUP BY k;"
LARGEST = "INSERT INTO sums SELECT k, MAX(v) FROM t GROUP BY k;"
#: A second table, whose rows no state has.
COPIES = "INSERT INTO copies SELECT k, v FROM t;"


def text(*inserts: str) -> str:
    return "\n".join(
        [
            "CREATE TABLE t (k INT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');",
            "CREATE TABLE u (k INT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'more', 'format' = 'json');",
            "CREATE TABLE sums (k INT, v BIGINT, PRIMARY KEY (k) NOT ENFORCED)",
            "WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');",
            "CREATE TABLE others (k INT, v BIGINT, PRIMARY KEY (k) NOT ENFORCED)",
            "WITH ('connector' = 'duckdb', 'path' = 'others.duckdb');",
            "CREATE TABLE copies (k INT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');",
            *inserts,
        ]
    )


def rows(folder: Path, name: str, numbers: range) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(json.dumps({"k": n % 3, "v": n}) + "\n" for n in numbers))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A pipeline that ran, and was edited when the first file that it read was gone."""
    rows(tmp_path / "in", "0.json", range(10))
    rows(tmp_path / "more", "0.json", range(10))
    others = "INSERT INTO others SELECT k, SUM(v) FROM u GROUP BY k;"
    ran = tmp_path / "p.sql"
    ran.write_text(text(SUMS, others))
    planned = plan_file(ran)
    run_here(planned, tmp_path, state=".sqlstream/p", sql=planned.masked_sql)
    (tmp_path / "in/0.json").unlink()
    rows(tmp_path / "in", "1.json", range(10, 14))
    ran.write_text(text(LARGEST, others.replace("SUM", "MIN")))
    return ran


def table(file: Path, name: str = "sums", database: str = "out.duckdb") -> Counter[tuple[Any, ...]]:
    with duckdb.connect(str(file.parent / database), read_only=True) as con:
        return Counter(con.execute(f"SELECT * FROM {name}").fetchall())


def on_a_terminal(*arguments: str, answer: bytes, stdout: bool = True) -> tuple[int, str]:
    """Run the command on a terminal, where the question is answered if it comes; its exit code and all that it shows."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "sqlstream", *arguments],
        stdin=theirs,
        stdout=theirs if stdout else subprocess.DEVNULL,
        stderr=theirs,
        env=ENVIRONMENT,
        start_new_session=True,
    )
    os.close(theirs)
    shown, until = "", time.monotonic() + 300
    wanted = False
    while time.monotonic() < until:
        if select.select([ours], [], [], 0.5)[0]:
            try:
                shown += os.read(ours, 4096).decode()
            except OSError:  # nobody writes any more
                break
        if QUESTION in shown and not wanted:
            wanted = True
            os.write(ours, answer)
    code = process.wait(timeout=30)
    os.close(ours)
    return code, shown.replace("\r\n", "\n")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "answer", [b"n\n", b"\n", b"maybe\n", b"\x04"], ids=["no", "nothing", "other", "end"]
)
def test_anything_but_yes_changes_nothing(file: Path, answer: bytes) -> None:
    state = {p: p.read_bytes() for p in (file.parent / ".sqlstream").rglob("*") if p.is_file()}
    before = table(file)
    code, shown = on_a_terminal("run", str(file), answer=answer)
    assert code == 3, shown
    assert "warning[DAT008]: source `t` can't be read again: " in shown
    assert "\nmax of v will count only from now on (--accept fresh:group_aggregate_1)\nGo on? [y/N] " in shown
    assert "error[" not in shown
    assert "min of v" not in shown, "the history of `u` is there"
    assert shown.endswith("p: nothing was changed\n")
    assert "starting Spark" not in shown
    assert table(file) == before
    after = {p: p.read_bytes() for p in (file.parent / ".sqlstream").rglob("*") if p.is_file()}
    assert after == state


@pytest.mark.spark
def test_yes_is_consent(file: Path) -> None:
    code, shown = on_a_terminal("run", str(file), answer=b"y\n")
    assert code == 0, shown
    assert shown.count(QUESTION) == 1
    assert shown.count("warning[STA017]: the table `sums` is reconciled") == 1
    assert table(file) == Counter([(0, 12), (1, 13), (2, 11)])
    assert table(file, "others", "others.duckdb") == Counter([(0, 0), (1, 1), (2, 2)])
    journal = Journal(CheckpointStore(str(file.parent / ".sqlstream/p")))
    decided = [edit for epoch in journal.epochs()[1] for edit in journal.manifest(epoch).edits]
    assert {edit["verdict"] for edit in decided} == {"FRESH", "BACKFILL"}


@pytest.mark.parametrize("how", ["no terminal", "stdout elsewhere", "json"])
def test_nobody_is_asked(file: Path, how: str) -> None:
    if how == "no terminal":
        done = subprocess.run(
            [sys.executable, "-m", "sqlstream", "run", str(file)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
            check=False,
        )
        code, shown = done.returncode, done.stdout + done.stderr
    else:
        more = ["--json"] if how == "json" else []
        code, shown = on_a_terminal("run", str(file), *more, answer=b"y\n", stdout=how == "json")
    assert code == 3, shown
    assert QUESTION not in shown
    assert "DAT008" in shown
    assert "--accept fresh:group_aggregate_1" in shown
    assert "fresh:group_aggregate_2" not in shown, "the history of `u` is there"
