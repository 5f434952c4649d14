"""How long after the start of an epoch the next one starts, where input only trickles in."""

from __future__ import annotations

from collections.abc import Iterable

from sqlstream.connectors.api import Sink
from sqlstream.connectors.capabilities import OftenCommitted

#: Epochs start no sooner than so after each other, however quick they are …
LEAST_S = 0.1
#: … and than so many times as long as the last one took: a third of a core is left to others.
_TIMES = 1.5


class EpochInterval:
    """Seconds from the start of an epoch to that of the next one that reads little.

    `given` is what the user wants; else it is between `LEAST_S` and `most_s`: short epochs leave more manifests, and files
    in an object store or of a sink, so that it is `most_s` unless the state is on a disk and all sinks may be committed
    often.
    """

    def __init__(
        self, given: float | None, most_s: float, sinks: Iterable[Sink], *, state_is_local: bool
    ) -> None:
        self._given = given
        self._most_s = most_s
        often = all(isinstance(sink, OftenCommitted) and sink.may_be_committed_often for sink in sinks)
        self._may_be_short = state_is_local and often

    def after(self, epoch_s: float) -> float:
        """The interval behind an epoch that took `epoch_s`."""
        if self._given is not None:
            return self._given
        if not self._may_be_short:
            return self._most_s
        return min(self._most_s, max(LEAST_S, _TIMES * epoch_s))
