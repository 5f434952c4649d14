"""How a run is asked to end: after the epoch that is under way."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopFlag:
    """Set from a signal handler or another thread; the loop looks at it between epochs and wakes for it."""

    def __init__(self) -> None:
        self._event = threading.Event()

    @property
    def requested(self) -> bool:
        """Whether the run should end."""
        return self._event.is_set()

    def request(self) -> None:
        """Ask the run to end after the epoch that is under way."""
        self._event.set()

    def wait(self, seconds: float) -> None:
        """Sleep, unless or until the run should end."""
        self._event.wait(max(seconds, 0.0))


@contextmanager
def stop_on_signals(flag: StopFlag) -> Iterator[None]:
    """Set the flag on Ctrl-C and SIGTERM while inside. A second Ctrl-C interrupts at once.

    Only in the main thread, as Python allows it; elsewhere nothing happens.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if flag.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        flag.request()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
