"""The first records of many partitions, fetched at once: what is looked at to know how large records are."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

import pyarrow as pa

from sqlstream.connectors.kafka.consume import OffsetRange, OpenPartition, Reading
from sqlstream.connectors.kafka.librdkafka.consumer import Client
from sqlstream.connectors.kafka.positions import Offsets, Part

#: A client fetches ahead: this one no more than a look needs. Eight looks one after the other by the tasks' client, which
#: went on to fetch 16 MB of each partition, were half a second of the first epoch.
_LITTLE = {
    "queued.min.messages": "1",
    "queued.max.messages.kbytes": "64",
    "fetch.message.max.bytes": "65536",
}


class Beginnings:
    """Fetches from `begin` on, which has an offset of each partition, until it is closed."""

    def __init__(self, config: Mapping[str, str], begin: Offsets, patience_s: float) -> None:
        """Raises DiagnosticError (OPT003) for a configuration that librdkafka refuses."""
        self._patience_s = patience_s
        self._client = Client({**config, **_LITTLE})
        self._open: dict[Part, OpenPartition] = {}
        for part, offset in begin.items():
            self._open[part] = OpenPartition(self._client.partition(*part))
            self._open[part].start(offset)

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of the connections."""
        for part in self._open.values():
            part.close()
        self._client.close()

    def read(self, part: Part, begin: int, end: int) -> pa.Table:
        """`key` and `value` of the records from `begin` up to `end`. Raises DiagnosticError as `read_range` does."""
        wanted = OffsetRange(*part, begin, end)
        return Reading(self._client, self._open[part], wanted, frozenset({"key"}), self._patience_s).table()
