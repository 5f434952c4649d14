"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable

from sqlstream_planner.logical import Sink
from sqlstream_planner.properties.facts import Facts

Roots = tuple[Sink, ...]

#: A rule gives another plan of the same meaning: the same columns at each sink, of the same rows. What is known of nodes
#: it is given with the plan.
Rule = Callable[[Roots, Facts], Roots]
