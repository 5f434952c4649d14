"""`sqlstream run` and `golden` on Spark: in this process, and as processes that get signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sqlstream.cli.main import run_cli
from tests.conftest import Sqlstream

ROOT = Path(__file__).parent.parent.parent
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(str(ROOT / p) for p in (".", "planner", "operators")),
}
COMMAND = [sys.executable, "-m", "sqlstream"]

pytestmark = pytest.mark.spark


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new project, which is the current folder."""
    assert run_cli(["init", str(tmp_path / "shop")]) == 0
    monkeypatch.chdir(tmp_path / "shop")
    return tmp_path / "shop"


def test_a_new_project_runs_and_goes_on_with_new_data(shop: Path, sqlstream_here: Sqlstream) -> None:
    first = sqlstream_here("run", "pipelines/orders.sql", "--max-rows-per-epoch", "4")
    assert first.returncode == 0, first.stderr
    rows = [line.split() for line in first.stdout.splitlines() if not line.startswith("op")]
    assert sorted(row[-3:] for row in rows) == [
        ["ada", "3", "20.85"],
        ["bob", "1", "20.00"],
        ["bob", "1", "3.00"],
    ]
    assert "epoch 1  " in first.stderr
    assert "epoch 2  " in first.stderr
    assert "watermark 2024-01-01 10:02:" in first.stderr
    assert "orders_per_minute  3 rows  to print" in first.stderr
    assert (shop / "pipelines/.sqlstream/orders").is_dir()

    again = sqlstream_here("run", "pipelines/orders.sql")
    assert (again.returncode, again.stdout) == (0, "")
    assert "nothing new" in again.stderr
    for done in (first, again):
        assert "open   window_aggregate_1  1 window  until 2024-01-01 10:03:00" in done.stderr
        assert "the next run goes on from watermark 2024-01-01 10:02:" in done.stderr

    drained = sqlstream_here("run", "pipelines/orders.sql", "--drain")
    assert drained.returncode == 0, drained.stderr
    assert drained.stdout.split()[-3:] == ["cy", "1", "9.99"]
    assert "watermark end" in drained.stderr
    assert "open " not in drained.stderr

    header = "customer,amount,ordered_at\n"
    (shop / "data/orders/orders-2.csv").write_text(header + "dee,5.00,2024-01-01 11:00:00\nada,1.00,never\n")
    more = sqlstream_here("run", "pipelines/orders.sql", "--json", "--drain")
    assert more.returncode == 0, more.stderr
    assert "DAT011" in more.stderr
    *epochs, end = map(json.loads, more.stdout.splitlines())
    assert [e["event"] for e in epochs] == ["epoch"] * len(epochs)
    assert sum(e["rows_read"]["orders"] for e in epochs) == end["rows_read"]["orders"]
    assert (end["event"], end["outcome"], end["pipeline"]) == ("end", "exhausted", "orders")
    assert end["rows_written"] == {"orders_per_minute": 1}
    assert end["dead_letters"] == {"malformed": 1}
    assert "dee" in more.stderr, "rows of a print sink make way for the JSON"


def test_golden_commands(shop: Path, sqlstream_here: Sqlstream) -> None:
    assert sqlstream_here("golden", "update").returncode == 0
    golden = shop / "golden/orders/orders_per_minute.csv"
    golden.write_text(golden.read_text().replace("20.85", "20.58"))
    done = sqlstream_here("golden", "check")
    assert done.returncode == 1, done.stderr
    assert "FAIL pipelines/orders.sql" in done.stdout
    assert "1 changed" in done.stdout
    assert "20.58 → 20.85" in done.stdout
    done = sqlstream_here("golden", "update", "pipelines/orders.sql")
    assert "20.58 → 20.85" in done.stdout
    done = sqlstream_here("golden", "check", "pipelines/orders.sql", "--max-rows-per-epoch", "2")
    assert (done.returncode, done.stdout) == (0, "ok   pipelines/orders.sql  rows: orders_per_minute 4\n"), (
        done
    )
    assert not (shop / "pipelines/.sqlstream").exists()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_epoch(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "p.sql").write_text(
        """
        CREATE TABLE events (event_type INT, dateTime TIMESTAMP(3), WATERMARK FOR dateTime AS dateTime)
        WITH ('connector' = 'nexmark');
        CREATE TABLE out WITH ('connector' = 'blackhole') AS SELECT event_type FROM events;
        """
    )
    command = [*COMMAND, "run", "p.sql", "--json", "--max-rows-per-epoch", "1000"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["epoch"] == 1
    # A terminal sends Ctrl-C to all processes of the foreground group, Spark's too.
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    end = json.loads(out.splitlines()[-1])
    assert end["outcome"] == "stopped"
    assert end["rows_written"]["out"] == 1000 * end["epochs"]


def test_data_that_cannot_be_computed(
    tmp_path: Path, sqlstream_here: Sqlstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.json").write_text('{"a": "x"}\n')
    (tmp_path / "p.sql").write_text(
        """
        CREATE TABLE t (a STRING) WITH ('connector' = 'filesystem', 'path' = 'in.json', 'format' = 'json');
        CREATE TABLE out WITH ('connector' = 'blackhole') AS SELECT CAST(a AS INT) AS a FROM t;
        """
    )
    done = sqlstream_here("run", "p.sql")
    assert done.returncode == 1, done.stderr
    assert "error[DAT001]" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_a_killed_run_leaves_is_swept_by_the_next_one(tmp_path: Path) -> None:
    """SIGKILL to the driver, the JVM and the workers at once: nobody is left to clean up."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "p.sql").write_text(
        """
        SET 'execution.single-task-rows' = '0';
        CREATE TABLE t (a BIGINT) WITH ('connector' = 'datagen', 'fields.a.max' = '9');
        CREATE TABLE o (a BIGINT, n BIGINT, PRIMARY KEY (a) NOT ENFORCED)
        WITH ('connector' = 'duckdb', 'path' = 'o.duckdb');
        INSERT INTO o SELECT a, COUNT(*) AS n FROM t GROUP BY a;
        """
    )
    arguments = ["run", "p.sql", "--json", "--max-rows-per-epoch", "2000", "--parallelism", "2"]

    def one_epoch(number: signal.Signals) -> set[str]:
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=tmp_path,
            env={**ENVIRONMENT, "TMPDIR": str(tmp_path / "tmp")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline()
        found = temporary()
        os.killpg(process.pid, number)
        process.communicate(timeout=120)
        return found

    def temporary() -> set[str]:
        caches = next((tmp_path / "tmp").glob("sqlstream-*"))
        beside = {p.name for p in (tmp_path / "tmp").iterdir()} - {caches.name}
        return beside | {p.name for p in (caches / "runs").iterdir() if p.is_dir()}

    first = one_epoch(signal.SIGKILL)
    assert first
    assert temporary() & first, "nothing was left, so nothing is shown"
    second = one_epoch(signal.SIGINT)
    assert not second & first
    assert temporary() == set()
