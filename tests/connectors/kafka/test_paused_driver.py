"""A driver that is paused (SIGSTOP) while another one takes over, and wakes up: it is fenced and writes nothing more."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.connectors.kafka.topics import Topics
from tests.e2e.test_kill import start
from tests.runtime.support import manifests

SQL = """
CREATE TABLE t (k INT, v INT) WITH (
  'connector' = 'kafka', 'topic' = '{source}', 'properties.bootstrap.servers' = '{broker}',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json');
CREATE TABLE copied (k INT, v INT) WITH (
  'connector' = 'kafka', 'topic' = '{copied}', 'properties.bootstrap.servers' = '{broker}', 'format' = 'json');
CREATE TABLE sums (k INT, n BIGINT, total BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = '{sums}', 'properties.bootstrap.servers' = '{broker}',
  'key.format' = 'json', 'value.format' = 'json');
EXECUTE STATEMENT SET BEGIN
INSERT INTO copied SELECT k, v FROM t;
INSERT INTO sums SELECT k, COUNT(*), CAST(SUM(v) AS BIGINT) FROM t GROUP BY k;
END;
"""
ROWS = [{"k": n % 7, "v": n} for n in range(400)]


def _stopped(driver: subprocess.Popen[str]) -> None:
    """Wait until the process has stopped itself."""
    _, status = os.waitpid(driver.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status), driver.communicate()[1]


@pytest.mark.sampled(4)
@pytest.mark.kill
@pytest.mark.parametrize(
    ("point", "beat_s"), [("prepared", 1000), ("planned", 0.2), ("committed", 0.2), ("published", 1000)]
)
def test_a_driver_that_wakes_up_is_fenced(topics: Topics, tmp_path: Path, point: str, beat_s: float) -> None:
    """Also if it can't know that its lease was taken, as its next beat is far: Kafka and the manifests fence it."""
    names = {name: topics.create(2) for name in ("source", "copied", "sums")}
    (tmp_path / "pipeline.sql").write_text(SQL.format(broker=topics.bootstrap, **names))
    topics.produce(names["source"], map(json.dumps, ROWS))
    paused = start(
        tmp_path,
        100,
        2,
        environment={"STOP_AT": f"{point} 2", "LEASE_BEAT_S": str(beat_s)},
    )
    _stopped(paused)
    try:
        other = start(tmp_path, 100, 1)
        _, errors = other.communicate(timeout=300)
        assert other.returncode == 0, errors
        there = [topics.records(names[name], committed=False) for name in ("copied", "sums")]
        os.kill(paused.pid, signal.SIGCONT)
        _, errors = paused.communicate(timeout=300)
    finally:
        paused.kill()
    assert paused.returncode == 4, errors
    assert "error[STA002]: another run" in errors
    assert "Traceback" not in errors
    assert [topics.records(names[name], committed=False) for name in ("copied", "sums")] == there
    copied = Counter(
        (row["k"], row["v"]) for row in map(json.loads, filter(None, topics.values(names["copied"])))
    )
    assert copied == Counter((row["k"], row["v"]) for row in ROWS)
    last = {record.key: json.loads(record.value or b"") for record in topics.records(names["sums"])}
    assert {row["k"]: (row["n"], row["total"]) for row in last.values()} == {
        k: (len(mine), sum(mine)) for k in range(7) if (mine := [row["v"] for row in ROWS if row["k"] == k])
    }
    assert max(manifests(tmp_path / "state")) >= 4
