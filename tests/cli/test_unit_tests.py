"""`sqlstream test` as a user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest

from sqlstream.cli.main import run_cli
from sqlstream.unit_tests.watching import wait
from tests.e2e.test_signals import tree
from tests.unit_tests.support import written

ROOT = Path(__file__).parents[2]
PASSES = "- name: passes\n  given: {bids: [{id: 1}]}\n  expect: {totals: [{n: 1}]}"
FAILS = "- name: fails\n  given: {bids: [{id: 1}]}\n  expect: {totals: [{n: 2}]}"


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    return written(tmp_path, f"{PASSES}\n{FAILS}")


def test_a_difference_is_a_small_table(tests: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["test", str(tests)]) == 1
    out, err = capsys.readouterr()
    lines = [line.partition(", ")[0] for line in out.splitlines()]
    assert lines == [
        f"FAIL {tests}  1 of 2 tests passed",
        "",
        f"  FAIL  fails  {tests}:5",
        f"    `totals`: 1 row missing, 1 row unexpected  ({tests}:7)".partition(", ")[0],
        "      1 missing: expected",
        "          n",
        "        - 2",
        "      1 unexpected: there",
        "          n",
        "        + 1",
        "",
        "1 passed",
    ]
    assert err == ""
    assert "\x1b" not in out


def test_selected_tests_and_a_pipelines_own(tests: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["test", str(tests.with_name("p.sql")), "-k", "passes", "-v"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"ok   {tests}  1 test, ")
    assert "     ok    passes  " in out
    assert out.splitlines()[-1].startswith("1 passed, ")
    assert run_cli(["test", str(tests), "-k", "nothing"]) == 2
    assert "error[TST009]: no test is selected" in capsys.readouterr().err
    assert run_cli(["test", str(tests), "-k", "a and"]) == 2


def test_json_and_junit(tests: Path, capsys: pytest.CaptureFixture[str]) -> None:
    junit = tests.parent / "made" / "junit.xml"
    assert run_cli(["test", str(tests), "--json", "--junit", str(junit)]) == 1
    document = json.loads(capsys.readouterr().out)
    assert not document["ok"]
    (file,) = document["files"]
    assert [t["status"] for t in file["tests"]] == ["passed", "failed"]
    (failure,) = file["tests"][1]["failures"]
    assert (failure["about"], failure["line"]) == ("`totals`", 7)
    assert (failure["missing"], failure["unexpected"]) == ([{"n": "2"}], [{"n": "1"}])
    (suite,) = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")


def test_mistakes_as_json(tests: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tests.write_text("unit_test: []")
    assert run_cli(["test", str(tests), "--json"]) == 1
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert [d["code"] for d in file["diagnostics"]] == ["TST002", "TST002"]
    assert run_cli(["test", str(tests.with_name("none.test.yaml")), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["diagnostics"][0]["code"] == "TST009"


def test_options_that_exclude_each_other(tests: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["test", "--watch", "--json", str(tests)]) == 2
    assert run_cli(["test", "--new", "p.sql", str(tests)]) == 2
    assert run_cli(["test", "-j", "0", str(tests)]) == 2


def test_a_project_without_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_cli(["test"]) == 2


def test_a_skeleton_passes_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text(
        '{"id": 1, "v": "x, y"}\n{"id": 2, "v": null}\n{"id": 1, "v": "- z"}\n'
    )
    (tmp_path / "names.csv").write_text("1,one\n")
    file = tmp_path / "p.sql"
    file.write_text("""
        CREATE TABLE t (id BIGINT, v STRING, at AS PROCTIME())
        WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
        CREATE TABLE c (id BIGINT) WITH ('connector' = 'kafka', 'topic' = 'c', 'format' = 'json',
          'properties.bootstrap.servers' = 'nowhere.invalid:9092');
        CREATE TABLE names (id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED)
        WITH ('connector' = 'filesystem', 'path' = 'names.csv', 'format' = 'csv', 'lookup.cache' = 'FULL',
          'lookup.full-cache.periodic-reload.interval' = '10 min');
        CREATE TABLE counts (id BIGINT, n BIGINT) WITH ('connector' = 'print');
        CREATE TABLE named (id BIGINT, v STRING, name STRING) WITH ('connector' = 'print');
        INSERT INTO counts SELECT id, COUNT(*) FROM (SELECT id FROM t UNION ALL SELECT id FROM c) GROUP BY id;
        INSERT INTO named SELECT t.id, v, name FROM t LEFT JOIN names FOR SYSTEM_TIME AS OF t.at AS n ON n.id = t.id;
        """)
    assert run_cli(["test", "--new", str(file)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"wrote {tmp_path / 'p.test.yaml'}: ")
    assert "warning[TST011]: `c`: no rows were read" in err
    text = (tmp_path / "p.test.yaml").read_text()
    for line in (
        '        - {id: 1, v: "x, y"}',
        "        - {id: 2}",
        "      c: []   # {id: …}",
        "        - {id: 1, name: one}",
        "        - {id: 1, n: 2}",
        '        - {id: 1, v: "- z", name: one}',
    ):
        assert line in text.splitlines(), text
    assert run_cli(["test", str(file)]) == 0
    assert run_cli(["test", "--new", str(file)]) == 2
    assert "is there already" in capsys.readouterr().err


def test_a_skeleton_expects_all_rows_or_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text("1,2024-01-01 00:00:00\nx,y,z\n2,2024-01-01 00:10:00\n")
    file = tmp_path / "p.sql"
    windows = """
        CREATE TABLE {name} WITH ('connector' = 'print') AS SELECT window_start, COUNT(*) AS n
        FROM TABLE(HOP(TABLE t, DESCRIPTOR(at), INTERVAL '{slide}' SECOND, INTERVAL '60' MINUTE))
        GROUP BY window_start, window_end;
        """
    file.write_text(
        """
        CREATE TABLE t (id BIGINT, at TIMESTAMP(3), f STRING METADATA FROM 'file.path', g STRING METADATA FROM 'file.name',
          WATERMARK FOR at AS at)
        WITH ('connector' = 'filesystem', 'path' = 'a.csv', 'format' = 'csv');
        CREATE TABLE o WITH ('connector' = 'print') AS SELECT id, g FROM t;
        CREATE TABLE nulls WITH ('connector' = 'print') AS SELECT NULLIF(id, id) AS n FROM t;
        """
        + windows.format(name="some", slide=60)
        + windows.format(name="many", slide=15)
    )
    assert run_cli(["test", "--new", str(file)]) == 0
    err = capsys.readouterr().err
    assert "warning[TST011]: `t`: 1 row could not be read" in err
    text = (tmp_path / "p.test.yaml").read_text()
    assert "        - {id: 2, at: 2024-01-01 00:10:00, g: a.csv}" in text.splitlines(), text
    assert '      # "many" has 280 rows, which is too many to write: give fewer' in text.splitlines()
    assert "      many:" not in text
    assert "        - {n: null}" in text.splitlines()
    assert text.count("window_start") == 70
    assert run_cli(["test", str(file)]) == 0


def test_a_skeleton_of_a_pipeline_with_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "p.sql"
    file.write_text("SELECT a FROM b")
    assert run_cli(["test", "--new", str(file)]) == 1
    assert "SQL013" in capsys.readouterr().err
    assert not (tmp_path / "p.test.yaml").exists()
    assert run_cli(["test", "--new", str(tmp_path / "none.sql")]) == 2


def test_a_watch_runs_again_what_has_changed(tests: Path) -> None:
    other = tests.with_name("q.test.yaml")
    other.write_text(tests.read_text().replace("unit_tests:", "pipeline: p.sql\nunit_tests:"))
    out = tests.parent / "out"
    with out.open("w") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "sqlstream", "test", str(tests.parent), "--watch", "-j", "1"],
            stdout=stream,
            stderr=stream,
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(str(ROOT / p) for p in (".", "planner", "operators")),
            },
            # A shell's background jobs don't hear SIGINT, and the tests may be one.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        try:
            _until(out, "watching", 1)
            tests.write_text(tests.read_text().replace("n: 2", "n: 1"))
            _until(out, "watching", 2)
            process.send_signal(signal.SIGINT)
            assert process.wait(120) == 1  # the other file fails as before
        finally:
            process.kill()
    text = out.read_text()
    assert text.count(f"FAIL {other}") == 1
    assert text.count(f"FAIL {tests}") == 1
    assert f"ok   {tests}  2 tests" in text
    assert "Traceback" not in text


def test_a_watch_goes_on_when_its_file_is_gone_for_a_moment(
    tests: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tests.read_text()
    pauses = 0

    def sleep(seconds: float) -> None:
        """Each time that the watch waits, something becomes of the file."""
        nonlocal pauses
        pauses += 1
        match pauses:
            case 1:
                tests.unlink()
            case 4:
                tests.write_text(text.replace("n: 2", "n: 1"))
            case 7:
                raise KeyboardInterrupt

    monkeypatch.setattr("sqlstream.unit_tests.watching.wait", partial(wait, sleep=sleep))
    assert run_cli(["test", str(tests), "--watch", "-j", "1"]) == 0
    out, err = capsys.readouterr()
    assert out.count(f"FAIL {tests}") == 1
    assert out.count(f"ok   {tests}") == 1
    assert err.count("watching") == 2


def _until(file: Path, text: str, times: int) -> None:
    end = time.monotonic() + 120
    while file.read_text().count(text) < times:
        assert time.monotonic() < end, file.read_text()
        time.sleep(0.1)


@pytest.mark.parametrize(
    "file", sorted(str(p.relative_to(ROOT)) for p in (ROOT / "pipelines").rglob("*.test.yaml"))
)
def test_the_tests_beside_the_pipelines_pass(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert run_cli(["test", file, "-j", "1"]) == 0, capsys.readouterr().out


def test_ctrl_c_ends_all_processes_without_a_traceback(tests: Path) -> None:
    many = "\n".join(PASSES.replace("passes", f"test {n}") for n in range(8))
    written(tests.parent, many)
    tests.with_name("q.test.yaml").write_text(
        tests.read_text().replace("unit_tests:", "pipeline: p.sql\nunit_tests:")
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "sqlstream", "test", str(tests.parent), "-j", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(ROOT / p) for p in (".", "planner", "operators")),
        },
        start_new_session=True,
    )
    end = time.monotonic() + 120
    while len(tree(process.pid)) < 2:  # until then a Ctrl-C ends it without a word
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)  # processes are being started, or run
    os.killpg(process.pid, signal.SIGINT)
    out = process.communicate(timeout=120)[0]
    assert process.returncode == 130, out
    assert out.splitlines()[-1].startswith("interrupted"), out
    assert "Traceback" not in out
