"""Exactly once from topics to topics and a table: whoever is killed, a reader sees each result once.

The rows of each partition are in order of time, those of all are not: none is late while each has its own watermark.
"""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from confluent_kafka import Consumer, TopicPartition

from sqlstream.storage.identity import identity
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from tests.connectors.kafka.broker import Broker, new_broker
from tests.connectors.kafka.topics import Topics
from tests.e2e.killing import Killer, Order, steps_within
from tests.runtime.support import manifests

PARTITIONS, ROWS = 3, 1500
SQL = """
CREATE TABLE t (k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH (
  'connector' = 'kafka', 'topic' = '{source}', 'properties.bootstrap.servers' = '{broker}',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json');

CREATE TABLE passed (k INT, v INT) WITH (
  'connector' = 'kafka', 'topic' = '{passed}', 'properties.bootstrap.servers' = '{broker}', 'format' = 'json',
  'sink.parallelism' = '3');
CREATE TABLE minutes (window_start TIMESTAMP(3), k INT, n BIGINT, total BIGINT) WITH (
  'connector' = 'kafka', 'topic' = '{minutes}', 'properties.bootstrap.servers' = '{broker}', 'format' = 'json',
  'sink.parallelism' = '3');
CREATE TABLE per_key (k INT, n BIGINT, total BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = '{per_key}', 'properties.bootstrap.servers' = '{broker}',
  'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE best (k INT, v INT, ts TIMESTAMP(3)) WITH ('connector' = 'duckdb', 'path' = 'out/results.duckdb');

EXECUTE STATEMENT SET BEGIN
INSERT INTO passed SELECT k, v FROM t WHERE v % 3 = 0;
INSERT INTO minutes SELECT window_start, k, COUNT(*), CAST(SUM(v) AS BIGINT)
FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, k;
INSERT INTO per_key SELECT k, COUNT(*), CAST(SUM(v) AS BIGINT) FROM t GROUP BY k;
INSERT INTO best SELECT k, v, ts FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, ts) AS place FROM t) WHERE place <= 2;
END;
"""
#: What there must be in the end, written independently of the pipeline.
EXPECTED = {
    "passed": "SELECT k, v FROM t WHERE v IN (0, 3, 6, 9, 12, 15, 18)",
    "minutes": "SELECT date_trunc('minute', ts), k, count(*), sum(v)::BIGINT FROM t GROUP BY ALL",
    "per_key": "SELECT k, count(*), sum(v)::BIGINT FROM t GROUP BY k",
    "best": "SELECT k, v, ts FROM t QUALIFY row_number() OVER (PARTITION BY k ORDER BY v DESC, ts) <= 2",
}


