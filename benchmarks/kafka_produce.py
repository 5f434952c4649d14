"""What a record costs until a broker has it: produce() a record, produce_batch(), and the sink's way, with 1 to 4 producers.

python benchmarks/kafka_produce.py [records] [host:port]      without an address a broker of the tests is started
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.kafka_consume import bid
from sqlstream.connectors.kafka.failures import Failures
from sqlstream.connectors.kafka.producing import Producing
from sqlstream.connectors.kafka.records import Records
from tests.connectors.kafka.broker import new_broker

ROUNDS = 3
#: Records in a part of the epoch, as a task stages them.
PART = 50_000
PARTITIONS = 4
CONFIG = {
    "linger.ms": 5,
    "enable.idempotence": True,
    "acks": "all",
    "partitioner": "murmur2_random",
    "queue.buffering.max.messages": 0,
    "queue.buffering.max.kbytes": 1 << 21,
}


def created(bootstrap: str) -> str:
    """A new topic of four partitions."""
    name = f"bench-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})  # it goes with the answers that it gives later
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(20)
    return name


def bids(count: int) -> Records:
    """Records of about 160 bytes of JSON, with a key."""
    values = [bid(n) for n in range(count)]
    keys = [str(n % 1000).encode() for n in range(count)]
    return Records(pa.array(values, pa.large_binary()), pa.array(keys, pa.large_binary()))


def parts(records: Records) -> Iterator[Records]:
    """The same in parts."""
    assert records.keys is not None
    for start in range(0, len(records), PART):
        here = slice(start, start + PART)
        times = None if records.timestamps is None else records.timestamps[here]
        yield Records(records.values[here], records.keys[here], timestamps=times)


def one_by_one(bootstrap: str, topic: str, records: Records) -> None:
    """As a program writes that uses the client."""
    producer = Producer({"bootstrap.servers": bootstrap, **CONFIG})
    for part in parts(records):
        assert part.keys is not None
        for value, key in zip(part.values.to_pylist(), part.keys.to_pylist(), strict=True):
            producer.produce(topic, value, key)
        producer.poll(0)
    producer.flush()


def in_batches(bootstrap: str, topic: str, records: Records) -> None:
    """The client's way to take many records at once."""
    producer = Producer({"bootstrap.servers": bootstrap, **CONFIG})
    for part in parts(records):
        assert part.keys is not None
        pairs = zip(part.values.to_pylist(), part.keys.to_pylist(), strict=True)
        messages = [{"value": value, "key": key} for value, key in pairs]
        assert producer.produce_batch(topic, messages) == len(messages)
        producer.poll(0)
    producer.flush()


def by_the_sink(bootstrap: str, topic: str, records: Records, *, producers: int | None = 1) -> None:
    """What the sink does with an epoch's records: in so many transactions, or in none."""
    every = list(parts(records))

    def share(number: int, count: int) -> Producing:
        transactions = None if producers is None else f"bench-{topic}-{number}"
        failures = Failures("bench", topic, transactions or "", "")
        producing = Producing({"bootstrap.servers": bootstrap}, topic, failures, transactions=transactions)
        producing.open()
        for part in every[number::count]:
            producing.send(part, partition=None, partitions=PARTITIONS)
        producing.drain()
        return producing

    count = producers or 1
    with ThreadPoolExecutor(count) as pool:
        for producing in [*pool.map(share, range(count), [count] * count)]:
            producing.commit()
            producing.close()


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    broker = None if len(sys.argv) > 2 else new_broker()
    bootstrap = sys.argv[2] if broker is None else broker.bootstrap
    try:
        records = bids(count)
        stamped = Records(records.values, records.keys, timestamps=pa.array(np.full(count, 10**12)))
        ways: dict[str, Callable[[str], Any]] = {
            "produce() a record": lambda topic: one_by_one(bootstrap, topic, records),
            "produce_batch()": lambda topic: in_batches(bootstrap, topic, records),
            "sink, at least once": lambda topic: by_the_sink(bootstrap, topic, records, producers=None),
            "sink, in one transaction": lambda topic: by_the_sink(bootstrap, topic, records),
            "sink, in two": lambda topic: by_the_sink(bootstrap, topic, records, producers=2),
            "sink, in four": lambda topic: by_the_sink(bootstrap, topic, records, producers=4),
            "sink, with timestamps": lambda topic: by_the_sink(bootstrap, topic, stamped),
        }
        best: dict[str, tuple[float, float]] = {}
        for _ in range(ROUNDS):
            for name, write in ways.items():
                topic = created(bootstrap)
                begin, cpu = time.perf_counter(), time.process_time()
                write(topic)
                spent = (time.process_time() - cpu, time.perf_counter() - begin)
                best[name] = min(spent, best.get(name, spent))
        first = next(iter(best.values()))[0]
        for name, (cpu, seconds) in best.items():
            print(
                f"{name:26} {cpu / count * 1e6:6.2f} µs of CPU per record   {first / cpu:4.2f}×   "
                f"{count / seconds:9,.0f} records/s"
            )
    finally:
        if broker is not None:
            broker.close()


if __name__ == "__main__":
    main()
