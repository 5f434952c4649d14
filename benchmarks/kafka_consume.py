"""What a record costs until it is in Arrow: consume(n) of confluent_kafka beside the C API that sqlstream calls.

python benchmarks/kafka_consume.py [records] [host:port]      without an address a broker of the tests is started
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from confluent_kafka import Consumer, Producer, TopicPartition

from sqlstream.connectors.kafka.client import consumer_config
from sqlstream.connectors.kafka.consume import CONSUMERS, OffsetRange, read_range
from sqlstream.connectors.kafka.options import KafkaOptions
from tests.connectors.kafka.broker import new_broker

ROUNDS = 3


def bid(number: int) -> bytes:
    """A record of about 160 bytes of JSON."""
    value = {
        "auction": number % 1000,
        "bidder": number % 7777,
        "price": number * 13 % 100_000,
        "channel": f"channel-{number % 50}",
        "url": f"https://www.nexmark.com/item.htm?query={number}",
        "ts": f"2024-01-01 00:00:{number // 1000 % 60:02d}.{number % 1000:03d}",
    }
    return json.dumps(value).encode()


def produce(bootstrap: str, topic: str, records: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 50,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 2_000_000,
        }
    )
    for n in range(records):
        producer.produce(topic, bid(n), key=str(n % 1000))
        if n % 1000 == 0:
            producer.poll(0)
    producer.flush()


def messages(config: dict[str, str], topic: str, records: int) -> pa.ChunkedArray:
    consumer = Consumer(config)
    consumer.assign([TopicPartition(topic, 0, 0)])
    chunks, got = [], 0
    while got < records:
        found = [m for m in consumer.consume(10_000, 1.0) if m.error() is None]
        got += len(found)
        chunks.append(pa.array([m.value() for m in found], pa.large_binary()))
        pa.array([m.offset() for m in found])
    consumer.close()
    return pa.chunked_array(chunks)


def main() -> None:
    records = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000
    broker = None if len(sys.argv) > 2 else new_broker()
    bootstrap = sys.argv[2] if broker is None else broker.bootstrap
    try:
        topic = f"bench-{uuid.uuid4().hex[:8]}"
        produce(bootstrap, topic, records)
        options = {"topic": topic, "properties.bootstrap.servers": bootstrap, "format": "json"}
        config = consumer_config(KafkaOptions.read(options))
        whole = OffsetRange(topic, 0, 0, records)

        def native(*columns: str) -> pa.ChunkedArray:
            found = read_range(config, whole, frozenset(columns))
            CONSUMERS.close()
            return found["value"]

        ways: dict[str, Callable[[], pa.ChunkedArray]] = {
            "consume(n): value, offset": lambda: messages(config, topic, records),
            "C API: value, offset": native,
            "C API: with key and timestamp": lambda: native("key", "timestamp"),
        }
        best: dict[str, float] = {}
        expected = None
        for _ in range(ROUNDS):
            for name, read in ways.items():
                begin = time.process_time()
                found = read().combine_chunks()
                spent = time.process_time() - begin
                assert expected is None or found.equals(expected)
                expected = found
                best[name] = min(spent, best.get(name, spent))
        first = next(iter(best.values()))
        for name, spent in best.items():
            print(f"{name:32} {spent / records * 1e6:5.2f} µs of CPU per record   {first / spent:4.2f}×")
    finally:
        if broker is not None:
            broker.close()


if __name__ == "__main__":
    main()
