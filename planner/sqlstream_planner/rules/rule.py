"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable

from sqlstream_planner.logical import Sink

Roots = tuple[Sink, ...]

#: A rule gives another plan of the same meaning: the same columns at each sink, of the same rows.
Rule = Callable[[Roots], Roots]
