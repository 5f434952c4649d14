"""A topic as the target of a sink: an epoch is one transaction, and a group's offset in it is the epoch's number.

With `sink.parallelism` a large epoch of append-only rows is several transactions, see `shares`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.exactly_once.staged import StagedEpoch
from sqlstream.connectors.exactly_once.target import LostConnectionError, Record, TableEdits, Wording
from sqlstream.connectors.kafka.bootstrap import check_reachable
from sqlstream.connectors.kafka.client import producer_config
from sqlstream.connectors.kafka.epoch_group import EpochGroup
from sqlstream.connectors.kafka.failures import Failures
from sqlstream.connectors.kafka.options import KafkaOptions
from sqlstream.connectors.kafka.producing import WINDOW_BYTES, Producing
from sqlstream.connectors.kafka.records import RecordMaker
from sqlstream.connectors.kafka.shares import EpochCut, Shares
from sqlstream.storage.identity import NAME, identity, is_lost
from sqlstream_operators.errors import InternalError, TargetError
from sqlstream_operators.plan.spec import SinkSpec

#: What the names of groups begin with, and those of transactions unless the table says otherwise.
_PREFIX = "sqlstream"


class Topic:
    """The topic of a sink. Without transactions (`sink.delivery-guarantee`) an epoch is written once it is published."""

    def __init__(
        self,
        spec: SinkSpec,
        options: KafkaOptions,
        context: ConnectorContext,
        maker: Callable[[], RecordMaker],
    ) -> None:
        self._spec, self._options = spec, options
        self._maker = maker()
        self._store = context.store
        self._known_as = context.known_as or spec.name
        self._name = options.topics[0]
        self._exact = options.delivery == "exactly-once"
        self._group: EpochGroup | None = None
        self._producing: Producing | None = None
        self._shares = Shares(self._new_producing, maker)
        self._fenced = 0
        self._seen: Record | None = None
        self._cut: EpochCut | None = None
        self._partitions: int | None = None
        self._later: StagedEpoch | None = None
        self._record: Record | None = None
        self._committed: int | None = None
        self._job: str | None = None
        self._was_reached = False

    @property
    def location(self) -> str:
        """The topic and its brokers."""
        return f"topic {self._name} at {self._options.brokers}"

    @property
    def wording(self) -> Wording:
        """What messages call it."""
        group = self._group.name if self._group is not None else "the sink"
        return Wording(
            "topic",
            f"its epoch, which is the offset of the group {group}",
            "kafka-topics.sh --delete",
            "kafka-delete-records.sh",
            "topic",
        )

    @property
    def edits(self) -> TableEdits | None:
        """A topic is a log."""
        return None

    @property
    def owns_all_rows(self) -> bool:
        """Whether records of others would make another answer of it."""
        return self._spec.changelog == "retract" or self._spec.connector == "upsert-kafka"

    @property
    def may_be_committed_often(self) -> bool:
        """A transaction leaves a marker per partition."""
        return True

    # ------------------------------------------------------------------------------------ transactions

    def open(self, *, create: bool) -> bool:
        """Look whether the brokers are there; `create`: this state directory may be given its name."""
        self.release()
        if self._job is None and (create or self._store.exists(NAME)):
            self._disconnect()
            self._job = identity(self._store)
        if not self._was_reached:
            # Once they were there they may be away for a while, and the client is given the time.
            check_reachable(self._options.brokers)
            self._was_reached = True
        if self._group is None:
            self._connect()
        self._partitions = self._connected()[0].partitions()
        return True

    def record(self, *, lock: bool) -> Record | None:
        """The group's offset. With `lock` former drivers are fenced, and what they had open is aborted."""
        group, producing = self._connected()
        if self._job is None:
            if is_lost(self._store):
                raise TargetError(
                    f"the owner of the topic `{self._spec.name}` is not known",
                    (f"{self._store.path(NAME)}, the name of this state directory, is missing",),
                    "restore that file from a copy of the state directory, or choose another 'topic'",
                )
            return None
        partitions = self._partitions or 1
        if not (lock and self._exact):
            self._seen = group.record(self._job, lock=lock, partitions=partitions)
            return self._seen
        producing.open()
        # Only with this producer nobody else can write a mark.
        self._shares.fence(group.shares_ever(partitions) if producing.made != self._fenced else ())
        self._fenced = producing.made
        try:
            self._seen = group.record(self._job, lock=True, partitions=partitions)
        except LostConnectionError:
            # Another driver may have a transaction open: then this one is fenced, and gets the error when it would write.
            producing.send_offsets(group.offsets(Record(self._job, self._known_as, 0)), group.name)
            producing.abort()
            raise
        return self._seen

    def exists(self) -> bool:
        """Whether there is such a topic."""
        return self._partitions is not None

    def is_empty(self) -> bool:
        """Whether a reader finds no committed record."""
        return self._partitions is None or self._connected()[0].is_empty(self._partitions)

    def create_record_store(self) -> None:
        """Groups are made by the first offset."""

    def create(self) -> None:
        """Have the brokers create the topic, if they do so by themselves. Raises DiagnosticError (ENV006) if not."""
        group, producing = self._connected()
        self._partitions = producing.have_created(group.partitions)

    def may_be_behind(self, rows: StagedEpoch) -> bool:
        """Whether the epoch is worth several transactions."""
        return self._exact and self._cut_of(rows)[0].count > 1

    def apply(self, rows: StagedEpoch) -> None:
        """Write the records; without transactions, when the epoch is published."""
        if self._exact:
            self._write(rows)
        else:
            self._later = rows

    def write_record(self, record: Record, *, over: Record | None) -> bool:
        """Make the epoch a part of the transaction. Nobody else can write one who is not fenced."""
        group, producing = self._connected()
        group.identify()
        if self._exact:
            self._shares.mark(
                lambda share, one: one.send_offsets([group.mark(record, share, self._cut)], group.name)
            )
            producing.open()
            producing.send_offsets(group.offsets(record), group.name)
        self._record = record
        return True

    def commit(self) -> None:
        """Commit the records and the epoch; with the first share's transaction the epoch is there."""
        group, producing = self._connected()
        if self._exact:
            self._shares.commit()
            producing.commit()
        else:
            if self._later is not None:
                self._write(self._later)
            if self._record is not None:
                group.commit(self._record)
            producing.commit()
        if self._record is not None:
            self._committed = self._record.epoch
        self._later = self._record = self._cut = None

    def release(self) -> None:
        """Abort what was not committed."""
        self._later = self._record = self._cut = None
        self._shares.abort()
        if self._producing is not None:
            self._producing.abort()

    def close(self) -> None:
        """Abort, note what was committed, and let the clients go."""
        self.release()
        if self._group is not None and self._committed:
            self._group.note(self._committed)
        self._disconnect()
        self._maker.close()

    # ----------------------------------------------------------------------------------------- records

    def _write(self, rows: StagedEpoch) -> None:
        group, producing = self._connected()
        producing.open()
        if self._partitions is None:
            self._partitions = group.partitions()
        cut, done = self._cut_of(rows)
        first, *others = cut.cut(rows)
        left = {number: share for number, share in enumerate(others, 1) if number not in done}
        if cut.count > 1:
            self._cut = cut
            self._announce(left)
        self._shares.write(left, self._write_share, lambda: self._write_share(producing, self._maker, first))

    def _write_share(self, producing: Producing, maker: RecordMaker, rows: StagedEpoch) -> None:
        producing.open()
        partitions = self._partitions or 1
        partition = {"fixed": 0, "round-robin": -1}.get(self._options.partitioner)
        for records in maker.records(rows, partitions):
            producing.send(records, partition=partition, partitions=partitions)
        # What a broker refuses is known while the epoch can still be given up.
        producing.drain()

    def _cut_of(self, rows: StagedEpoch) -> tuple[EpochCut, frozenset[int]]:
        """How the epoch is cut, and which shares of it are committed: by a driver that died before it had committed all."""
        marks = None if self._group is None else self._group.marks
        if self._seen is not None and self._seen.partly is not None and marks is not None:
            if marks.cut is None:
                raise InternalError(
                    f"marks of {self.location} do not say how epoch {self._seen.partly} is cut"
                )
            return marks.cut, marks.at(self._seen.partly)
        most = 1
        if self._exact and self._maker.by_part:
            most = min(self._options.sink_parallelism or 1, self._partitions or 1)
        return EpochCut.of(rows, most), frozenset()

    def _announce(self, shares: Iterable[int]) -> None:
        """Write a first mark of each share that has none, before it has a producer that would have to be fenced.

        Without one the transaction is begun: so a driver that was replaced while it slept learns it here, before it makes
        the producer of a share, and fences the other one's.
        """
        group, producing = self._connected()
        known = {} if group.marks is None else group.marks.epochs
        new = [share for share in shares if share not in known]
        seen = self._seen or Record(self._job or "", self._known_as, 0)
        if new:
            producing.send_offsets([group.mark(seen, share, None) for share in new], group.name)
            producing.commit()
        else:
            producing.send_offsets(group.offsets(seen), group.name)

    def _connected(self) -> tuple[EpochGroup, Producing]:
        if self._group is None or self._producing is None:
            raise InternalError(f"{self.location} is not open")
        return self._group, self._producing

    def _connect(self) -> None:
        self._group = EpochGroup(
            self._options, self._known_as, self._store, self._failures(0), self._group_name()
        )
        self._producing = self._new_producing(0)
        self._fenced = 0

    def _new_producing(self, share: int) -> Producing:
        return Producing(
            producer_config(self._options),
            self._name,
            self._failures(share),
            transactions=self._transactions(share) if self._exact else None,
            delivered=self._options.delivery != "none",
            window_bytes=WINDOW_BYTES // 4 if share else WINDOW_BYTES,
        )

    def _failures(self, share: int) -> Failures:
        return Failures(self._spec.name, self.location, self._transactions(share), self._group_name())

    def _group_name(self) -> str:
        return f"{_PREFIX}-{self._own_name()}"

    def _transactions(self, share: int) -> str:
        """The transactional id of a share's producer."""
        name = f"{self._options.transactional_id_prefix or _PREFIX}-{self._own_name()}"
        return f"{name}-{share}" if share else name

    def _own_name(self) -> str:
        return f"{self._job or 'nobody'}-{self._known_as}"

    def _disconnect(self) -> None:
        if self._group is not None:
            self._group.close()
        if self._producing is not None:
            self._producing.close()
        self._shares.close()
        self._group = self._producing = None
