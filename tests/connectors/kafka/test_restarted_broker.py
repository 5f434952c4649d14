"""A broker that is killed and comes back between and in transactions: the sink goes on soon, and rows are there once."""

from __future__ import annotations

import time
from pathlib import Path

from tests.connectors.kafka.broker import new_broker
from tests.connectors.kafka.sink_job import new_job, values
from tests.connectors.kafka.topics import Topics
from tests.connectors.sink_job import SinkJob
from tests.connectors.staged_parts import come

#: What an epoch may take then: a client that is stuck was waited for 35 s.
SOON_S = 25.0


def test_a_sink_does_not_wait_for_a_client_that_is_stuck(tmp_path: Path) -> None:
    """librdkafka may wait for ever for a group's coordinator that it was connected to before."""
    broker = new_broker()
    jobs: list[SinkJob] = []
    try:
        topics = Topics(broker)
        topic = topics.create(2)
        job = new_job(jobs, tmp_path, topics, topic)
        job.epoch(come((0, "x")))
        for number in (1, 2):
            parts = job.prepare(come((-number, "x"))) if number == 2 else None
            broker.kill()
            broker.start()
            began = time.monotonic()
            if parts is not None:  # its transaction was open
                job.commit(parts)
            job.epoch(come((number, "x")))
            assert time.monotonic() - began < SOON_S
        assert sorted(row["k"] for row in values(topics, topic)) == [-2, 0, 1, 2]
    finally:
        for job in jobs:
            for sink in job.sinks:
                sink.close()
        broker.close()
