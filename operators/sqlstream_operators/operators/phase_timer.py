"""Where the time of a task goes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class PhaseTimer:
    """µs by phase."""

    def __init__(self) -> None:
        self.spent: dict[str, int] = defaultdict(int)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time of the block to a phase."""
        started = time.perf_counter_ns()
        try:
            yield
        finally:
            self.spent[name] += (time.perf_counter_ns() - started) // 1000

    def figures(self, *phases: str) -> dict[str, int]:
        """What went into these phases, 0 where there was none."""
        return {name: self.spent[name] for name in phases}