def _produced(topics: Topics, topic: str, rng: random.Random) -> list[dict[str, Any]]:
    """Write the rows, each partition's in order of time; partitions are of different sizes and speeds."""
    rows: list[dict[str, Any]] = []
    for partition in range(PARTITIONS):
        moments = sorted(rng.sample(range(1_800_000 * (partition + 1)), ROWS // (partition + 1)))
        mine = [
            {"k": rng.randrange(30), "v": rng.randrange(20), "ts": f"2024-01-01 {_clock(ms)}"}
            for ms in moments
        ]
        topics.produce(topic, map(json.dumps, mine), partition=partition)
        rows += mine
    return rows


def _clock(ms: int) -> str:
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02}.{ms % 1000:03}"


def _expected(rows: list[dict[str, Any]], folder: Path) -> dict[str, Counter[Any]]:
    path = folder / "produced.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with duckdb.connect() as connection:
        columns = "{k: 'INTEGER', v: 'INTEGER', ts: 'TIMESTAMP'}"
        connection.execute(f"CREATE VIEW t AS FROM read_json('{path}', columns={columns})")
        return {name: Counter(connection.execute(sql).fetchall()) for name, sql in EXPECTED.items()}


def _rows(values: list[bytes | None], folder: Path, columns: str) -> Counter[Any]:
    path = folder / "consumed.json"
    path.write_bytes(b"".join(value + b"\n" for value in values if value is not None))
    with duckdb.connect() as connection:
        return Counter(connection.execute(f"FROM read_json('{path}', columns={columns})").fetchall())


def _found(topics: Topics, names: dict[str, str], folder: Path) -> dict[str, Counter[Any]]:
    latest = {record.key: record.value for record in topics.records(names["per_key"])}
    with duckdb.connect(str(folder / "out" / "results.duckdb"), read_only=True) as connection:
        best = Counter(connection.execute("SELECT k, v, ts FROM best").fetchall())
    return {
        "passed": _rows(topics.values(names["passed"]), folder, "{k: 'INTEGER', v: 'INTEGER'}"),
        "minutes": _rows(
            topics.values(names["minutes"]),
            folder,
            "{window_start: 'TIMESTAMP', k: 'INTEGER', n: 'BIGINT', total: 'BIGINT'}",
        ),
        "per_key": _rows(list(latest.values()), folder, "{k: 'INTEGER', n: 'BIGINT', total: 'BIGINT'}"),
        "best": best,
    }


def _pipeline(topics: Topics, folder: Path) -> dict[str, str]:
    """Topics for the pipeline, and the pipeline in `folder`; the topics' names."""
    names = {
        name: topics.create(PARTITIONS, name=f"{name}-{folder.name}")
        for name in ("source", "passed", "minutes")
    }
    names["per_key"] = topics.create(
        PARTITIONS, name=f"per_key-{folder.name}", config={"cleanup.policy": "compact"}
    )
    (folder / "pipeline.sql").write_text(SQL.format(broker=topics.bootstrap, **names))
    return names


@pytest.mark.kill
def test_results_are_there_once_after_kills_at_any_step(topics: Topics, tmp_path: Path) -> None:
    rng = random.Random(20261126)
    names = _pipeline(topics, tmp_path)
    rows = _produced(topics, names["source"], rng)
    order = Order(str(tmp_path), rows_per_epoch=300, parallelism=2, environment={"SHARE_ROWS": "10"})
    with Killer.running(tmp_path) as killer:
        first = killer.run(replace(order, point="collected", occurrence=2, counted=True))
        assert first.killed, first.errors
        for point in ("planned", "prepared", "published", "committed"):
            killer.kill(replace(order, point=point))
        for step in steps_within(rng, first.steps, 5):
            killer.run(replace(order, step=step))
        killer.finish(replace(order, parallelism=3, rows_per_epoch=1500))
    assert _found(topics, names, tmp_path) == _expected(rows, tmp_path)
    assert max(manifests(tmp_path / "state")) > 3
    assert _last_share(topics, names["minutes"], tmp_path / "state", "minutes") > 1


def _last_share(topics: Topics, topic: str, state: Path, table: str) -> int:
    """The last epoch of which a second producer has written a share."""
    group = f"sqlstream-{identity(CheckpointStore(state))}-{table}"
    consumer = Consumer({"bootstrap.servers": topics.bootstrap, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(topic, 1)], 20)
        return int(found.offset)
    finally:
        consumer.close()


@contextmanager
def _killing(broker: Broker, rng: random.Random, times: int) -> Iterator[None]:
    """Kill and start the broker so often, at random moments, while the body runs."""
    ended = threading.Event()

    def work() -> None:
        for _ in range(times):
            if ended.wait(rng.uniform(0.5, 3.0)):
                return
            broker.kill()
            broker.start()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.kill
def test_results_are_there_once_after_the_broker_was_killed(tmp_path: Path) -> None:
    rng = random.Random(4)
    broker = new_broker()
    try:
        topics = Topics(broker)
        names = _pipeline(topics, tmp_path)
        rows = _produced(topics, names["source"], rng)
        order = Order(str(tmp_path), rows_per_epoch=150, parallelism=2, environment={"SHARE_ROWS": "10"})
        with Killer.running(tmp_path) as killer:
            with _killing(broker, rng, 3):
                killer.run(order)
            for _ in range(4):
                ended = killer.run(order)
                if not ended.code:
                    break
            assert not ended.code, ended.errors
        assert _found(topics, names, tmp_path) == _expected(rows, tmp_path)
    finally:
        broker.close()
