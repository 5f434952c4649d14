"""The prompt of `sqlstream sql`: keys that are typed into prompt_toolkit's pipe, and one real terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from sqlstream.cli.sql_prompt import prompt
from sqlstream.cli.sql_text import Printer
from sqlstream.project import Project
from sqlstream.shell.opening import opened
from sqlstream.shell.session import Session

FILE = """\
CREATE TABLE orders (customer STRING, amount INT)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE endless (id BIGINT) WITH ('connector' = 'datagen');
CREATE TABLE o (customer STRING) WITH ('connector' = 'print');
INSERT INTO o SELECT customer FROM orders;
"""
UP, CTRL_C, CTRL_D, TAB = "\x1b[A", "\x03", "\x04", "\t"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.json").write_text('{"customer": "ada", "amount": 1}\n')
    path = tmp_path / "p.sql"
    path.write_text(FILE)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    return path


def typed(file: Path, keys: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    session = Session(opened(file, Project(file.parent), {}, None))
    with create_pipe_input() as pipe:
        pipe.send_text(keys)
        assert prompt(session, Printer("table", 100), pipe, DummyOutput()) == 0
    shown = capsys.readouterr()
    return shown.out, shown.err


def test_statements_lines_and_mistakes(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = "SELECT\rcustomer FROM orders;\rSELECT nope FROM orders;\r\rSELECT 1 AS a; SELECT 2 AS b;\rquit\r"
    out, err = typed(file, keys, capsys)
    assert [line for line in out.splitlines()[1:] if not line.startswith("(")] == [
        "customer", "ada", "a", "1", "b", "2",
    ]  # fmt: skip
    assert " --> input 2:1:8" in err


def test_ctrl_c_cancels_the_line_and_ctrl_d_ends(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = typed(file, f"SELECT nonsense{CTRL_C}SELECT 1 AS a;\r{CTRL_D}", capsys)
    assert "a\n1\n" in out
    assert err == ""


def test_history_is_kept_without_passwords(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = "CREATE TABLE t (a INT) WITH ('connector' = 'postgres', 'password' = 'geheim');"
    typed(file, f"SELECT 7 AS a;\r{table}\rquit\r", capsys)
    kept = (file.parent / "xdg/sqlstream/sql_history").read_text()
    assert "SELECT 7" in kept
    assert "geheim" not in kept
    out, _ = typed(file, f"{UP}{UP}\rquit\r", capsys)  # `quit`, then the SELECT
    assert "a\n7\n" in out


class Terminal:
    """`sqlstream sql` on a terminal of its own."""

    def __init__(self, file: Path) -> None:
        self._own, other = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sqlstream", "sql", str(file)],
            stdin=other,
            stdout=other,
            stderr=other,
            env={**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
            start_new_session=True,
            preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0),
        )
        os.close(other)
        self.seen = ""

    def wait_for(self, text: str, seconds: float = 60.0) -> None:
        """Read what is printed until a text comes; what came with it is forgotten."""
        until = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < until, f"{text!r} did not come: {self.seen!r}"
            if select.select([self._own], [], [], 0.2)[0]:
                found = os.read(self._own, 65536).decode(errors="replace")
                self.seen += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", found)
        self.seen = self.seen.partition(text)[2]

    def type(self, keys: str) -> None:
        os.write(self._own, keys.encode())

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        os.close(self._own)


@pytest.fixture
def terminal(file: Path) -> Iterator[Terminal]:
    made = Terminal(file)
    try:
        yield made
    finally:
        made.close()


def test_a_real_terminal(terminal: Terminal) -> None:
    terminal.wait_for("Ctrl-D ends")
    terminal.wait_for("sql>")
    terminal.type(f"SELECT * FROM orde{TAB}")
    terminal.wait_for("orders")  # the only one that begins so is taken at once
    terminal.type(";\r")
    terminal.wait_for("(1 row")
    terminal.wait_for("sql>")
    terminal.type("SELECT COUNT(*) FROM endless a, endless b, endless c, endless d, endless e;\r")
    terminal.wait_for("endless e;")
    time.sleep(4)
    terminal.type(CTRL_C)
    terminal.wait_for("interrupted")
    terminal.wait_for("sql>")
    terminal.type("SELECT 40 + 2 AS answer;\r")
    terminal.wait_for("42")
    terminal.wait_for("sql>")
    terminal.type(CTRL_D)
    assert terminal.process.wait(30) == 0
