"""Ranges of offsets as Arrow tables. Consumers stay open in a process, so that an epoch goes on where the last one ended."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sqlstream.connectors.kafka.librdkafka.consumer import (
    HEADERS,
    Batch,
    Client,
    PartitionQueue,
    is_unknown,
)
from sqlstream.connectors.kafka.librdkafka.library import (
    AUTO_OFFSET_RESET,
    NOT_AUTHORIZED,
    OFFSET_OUT_OF_RANGE,
    OK,
    PARTITION_EOF,
    UNKNOWN_TOPIC,
    error_text,
)
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

#: The partitions that a process keeps open; with more, the one that was read least recently is closed.
_MOST_OPEN = 64
#: How many ranges are started at a time, fewer than may be open.
TOGETHER = 32
_LOOK_MS = 200
_Config = tuple[tuple[str, str], ...]
_Place = tuple[_Config, str, int, str]  # a configuration, a topic, a partition, and the source that reads it
_COLUMNS = {
    "offset": pa.int64(),
    "value": pa.large_binary(),
    "key": pa.large_binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp-type": pa.string(),
    "leader-epoch": pa.int32(),
    "headers": HEADERS,
}


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records of a partition from offset `begin` up to `end`, which is not read."""

    topic: str
    partition: int
    begin: int
    end: int


@dataclass(slots=True)
class OpenPartition:
    """A partition that is open: the offset that comes next, and what was fetched beyond what was wanted.

    `lane` is which of the clients of its configuration it is read by: one client has a partition once. `announced` says
    that it was started beside others for the read that comes next.
    """

    queue: PartitionQueue
    lane: int = 0
    announced: bool = False
    position: int = -1
    ahead: list[Batch] = field(default_factory=list)

    def start(self, offset: int) -> None:
        """Fetch from `offset` on."""
        self._forget()
        self.queue.start(offset)
        self.position = offset

    def close(self) -> None:
        """Let it go."""
        self._forget()
        self.queue.close()

    def _forget(self) -> None:
        for batch in self.ahead:
            batch.free()
        self.ahead = []


