"""What sources on tables of lakes have in common: how long they read, and what is left out of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.capabilities import LeavingOut, Polled, StartingOnce
from sqlstream.connectors.lakehouse import losses
from sqlstream_operators.plan.spec import SourceSpec


class Following(Protocol):
    """Options of a source that may follow its table."""

    @property
    def streaming(self) -> bool:
        """Whether what comes to the table later is read, too."""
        ...

    @property
    def interval_us(self) -> int:
        """How often it is looked for that, µs."""
        ...


class LakeSource(LeavingOut, Polled, StartingOnce):
    """A table that is read as it is when reading begins, and then step by step: by its versions, or its snapshots.

    `steps` is what they are called, `place` the table's name in messages, `kept` what to keep so that none is lost.
    """

    def __init__(
        self,
        spec: SourceSpec,
        context: ConnectorContext,
        following: Following,
        *,
        steps: str,
        place: str,
        kept: str,
    ) -> None:
        self._spec, self._context, self._following = spec, context, following
        self._called, self._place, self._longer = steps, place, kept
        self._skipped = 0
        self._lost: Sequence[str] = ()

    @property
    def bounded(self) -> bool:
        """Whether reading ends with the steps that there are when a run begins, or with one."""
        return self._context.ends or not self._following.streaming

    @property
    def starts_once(self) -> bool:
        """Every start means another step later, but those that name one."""
        return True

    @property
    def poll_seconds(self) -> float | None:
        """How often it is looked for a new step: a request or two."""
        return self._following.interval_us / 1e6

    @property
    def takes_back(self) -> bool:
        """See `LeavingOut`."""
        return False

    def passed_over(self) -> Sequence[str]:
        """What is left out of the table: steps that change rows, and what was gone."""
        skipped = [f"{self._skipped} {self._called} that change rows"] if self._skipped else []
        return [f"{self._spec.name}: {one}" for one in (*skipped, *self._lost)]

    def _agree(self, what: str) -> None:
        """Tell of a loss that was agreed to; raise DiagnosticError (DAT015) for another one."""
        if not self._context.may_lose(self._spec.name):
            raise losses.refused(self._spec.name, self._place, what, self._longer)
        self._context.tell(losses.accepted(self._spec.name, what))
