"""The driver's half of a source on Kafka: which offsets of which partitions an epoch reads."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

from sqlstream.connectors.api import (
    ConnectorContext,
    Limits,
    Movable,
    Position,
    Rereadable,
    SourcePlan,
    Split,
)
from sqlstream.connectors.capabilities import (
    Acknowledging,
    Awaited,
    Closing,
    Confirming,
    LeavingOut,
    Polled,
    Reaching,
    StartingOnce,
)
from sqlstream.connectors.kafka import losses
from sqlstream.connectors.kafka.cluster import Cluster
from sqlstream.connectors.kafka.cutting import splits_of
from sqlstream.connectors.kafka.history import KafkaHistory
from sqlstream.connectors.kafka.options import KafkaOptions, Where
from sqlstream.connectors.kafka.positions import KafkaPosition, Part, lane
from sqlstream.connectors.kafka.record_sizes import RecordSizes, looks
from sqlstream.connectors.kafka.starts import offsets_at, partitions
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.catalog.descriptor import ConnectorDescriptor
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

#: How often what is gone is looked for, s.
_LOSSES_S = 5.0
#: How soon to ask again while records come, and how soon once none came for a while, s.
_SOON_S, _LATER_S, _WHILE_S = 0.02, 0.1, 5.0


class KafkaSource(
    Rereadable,
    Movable,
    Acknowledging,
    Awaited,
    Closing,
    Confirming,
    LeavingOut,
    Polled,
    Reaching,
    StartingOnce,
):
    """Topics, read partition by partition, each of which is a lane.

    A position is a `KafkaPosition`: where reading began, and where it ends if it does, are decided once and kept in it. With
    read_committed nothing behind an open transaction is planned. `clock` (seconds) decides when to look for partitions
    again.
    """

    def __init__(
        self,
        spec: SourceSpec,
        context: ConnectorContext,
        descriptor: ConnectorDescriptor,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec, self._context, self._clock = spec, context, clock
        self._options = KafkaOptions.read(spec.options, descriptor=descriptor)
        self._upserts = descriptor.changelog
        self._cluster = Cluster(self._options)
        self._folder = context.folder or f"sources/{quote(spec.name, safe='')}"
        self._sizes = RecordSizes(looks(self._options))
        self._there: list[Part] | None = None
        self._looked_at = self._checked_at = self._busy_at = float("-inf")
        self._ids: dict[str, str] = {}
        self._cluster_id = ""
        self._end: dict[Part, int] | None = None
        self._latest: dict[Part, int] = {}
        self._lost: Mapping[Part, int] = {}
        self._committed: Mapping[Part, int] = {}

    @property
    def bounded(self) -> bool:
        """Whether reading ends at offsets that are decided when it begins."""
        return self._context.ends or self._ends

    @property
    def starts_once(self) -> bool:
        """Every mode means other offsets later: also the earliest."""
        return True

    @property
    def waits_for(self) -> str:
        """What a run waits for that has read everything."""
        return f"records in {self._options.named}"

    @property
    def poll_seconds(self) -> float | None:
        """Very soon while records come: asking takes about 2 ms."""
        return _SOON_S if self._clock() - self._busy_at < _WHILE_S else _LATER_S

    def reach(self) -> None:
        """Raise DiagnosticError (ENV010) for brokers that can't be reached, or that don't let this user in."""
        self._cluster.cluster_id()

    def initial_position(self) -> Position:
        """Where reading begins, as the brokers say now. Raises DiagnosticError (DAT004, ENV010)."""
        options = self._options
        self._look(force=True)
        parts = self._there or []
        start = offsets_at(options.startup, self._cluster, options, parts, "scan.startup.mode")
        end = self._decided_end(parts) if self._ends else None
        return KafkaPosition(start, start, end, self._ids, self._cluster_id).to_json()

    def plan(self, position: Position, limits: Limits) -> SourcePlan:
        """The next offsets of each partition within the limits; offsets stand for rows, and for bytes by a look at some.

        Raises DiagnosticError: DAT004 if a topic is not there, DAT015 (exit code 4) if offsets are gone, ENV010.
        """
        at = self._seen(KafkaPosition.from_json(position))
        ends = self._ends_now(at)
        if at.next.keys() - ends.keys():
            self._look(force=True)
            at = self._seen(at)
            ends = self._ends_now(at)
        if self._are_others(at):
            at = self._checked(at)
            self._lost = at.lost
            ends = self._ends_now(at)
        waiting = {
            part: ends[part] - offset for part, offset in at.next.items() if ends.get(part, 0) > offset
        }
        counts = self._sizes.counts(at.next, waiting, limits)
        tasks = self._options.scan_parallelism or limits.tasks
        splits = splits_of(self._spec.name, at.next, counts, tasks, self._sizes.known)
        if splits:
            self._busy_at = self._clock()
        following = {part: offset + counts.get(part, 0) for part, offset in at.next.items()}
        last = at.end if self._ends else self._end if self._context.ends else None
        exhausted = last is not None and all(
            offset >= last.get(part, offset) for part, offset in following.items()
        )
        lanes = tuple(lane(part) for part in sorted(following))
        return SourcePlan(
            splits,
            replace(at, next=following).to_json(),
            exhausted,
            final=exhausted and self._ends,
            lanes=lanes,
        )

    def until(self, position: Position) -> KafkaHistory:
        """The same offsets once more. Raises DiagnosticError (DAT008) if some are gone, or may be by compaction."""
        at = KafkaPosition.from_json(position)
        return KafkaHistory(self._spec.name, self._cluster, self._sizes, at, compacted_too=self._upserts)

    def committed(self, position: Position) -> None:
        """Write down the offsets of the group, if the table has one."""
        offsets = KafkaPosition.from_json(position).next
        changed = {part: at for part, at in offsets.items() if self._committed.get(part) != at}
        if self._options.group_id is not None and changed:
            self._cluster.commit(self._options.group_id, changed)
            self._committed = offsets

    def confirm(self, position: Position, splits: Sequence[Split]) -> bool:
        """Whether no topic was made anew since the plan; if one was, the next plan looks at what is gone."""
        ids = KafkaPosition.from_json(position).ids
        if not self._cluster.recreated(ids, (str(split.payload["topic"]) for split in splits)):
            return True
        self._checked_at = float("-inf")
        return False

    def take_over(self, former: SourceSpec, kept: CheckpointStore, folder: str, position: Position) -> None:
        """Go on here where `former` stood: the partitions must be here, with the offsets that come next.

        Raises DiagnosticError (STA018) with what is not the same.
        """
        at = KafkaPosition.from_json(position)
        there = set(partitions(self._cluster, self._options))
        missing = sorted(at.next.keys() - there)
        here = [part for part in at.next if part in there]
        earliest, latest = self._cluster.earliest(here), self._cluster.latest(here)
        wrong = [f"topic '{topic}', partition {number}, is not there" for topic, number in missing]
        wrong += [
            f"topic '{part[0]}', partition {part[1]}: offset {at.next[part]} is wanted, "
            f"{earliest[part]} to {latest[part]} are there"
            for part in here
            if not earliest[part] <= at.next[part] <= latest[part]
        ]
        if wrong:
            raise DiagnosticError(
                Diagnostic(
                    "STA018",
                    f"the topics of `{self._spec.name}` are not the same at {self._options.brokers}",
                    notes=tuple(wrong),
                    help="name brokers that have the same partitions with the same offsets",
                ),
                exit_code=4,
            )
        self._context.store.put(self._taken, self._cluster.cluster_id().encode())

    @property
    def takes_back(self) -> bool:
        """See `LeavingOut`."""
        return False

    def passed_over(self) -> Sequence[str]:
        """The partitions of which records were gone, which was agreed to."""
        return [
            f"{lane(part)}: {count} offsets that were gone"
            for part, count in sorted(self._lost.items())
            if count
        ]

    def lag(self, position: Position) -> int | None:
        """The offsets after `position`, as the last plan has seen them."""
        at = KafkaPosition.from_json(position)
        latest = self._latest or self._cluster.latest(at.next)
        ends = latest if at.end is None or not self._ends else at.end
        return sum(max(0, ends.get(part, offset) - offset) for part, offset in at.next.items())

    def close(self) -> None:
        """Let go of the connections."""
        self._cluster.close()

    @property
    def _ends(self) -> bool:
        return self._options.bounded.where is not Where.UNBOUNDED

    @property
    def _taken(self) -> str:
        return f"{self._folder}/cluster"

    def _decided_end(self, parts: Sequence[Part]) -> dict[Part, int]:
        if self._end is None:
            options = self._options
            self._end = offsets_at(options.bounded, self._cluster, options, parts, "scan.bounded.mode")
        return self._end

    def _ends_now(self, at: KafkaPosition) -> dict[Part, int]:
        """Up to where there is something to read now."""
        self._latest = self._cluster.latest(at.next)
        last: Mapping[Part, int] | None = at.end if self._ends else None
        if last is None and self._context.ends:
            if self._end is None:
                self._end = dict(self._latest)
            last = self._end
        if last is None:
            return self._latest
        return {part: min(there, last.get(part, at.next[part])) for part, there in self._latest.items()}

    def _look(self, *, force: bool = False) -> None:
        """List the partitions, if it is time to."""
        now, every = self._clock(), self._options.discovery_us / 1e6
        if not force and self._there is not None and (not every or now - self._looked_at < every):
            return
        self._looked_at = now
        self._there = partitions(self._cluster, self._options)
        self._ids = self._cluster.ids(sorted({topic for topic, _ in self._there}))
        self._cluster_id = self._cluster.cluster_id()

    def _seen(self, at: KafkaPosition) -> KafkaPosition:
        """The position with partitions that have come, and without what is gone, if that was agreed to."""
        first = self._there is None
        self._look()
        if self._ends and at.end is None:  # it had no end before
            at = replace(at, end=self._decided_end(list(at.next)))
        elif not self._ends and at.end is not None:
            at = replace(at, end=None)
        there = self._there or []
        gone = sorted({topic for topic, _ in at.next} - {topic for topic, _ in there})
        if gone and self._options.topic_pattern is not None:
            at = self._without_topics(at, gone)
        if at.end is None:
            new = [part for part in there if part not in at.next]
            if new:
                begin = self._cluster.earliest(new)
                # The id of a topic that is read already stays: whether it is another one now is checked.
                read = {topic for topic, _ in at.next}
                known = self._known_ids([part for part in new if part[0] not in read])
                at = replace(
                    at, start={**at.start, **begin}, next={**at.next, **begin}, ids={**at.ids, **known}
                )
        if first or self._clock() - self._checked_at >= _LOSSES_S:
            at = self._checked(at)
        self._lost = at.lost
        return at

    def _without_topics(self, at: KafkaPosition, gone: Sequence[str]) -> KafkaPosition:
        """A topic of a pattern that was deleted has nothing more to give; what was read of it stays in the results."""
        kept = {part: offset for part, offset in at.next.items() if part[0] not in gone}
        return replace(at, next=kept)

    def _known_ids(self, parts: Sequence[Part]) -> dict[str, str]:
        return {topic: self._ids[topic] for topic, _ in parts if topic in self._ids}

    def _are_others(self, at: KafkaPosition) -> bool:
        """Whether topics that have something to read are not those that were read before, as one was made anew.

        Asked before each epoch: soon it may have more records than were read of the former one, and no offset is missing.
        """
        if any(end < at.next[part] for part, end in self._latest.items()):
            return True
        waiting = {part[0] for part, end in self._latest.items() if end > at.next[part]}
        return bool(self._cluster.recreated(at.ids, waiting))

    def _checked(self, at: KafkaPosition) -> KafkaPosition:
        """The position without what is gone. Raises DiagnosticError (DAT015) if that was not agreed to."""
        self._checked_at = self._clock()
        there = set(self._there or [])
        parts = [part for part in at.next if part in there]
        earliest, latest = self._cluster.earliest(parts), self._cluster.latest(parts)
        self._ids.update(self._cluster.ids(sorted({topic for topic, _ in parts})))
        other = bool(at.cluster and self._cluster_id) and at.cluster != self._cluster_id
        if other and self._context.store.exists(self._taken):
            other = self._context.store.get(self._taken).decode() != self._cluster_id
            if not other:  # it was moved by `--source-moved`: ids of topics are those of another cluster
                at = replace(at, ids={**at.ids, **self._known_ids(parts)}, cluster=self._cluster_id)
        found = losses.losses(at, earliest, latest, self._ids, other_cluster=other)
        if not found:
            return at
        if not self._context.may_lose(self._spec.name):
            raise losses.refused(self._spec.name, found)
        self._context.tell(losses.accepted(self._spec.name, found))
        return losses.without(at, found, self._known_ids(parts), self._cluster_id)