class _Consumers:
    """The open partitions of this process, by configuration and by who reads them.

    Two sources that read one partition are at offsets of their own. If they shared it, each would start it anew in each
    epoch, and drop what was fetched ahead for the other.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._clients: dict[tuple[_Config, int], Client] = {}
        self._open: OrderedDict[_Place, OpenPartition] = OrderedDict()
        self._lock = threading.Lock()

    def start(self, config: Mapping[str, str], wanted: Sequence[OffsetRange], reader: str) -> None:
        """Let the partitions be fetched that are read next, and not from where they are."""
        with self._lock:
            for client in self._clients.values():
                client.forget()
            for one in wanted:
                place, part = self._taken_out(config, one, reader)
                part.announced = True
                try:
                    if part.position != one.begin:
                        part.start(one.begin)
                except BaseException:
                    part.close()
                    raise
                self._keep(place, part)

    def read(
        self,
        config: Mapping[str, str],
        wanted: OffsetRange,
        columns: frozenset[str],
        patience_s: float,
        reader: str,
    ) -> pa.Table:
        with self._lock:
            place, part = self._taken_out(config, wanted, reader)
            client = self._clients[place[0], part.lane]
            try:
                table = Reading(client, part, wanted, columns, patience_s).table()
            except BaseException:
                part.close()
                raise
            self._keep(place, part)
            return table

    def _taken_out(
        self, config: Mapping[str, str], wanted: OffsetRange, reader: str
    ) -> tuple[_Place, OpenPartition]:
        """The partition for a range, opened if it is not, and its place; it is to be kept or closed."""
        if self._pid != os.getpid():  # a forked process has no threads of its parent's clients
            self._pid, self._clients, self._open = os.getpid(), {}, OrderedDict()
        place = (tuple(sorted(config.items())), wanted.topic, wanted.partition, reader)
        part = self._open.pop(place, None)
        if part is not None:
            return place, part
        lane = self._free_lane(place)
        client = self._clients.get((place[0], lane))
        if client is None:
            client = self._clients[place[0], lane] = Client(config)
        return place, OpenPartition(client.partition(wanted.topic, wanted.partition), lane)

    def _keep(self, place: _Place, part: OpenPartition) -> None:
        self._open[place] = part
        while len(self._open) > _MOST_OPEN:
            self._open.popitem(last=False)[1].close()

    def _free_lane(self, place: _Place) -> int:
        """The first of the clients that does not have the partition open."""
        taken = {part.lane for (*where, _), part in self._open.items() if where == list(place[:3])}
        return next(lane for lane in itertools.count() if lane not in taken)

    def close(self) -> None:
        """Let all go; for tests."""
        with self._lock:
            for part in self._open.values():
                part.close()
            for client in self._clients.values():
                client.close()
            self._open, self._clients = OrderedDict(), {}


CONSUMERS = _Consumers()


def start_ranges(config: Mapping[str, str], wanted: Sequence[OffsetRange], reader: str = "") -> None:
    """Let ranges be fetched beside each other that `read_range` reads next, at most `TOGETHER` of them.

    A partition that is started waits for the request that is under way: one after the other, each would wait anew.
    """
    CONSUMERS.start(config, wanted, reader)


def read_range(
    config: Mapping[str, str],
    wanted: OffsetRange,
    columns: frozenset[str],
    *,
    patience_s: float = 60.0,
    reader: str = "",
) -> pa.Table:
    """The records of a range: `offset` and `value`, and those of the other columns that are wanted.

    `reader` is the source that reads it: each goes on where its own last range ended.

    Offsets of transactions' markers, of aborted records and of compacted ones have no record. Raises DiagnosticError:
    DAT015 (exit code 4) if the range is not there any more, ENV010 if no broker answers for `patience_s`.
    """
    return CONSUMERS.read(config, wanted, columns, patience_s, reader)


class Reading:
    """Reads one range."""

    def __init__(
        self,
        client: Client,
        part: OpenPartition,
        wanted: OffsetRange,
        columns: frozenset[str],
        patience_s: float,
    ) -> None:
        self._patience_s = patience_s
        self._client, self._part, self._wanted = client, part, wanted
        self._columns = columns | {"offset", "value"}

    def table(self) -> pa.Table:
        """Its records. Raises DiagnosticError as `read_range` does."""
        wanted, part = self._wanted, self._part
        if part.position != wanted.begin:
            part.start(wanted.begin)
        tables = []
        if not part.announced:
            self._client.forget()
        part.announced = False
        quiet_since = time.monotonic()
        while part.position < wanted.end:
            batch = part.ahead.pop(0) if part.ahead else part.queue.wait(_LOOK_MS)
            self._client.poll()
            if len(batch):
                quiet_since = time.monotonic()
                tables.append(self._taken(batch))
            elif self._client.lacks(wanted.topic):
                raise self._failed(UNKNOWN_TOPIC)
            elif time.monotonic() - quiet_since > self._patience_s:
                quiet = f"nothing arrived for {self._patience_s:.0f} s"
                raise _away(wanted, self._client.trouble or quiet)
        schema = pa.schema([(name, type_) for name, type_ in _COLUMNS.items() if name in self._columns])
        found = [table.select(schema.names) for table in tables if table is not None]
        return pa.concat_tables(found) if found else schema.empty_table()

    def _taken(self, batch: Batch) -> pa.Table | None:
        """The records of a batch that are wanted; those behind them are kept."""
        messages, end = batch.messages, self._wanted.end
        beyond = np.flatnonzero((messages["offset"] >= end) & (messages["error"] == OK))
        if len(beyond):
            batch, rest = batch.split(int(beyond[0]))
            self._part.ahead.insert(0, rest)
            self._part.position = end
            messages = batch.messages
        if not len(batch):
            return None
        errors = messages["error"]
        for code in np.unique(errors[errors != OK]).tolist():
            if (
                code == PARTITION_EOF
            ):  # it says where the partition ends, behind markers and what was compacted
                reached = int(messages["offset"][errors == code].max())
                self._part.position = max(self._part.position, min(reached, end))
            else:
                batch.free()
                raise self._failed(code)
        batch = batch.only(errors == OK)
        if not len(batch):
            return None
        self._part.position = max(self._part.position, int(batch.messages["offset"][-1]) + 1)
        try:
            return batch.table(self._columns)
        finally:
            batch.free()

    def _failed(self, code: int) -> DiagnosticError:
        wanted = self._wanted
        if code in (AUTO_OFFSET_RESET, OFFSET_OUT_OF_RANGE) or is_unknown(code):
            gone = (
                "the topic or the partition is not there" if is_unknown(code) else "the log begins behind it"
            )
            return DiagnosticError(
                Diagnostic(
                    "DAT015",
                    f"offset {wanted.begin} of topic '{wanted.topic}', partition {wanted.partition}, is gone",
                    notes=(f"{gone}, or ends before it",),
                    help="run again: the run says what is there, and how to go on without what is gone",
                ),
                exit_code=4,
            )
        if code == NOT_AUTHORIZED:
            return DiagnosticError(
                Diagnostic(
                    "ENV010",
                    f"the broker does not let this user read topic '{wanted.topic}'",
                    help="give the user the right READ (kafka-acls.sh --add --operation Read --topic …)",
                ),
                exit_code=5,
            )
        return _away(wanted, error_text(code))


def _away(wanted: OffsetRange, trouble: str) -> DiagnosticError:
    return DiagnosticError(
        Diagnostic(
            "ENV010",
            f"Kafka's brokers give nothing of topic '{wanted.topic}', partition {wanted.partition}",
            notes=(trouble, "nothing of the epoch was committed"),
            help="start the brokers and run again: a run goes on where it stopped",
        ),
        exit_code=5,
    )
