"""A producer and its transaction: records in batches, errors as ours, and never more under way than fits the client."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from sqlstream.connectors.exactly_once.target import LostConnectionError
from sqlstream.connectors.kafka.client import confluent_kafka
from sqlstream.connectors.kafka.failures import Failures
from sqlstream.connectors.kafka.librdkafka.producer import BY_KEY, Producer
from sqlstream.connectors.kafka.records import Records
from sqlstream_operators.errors import InternalError

#: How many bytes of records the client may have on their way before it is waited for: it never refuses one as full.
WINDOW_BYTES = 64 << 20
#: Records that the client is handed at once.
_AT_ONCE = 10_000
#: How often a topic is looked for that the brokers may be creating, and seconds between.
_LOOKS, _LOOK_S = 12, 0.25
#: How long a broker may take to answer about a transaction, seconds; then the connection counts as lost.
PATIENCE_S = 30.0
#: The same for what the client may not come back from, at first; twice as long after each time.
_FIRST_S = 8.0
#: How long a new producer waits for a broker before its first transaction, seconds.
_REACH_S = 2.0
#: How much longer a call may take than its timeout, seconds.
_BEYOND_S = 5.0
#: A transaction's time, ms, as long as brokers allow by default; the shorter ones are for those that don't.
_TIMEOUTS_MS = (900_000, 300_000, 60_000)

#: The error of a broker that was connected, and is not any more.
_LOST = frozenset(("_TRANSPORT", "_ALL_BROKERS_DOWN"))
#: The error of records that are dropped because of something else.
_DROPPED = frozenset(("_PURGE_QUEUE", "_PURGE_INFLIGHT", "_FATAL", "_STATE"))


class Producing:
    """One producer, with a transaction at a time (`transactions` is its id) or none.

    `delivered`: whether it is waited for until the broker has a record. `window_bytes`: how many bytes of records may be on
    their way before it is waited for.
    """

    def __init__(
        self,
        config: Mapping[str, str],
        topic: str,
        failures: Failures,
        *,
        transactions: str | None,
        delivered: bool = True,
        window_bytes: int = WINDOW_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._given, self._topic, self._failures = dict(config), topic, failures
        self._transactions, self._delivered = transactions, delivered
        self._clock = clock
        self._producer: Any = None
        self._failed: Any = None
        self._client_error: str | None = None
        self._lost_broker = False
        self._unanswered = 0
        self._began: float | None = None
        self._timeout_s = 0.0
        self._under_way = 0
        self._most = self._window = window_bytes
        #: How many producers there were.
        self.made = 0
        self._round = 0

    @property
    def is_open(self) -> bool:
        """Whether there is a producer that no other one has fenced, as far as is known."""
        return self._producer is not None

    @property
    def in_transaction(self) -> bool:
        """Whether anything was written since the last commit."""
        return self._began is not None

    def open(self) -> None:
        """Make the producer; transactions of former ones with its id end here. Raises what `Failures` makes.

        One that has lost its connection to a broker since its last transaction is made anew, see `_answered`.
        """
        if self._producer is not None and self._transactions is not None and self._began is None:
            self._producer.poll(0)  # it reports what has happened
            if self._lost_broker:
                self._producer = None
        if self._producer is not None:
            return
        self._lost_broker = False
        if self._transactions is None:
            self._producer = self._made({})
            self.made += 1
            return
        wanted = self._given.get("transaction.timeout.ms")
        for timeout in (int(wanted),) if wanted is not None else _TIMEOUTS_MS:
            producer = self._made(
                {"transactional.id": self._transactions, "transaction.timeout.ms": str(timeout)}
            )
            # A client that asks for its coordinator before it has reached a broker asks again after half a second.
            with contextlib.suppress(confluent_kafka().KafkaException):  # why it can't, the next call says
                producer.reach(_REACH_S)
            try:
                self._again(functools.partial(producer.init_transactions, PATIENCE_S))
            except confluent_kafka().KafkaException as error:
                if error.args[0].name() == "INVALID_TRANSACTION_TIMEOUT" and timeout != _TIMEOUTS_MS[-1]:
                    continue
                raise self._failures.of(error, client_error=self._client_error) from error
            self._producer, self._timeout_s = producer, timeout / 1000
            self.made += 1
            return

    def have_created(self, partitions: Callable[[], int | None]) -> int:
        """Ask for the topic, which has the brokers create it if they do that; how many partitions it has then.

        Raises DiagnosticError (ENV006) if they don't.
        """
        self.open()
        self._call(lambda: self._producer.ask_for_topic(PATIENCE_S))
        for _ in range(_LOOKS):
            found = partitions()
            if found is not None:
                return found
            time.sleep(_LOOK_S)
        raise self._failures.missing()

    def send(self, records: Records, *, partition: int | None, partitions: int) -> None:
        """Hand records to the client, in order, by the key or all to one `partition` (-1: each to the next one)."""
        self._begin()
        if partition == -1:
            places = np.arange(self._round, self._round + len(records)) % partitions
            self._round += len(records)
            records = replace(records, partitions=pa.array(places, pa.int32()))
        if records.timestamps is not None:
            records = replace(records, timestamps=records.timestamps.fill_null(int(time.time() * 1000)))
        for part in _parts(records, self._window):
            if self._under_way and self._under_way + part.nbytes > self._window:
                self.drain()
            self._under_way += part.nbytes
            try:
                self._producer.send(part, BY_KEY if partition is None else partition)
            except confluent_kafka().KafkaException as error:
                raise self._error(error) from error
            self._producer.poll(0)
            self._check()

    def drain(self) -> None:
        """Wait until the broker has all records. Raises what it has refused."""
        if self._producer is None:
            return
        while self._delivered and len(self._producer):
            self._producer.flush(0.2)
            self._check()
        self._check()
        self._under_way = 0

    def send_offsets(self, offsets: Sequence[Any], group: str) -> None:
        """Make offsets of a group (`TopicPartition`s) a part of the transaction."""
        self._begin()
        wait_s = min(_FIRST_S * 2**self._unanswered, PATIENCE_S)
        self._unanswered += 1
        self._call(lambda: self._producer.send_offsets_to_transaction(offsets, group, wait_s), most_s=wait_s)
        self._unanswered = 0

    def commit(self) -> None:
        """Commit the transaction, if there is one."""
        if self._began is None:
            return
        if self._transactions is not None:
            self._call(lambda: self._producer.commit_transaction(PATIENCE_S))
        self._began = None
        self._under_way = 0

    def abort(self) -> None:
        """Take back what was not committed; never raises. A producer that can't is given up, and the next one does."""
        began, self._began = self._began, None
        self._failed, self._under_way = None, 0
        if began is None or self._producer is None or self._transactions is None:
            return
        try:
            self._again(lambda: self._producer.abort_transaction(PATIENCE_S))
        except (confluent_kafka().KafkaException, LostConnectionError):
            self._producer = None

    def close(self) -> None:
        """Abort, and let the producer go."""
        self.abort()
        if self._producer is not None and self._transactions is None:
            self._producer.flush(PATIENCE_S)  # what nobody waited for
        self._producer = None

    # ------------------------------------------------------------------------------------------ the client

    def _made(self, more: Mapping[str, str]) -> Producer:
        """A producer: records of a key stay in order, and are where Java's clients put them."""
        strong = self._delivered
        config = {
            "partitioner": "murmur2_random",
            "linger.ms": "5",
            "enable.idempotence": str(strong).lower(),
            "acks": "all" if strong else "1",
            "message.timeout.ms": "60000",
            "queue.buffering.max.messages": "0",
            "queue.buffering.max.kbytes": str(1 << 21),
            **_without_aliases(self._given),
            **more,
            "delivery.report.only.error": "true",
        }
        most = config["queue.buffering.max.kbytes"]
        # Half of what the client takes: what was delivered is counted until all is.
        self._window = min(self._most, int(most) << 9) if most.isdigit() else self._most
        return Producer(config, self._topic, failed=self._on_delivery, troubled=self._on_error)

    def _on_delivery(self, error: Any) -> None:
        if self._failed is None:
            self._failed = error

    def _on_error(self, error: Any) -> None:
        self._client_error = error.str()
        self._lost_broker |= error.name() in _LOST

    def _begin(self) -> None:
        if self._producer is None:
            raise InternalError(f"the producer of topic {self._topic} is not open")
        if self._began is None:
            self._failed = None
            if self._transactions is not None:
                self._call(self._producer.begin_transaction)
            self._began = self._clock()

    def _check(self) -> None:
        if self._failed is not None:
            raise self._error(self._failed)

    def _call(self, call: Callable[[], object], most_s: float | None = None) -> None:
        try:
            self._again(call, most_s)
        except confluent_kafka().KafkaException as error:
            raise self._error(self._failed if self._failed is not None else error) from error

    def _again(self, call: Callable[[], object], most_s: float | None = None) -> None:
        """What takes longer than the client waits goes on where it was, when it is called again."""
        deadline = self._clock() + PATIENCE_S
        while True:
            try:
                self._answered(call, PATIENCE_S + _BEYOND_S if most_s is None else most_s)
            except confluent_kafka().KafkaException as error:
                if not error.args[0].retriable() or self._clock() >= deadline:
                    raise
                time.sleep(0.1)
            else:
                return

    def _answered(self, call: Callable[[], object], most_s: float) -> None:
        """A call that is given the client's own time to answer, and a little more; then the producer is given up.

        librdkafka 2.x forgets its timeouts where it waits for a group's coordinator that it was connected to before the
        broker started again: a call of `send_offsets_to_transaction` with 30 s came back after ten minutes, when the
        broker closed an idle connection. So that call is waited for shortly at first, and producers that were made before
        a broker was lost begin no transaction. The next one ends what this one had open, and reads whether it was
        committed.
        """
        failed: list[BaseException] = []
        done = threading.Event()

        def ask() -> None:
            try:
                call()
            except BaseException as error:
                failed.append(error)
            finally:
                done.set()

        threading.Thread(target=ask, name="sqlstream-kafka", daemon=True).start()
        if not done.wait(most_s):
            self._producer, self._began = None, None
            raise LostConnectionError(f"the client did not answer in {most_s:g} s")
        if failed:
            raise failed[0]

    def _error(self, error: Any) -> Exception:
        """What an error means; a transaction that was open for too long looks like one that was taken away."""
        error = self._reason(error)
        found = self._failures.of(error, client_error=self._client_error)
        open_for = 0.0 if self._began is None else self._clock() - self._began
        fatal = error.args[0] if isinstance(error, confluent_kafka().KafkaException) else error
        if fatal.fatal():
            self._producer, self._began = (
                None,
                None,
            )  # it can do nothing more; the broker aborts what it had open
        if self._timeout_s and open_for >= self._timeout_s:
            return self._failures.took_too_long(open_for, self._timeout_s)
        return found

    def _reason(self, error: Any) -> Any:
        """Why records were dropped: a transaction that has failed says so when it is to be committed, which can't be."""
        kafka = confluent_kafka()
        plain = error.args[0] if isinstance(error, kafka.KafkaException) else error
        if self._transactions is None or self._began is None or plain.name() not in _DROPPED:
            return error
        try:
            self._producer.commit_transaction(1.0)
        except kafka.KafkaException as why:
            return error if why.args[0].name() in _DROPPED else why
        return error


def _parts(records: Records, most_bytes: int) -> Iterator[Records]:
    """The records in order, in parts that fit the client: of so many bytes at most, or of one record."""
    left = [records.slice(start, _AT_ONCE) for start in range(0, len(records), _AT_ONCE)][::-1]
    while left:
        part = left.pop()
        if part.nbytes <= most_bytes or len(part) == 1:
            yield part
        else:
            half = len(part) // 2
            left += [part.slice(half, len(part)), part.slice(0, half)]


def _without_aliases(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options in the one of their names that is ours, so that no option is given twice."""
    names = {
        "delivery.timeout.ms": "message.timeout.ms",
        "request.required.acks": "acks",
        "queue.buffering.max.ms": "linger.ms",
        "compression.codec": "compression.type",
    }
    return {names.get(name, name): value for name, value in given.items()}
