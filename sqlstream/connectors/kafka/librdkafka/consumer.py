"""librdkafka's consumer without a Python object per record: batches of records become Arrow arrays.

`confluent_kafka` makes a Message of each record, with an object for each of its fields, which costs more than all that
librdkafka does (benchmarks/kafka_consume.py). This calls the same library, the one that the package brings, through its
C API: a batch is an array of pointers to `rd_kafka_message_t`, whose layout that API fixes, and Arrow gathers the bytes
that they point at. Only what C has no field for (time, headers, leader epoch) is read per record by a call.

Partitions are read by the simple consumer: one client with its connections for all partitions, a queue for each of them,
and no group.
"""

from __future__ import annotations

import ctypes
import itertools
from collections import deque
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream.connectors.kafka.librdkafka.library import (
    CONSUMER,
    ERROR_CALLBACK,
    MESSAGE,
    UNKNOWN_TOPIC,
    error_text,
    new_client,
)
from sqlstream_operators.errors import InternalError

_UNKNOWN = frozenset({UNKNOWN_TOPIC, -188, -190})  # at a broker, and as the client knows it
_TIME_TYPES = ("NoTimestampType", "CreateTime", "LogAppendTime")
#: The most records of one call; what is waiting beyond that comes with the next one.
_BATCH = 20_000
_Addresses = npt.NDArray[np.uint64]
HEADERS = pa.map_(pa.string(), pa.large_binary())


class Client:
    """A consumer of librdkafka that any number of partitions is read by; not for several threads at a time."""

    def __init__(self, config: Mapping[str, str]) -> None:
        """Raises DiagnosticError (OPT003) for a configuration that librdkafka refuses."""
        #: The client's last error about brokers that it can't reach or that refuse it.
        self.trouble = ""
        self._unknown: list[str] = []
        self._callback = ERROR_CALLBACK(self._heard)  # kept as long as the client calls it
        self._lib, self._handle = new_client(
            CONSUMER, config, lambda lib, conf: lib.conf_set_error_cb(conf, self._callback)
        )
        self._topics: dict[str, int] = {}

    def partition(self, topic: str, number: int) -> PartitionQueue:
        """What a partition is read by."""
        if topic not in self._topics:
            self._topics[topic] = self._lib.topic_new(self._handle, topic.encode(), None)
        return PartitionQueue(self._lib, self._handle, self._topics[topic], number)

    def lacks(self, topic: str) -> bool:
        """Whether it has heard, since `forget`, that there is no such topic or partition."""
        return any(reason.startswith(f"{topic} [") for reason in self._unknown)

    def forget(self) -> None:
        """Let what it has heard be over."""
        self.trouble, self._unknown = "", []

    def poll(self) -> None:
        """Let the client say what troubles it."""
        self._lib.poll(self._handle, 0)

    def close(self) -> None:
        """Let go of the connections; its partitions are closed before."""
        for topic in self._topics.values():
            self._lib.topic_destroy(topic)
        self._topics = {}
        handle, self._handle = self._handle, None
        if handle:
            self._lib.destroy_flags(handle, 0x8)  # without leaving a group: there is none

    def _heard(self, handle: int, code: int, reason: bytes, opaque: int) -> None:
        self.trouble = f"{reason.decode(errors='replace')} ({error_text(code)})"
        if code in _UNKNOWN:
            self._unknown.append(self.trouble)


