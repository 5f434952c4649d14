"""docs/kafka.md does what it says: its commands, Kafka's own tools among them, run against a real broker in one shell."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.connectors.kafka.broker import POM, Broker, run_broker
from tests.docs.walks import ROOT, walk
from tests.jars import classpath, java

_ADDRESS = "localhost:9092"
_TOOLS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
}


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    yield from run_broker()


@pytest.mark.kill
def test_the_walk_through_is_true(tmp_path: Path, own_broker: Broker) -> None:
    shutil.copytree(ROOT / "pipelines" / "kafka", tmp_path / "pipelines" / "kafka")
    pipeline = tmp_path / "pipelines" / "kafka" / "revenue.sql"
    pipeline.write_text(pipeline.read_text().replace(_ADDRESS, own_broker.bootstrap))
    jars = classpath(POM, "Kafka broker")
    walk(
        ROOT / "docs" / "kafka.md",
        tmp_path,
        instead={_ADDRESS: own_broker.bootstrap},
        tools={name: f'"{java()}" -cp "{jars}" {main} "$@"' for name, main in _TOOLS.items()},
    )
