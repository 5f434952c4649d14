"""How many offsets an epoch reads: of limits in bytes by a look at the first records, as brokers give no sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlstream.connectors.api import Limits
from sqlstream.connectors.kafka.client import consumer_config
from sqlstream.connectors.kafka.cutting import allotted, within_bytes
from sqlstream.connectors.kafka.options import KafkaOptions
from sqlstream.connectors.kafka.positions import Offsets, Part

#: At most so many records are looked at, and so many bytes of them behind the first.
_MOST_RECORDS, _MOST_BYTES = 200, 1 << 20
#: Records are not looked at where as many as large as this would fit; brokers take 1 MiB unless they are set otherwise.
_LARGE = 10 << 20
#: So many offsets on, a partition is looked at again: its records may be others by then.
_AGAIN_AFTER = 1_000_000

#: The bytes of keys and values of a partition from an offset up to another.
BytesOf = Callable[[Part, int, int], int]


class RecordSizes:
    """Remembers what it has seen of each partition."""

    def __init__(self, bytes_of: BytesOf) -> None:
        self._bytes = bytes_of
        self._seen: dict[Part, tuple[int, float]] = {}

    def counts(self, start: Offsets, waiting: Mapping[Part, int], limits: Limits) -> dict[Part, int]:
        """How many offsets to read of each partition, of those that wait behind `start`.

        Raises DiagnosticError as `read_range` does.
        """
        counts = allotted(waiting, limits.rows)
        if limits.bytes is None or sum(counts.values()) * _LARGE <= limits.bytes:
            return counts
        return within_bytes(counts, self.of(start, counts), limits.bytes)

    @property
    def known(self) -> dict[Part, float]:
        """The bytes per offset of the partitions that were looked at."""
        return {part: size for part, (_, size) in self._seen.items()}

    def of(self, start: Offsets, waiting: Mapping[Part, int]) -> dict[Part, float]:
        """The bytes per offset of the partitions with something `waiting` behind `start`, 0 where nothing was found.

        Raises DiagnosticError as `read_range` does.
        """
        found = {}
        for part, count in waiting.items():
            begin = start[part]
            at, size = self._seen.get(part, (-1, 0.0))
            if at < 0 or not at <= begin < at + _AGAIN_AFTER:
                size = self._looked_at(part, begin, begin + count)
                self._seen[part] = (begin, size)
            found[part] = size
        return found

    def _looked_at(self, part: Part, begin: int, end: int) -> float:
        """From the first record, which may be large, to as many more as are cheap."""
        first = self._bytes(part, begin, begin + 1)
        more = min(_MOST_RECORDS, _MOST_BYTES // max(first, 1), end - begin - 1)
        if more <= 0:
            return float(first)
        return (first + self._bytes(part, begin + 1, begin + 1 + more)) / (1 + more)


def bytes_read(options: KafkaOptions) -> BytesOf:
    """Reads the records. What it gives raises DiagnosticError as `read_range` does."""
    config = consumer_config(options)

    def read(part: Part, begin: int, end: int) -> int:
        import pyarrow.compute as pc  # which a plan of an edit has no time for, nor for the client

        from sqlstream.connectors.kafka.consume import OffsetRange, read_range

        wanted = OffsetRange(part[0], part[1], begin, end)
        table = read_range(config, wanted, frozenset({"key"}), patience_s=options.patience_s)
        return sum(int(pc.sum(pc.binary_length(table[name])).as_py() or 0) for name in ("key", "value"))

    return read
