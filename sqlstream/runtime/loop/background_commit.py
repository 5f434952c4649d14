"""Sinks that are given a large epoch in a thread, while the next epoch is planned and run.

Its manifest is published before: if the driver dies meanwhile, the next one commits the epoch again. So there is one at a
time, and nothing of the next epoch is prepared or published before it has ended.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping

from sqlstream.connectors.api import Sink


class BackgroundCommit:
    """Commits an epoch to `sinks`, one after the other. It does not keep the process from ending."""

    def __init__(self, sinks: Mapping[str, Sink], commit: Callable[[str, Sink], None]) -> None:
        self._sinks, self._commit = dict(sinks), commit
        self._failure: BaseException | None = None
        self._seconds = 0.0
        self._thread = threading.Thread(target=self._work, name="sqlstream-commit", daemon=True)
        self._thread.start()

    @property
    def at_work(self) -> Collection[str]:
        """The sinks, by name, that must be left alone because the thread may be using them."""
        return frozenset(self._sinks) if self._thread.is_alive() else frozenset()

    def wait(self) -> float:
        """Wait until it has ended; the seconds that it took. Raises what a sink raised."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self._seconds

    def _work(self) -> None:
        since = time.monotonic()
        try:
            for name, sink in self._sinks.items():
                self._commit(name, sink)
        except BaseException as error:
            self._failure = error
        self._seconds = time.monotonic() - since
