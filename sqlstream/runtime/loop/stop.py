"""How a run is stopped: after the epoch that is under way, or at once."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

#: A signal so soon after the first is the same one: `timeout` and shells send it to the process and to its group.
SAME_SIGNAL_S = 1.0


class Interrupted(KeyboardInterrupt):
    """A second signal: the run ends at once, and its epoch is done again by the next. `number` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class StopFlag:
    """Set from a signal handler or another thread; the loop looks at it between epochs and wakes for it.

    `interrupted` is the second signal, which ends the run at once, once it has come; `on_interrupt` is called then, and ends
    what the run may be waiting for.
    """

    def __init__(self) -> None:
        self._event = threading.Event()
        self.interrupted: Interrupted | None = None
        self.on_interrupt: Callable[[], None] = lambda: None

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
def stop_on_signals(flag: StopFlag, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Set the flag on Ctrl-C, SIGTERM, and SIGHUP (its terminal is closed) while inside. A second one raises Interrupted.

    Who ignores SIGHUP (`nohup`) goes on doing so.

    Only in the main thread, as Python allows it; elsewhere nothing happens.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    first: list[float] = []

    def handle(number: int, frame: FrameType | None) -> None:
        now = clock()
        if first and now - first[0] < SAME_SIGNAL_S:
            return
        if flag.requested:
            flag.interrupted = Interrupted(number)
            with suppress(Exception):
                flag.on_interrupt()
            raise flag.interrupted
        first.append(now)
        flag.request()

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
