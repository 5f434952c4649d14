"""The broker of the tests is a real one: what is written is there, also after it was killed."""

from __future__ import annotations

from confluent_kafka import Producer

from tests.connectors.kafka.broker import new_broker
from tests.connectors.kafka.topics import Topics


def test_what_is_written_is_read(topics: Topics) -> None:
    topic = topics.create(2)
    topics.produce(topic, ["a", "b", None], partition=1, keys=["k", None, "k"])
    assert [(r.partition, r.offset, r.key, r.value) for r in topics.records(topic)] == [
        (1, 0, b"k", b"a"),
        (1, 1, None, b"b"),
        (1, 2, b"k", None),
    ]


def test_a_reader_of_committed_records_sees_no_open_or_aborted_transaction(topics: Topics) -> None:
    topic = topics.create()
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    for value, ends in (("lost", producer.abort_transaction), ("kept", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush()
        ends()
    assert topics.values(topic) == [b"kept"]
    assert len(topics.records(topic, committed=False)) == 2


def test_a_broker_that_was_killed_has_what_it_had() -> None:
    broker = new_broker()
    try:
        topics = Topics(broker)
        topic = topics.create()
        topics.produce(topic, ["a"])
        broker.kill()
        broker.start()
        assert topics.values(topic) == [b"a"]
    finally:
        broker.close()
