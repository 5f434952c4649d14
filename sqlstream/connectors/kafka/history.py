"""What a source on Kafka has read up to some position, to be read once more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlstream.connectors.api import Limits, Position, SourcePlan, Split
from sqlstream.connectors.capabilities import Confirming
from sqlstream.connectors.kafka.cluster import Cluster
from sqlstream.connectors.kafka.cutting import splits_of
from sqlstream.connectors.kafka.positions import KafkaPosition, lane
from sqlstream.connectors.kafka.record_sizes import RecordSizes
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

_MOST_NAMED = 10


class KafkaHistory(Confirming):
    """The offsets from where reading began to `end`; its positions are those of the source.

    Raises DiagnosticError (DAT008) if some of them are gone, or if compaction may have taken some (`compacted_too`: that
    does not matter, as only the last record of each key does).
    """

    def __init__(
        self, table: str, cluster: Cluster, sizes: RecordSizes, end: KafkaPosition, *, compacted_too: bool
    ) -> None:
        self._table, self._cluster, self._sizes, self._end = table, cluster, sizes, end
        read = [part for part, at in end.next.items() if at > end.start[part]]
        there = {topic: set(numbers) for topic, numbers in cluster.topics().items()}
        absent = [part for part in end.start if part[1] not in there.get(part[0], ())]
        here = [part for part in read if part not in absent]
        earliest = cluster.earliest(here)
        gone = [
            f"topic '{topic}', partition {number}: read from offset {end.start[topic, number]}, "
            f"there from offset {earliest[topic, number]}"
            for topic, number in sorted(here)
            if earliest.get((topic, number), -1) > end.start[topic, number]
        ]
        gone += [f"topic '{topic}', partition {number}: is not there" for topic, number in sorted(absent)]
        gone += [
            f"topic '{topic}', partition {number}: {count} offsets were gone before they were read"
            for (topic, number), count in sorted(end.lost.items())
        ]
        gone += _recreated(cluster, end, (topic for topic, _ in here))
        if not compacted_too:
            gone += [
                f"topic '{t}': {why}" for t, why in cluster.compacted(sorted({t for t, _ in here})).items()
            ]
        if gone:
            raise DiagnosticError(self._incomplete(gone))

    @property
    def bounded(self) -> bool:
        """It ends."""
        return True

    def initial_position(self) -> Position:
        """Where the source began."""
        start = {part: self._end.start[part] for part in self._end.next}
        return replace(self._end, next=start).to_json()

    def plan(self, position: Position, limits: Limits) -> SourcePlan:
        """The next offsets of each partition within the limits."""
        at = KafkaPosition.from_json(position)
        waiting = {part: end - at.next[part] for part, end in self._end.next.items()}
        counts = self._sizes.counts(at.next, waiting, limits)
        splits = splits_of(self._table, at.next, counts, limits.tasks, self._sizes.known)
        following = {part: offset + counts.get(part, 0) for part, offset in at.next.items()}
        ended = following == dict(self._end.next)
        lanes = tuple(lane(part) for part in sorted(following))
        following_position = self._end if ended else replace(self._end, next=following)
        return SourcePlan(splits, following_position.to_json(), ended, lanes=lanes)

    def confirm(self, position: Position, splits: Sequence[Split]) -> bool:
        """Raises DiagnosticError (DAT008) if a topic was made anew since it was planned."""
        gone = _recreated(self._cluster, self._end, (str(split.payload["topic"]) for split in splits))
        if gone:
            raise DiagnosticError(self._incomplete(gone))
        return True

    def lag(self, position: Position) -> int | None:
        """The offsets that are left."""
        at = KafkaPosition.from_json(position)
        return sum(end - at.next[part] for part, end in self._end.next.items())

    def _incomplete(self, gone: list[str]) -> Diagnostic:
        more = len(gone) - _MOST_NAMED
        return Diagnostic(
            "DAT008",
            f"what was read of `{self._table}` can't be read again as it was",
            notes=(*gone[:_MOST_NAMED], *((f"and {more} more",) if more > 0 else ())),
            help="keep records longer (retention.ms), or begin with new records",
        )


def _recreated(cluster: Cluster, end: KafkaPosition, topics: Iterable[str]) -> list[str]:
    return [f"topic '{topic}': it was recreated" for topic in cluster.recreated(end.ids, topics)]
