"""The driver's half of a sink that keeps a table of a database up to date, exactly once.

The rows of an epoch come with the reports of its tasks. *Before* the epoch's manifest is published (`prepare`) the
driver consolidates them, keeps them as `sinks/<name>/<epoch>.arrow` in the checkpoint store, and applies them, with
the epoch's number in the table `sqlstream_epochs`, in a transaction that it leaves open: whatever the
database refuses, it refuses while the epoch can still be given up. *After* it (`commit`) the transaction is
committed. If it is gone, because the driver or the database died in between, `commit` applies the kept changes again
unless the database says that the epoch is there.

The kept changes of the last epoch stay until the next one is committed. So the store knows which epoch the table must be
at, and a table that is at another one (dropped, restored from a copy, written by another job) is refused.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from urllib.parse import quote

import pyarrow as pa

from sqlstream.connectors.api import ConnectorContext, SinkPart
from sqlstream.connectors.database.changes import Mode, changes_of
from sqlstream.connectors.database.target import EPOCHS_TABLE, LostConnectionError, Record, Target, unusable
from sqlstream_operators.codec.exchange import decode, encode
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import SinkSpec

#: Who a state directory is, for what its sinks write; the filesystem sink uses the same file.
IDENTITY = "sinks/identity.json"
#: How often a lost connection is made again before the run is given up, and seconds between.
ATTEMPTS = 4
PAUSE_S = 0.5


class TableWriter:
    """The task's half: hands the rows to the driver with the task's report."""

    def write(self, table: pa.Table, *, epoch: int, task: str) -> SinkPart:
        """Return the rows."""
        return SinkPart(table.num_rows, table=table if table.num_rows else None)


class TableSink:
    """The driver's half."""

    def __init__(
        self,
        spec: SinkSpec,
        context: ConnectorContext,
        target: Target,
        *,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._spec = spec
        self._store = context.store
        self._target = target
        self._wait = wait
        self._folder = f"sinks/{quote(spec.name, safe='')}"
        self._duck: DuckSession | None = None
        self._kept: set[int] | None = None
        self._job: str | None = None
        self._is_set_up = False
        self._prepared: int | None = None

    # ------------------------------------------------------------------------------------- the epoch's steps

    def prepare(self, epoch: int, parts: Sequence[SinkPart], *, previous: int = 0) -> None:
        """Keep the epoch's changes and apply them in a transaction that stays open.

        Raises DataError if the rows don't fit the table or the table is not as this job left it, DiagnosticError
        (ENV006) if the database can't be used.
        """
        if self._duck is None:
            self._duck = DuckSession()
        changes = changes_of(self._duck, self._spec, parts)
        self._store.put(self._name(epoch), encode(changes))
        self._epochs().add(epoch)
        self._try(lambda: self._apply_first(epoch, changes))
        self._prepared = epoch

    def commit(self, epoch: int, parts: Sequence[SinkPart], *, previous: int = 0) -> None:
        """Commit what was prepared, or apply the kept changes if the database does not have the epoch yet."""
        if self._prepared == epoch:
            self._prepared = None
            try:
                self._target.commit()
            except LostConnectionError:
                self._try(lambda: self._apply_again(epoch))
        else:
            self._try(lambda: self._apply_again(epoch))
        for old in sorted(e for e in self._epochs() if e < epoch):
            self._forget(old)

    def abort_uncommitted(self, last_epoch: int) -> None:
        """Forget the kept changes of epochs after `last_epoch`, and look whether the table is this job's.

        Raises DataError if it is not, or if it has epochs that this job has not.
        """
        self._prepared = None
        self._target.release()
        for epoch in sorted(e for e in self._epochs() if e > last_epoch):
            self._forget(epoch)
        self._try(lambda: self._look(last_epoch))

    def close(self) -> None:
        """Roll back what was prepared and not committed, and close the connection."""
        self._prepared = None
        self._target.close()

    def takes_over(self, former: SinkSpec) -> bool:
        """Whether this sink can commit what a sink with the spec `former` prepared.

        Another address or password is no reason against it: whether the epoch is in the table, the table says.
        """
        return replace(former, options=self._spec.options) == self._spec

    # ---------------------------------------------------------------------------------------- transactions

    def _try(self, work: Callable[[], None]) -> None:
        """Do something that can be repeated, again after a connection was lost; nothing is left open if it fails."""
        for attempt in range(ATTEMPTS):
            try:
                work()
            except LostConnectionError as error:
                self._target.release()
                if attempt + 1 == ATTEMPTS:
                    raise unusable(self._target.place, str(error)) from None
                self._wait(PAUSE_S * (1 + attempt))
            except BaseException:
                self._target.release()
                raise
            else:
                return

    def _look(self, last_epoch: int) -> None:
        if not self._target.open(create=False):
            return
        record = self._target.record(lock=False)
        if record is not None and not self._is_free(record) and self._target.exists():
            self._check_owner(record)
            if record.epoch > last_epoch:
                raise self._ahead(record.epoch, last_epoch)
        self._target.release()

    def _apply_first(self, epoch: int, changes: pa.Table) -> None:
        self._target.release()
        before = self._before(epoch)
        if not self._is_set_up:
            self._target.open(create=True)
            self._set_up(before)
            self._target.commit()
            self._is_set_up = True
        self._target.open(create=True)
        record = self._target.record(lock=True)
        if record is None:
            raise self._dropped(before)
        self._check_at(record, before)
        self._apply(epoch, changes)

    def _apply_again(self, epoch: int) -> None:
        before = self._before(epoch)
        if not self._target.open(create=False):
            raise self._dropped(epoch)
        record = self._target.record(lock=True)
        if record is None or not self._target.exists():
            raise self._dropped(epoch)
        self._check_owner(record)
        if record.epoch >= epoch:
            self._target.release()
            return
        if epoch not in self._epochs():
            raise self._behind(record.epoch, epoch)
        self._check_at(record, before)
        self._apply(epoch, decode([self._store.get(self._name(epoch))]))
        self._target.commit()

    def _apply(self, epoch: int, changes: pa.Table) -> None:
        if changes.num_rows:
            self._target.apply(changes)
        self._target.write_record(Record(self._identity(), self._spec.name, epoch))

    def _set_up(self, before: int) -> None:
        """Create what is not there, and check that what is there is this job's and at epoch `before`."""
        self._target.create_epochs()
        record = self._target.record(lock=False)
        if not self._target.exists():
            if before or (record is not None and self._owns(record) and record.epoch):
                raise self._dropped(before)
            self._target.create_table()
        elif self._is_free(record):
            if before:
                raise self._dropped(before)
            self._target.check_shape()
            self._check_empty()
        elif record is not None:
            self._check_at(record, before)
            self._target.check_shape()
            return
        self._target.write_record(Record(self._identity(), self._spec.name, 0))

    # --------------------------------------------------------------------------------------------- refusals

    def _check_owner(self, record: Record) -> None:
        if self._owns(record):
            return
        if record.job == self._identity():
            raise DataError(
                f"{self._target.place} is where table {record.sink} writes: give table {self._spec.name} "
                f"another 'table-name'"
            )
        raise DataError(
            f"{self._target.place} was written with another state directory, up to its epoch {record.epoch}. "
            f"Go on with that state directory, drop the table (DROP TABLE), or choose another 'table-name'"
        )

    def _check_at(self, record: Record, epoch: int) -> None:
        self._check_owner(record)
        if record.epoch > epoch:
            raise self._ahead(record.epoch, epoch)
        if record.epoch < epoch:
            raise self._behind(record.epoch, epoch)

    def _check_empty(self) -> None:
        if Mode.of(self._spec) in (Mode.KEYED, Mode.MULTISET) and not self._target.is_empty():
            raise DataError(
                f"{self._target.place} has rows that this pipeline did not write, and would not be equal to the "
                f"query's result. Empty the table (DELETE FROM), drop it, or choose another 'table-name'"
            )

    def _ahead(self, there: int, here: int) -> DataError:
        return DataError(
            f"{self._target.place} has the rows of epoch {there}, but this state directory is at epoch {here}: it "
            f"was restored from an older copy. Drop the table and start over with a new state directory"
        )

    def _behind(self, there: int, here: int) -> DataError:
        return DataError(
            f"{self._target.place} has the rows up to epoch {there}, but this state directory has given it epoch "
            f"{here}: the table was restored from an older copy. Restore the newer one, or drop the table and start "
            f"over with a new state directory"
        )

    def _dropped(self, epoch: int) -> DataError:
        return DataError(
            f"{self._target.place}: the table or its row in {EPOCHS_TABLE} is gone, and with it the rows up to epoch "
            f"{epoch}. Restore it, or drop what is left and start over with a new state directory"
        )

    # -------------------------------------------------------------------------------------- what is kept

    def _owns(self, record: Record) -> bool:
        return record.job == self._identity() and record.sink == self._spec.name

    def _is_free(self, record: Record | None) -> bool:
        """Whether nobody's epoch is in the table: a first run that was cut off leaves a record of epoch 0."""
        return record is None or (not record.epoch and record.job != self._identity())

    def _identity(self) -> str:
        if self._job is None:
            if not self._store.exists(IDENTITY):
                self._store.put(IDENTITY, json.dumps({"id": uuid.uuid4().hex}).encode())
            self._job = str(json.loads(self._store.get(IDENTITY))["id"])
        return self._job

    def _epochs(self) -> set[int]:
        """The epochs whose changes are kept."""
        if self._kept is None:
            names = (name.rpartition("/")[2] for name in self._store.list(self._folder))
            self._kept = {int(name.removesuffix(".arrow")) for name in names if name[:-6].isdigit()}
        return self._kept

    def _before(self, epoch: int) -> int:
        """The epoch that the table must be at before `epoch` is applied; 0 if it is the first."""
        return max((e for e in self._epochs() if e < epoch), default=0)

    def _name(self, epoch: int) -> str:
        return f"{self._folder}/{epoch:06d}.arrow"

    def _forget(self, epoch: int) -> None:
        self._store.delete(self._name(epoch))
        self._epochs().discard(epoch)
