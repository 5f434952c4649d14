"""How many rows a second a run reads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

#: Over how many seconds it is taken, or over the last epoch, if that takes longer.
RATE_OVER_S = 30.0


class RowRate:
    """The rate of the last epochs. One thread adds them, another one asks."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lately: deque[tuple[float, float, int]] = deque()
        self._lock = threading.Lock()

    def add(self, rows: int, seconds: float) -> None:
        """An epoch has ended, which took so many seconds. Rows that came one by one came since the epoch before."""
        now = self._clock()
        with self._lock:
            before = self._lately[-1][1] if self._lately else now - seconds
            began = before if now - before < RATE_OVER_S else now - seconds
            self._lately.append((began, now, rows))

    def per_s(self) -> float:
        """Rows per second until now; 0 where no epoch has ended for much longer than the last one took.

        >>> now = iter([40, 40, 70, 80, 200])
        >>> rate = RowRate(lambda: next(now))
        >>> rate.add(4000, 40)
        >>> [rate.per_s() for _ in range(4)]
        [100.0, 57.1, 50.0, 0.0]
        """
        now = self._clock()
        with self._lock:
            while len(self._lately) > 1 and now - self._lately[0][1] > RATE_OVER_S:
                self._lately.popleft()
            epochs = list(self._lately)
        if not epochs:
            return 0.0
        began, ended, _ = epochs[-1]
        if now - ended > max(RATE_OVER_S, 2 * (ended - began)):
            return 0.0
        return round(sum(rows for _, _, rows in epochs) / max(now - epochs[0][0], 1e-3), 1)
