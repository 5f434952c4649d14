"""What a source or a sink may be able to do besides what every one does: a protocol each, checked by `isinstance`.

`Rereadable`, `Accountable`, `Movable` and `EditableSink`, which decide what an edit can do, are in `api`. A class that
names these as its bases has its signatures checked where it is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from sqlstream.connectors.api import Split
    from sqlstream.storage.mended_rows import MendedRow
    from sqlstream_operators.plan.spec import SinkSpec
    from sqlstream_operators.state.checkpoint_store import CheckpointStore


@runtime_checkable
class Closing(Protocol):
    """A source or sink that holds something (a connection, a client's threads) until it is closed."""

    def close(self) -> None:
        """Let go; called once nothing else is. What a sink has prepared and not committed is rolled back."""
        ...


def close(one: object) -> None:
    """Let a source or sink go, if it holds anything."""
    if isinstance(one, Closing):
        one.close()


# ------------------------------------------------------------------------------------------------------ sources


@runtime_checkable
class Polled(Protocol):
    """A source that knows when it is worth asking it again."""

    @property
    def poll_seconds(self) -> float | None:
        """Seconds until then; None: whenever the run looks."""
        ...


@runtime_checkable
class Awaited(Protocol):
    """A source that can say what a run waits for that has read all of it."""

    @property
    def waits_for(self) -> str:
        """That in words, such as "files in 'x'"."""
        ...


@dataclass(frozen=True, slots=True)
class Mended:
    """What is read instead of a row that could not be read: the `content` of a file whose name has this `ending`.

    `origin` is where the row is, as the source has it in its list.
    """

    origin: str
    content: bytes
    ending: str


class NotMendedError(Exception):
    """A dead-letter row that can't be read again, though it was mended: why, and what can be done instead."""

    def __init__(self, why: str, instead: str) -> None:
        super().__init__(why)
        self.why, self.instead = why, instead


@runtime_checkable
class Mending(Protocol):
    """A source that reads rows which were dead letters once more when they are mended (`storage.mended_rows`)."""

    def mend(self, letter: Mapping[str, Any], text: bytes) -> Mended:
        """What is read instead of a malformed row of it, if `text` is how it should have been. Raises NotMendedError."""
        ...

    def has_read(self, row: MendedRow, position: Mapping[str, Any]) -> bool:
        """Whether a mended row was read by a source that stands at `position`."""
        ...


@runtime_checkable
class LeavingOut(Protocol):
    """A source of which a run may leave something out on the user's order."""

    @property
    def takes_back(self) -> bool:
        """Whether the user may order that it is read after all (`--read-again`): files, not what is gone."""
        ...

    def passed_over(self) -> Sequence[str]:
        """What of its data is left out, as texts."""
        ...


@runtime_checkable
class Divided(Protocol):
    """A source of parts that the user may give orders about (`Orders`): files."""

    def paths(self) -> Sequence[str]:
        """Those that are there, or were read before."""
        ...


@runtime_checkable
class Reaching(Protocol):
    """A source of which a run should know that it can be reached before the run counts as up: else it can't start."""

    def reach(self) -> None:
        """Raise DiagnosticError if it can't be."""
        ...


@runtime_checkable
class Verifying(Protocol):
    """A source that can check whether what was planned is still there as it was."""

    def can_replay(self, splits: Sequence[Split]) -> bool:
        """Whether splits that were planned earlier can be read exactly as they were planned."""
        ...


@runtime_checkable
class Confirming(Protocol):
    """A source of which something else may get the same name while an epoch reads it."""

    def confirm(self, position: Mapping[str, Any], splits: Sequence[Split]) -> bool:
        """Whether splits that have been read, of an epoch that ends at `position`, were what was planned.

        Asked before anything of the epoch is written. If they were not, the epoch is given up, and the next plan says what
        there is. Raises DiagnosticError where nothing else can be planned.
        """
        ...


@runtime_checkable
class Measured(Protocol):
    """A source that knows how much there is to read of it: what `Rereadable.until` gives may be one."""

    @property
    def bytes(self) -> int | None:
        """How many bytes; None if that is not known."""
        ...


@runtime_checkable
class Acknowledging(Protocol):
    """A source that publishes how far it was read, such as the offsets of a consumer group."""

    def committed(self, position: Mapping[str, Any]) -> None:
        """An epoch that ends at `position` is published, and what it made can be seen.

        Called after each such epoch, and when a run begins for the last one: a run may have broken off before it did. What
        this raises fails nothing: the manifest is the truth, and the run warns.
        """
        ...


@runtime_checkable
class StartingOnce(Protocol):
    """A source whose start depends on when it is looked at (`latest`, a timestamp): it is decided once, and written down.

    The first epoch's plan has it, before anything is read. Where rows are read again (`Rereadable.until`), they begin there
    too: such a source keeps its start in its positions.
    """

    @property
    def starts_once(self) -> bool:
        """Whether this one's does."""
        ...


@runtime_checkable
class FromStore(Protocol):
    """A reader of splits that are kept in the state directory."""

    def in_store(self, store: CheckpointStore) -> None:
        """Where they are; called before a split is opened."""
        ...


# -------------------------------------------------------------------------------------------------------- sinks


@runtime_checkable
class Checked(Protocol):
    """A sink that can check before any row is computed whether it would take some."""

    def check(self, *, previous: int) -> None:
        """Raise what `Sink.prepare` would of an epoch after `previous`.

        Nothing of it stays, but where tasks write into the table itself: then it is made here, with its columns.
        """
        ...


@runtime_checkable
class OftenCommitted(Protocol):
    """A sink that knows whether ten epochs per second are too many for it, or for its readers."""

    @property
    def may_be_committed_often(self) -> bool:
        """Whether a commit leaves nothing but its rows (no file per epoch), and keeps no reader out."""
        ...


@runtime_checkable
class WrittenBehind(Protocol):
    """A sink that writes large epochs only once they are published: that takes long, and needs nobody to wait for it."""

    @property
    def is_behind(self) -> bool:
        """Whether the epoch that was prepared last is yet to be written, by `Sink.commit`.

        That is then called in another thread, while the next epoch is planned and run; nothing else of the sink is called
        before it has ended.
        """
        ...


@runtime_checkable
class Deferring(Protocol):
    """A sink that may let published epochs wait, noted in the state directory, and gives its target several at once."""

    @property
    def is_due(self) -> bool:
        """Whether an epoch has waited for as long as it may."""
        ...

    def flush(self) -> None:
        """Give the target all that waits, also what another driver has left waiting; raises as `Sink.commit`.

        Called when it is due, when a run begins, before an edit is carried out, and when a run ends.
        """
        ...


@runtime_checkable
class TakingOver(Protocol):
    """A sink that can commit what another one prepared (with a former password …)."""

    def takes_over(self, former: SinkSpec) -> bool:
        """Whether it can for one with the spec `former`."""
        ...