class Batch:
    """Records in the order of their offsets, and what else came; `take` and `free` end it."""

    def __init__(self, lib: SimpleNamespace, addresses: _Addresses) -> None:
        self._lib = lib
        self._addresses = addresses
        self.messages = _structs(addresses)

    def __len__(self) -> int:
        return len(self._addresses)

    def split(self, at: int) -> tuple[Batch, Batch]:
        """The first `at` records, and the others."""
        return Batch(self._lib, self._addresses[:at]), Batch(self._lib, self._addresses[at:])

    def only(self, which: npt.NDArray[np.bool_]) -> Batch:
        """Some of the records; the others are freed."""
        if which.all():
            return self
        Batch(self._lib, self._addresses[~which]).free()
        return Batch(self._lib, self._addresses[which])

    def table(self, wanted: frozenset[str]) -> pa.Table:
        """`value` and `offset` of the records, and of the other columns those that are `wanted`."""
        m = self.messages
        columns: dict[str, Any] = {
            "offset": pa.array(m["offset"]),
            "value": _gather(m["payload"], m["length"]),
        }
        if "key" in wanted:
            columns["key"] = _gather(m["key"], m["key_length"])
        pointers = self._addresses.tolist()
        if wanted & {"timestamp", "timestamp-type"}:
            kind = ctypes.c_int()
            times, kinds = [], []
            for pointer in pointers:
                times.append(self._lib.message_timestamp(pointer, ctypes.addressof(kind)))
                kinds.append(kind.value)
            at = np.array(times, np.int64)
            in_us = pa.array(at * 1000, pa.int64(), mask=at < 0)
            columns["timestamp"] = in_us.cast(pa.timestamp("us", tz="UTC"))
            columns["timestamp-type"] = pa.array([_TIME_TYPES[k] for k in kinds], pa.string())
        if "leader-epoch" in wanted:
            epochs = np.fromiter(map(self._lib.message_leader_epoch, pointers), np.int32, len(pointers))
            columns["leader-epoch"] = pa.array(epochs, mask=epochs < 0)
        if "headers" in wanted:
            columns["headers"] = pa.array([self._headers(one) for one in pointers], HEADERS)
        return pa.table(columns)

    def free(self) -> None:
        """Give the records back; nothing of them may be looked at any more."""
        deque(map(self._lib.message_destroy, self._addresses.tolist()), 0)

    def _headers(self, pointer: int) -> list[tuple[str, bytes | None]]:
        """The headers of a record; of several with one name the last, as a map has one."""
        headers = ctypes.c_void_p()
        if self._lib.message_headers(pointer, ctypes.addressof(headers)):
            return []
        name, value, size = ctypes.c_char_p(), ctypes.c_void_p(), ctypes.c_size_t()
        found: dict[str, bytes | None] = {}
        places = tuple(map(ctypes.addressof, (name, value, size)))
        for number in itertools.count():
            if self._lib.header_get_all(headers, number, *places):
                return list(found.items())
            text = (name.value or b"").decode(errors="replace")
            found.pop(text, None)
            found[text] = None if value.value is None else ctypes.string_at(value.value, size.value)
        raise InternalError("unreachable")


class PartitionQueue:
    """The records of one partition, from wherever it was started."""

    def __init__(self, lib: SimpleNamespace, client: int, topic: int, number: int) -> None:
        self._lib = lib
        self._topic, self._number = topic, number
        self._queue = lib.queue_new(client)
        self._started = False
        self._buffer = np.zeros(_BATCH, np.uint64)

    def start(self, offset: int) -> None:
        """Read from `offset` on; what was fetched before is dropped."""
        self.stop()
        if self._lib.consume_start_queue(self._topic, self._number, offset, self._queue):
            raise InternalError(f"librdkafka: {error_text(self._lib.last_error())}")
        self._started = True

    def stop(self) -> None:
        """Read no more."""
        if self._started:
            self._lib.consume_stop(self._topic, self._number)
            self._started = False

    def wait(self, timeout_ms: int) -> Batch:
        """What there is, as soon as there is anything; nothing after the timeout."""
        at = self._buffer.ctypes.data
        first = self._lib.consume_batch_queue(self._queue, timeout_ms, at, 1)
        if first <= 0:
            return Batch(self._lib, self._buffer[:0])
        # A batch that is not full waits for its timeout, and none waits for none.
        more = self._lib.consume_batch_queue(self._queue, 0, at + 8, _BATCH - 1)
        return Batch(self._lib, self._buffer[: first + max(more, 0)].copy())

    def close(self) -> None:
        """Let the partition go."""
        self.stop()
        self._lib.queue_destroy(self._queue)


def is_unknown(code: int) -> bool:
    """Whether an error says that there is no such topic or partition."""
    return code in _UNKNOWN


def _structs(addresses: _Addresses) -> npt.NDArray[Any]:
    """The public part of the records at these addresses."""
    sizes = np.full(len(addresses), MESSAGE.itemsize, np.uint64)
    if not len(addresses):
        return np.empty(0, MESSAGE)
    data = _gather(addresses, sizes).buffers()[2]
    return np.frombuffer(data, MESSAGE, count=len(addresses))


def _gather(addresses: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64]) -> pa.Array:
    """The bytes at absolute addresses, copied; NULL where an address is 0.

    To Arrow, memory from the lowest address to the highest is one array of texts, of which every second one is a
    record's, and the others, which are never looked at, are what lies between: so it copies them all in one call.
    """
    there = addresses != 0
    if not there.any():
        return pa.nulls(len(addresses), pa.large_binary())
    lowest = int(addresses[there].min())
    begins = np.where(there, addresses - np.uint64(lowest), np.uint64(0)).astype(np.int64)
    offsets = np.zeros(2 * len(addresses) + 2, np.int64)
    offsets[1:-1:2] = begins
    offsets[2:-1:2] = begins + np.where(there, sizes, np.uint64(0)).astype(np.int64)
    offsets[-1] = offsets.max()
    span = pa.foreign_buffer(lowest, max(int(offsets[-1]), 1))
    memory = pa.Array.from_buffers(
        pa.large_binary(), 2 * len(addresses) + 1, [None, pa.py_buffer(offsets), span]
    )
    every_second = pa.array(np.arange(1, 2 * len(addresses) + 1, 2), mask=~there)
    return memory.take(every_second)
