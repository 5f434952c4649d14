"""Standard output and error that are closed, full, without a reader or of another encoding."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import duckdb
import pytest

from tests.faults.commands import COMMAND, COUNTS, in_shell, pipeline, sqlstream

ROWS = "op  k  s\n+I  a  4\n+I  b  2\n"


def clean(done: subprocess.CompletedProcess[str], code: int) -> str:
    """What a command said on standard error, which has the exit code that it should and tells nothing of ours."""
    assert done.returncode == code, done.stderr
    for word in ("Traceback", "bug of ours", "Exception ignored"):
        assert word not in done.stderr
    return done.stderr


@pytest.mark.parametrize("arguments", [("run", "p.sql"), ("run", "p.sql", "--json"), ("--help",)])
def test_a_full_standard_output(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    pipeline(tmp_path)
    with Path("/dev/full").open("w") as full:
        printed = clean(sqlstream(tmp_path, *arguments, stdout=full), 5)
    assert "error[ENV005]: standard output can't be written: No space left on device" in printed
    if arguments[0] == "run":
        assert "nothing new" in clean(sqlstream(tmp_path, "run", "p.sql"), 0)  # its epoch was committed


def test_other_sinks_of_an_epoch_that_could_not_be_printed(tmp_path: Path) -> None:
    """The epoch is committed: what is behind the print sink gets its rows from the next run."""
    shown = COUNTS.replace("INSERT INTO o SELECT", "INSERT INTO o SELECT k, v FROM t; INSERT INTO p SELECT")
    table = "CREATE TABLE p (k STRING, s BIGINT, PRIMARY KEY (k) NOT ENFORCED) "
    table += "WITH ('connector' = 'duckdb', 'path' = 'p.db');"
    pipeline(tmp_path, table + shown)
    with Path("/dev/full").open("w") as full:
        clean(sqlstream(tmp_path, "run", "p.sql", stdout=full), 5)
    clean(sqlstream(tmp_path, "run", "p.sql"), 0)
    with duckdb.connect(str(tmp_path / "p.db"), read_only=True) as connection:
        assert connection.execute("SELECT * FROM p ORDER BY k").fetchall() == [("a", 4), ("b", 2)]


def test_what_is_wrong_is_told_where_json_can_not_be(tmp_path: Path) -> None:
    pipeline(tmp_path, "SELECT nothing")
    with Path("/dev/full").open("w") as full:
        assert "error[SQL010]" in clean(sqlstream(tmp_path, "check", "p.sql", "--json", stdout=full), 1)


def test_a_run_does_not_need_its_standard_error(tmp_path: Path) -> None:
    pipeline(tmp_path)
    with Path("/dev/full").open("w") as full:
        done = sqlstream(tmp_path, "run", "p.sql", stderr=full)
    assert (done.returncode, done.stdout) == (0, ROWS)


@pytest.mark.parametrize(("closed", "shown"), [(">&-", ""), ("2>&-", ROWS), ("<&- >&- 2>&-", "")])
def test_closed_descriptors(tmp_path: Path, closed: str, shown: str) -> None:
    pipeline(tmp_path)
    done = in_shell(tmp_path, f"sqlstream run p.sql {closed}")
    clean(done, 0)
    assert done.stdout == shown
    assert clean(in_shell(tmp_path, f"sqlstream check none.sql {closed}"), 2) is not None
    damaged = [
        f for f in (tmp_path / ".sqlstream").rglob("*") if f.is_file() and b"epoch 1 " in f.read_bytes()
    ]
    assert not damaged


def test_a_reader_that_goes_stops_the_run(tmp_path: Path) -> None:
    """Also one that would begin again after an error of a disk."""
    settings = (
        "SET 'restart-strategy.type' = 'fixed-delay'; SET 'restart-strategy.fixed-delay.delay' = '1 ms';"
    )
    rows = "k,v\n" + "".join(f"key {n},1\n" for n in range(20_000))
    pipeline(tmp_path, settings + COUNTS, rows)
    done = in_shell(tmp_path, "sqlstream run p.sql --max-rows-per-epoch 5000 | head -1")
    printed = clean(done, 0)
    assert done.stdout.split() == ["op", "k", "s"]
    assert printed.count("epoch ") < 3
    assert "p: stopped, nobody reads what it writes any more; the next run goes on there" in printed
    clean(sqlstream(tmp_path, "run", "p.sql"), 0)
    manifests = (tmp_path / ".sqlstream/p/epochs").glob("*.manifest.json")
    assert sum(sum(json.loads(m.read_text())["rows"].values()) for m in manifests) == 20_000


def test_a_reader_of_everything_that_goes(tmp_path: Path) -> None:
    pipeline(tmp_path)
    for command in ("run", "explain"):
        done = in_shell(tmp_path, f"sqlstream {command} p.sql 2>&1 | true")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert "nothing new" in clean(sqlstream(tmp_path, "run", "p.sql"), 0)


ASCII = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def test_characters_that_the_terminal_does_not_have(tmp_path: Path) -> None:
    pipeline(tmp_path, rows="k,v\nä\u4e2d,1\n")
    done = in_shell(tmp_path, "sqlstream run p.sql", **ASCII)
    clean(done, 0)
    assert done.stdout.splitlines()[1].split() == ["+I", "\\xe4\\u4e2d", "1"]
    (tmp_path / "q.sql").write_text(
        "CREATE TABLE t (ü INT) WITH ('connector' = 'filesystem', 'format' = 'json'); SELECT ü FROM t"
    )
    done = in_shell(tmp_path, "sqlstream check q.sql --json", **ASCII)
    clean(done, 1)
    assert "…" in json.loads(done.stdout)["diagnostics"][0]["help"]


def test_names_that_are_no_text(tmp_path: Path) -> None:
    done = in_shell(tmp_path, r"sqlstream check $'\xff.sql'")
    assert r"\udcff.sql does not exist" in clean(done, 2)
    done = in_shell(tmp_path, r"sqlstream check $'\xff.sql' --json")
    clean(done, 2)
    assert json.loads(done.stdout)["diagnostics"][0]["message"] == "\udcff.sql does not exist"


def test_a_working_directory_that_is_gone(tmp_path: Path) -> None:
    pipeline(tmp_path)
    gone = f'mkdir gone; cd gone; rmdir ../gone; sqlstream() {{ {tmp_path}/sqlstream "$@"; }}\n'
    words = "#!/bin/bash\n" + " ".join(COMMAND) + f' "$@"; echo $? > {tmp_path}/code\n'
    (tmp_path / "sqlstream").write_text(words)
    (tmp_path / "sqlstream").chmod(0o755)
    clean(in_shell(tmp_path, gone + f"sqlstream run {tmp_path}/p.sql"), 0)
    for line in ("check p.sql", "init x", f"run {tmp_path}/p.sql --state-dir x"):
        printed = clean(in_shell(tmp_path, gone + "sqlstream " + line), 2)
        assert "error[PRJ001]: the working directory does not exist any more" in printed
