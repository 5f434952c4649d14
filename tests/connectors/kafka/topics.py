"""What other clients do with topics: create them, write to them, and read all that a reader of committed records sees."""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.connectors.kafka.broker import Broker

_numbers = itertools.count()
_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Record:
    """A message as a reader sees it; `timestamp` in ms."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics of a broker."""

    broker: Broker

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    @property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def create(
        self, partitions: int = 1, *, name: str | None = None, config: Mapping[str, str] | None = None
    ) -> str:
        """A new topic, under a name of its own unless one is given."""
        name = name or f"topic-{next(_numbers)}-{uuid.uuid4().hex[:6]}"
        admin = self.admin  # it goes with the answers that it gives later
        made = admin.create_topics([NewTopic(name, partitions, 1, config=dict(config or {}))])
        made[name].result(_TIMEOUT_S)
        return name

    def delete(self, name: str) -> None:
        admin = self.admin
        admin.delete_topics([name])[name].result(_TIMEOUT_S)

    def produce(
        self,
        topic: str,
        values: Iterable[bytes | str | None],
        *,
        partition: int = -1,
        keys: Iterable[bytes | str | None] | None = None,
        timestamp: int = 0,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
    ) -> None:
        """Write messages; `partition` -1: by their keys. `timestamp` in ms, 0: now."""
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "message.max.bytes": 16 << 20, "linger.ms": 1}
        )
        failed: list[KafkaError] = []
        for value, key in zip(values, keys if keys is not None else itertools.repeat(None), strict=False):
            producer.produce(
                topic,
                value=value,
                key=key,
                partition=partition,
                timestamp=timestamp,
                headers=None if headers is None else list(headers),
                on_delivery=lambda error, _: failed.append(error) if error is not None else None,
            )
            producer.poll(0)
        assert producer.flush(_TIMEOUT_S) == 0
        if failed:
            raise KafkaException(failed[0])

    def records(self, topic: str, *, committed: bool = True, settled: bool = True) -> list[Record]:
        """All records that are there now, by partition and offset.

        A transaction's end is answered before its markers are in the partitions, and a reader sees nothing of it until then:
        with `settled` a partition is read until no transaction is open in it.
        """
        given_up = time.monotonic() + _TIMEOUT_S
        found, is_open = self._read(topic, committed)
        while is_open and committed and settled and time.monotonic() < given_up:
            found, is_open = self._read(topic, committed)
        return found

    def _read(self, topic: str, committed: bool) -> tuple[list[Record], bool]:
        """The records of a topic, and whether a transaction is open behind them."""
        level = "read_committed" if committed else "read_uncommitted"
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"test-{uuid.uuid4()}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",  # where records were deleted
                "isolation.level": level,
                "enable.partition.eof": True,
                "fetch.message.max.bytes": 32 << 20,
                "fetch.wait.max.ms": 10,  # the end of a partition is seen when that is over
            }
        )
        try:
            there = consumer.list_topics(topic, timeout=_TIMEOUT_S).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, 0) for number in there])
            ended: set[int] = set()
            found = []
            is_open = False
            while len(ended) < len(there):
                message = consumer.poll(_TIMEOUT_S)
                assert message is not None, f"no answer from {self.bootstrap}"
                error = message.error()
                number, offset = message.partition(), message.offset()
                assert number is not None
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        ended.add(number)
                        partition = TopicPartition(topic, number)
                        low_high = consumer.get_watermark_offsets(partition, cached=True)
                        assert low_high is not None
                        assert offset is not None
                        is_open |= offset < low_high[1]
                        continue
                    raise KafkaException(error)
                assert offset is not None
                given = cast("list[tuple[str, bytes | None]]", message.headers() or [])
                record = Record(
                    number, offset, message.key(), message.value(), message.timestamp()[1], tuple(given)
                )
                found.append(record)
        finally:
            consumer.close()
        return sorted(found, key=lambda one: (one.partition, one.offset)), is_open

    def values(self, topic: str) -> list[bytes | None]:
        """The values of all records that a reader of committed ones sees."""
        return [record.value for record in self.records(topic)]
