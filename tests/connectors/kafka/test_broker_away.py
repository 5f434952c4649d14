"""The brokers are away when a run that writes to them starts: it says so within bounds, and the next run writes all."""

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
