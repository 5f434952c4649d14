"""Which epoch a topic has: an offset of a consumer group of ours, committed in the transaction of the epoch's records.

The group is of one table of one state directory, the offset stands at the topic's partition 0; behind it may be the marks
of an epoch's shares (`shares`). Kafka forgets offsets that were not written for long (`offsets.retention.minutes`, a week);
so where a run ends the state directory notes it, too, with the topic's id, and that is read where Kafka has forgotten.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import astuple
from typing import Any

from sqlstream.connectors.exactly_once.target import LostConnectionError, Record
from sqlstream.connectors.kafka.client import admin_config, confluent_kafka, consumer_config, made
from sqlstream.connectors.kafka.failures import Failures
from sqlstream.connectors.kafka.options import KafkaOptions
from sqlstream.connectors.kafka.shares import MOST, EpochCut, Marks
from sqlstream.storage.identity import NAME, identity
from sqlstream_operators.state.checkpoint_store import CheckpointStore

_NO_TOPIC = frozenset(("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_PARTITION"))
#: Seconds to wait for a transaction that is about to end, and for a broker.
_STABLE_S, _ANSWER_S = 3.0, 10.0


class EpochGroup:
    """The offset of one sink, and its topic as a consumer sees it; `known_as` is the table's name to Kafka."""

    def __init__(
        self, options: KafkaOptions, known_as: str, store: CheckpointStore, failures: Failures, group: str
    ) -> None:
        self._options, self._known_as, self._store = options, known_as, store
        self._topic = options.topics[0]
        self._failures = failures
        self.name = group
        #: What the shares' marks said when the record was read.
        self.marks: Marks | None = None
        self._clients: dict[bool, Any] = {}
        self._noted: int | None = None
        self._identified, self._written_to = False, ""
        self._client_error: str | None = None

    def offsets(self, record: Record) -> list[Any]:
        """The offsets that say what a record says: its epoch, and no later one in a mark."""
        marks = () if self.marks is None else sorted(self.marks.beyond(record.epoch))
        return [self._offset(record, share, {}) for share in (0, *marks)]

    def mark(self, record: Record, share: int, cut: EpochCut | None) -> Any:
        """The offset by which a share (1 …) says that its transaction has the record's epoch, which is cut like this."""
        return self._offset(record, share, {} if cut is None else {"cut": astuple(cut)})

    def _offset(self, record: Record, share: int, more: Mapping[str, Any]) -> Any:
        text = json.dumps({"job": record.job, "sink": record.sink, **more}, separators=(",", ":"))
        return confluent_kafka().TopicPartition(self._topic, share, record.epoch, text)

    def commit(self, record: Record) -> None:
        """Write a record outside of a transaction."""
        self._call(
            lambda client: client.commit(offsets=self.offsets(record), asynchronous=False), stable=True
        )

    def shares_ever(self, partitions: int) -> frozenset[int]:
        """The shares that may have a producer, for a topic with so many partitions."""
        if partitions < 2:
            return frozenset()
        return frozenset(self._marks(self._committed(partitions, stable=False)[1:]).epochs)

    def record(self, job: str, *, lock: bool, partitions: int) -> Record | None:
        """The last epoch that is committed; with `lock` no transaction of a former driver can be open."""
        try:
            found = self._committed(partitions, stable=True, patience_s=_ANSWER_S if lock else _STABLE_S)
        except LostConnectionError:
            if lock:
                raise
            # A transaction may be open, of a driver that is at work or has died: it is not committed.
            found = self._committed(partitions, stable=False)
        one, *others = found
        self.marks = marks = self._marks(others)
        if one.error is not None:
            return None  # there is no such topic
        epoch = self._remembered() if one.offset < 0 else int(one.offset)
        partly = max((marks.epochs[share] for share in marks.beyond(epoch or 0)), default=None)
        if epoch is None and (partly is None or marks.cut is None):
            return None
        # Marks alone: a driver died in the first epoch of a topic that took the place of another.
        return Record(job, self._known_as, epoch or 0, partly)

    def _committed(self, partitions: int, *, stable: bool, patience_s: float = _ANSWER_S) -> list[Any]:
        """The offsets of the epoch and of the shares' marks. Raises what `Failures` makes."""
        count = max(1, min(partitions, MOST))
        wanted = [confluent_kafka().TopicPartition(self._topic, number) for number in range(count)]
        found: list[Any] = self._call(lambda client: client.committed(wanted, patience_s), stable=stable)
        for one in found:
            if one.error is not None and one.error.name() not in _NO_TOPIC:
                raise self._failures.of(one.error)
        return found

    def _marks(self, offsets: Iterable[Any]) -> Marks:
        """What the shares' offsets say."""
        there = {one.partition: one for one in offsets if one.error is None and one.offset >= 0}
        last = max(there.values(), key=lambda one: one.offset, default=None)
        cut = None
        if last is not None and last.metadata:
            cut = json.loads(last.metadata.partition("\0")[0]).get("cut")
        epochs = {share: int(one.offset) for share, one in there.items()}
        return Marks(epochs, None if cut is None else EpochCut(*cut))

    def partitions(self) -> int | None:
        """How many partitions the topic has; None if there is no such topic."""
        found = self._call(lambda client: client.list_topics(self._topic, _ANSWER_S), stable=True)
        topic = found.topics[self._topic]
        if topic.error is not None:
            if topic.error.name() in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"):
                return None
            raise self._failures.of(topic.error)
        return len(topic.partitions) or None

    def is_empty(self, partitions: int) -> bool:
        """Whether a reader of committed records finds none."""
        kafka = confluent_kafka()

        def look(client: Any) -> bool:
            left = {}
            for number in range(partitions):
                place = kafka.TopicPartition(self._topic, number)
                low, high = client.get_watermark_offsets(place, _ANSWER_S)
                if low < high:
                    left[number] = low
            if not left:
                return True
            client.assign([kafka.TopicPartition(self._topic, n, low) for n, low in left.items()])
            try:
                while left:
                    message = client.poll(_ANSWER_S)
                    if message is None:
                        raise LostConnectionError(f"no answer about topic {self._topic}")
                    error = message.error()
                    if error is None:
                        return False
                    if error.code() != kafka.KafkaError._PARTITION_EOF:
                        raise self._failures.of(error)
                    left.pop(message.partition(), None)
            finally:
                client.unassign()
            return True

        return bool(self._call(look, stable=True))

    def identify(self) -> None:
        """Ask once which topic an epoch is about to be written to; never raises.

        Asked before its epoch is committed: at the end of the run another topic may have the name, with none of its epochs.
        """
        if not self._identified:
            self._identified = True
            with suppress(Exception):  # without an answer nothing is noted, and no other epoch waits for one
                self._written_to = self._topic_id()

    def note(self, epoch: int) -> None:
        """Keep in the state directory that the topic has an epoch, for when Kafka has forgotten; never raises."""
        if epoch == self._noted or not self._written_to or not self._store.exists(NAME):
            return
        with suppress(Exception):  # it is a help, and Kafka knows better for a week
            content = {"topic_id": self._written_to, "epoch": epoch}
            self._store.put(self._place(), json.dumps(content).encode())
            self._noted = epoch

    def close(self) -> None:
        """Let the clients go."""
        for client in self._clients.values():
            with suppress(Exception):
                client.close()
        self._clients = {}

    def _remembered(self) -> int | None:
        """The epoch that the state directory has noted of this very topic."""
        try:
            if not self._store.exists(self._place()):
                return None
            content = json.loads(self._store.get(self._place()))
            return int(content["epoch"]) if content["topic_id"] == self._topic_id() else None
        except (ValueError, KeyError, TypeError, confluent_kafka().KafkaException):
            return None

    def _place(self) -> str:
        known = f"{identity(self._store)} {self._known_as} {self._options.brokers} {self._topic}"
        return f"sinks/{hashlib.sha256(known.encode()).hexdigest()[:16]}.kafka"

    def _topic_id(self) -> str:
        from confluent_kafka import TopicCollection

        admin = made(_admin_client(), {**admin_config(self._options), "log_level": "0"})
        found = admin.describe_topics(TopicCollection([self._topic]), request_timeout=_ANSWER_S)
        return str(found[self._topic].result().topic_id)

    def _call(self, ask: Any, *, stable: bool) -> Any:
        client = self._client(stable=stable)
        self._client_error = None
        try:
            return ask(client)
        except confluent_kafka().KafkaException as error:
            # The error is that nobody answered; why (a password, say) the client reports in its error callback, once it
            # is polled.
            with suppress(Exception):
                client.poll(0)
            raise self._failures.of(error, client_error=self._client_error) from error

    def _on_error(self, error: Any) -> None:
        self._client_error = error.str()

    def _client(self, *, stable: bool) -> Any:
        if stable not in self._clients:
            config = {
                **consumer_config(self._options),
                "group.id": self.name,
                "isolation.level": "read_committed" if stable else "read_uncommitted",
                "allow.auto.create.topics": "false",
                "log_level": "0",
                "error_cb": self._on_error,
            }
            self._clients[stable] = made(confluent_kafka().Consumer, config)
        return self._clients[stable]


def _admin_client() -> Any:
    from confluent_kafka.admin import AdminClient

    return AdminClient
