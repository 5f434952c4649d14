"""The brokers are away when a run starts: it says so within bounds, and the next run reads and writes all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.connectors.kafka.broker import new_broker
from tests.connectors.kafka.topics import Topics

ROOT = Path(__file__).parents[3]
SQL = """CREATE TABLE t (k INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE o (k INT) WITH ('connector' = 'kafka', 'topic' = 'written', 'format' = 'json',
  'properties.bootstrap.servers' = '{broker}');
INSERT INTO o SELECT k FROM t;
"""
#: Four attempts that are refused at once, and what a slow machine needs beside them: with ten seconds each it took 73 s.
MOST_S = 60


def sqlstream(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(ROOT / p) for p in (".", "planner", "operators"))
    return subprocess.run(
        [sys.executable, "-m", "sqlstream", command, "p.sql"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=MOST_S,
        check=False,
    )


@pytest.mark.kill
def test_a_run_begins_while_the_brokers_are_away(tmp_path: Path) -> None:
    broker = new_broker()
    try:
        topics = Topics(broker)
        topics.create(name="written")
        broker.kill()
        (tmp_path / "in").mkdir()
        (tmp_path / "in/1.json").write_text("".join(json.dumps({"k": n}) + "\n" for n in range(5)))
        (tmp_path / "p.sql").write_text(SQL.format(broker=topics.bootstrap))
        done = sqlstream(tmp_path, "run")
        assert done.returncode == 5, done.stderr
        first, *rest = done.stderr.splitlines()
        assert first.startswith(f"error[ENV006]: topic written at {topics.bootstrap} can't be written: ")
        assert "Connection refused" in first
        assert "help: run again when it is fixed: the run goes on where it stopped" in rest[0]
        assert "Traceback" not in done.stderr
        assert "nothing is lost" in done.stderr
        broker.start()
        done = sqlstream(tmp_path, "run")
        assert done.returncode == 0, done.stderr
        assert sorted(json.loads(value or b"")["k"] for value in topics.values("written")) == [*range(5)]
    finally:
        broker.close()


READING = """CREATE TABLE t (k INT) WITH ('connector' = 'kafka', 'topic' = 'read', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = '{ends}',
  'properties.bootstrap.servers' = '{broker}');
CREATE TABLE o (k INT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');
INSERT INTO o SELECT k FROM t;
"""


@pytest.mark.kill
def test_a_run_that_reads_begins_while_the_brokers_are_away(tmp_path: Path) -> None:
    broker = new_broker()

    def write(ends: str) -> None:
        (tmp_path / "p.sql").write_text(READING.format(broker=broker.bootstrap, ends=ends))

    def told(command: str) -> None:
        done = sqlstream(tmp_path, command)
        assert done.returncode == 5, done.stderr
        first, *rest = done.stderr.splitlines()
        assert first == f"error[ENV010]: Kafka's brokers can't be reached at {broker.bootstrap}"
        assert "Connection refused" in rest[0]
        assert "trying again" not in done.stderr, "it never was up: nobody would see that it can't start"

    try:
        topics = Topics(broker)
        topics.create(name="read")
        topics.produce("read", [json.dumps({"k": n}) for n in range(5)])
        broker.kill()
        write("unbounded")
        told("run")
        broker.start()
        write("latest-offset")
        done = sqlstream(tmp_path, "run")
        assert done.returncode == 0, done.stderr
        broker.kill()
        write("unbounded")
        told("run")
        told("plan")
        lines = [line for path in (tmp_path / "out").glob("*.json") for line in path.read_text().splitlines()]
        assert sorted(json.loads(line)["k"] for line in lines) == [*range(5)]
    finally:
        broker.close()
