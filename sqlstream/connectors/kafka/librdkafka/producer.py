"""librdkafka's producer without a Python object per record: it is told where in Arrow's memory the bytes are.

`confluent_kafka` takes a dict for each record and holds Python's lock meanwhile: 2.0 µs a record on the calling thread,
where librdkafka needs 0.5 (benchmarks/kafka_produce.py). Here batches are handed over by one call of the C API that lets
go of the lock, so several producers of a process work at the same time. Records with a time or headers of their own, for
which that call has no field, take a call each.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.connectors.kafka.client import confluent_kafka
from sqlstream.connectors.kafka.librdkafka.library import (
    DELIVERY_CALLBACK,
    ERROR_CALLBACK,
    FATAL,
    MESSAGE,
    OK,
    PRODUCER,
    error_text,
    new_client,
)
from sqlstream.connectors.kafka.records import Records
from sqlstream_operators.errors import InternalError

#: Each record goes by its key, as the client's partitioner says.
BY_KEY = -1
_COPY = 0x2
#: An argument of `rd_kafka_produceva`: its kind, and up to three words.
_ARGUMENT = np.dtype(
    {
        "names": ["kind", "first", "second", "third"],
        "formats": ["i4", "i8", "u8", "i8"],
        "offsets": [0, 8, 16, 24],
        "itemsize": 72,
    }
)
_TOPIC, _PARTITION, _VALUE, _KEY, _FLAGS, _TIMESTAMP, _HEADER = 2, 3, 4, 5, 7, 8, 9
#: Where an empty text is: an address of 0 would make it NULL.
_NOTHING = ctypes.create_string_buffer(1)
_Words = npt.NDArray[np.uint64]


class _Offset(ctypes.Structure):
    """The public part of `rd_kafka_topic_partition_t`."""

    _fields_ = (
        ("topic", ctypes.c_char_p),
        ("partition", ctypes.c_int32),
        ("offset", ctypes.c_int64),
        ("metadata", ctypes.c_void_p),
        ("metadata_size", ctypes.c_size_t),
    )


class Producer:
    """A producer of one topic. Its methods raise KafkaException, as those of `confluent_kafka` with their names do.

    `failed` is called with the KafkaError of a record that was not delivered, `troubled` with those that are not a call's:
    both by `poll` and `flush`.
    """

    def __init__(
        self,
        config: Mapping[str, str],
        topic: str,
        *,
        failed: Callable[[Any], None],
        troubled: Callable[[Any], None],
    ) -> None:
        """Raises DiagnosticError (OPT003) for a configuration that librdkafka refuses."""
        self._handle = 0
        self._name = topic.encode()
        self._failed, self._troubled = failed, troubled
        self._callbacks = DELIVERY_CALLBACK(self._delivered), ERROR_CALLBACK(self._heard)

        def prepare(lib: Any, conf: int) -> None:
            lib.conf_set_dr_msg_cb(conf, self._callbacks[0])
            lib.conf_set_error_cb(conf, self._callbacks[1])

        self._lib, self._handle = new_client(PRODUCER, config, prepare)

    def __len__(self) -> int:
        return int(self._lib.outq_len(self._handle))

    def __del__(self) -> None:
        if self._handle:  # whoever is inside of a call holds a reference, so nobody is
            self._lib.destroy_flags(self._handle, 0)

    # ----------------------------------------------------------------------------------------- records

    def send(self, records: Records, partition: int = BY_KEY) -> None:
        """Hand records over, in order: to `partition`, or where `Records.partitions` says; their bytes are copied."""
        if not len(records):
            return
        with self._topic() as topic:
            if records.timestamps is None and records.headers is None:
                self._send_batch(topic, records, partition)
            else:
                self._send_each(topic, records, partition)

    @contextmanager
    def _topic(self) -> Iterator[int]:
        """The topic to librdkafka, which asks for it as long as it has one: a deleted topic would be made anew."""
        found = self._lib.topic_new(self._handle, self._name, None)
        try:
            yield found
        finally:
            self._lib.topic_destroy(found)

    def _send_batch(self, topic: int, records: Records, partition: int) -> None:
        messages = np.zeros(len(records), MESSAGE)
        messages["payload"], messages["length"] = _places(records.values)
        if records.keys is not None:
            messages["key"], messages["key_length"] = _places(records.keys)
        if records.partitions is None:
            self._hand_over(topic, messages, partition)
            return
        # librdkafka 2.16 can take a partition for each, but adds the partition -1 to the transaction then, where it does not
        # know the topic yet, and that fails.
        numbers = records.partitions.to_numpy()
        for number in np.unique(numbers).tolist():
            self._hand_over(topic, messages[numbers == number], number)

    def _hand_over(self, topic: int, messages: npt.NDArray[Any], partition: int) -> None:
        at, count = messages.ctypes.data, len(messages)
        if self._lib.produce_batch(topic, partition, _COPY, at, count) != count:
            errors = messages["error"]
            raise _exception(int(errors[errors != OK][0]))

    def _send_each(self, topic: int, records: Records, partition: int) -> None:
        keys, times, headers = records.keys, records.timestamps, _Headers.of(records.headers)
        fixed = 4 + (keys is not None) + (times is not None)
        counts = fixed + headers.counts if headers is not None else np.full(len(records), fixed)
        ends = counts.cumsum()
        starts = ends - counts
        arguments = np.zeros(int(ends[-1]), _ARGUMENT)
        place = 0

        def fill(kind: int, first: Any, second: Any = 0) -> None:
            nonlocal place
            at = starts + place
            arguments["kind"][at], arguments["first"][at], arguments["second"][at] = kind, first, second
            place += 1

        fill(_TOPIC, topic)
        fill(_FLAGS, _COPY)
        fill(_PARTITION, partition if records.partitions is None else records.partitions.to_numpy())
        fill(_VALUE, *_signed(_places(records.values)))
        if keys is not None:
            fill(_KEY, *_signed(_places(keys)))
        if times is not None:
            fill(_TIMESTAMP, times.to_numpy())
        if headers is not None:
            headers.fill(arguments, starts + fixed)
        base, width = arguments.ctypes.data, _ARGUMENT.itemsize
        for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
            self._raise(self._lib.produceva(self._handle, base + start * width, count))

    def poll(self, timeout_s: float) -> None:
        """Let the client say what has happened."""
        self._lib.poll(self._handle, int(timeout_s * 1000))

    def flush(self, timeout_s: float) -> None:
        """Wait for what is under way, so long at most."""
        self._lib.flush(self._handle, int(timeout_s * 1000))

    def reach(self, timeout_s: float) -> None:
        """Wait until a broker has answered, which is asked about no topic."""
        self._ask(None, timeout_s)

    def ask_for_topic(self, timeout_s: float) -> None:
        """Ask the brokers about the topic, which has them create it if they do that."""
        with self._topic() as topic:
            self._ask(topic, timeout_s)

    def _ask(self, topic: int | None, timeout_s: float) -> None:
        answer = ctypes.c_void_p()
        code = self._lib.metadata(self._handle, 0, topic, ctypes.addressof(answer), int(timeout_s * 1000))
        if code != OK:
            raise _exception(code)
        self._lib.metadata_destroy(answer)

    # ------------------------------------------------------------------------------------ transactions

    def init_transactions(self, timeout_s: float) -> None:
        """Fence former producers with the same transactional id; what they had open is aborted."""
        self._raise(self._lib.init_transactions(self._handle, int(timeout_s * 1000)))

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        self._raise(self._lib.begin_transaction(self._handle))

    def send_offsets_to_transaction(self, offsets: Sequence[Any], group: str, timeout_s: float) -> None:
        """Make offsets of a group (`TopicPartition`s) a part of the transaction."""
        listed = self._lib.topic_partition_list_new(len(offsets))
        metadata = self._lib.consumer_group_metadata_new(group.encode())
        try:
            for one in offsets:
                added = self._lib.topic_partition_list_add(listed, one.topic.encode(), one.partition)
                # confluent_kafka 2.16 reads it up to a zero, and beyond its end if it has none.
                text = f"{one.metadata}\0".encode() if one.metadata else b""
                place = _Offset.from_address(added)
                place.offset = one.offset
                if text:
                    place.metadata = self._lib.mem_malloc(None, len(text))  # the list frees it
                    ctypes.memmove(place.metadata, text, len(text))
                    place.metadata_size = len(text)
            error = self._lib.send_offsets_to_transaction(
                self._handle, listed, metadata, int(timeout_s * 1000)
            )
        finally:
            self._lib.consumer_group_metadata_destroy(metadata)
            self._lib.topic_partition_list_destroy(listed)
        self._raise(error)

    def commit_transaction(self, timeout_s: float) -> None:
        """Commit the transaction."""
        self._raise(self._lib.commit_transaction(self._handle, int(timeout_s * 1000)))

    def abort_transaction(self, timeout_s: float) -> None:
        """Take back the transaction."""
        self._raise(self._lib.abort_transaction(self._handle, int(timeout_s * 1000)))

    # ------------------------------------------------------------------------------------------ errors

    def _raise(self, error: int | None) -> None:
        """Raise the error at an address, and free it."""
        if not error:
            return
        lib = self._lib
        found = confluent_kafka().KafkaError(
            lib.error_code(error),
            (lib.error_string(error) or b"").decode(errors="replace"),
            bool(lib.error_is_fatal(error)),
            bool(lib.error_is_retriable(error)),
            bool(lib.error_txn_requires_abort(error)),
        )
        lib.error_destroy(error)
        raise confluent_kafka().KafkaException(found)

    def _delivered(self, handle: int, message: int, opaque: int) -> None:
        code = ctypes.c_int32.from_address(message).value
        if code != OK:
            with suppress(Exception):  # nobody is above who could catch it
                self._failed(_error(code))

    def _heard(self, handle: int, code: int, reason: bytes, opaque: int) -> None:
        with suppress(Exception):
            if code == FATAL:
                text = ctypes.create_string_buffer(512)
                code = self._lib.fatal_error(handle, text, len(text))
                self._troubled(_error(code, text.value, fatal=True))
            else:
                self._troubled(_error(code, reason))


class _Headers:
    """The headers of records: how many each has, and where their names and values are."""

    def __init__(self, counts: npt.NDArray[np.int64], names: pa.Array, values: pa.Array) -> None:
        self.counts = counts
        self._texts = (names, values)  # kept as long as their addresses are
        self._names = _places(names)[0]
        self._values, self._lengths = _places(values)

    @staticmethod
    def of(headers: pa.MapArray | None) -> _Headers | None:
        """Of a map of text to bytes for each record; None where there are none for any."""
        if headers is None:
            return None
        offsets = headers.offsets.to_numpy().astype(np.int64)
        there = headers.is_valid().to_numpy(zero_copy_only=False)
        lengths = np.diff(offsets)
        owners = np.repeat(there, lengths)
        which = pa.array(np.arange(offsets[0], offsets[-1])[owners])
        # C's texts end with a zero.
        names = pc.binary_join_element_wise(headers.keys.take(which), "\0", "").cast(pa.large_binary())
        values = headers.items.take(which).cast(pa.large_binary())
        return _Headers(np.where(there, lengths, 0), names, values)

    def fill(self, arguments: npt.NDArray[Any], starts: npt.NDArray[np.int64]) -> None:
        """Write them as arguments: those of a record from its start on."""
        before = self.counts.cumsum() - self.counts
        at = np.repeat(starts - before, self.counts) + np.arange(len(self._names))
        arguments["kind"][at] = _HEADER
        arguments["first"][at], arguments["second"][at] = self._names.astype(np.int64), self._values
        arguments["third"][at] = self._lengths.astype(np.int64)


def _places(texts: pa.Array) -> tuple[_Words, _Words]:
    """The address and the length in bytes of each text, as long as the array is there; NULL is at 0."""
    if texts.type != pa.large_binary():
        raise InternalError(f"{texts.type} where the bytes of records are wanted")
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1].astype(np.uint64)
    base = ctypes.addressof(_NOTHING) if data is None or not data.address else data.address
    addresses, lengths = ends[:-1] + np.uint64(base), np.diff(ends)
    if texts.null_count:
        there = texts.is_valid().to_numpy(zero_copy_only=False)
        addresses, lengths = np.where(there, addresses, 0), np.where(there, lengths, 0)
    return addresses, lengths


def _signed(places: tuple[_Words, _Words]) -> tuple[npt.NDArray[np.int64], _Words]:
    return places[0].astype(np.int64), places[1]


def _error(code: int, reason: bytes = b"", *, fatal: bool = False) -> Any:
    text = reason.decode(errors="replace") or error_text(code)
    return confluent_kafka().KafkaError(code, text, fatal)


def _exception(code: int) -> Exception:
    found: Exception = confluent_kafka().KafkaException(_error(code))
    return found
