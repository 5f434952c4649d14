"""Points between the steps of an epoch where a test can break a run off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

#: The step that has just been done.
Point = Literal[
    "voided", "planned", "backfilled", "adapted", "run", "prepared", "published", "committed", "collected"
]
#: Called with the point and the epoch; whatever it raises ends the run there.
Faults = Callable[[Point, int], None]


def no_faults(point: Point, epoch: int) -> None:
    """Nothing happens."""
