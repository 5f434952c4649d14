"""The driver's half of a sink that is exactly once because its target says which epochs are in it.

The manifests say which epoch the target must be at. So one that is at another epoch (dropped, restored from a copy,
written by another job) is refused rather than written on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from sqlstream.connectors.api import ConnectorContext, SinkPart, TargetEdit
from sqlstream.connectors.exactly_once.refusals import ahead, anew, behind, dropped
from sqlstream.connectors.exactly_once.staged import StagedEpoch
from sqlstream.connectors.exactly_once.target import (
    LostConnectionError,
    Record,
    TableEdits,
    Target,
    TargetBehind,
    unusable,
)
from sqlstream.storage.identity import NAME, identity, is_lost
from sqlstream_operators.errors import MemoryExhaustedError, TargetError
from sqlstream_operators.plan.spec import SinkSpec

#: How often a lost connection is made again before the run is given up, and seconds between.
ATTEMPTS = 4
PAUSE_S = 0.5


class ExactlyOnceSink:
    """Applies epochs to a `Target` in two phases around the manifest; see the package."""

    def __init__(
        self,
        spec: SinkSpec,
        context: ConnectorContext,
        target: Target,
        *,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._spec = spec
        self._known_as = context.known_as or spec.name
        self._store = context.store
        self._target = target
        self._wait = wait
        self._job: str | None = None
        self._is_set_up = False
        self._prepared: int | None = None
        self._behind = False
        self._edit: TargetEdit | None = None

    @property
    def may_be_committed_often(self) -> bool:
        """As its target says."""
        return self._target.may_be_committed_often

    @property
    def is_behind(self) -> bool:
        """Whether the epoch that was prepared last is written by `commit`: see `TargetBehind`."""
        return self._behind

    # ------------------------------------------------------------------------------------- the epoch's steps

    def check(self, *, previous: int) -> None:
        """Whether the target would take rows after epoch `previous`, before any are computed; nothing of it stays.

        Raises as `prepare` does.
        """
        if not self._is_set_up:
            self._try(lambda: self._look_ahead(previous))

    def begin_with(self, edit: TargetEdit) -> None:
        """The next epoch does this first, in its own transaction."""
        self._edit = edit

    def is_vacant(self) -> bool:
        """Whether the target has no rows, or is not there. Raises DiagnosticError (ENV006) if it can't be looked at."""
        vacant = True

        def look() -> None:
            nonlocal vacant
            vacant = self._is_empty()

        self._seen(look)
        return vacant

    def epoch_there(self) -> int | None:
        """The last epoch of this state directory and this table that the target has, if any. Raises as `is_vacant`."""
        found = None

        def look() -> None:
            nonlocal found
            record = self._target.record(lock=False)
            if record is not None and record.epoch and self._is_known() and self._owns(record):
                found = record.epoch if self._target.exists() else None

        self._seen(look)
        return found

    def look(self, epochs: Collection[int]) -> None:
        """Whether the target is as one of these epochs left it (0: it is to begin); nothing is changed, or made.

        Raises TargetError if it is not, DiagnosticError (ENV006) if it can't be looked at.
        """
        if not self._seen(lambda: self._look_at(epochs)) and max(epochs) and self._edit is None:
            raise dropped(self._spec, self._target, max(epochs))

    def _look_at(self, epochs: Collection[int]) -> None:
        record = self._target.record(lock=False)
        is_new = not max(epochs) or self._edit is TargetEdit.REWRITE
        if not self._target.exists():
            if not is_new:
                raise dropped(self._spec, self._target, max(epochs))
            return
        if record is None or (not record.epoch and not (self._is_known() and self._owns(record))):
            if not is_new:
                raise dropped(self._spec, self._target, max(epochs))
            if self._edit is None:
                self._check_shape()
                self._check_empty()
            return
        if not self._is_known() and not is_lost(self._store):
            self._job = ""  # a state directory that has no name is not the one that wrote there
        self._check_owner(record)
        if is_new and self._target.is_empty():
            return
        if record.epoch not in epochs or record.furthest > max(epochs):
            self._check_at(record, max(epochs))
        if self._edit is None:
            self._check_shape()

    def _is_known(self) -> bool:
        """Whether this state directory has a name; without one, it has given nothing to anybody."""
        return self._job is not None or self._store.exists(NAME)

    def _seen(self, look: Callable[[], None]) -> bool:
        """Look at the target, if there is something to connect to; whether there is."""
        found = False

        def work() -> None:
            nonlocal found
            found = self._target.open(create=False)
            if found:
                look()
            self._target.release()

        self._try(work)
        return found

    def prepare(self, epoch: int, parts: Sequence[SinkPart], *, previous: int) -> None:
        """Apply the epoch's rows in a transaction that stays open, or leave them to `commit` where the target is slower.

        Raises DataError if the rows don't fit the target, TargetError if it is not as this job left it, DiagnosticError
        (ENV006) if it can't be used.
        """
        rows = StagedEpoch(self._store, self._spec, parts)
        self._behind = False
        self._try(lambda: self._apply_first(epoch, previous, rows))
        self._prepared = None if self._behind else epoch

    def commit(self, epoch: int, parts: Sequence[SinkPart], *, previous: int) -> None:
        """Commit what was prepared, or apply the staged rows again if the target does not have the epoch yet."""
        if self._prepared == epoch:
            self._prepared = None
            try:
                self._target.commit()
            except LostConnectionError:
                pass
            else:
                self._edit = None
                return
        rows = StagedEpoch(self._store, self._spec, parts)
        try:
            self._try(lambda: self._apply_again(epoch, previous, rows))
        except MemoryExhaustedError as error:  # it is too late to give the epoch up for smaller ones
            raise unusable(
                self._target.location,
                error.message,
                f"epoch {epoch} is committed, but not in the {self._target.wording.noun} yet: run again where the driver "
                "has more memory; nothing is lost",
            ) from error
        self._edit, self._behind = None, False

    def abort_uncommitted(self, last_epoch: int) -> None:
        """Look whether the target is this job's; what later epochs staged is swept with all that no manifest names.

        Raises TargetError if it is not, or if it has epochs that this job has not.
        """
        self._prepared, self._behind = None, False
        self._target.release()
        self._try(lambda: self._look(last_epoch))

    def close(self) -> None:
        """Roll back what was prepared and not committed, and close the connection."""
        self._prepared = None
        self._target.close()

    def takes_over(self, former: SinkSpec) -> bool:
        """Whether this sink can commit what a sink with the spec `former` prepared.

        Another address or password is no reason against it: whether the epoch is in the target, the target says.
        """
        now = self._spec
        return replace(former, options=now.options, name=now.name, forgets=now.forgets) == now

    # ---------------------------------------------------------------------------------------- transactions

    def _try(self, work: Callable[[], None]) -> None:
        """Do something that can be repeated, again after a connection was lost; nothing is left open if it fails."""
        for attempt in range(ATTEMPTS):
            try:
                work()
            except LostConnectionError as error:
                self._target.release()
                if attempt + 1 == ATTEMPTS:
                    raise unusable(self._target.location, str(error)) from None
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
            if record.furthest > last_epoch and self._edit is not TargetEdit.REWRITE:
                raise ahead(self._spec, self._target, record.furthest, last_epoch)
        self._target.release()

    def _apply_first(self, epoch: int, previous: int, rows: StagedEpoch) -> None:
        self._target.release()
        if self._edit is not None:
            self._target.open(create=True)
            if self._edit is TargetEdit.REWRITE and self._forget_later(epoch):
                self._target.open(create=True)
            self._apply(epoch, rows, over=self._carry_out(self._edit, previous))
            self._is_set_up = True
            return
        if not self._is_set_up:
            self._target.open(create=True)
            self._set_up(previous)
            self._target.commit()
            self._is_set_up = True
        self._target.open(create=True)
        record = self._target.record(lock=True)
        if record is None:
            raise dropped(self._spec, self._target, previous)
        self._check_at(record, previous)
        if isinstance(self._target, TargetBehind) and self._target.may_be_behind(rows):
            self._behind = True
        else:
            self._apply(epoch, rows, over=record)

    def _forget_later(self, epoch: int) -> bool:
        """Whether the target recorded, and does no more, that it has this epoch: it had one of the number before the
        state directory was restored from an older copy. It is empty, so it has none.
        """
        record = self._target.record(lock=True) if self._is_empty() else None
        if record is None or not self._owns(record) or record.furthest < epoch:
            return False
        self._record(0, over=record)
        self._target.commit()
        return True

    def _is_empty(self) -> bool:
        return not self._target.exists() or self._target.is_empty()

    def _look_ahead(self, previous: int) -> None:
        self._target.release()
        if self._target.open(create=False):
            if self._edit is None:
                self._set_up(previous)
            else:
                self._carry_out(self._edit, previous)
        self._target.release()

    def _apply_again(self, epoch: int, previous: int, rows: StagedEpoch) -> None:
        anew = self._edit is TargetEdit.REWRITE
        if not self._target.open(create=anew):
            raise dropped(self._spec, self._target, epoch)
        record = self._target.record(lock=True)
        if not anew and (record is None or not self._target.exists()):
            raise dropped(self._spec, self._target, epoch)
        if record is not None and not self._is_free(record):
            self._check_owner(record)
        if record is not None and is_committed(record, epoch):
            self._target.release()
            return
        if self._edit is not None and (record is None or record.partly != epoch):
            record = self._carry_out(self._edit, previous)
        elif record is not None and not anew:
            self._check_at(record, previous, completing=epoch)
        self._apply(epoch, rows, over=record)
        self._target.commit()

    def _apply(self, epoch: int, rows: StagedEpoch, *, over: Record | None) -> None:
        if self._edit is TargetEdit.REPLACE:
            self._edits().replace(rows)
        elif rows.rows:
            self._target.apply(rows)
        self._record(epoch, over=over)

    def _record(self, epoch: int, *, over: Record | None) -> None:
        """Write the record over the one that was seen. Raises DiagnosticError (ENV006) if another one is there by now."""
        if not self._target.write_record(Record(self._identity(), self._known_as, epoch), over=over):
            words = self._target.wording
            raise unusable(
                self._target.location,
                f"{words.record} was changed by another process meanwhile",
                "see which other pipeline writes there, and run again: nothing is lost",
            )

    def _carry_out(self, edit: TargetEdit, previous: int) -> Record | None:
        """Bring the target to what an edit makes of it, before the rows of its epoch; the record that it has."""
        self._target.create_record_store()
        record = self._target.record(lock=True)
        if edit is not TargetEdit.REWRITE:
            if record is None or not self._target.exists():
                raise dropped(self._spec, self._target, previous)
            self._check_at(record, previous)
            self._edits().reshape(keep_rows=edit is TargetEdit.ALTER)
            return record
        if record is not None and not self._is_free(record):
            self._check_owner(record)
        if not self._target.exists():
            self._target.create()
            return record
        if not self._target.is_empty():
            words = self._target.wording
            raise TargetError(
                f"the {words.noun} of `{self._spec.name}` would be rewritten, but is not empty",
                (f"it is {self._target.location}",),
                f"empty the {words.noun} ({words.empty}), drop it ({words.drop}), or choose another "
                f"'{words.name_option}'",
            )
        if self._target.edits is not None:
            self._target.edits.reshape(keep_rows=False)
        return record

    def _set_up(self, previous: int) -> None:
        """Create what is not there, and check that what is there is this job's and at epoch `previous`."""
        self._target.create_record_store()
        record = self._target.record(lock=False)
        if record is None or not record.epoch or not self._target.exists():
            # It is claimed here, or another run that claimed it is about to commit its first epoch: then wait for that.
            if record is not None and self._target.exists() and not self._is_free(record):
                self._check_owner(record)
            record = self._target.record(lock=True)
        if not self._target.exists():
            if previous:
                raise dropped(self._spec, self._target, previous)
            self._target.create()
        elif self._is_free(record):
            if previous:
                raise dropped(self._spec, self._target, previous)
            self._check_shape()
            self._check_empty()
        elif record is not None:
            if previous or not self._left_and_emptied(record):
                self._check_at(record, previous)
                self._check_shape()
                return
            self._check_shape()
        self._record(0, over=record)

    def _left_and_emptied(self, record: Record) -> bool:
        """Whether the target had epochs of ours, was left out of the query, and has no rows now that it comes back."""
        return bool(record.epoch) and self._owns(record) and self._target.is_empty()

    # --------------------------------------------------------------------------------------------- refusals

    def _check_owner(self, record: Record) -> None:
        words = self._target.wording
        if self._job is None and is_lost(self._store):
            raise TargetError(
                f"the owner of the {words.noun} `{self._spec.name}` is not known",
                (
                    f"{self._target.location} has rows up to epoch {record.epoch} of a state directory",
                    f"{self._store.path(NAME)}, the name of this one, is missing",
                ),
                f"restore that file from a copy of the state directory; or, if another one wrote the {words.noun}, drop "
                f"it ({words.drop}), or choose another '{words.name_option}'",
            )
        if self._owns(record):
            return
        if record.job == self._identity():
            raise TargetError(
                f"two tables of the query write to one {words.noun}: {record.sink} and {self._spec.name}",
                (f"it is {self._target.location}",),
                f"give table {self._spec.name} another '{words.name_option}'",
            )
        raise TargetError(
            f"the {words.noun} of `{self._spec.name}` was written with another state directory",
            (f"{self._target.location} is at epoch {record.epoch} of it",),
            f"go on with that state directory, drop the {words.noun} ({words.drop}), or choose another "
            f"'{words.name_option}'",
        )

    def _check_at(self, record: Record, epoch: int, *, completing: int | None = None) -> None:
        self._check_owner(record)
        if record.epoch > epoch or (record.furthest > epoch and record.furthest != completing):
            raise ahead(self._spec, self._target, record.furthest, epoch)
        if record.epoch < epoch:
            raise behind(self._spec, self._target, record.epoch, epoch)

    def _check_shape(self) -> None:
        if self._target.edits is not None:
            self._target.edits.check_shape()

    def _edits(self) -> TableEdits:
        """How the target is altered. Raises TargetError for a log: what is in it stays as it was given."""
        if self._target.edits is None:
            words = self._target.wording
            raise TargetError(
                f"the {words.noun} of `{self._spec.name}` can't be altered",
                (f"{self._target.location} is a log: what was written stays as it is",),
                f"choose another '{words.name_option}'; or {anew(self._spec, self._target)}",
            )
        return self._target.edits

    def _check_empty(self) -> None:
        if self._target.owns_all_rows and not self._target.is_empty():
            words = self._target.wording
            raise TargetError(
                f"the {words.noun} of `{self._spec.name}` has rows that this pipeline did not write",
                (f"{self._target.location} would not be equal to the query's result",),
                f"empty the {words.noun} ({words.empty}), drop it ({words.drop}), or choose another "
                f"'{words.name_option}'",
            )

    # ------------------------------------------------------------------------------------------ who writes

    def _owns(self, record: Record) -> bool:
        return record.job == self._identity() and record.sink == self._known_as

    def _is_free(self, record: Record | None) -> bool:
        """Whether nobody's epoch is in the target: a first run that was cut off leaves a record of epoch 0."""
        return record is None or (not record.epoch and record.job != self._identity())

    def _identity(self) -> str:
        if self._job is None:
            self._job = identity(self._store)
        return self._job


def is_committed(record: Record, epoch: int) -> bool:
    """Whether a target with this record has the epoch."""
    return record.epoch >= epoch
