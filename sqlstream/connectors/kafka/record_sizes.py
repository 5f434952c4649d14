"""How many offsets an epoch reads: of limits in bytes by a look at the first records, as brokers give no sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from sqlstream.connectors.api import Limits
from sqlstream.connectors.kafka.client import consumer_config
from sqlstream.connectors.kafka.cutting import allotted, within_bytes
from sqlstream.connectors.kafka.options import KafkaOptions
from sqlstream.connectors.kafka.positions import Offsets, Part

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream.connectors.kafka.beginnings import Beginnings

#: At most so many records are looked at, and so many bytes of them behind the first.
_MOST_RECORDS, _MOST_BYTES = 200, 1 << 20
#: Records are not looked at where as many as large as this would fit; brokers take 1 MiB unless they are set otherwise.
_LARGE = 10 << 20
#: So many offsets on, a partition is looked at again: its records may be others by then.
_AGAIN_AFTER = 1_000_000

#: Looks at partitions from these offsets on.
LookAt: TypeAlias = "Callable[[Offsets], Beginnings]"


class RecordSizes:
    """Remembers what it has seen of each partition."""

    def __init__(self, look_at: LookAt) -> None:
        self._look_at = look_at
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
        unknown = {part: start[part] for part in waiting if not self._is_known(part, start[part])}
        if unknown:
            with self._look_at(unknown) as beginnings:
                for part, begin in unknown.items():
                    size = _size(beginnings, part, begin, begin + waiting[part])
                    self._seen[part] = (begin, size)
        return {part: self._seen[part][1] for part in waiting}

    def _is_known(self, part: Part, begin: int) -> bool:
        at = self._seen[part][0] if part in self._seen else None
        return at is not None and at <= begin < at + _AGAIN_AFTER


def looks(options: KafkaOptions) -> LookAt:
    """Looks at the table's partitions. What it gives raises DiagnosticError as `read_range` does."""
    config = consumer_config(options)

    def look_at(begin: Offsets) -> Beginnings:
        from sqlstream.connectors.kafka.beginnings import (
            Beginnings,  # a plan of an edit has no time for the client
        )

        return Beginnings(config, begin, options.patience_s)

    return look_at


def _size(beginnings: Beginnings, part: Part, begin: int, end: int) -> float:
    """The bytes per offset, from the first record, which may be large, to as many more as are cheap."""
    first = _bytes(beginnings.read(part, begin, begin + 1))
    more = min(_MOST_RECORDS, _MOST_BYTES // max(first, 1), end - begin - 1)
    if more <= 0:
        return float(first)
    return (first + _bytes(beginnings.read(part, begin + 1, begin + 1 + more))) / (1 + more)


def _bytes(records: pa.Table) -> int:
    """The bytes of keys and values."""
    import pyarrow.compute as pc  # which a plan of an edit has no time for

    return sum(int(pc.sum(pc.binary_length(records[name])).as_py() or 0) for name in ("key", "value"))
