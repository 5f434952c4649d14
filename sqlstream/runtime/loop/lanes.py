"""Lanes of a source (partitions): each goes through event time by itself, and is idle by itself.

As in Flink the watermark of a source is the least of its lanes', those that are idle left out; if all are, the greatest. A
lane that is new and has no row yet holds the watermark where it is until it has one, or is idle: without an idle timeout
for ever, which a run warns of. One that the source has no more is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlstream.connectors.api import SourcePlan
from sqlstream.storage.manifest import SourceState
from sqlstream_operators.plan.spec import SourceSpec, WatermarkSpec
from sqlstream_operators.plan.watermarks import WATERMARK_MIN
from sqlstream_planner.diagnostics import Diagnostic

#: So many seconds a lane without any row may hold back others before a run says so.
HOLDS_S = 60.0
_LISTED = 5


@dataclass(frozen=True, slots=True)
class SourceLanes:
    """The lanes of a source when an epoch is planned: the greatest watermark (µs) read of each, and which are idle."""

    seen: Mapping[str, int] = field(default_factory=dict)
    idle: frozenset[str] = frozenset()

    @property
    def own(self) -> int:
        """The source's own watermark.

        >>> SourceLanes({"a": 9, "b": 5}).own, SourceLanes({"a": 9, "b": 5}, frozenset("b")).own
        (5, 9)
        >>> SourceLanes({"a": 9, "b": 5}, frozenset("ab")).own
        9
        """
        active = [mark for lane, mark in self.seen.items() if lane not in self.idle]
        return min(active) if active else max(self.seen.values(), default=WATERMARK_MIN)

    @property
    def waiting(self) -> list[str]:
        """Those that hold others back without having had a row."""
        if all(mark <= WATERMARK_MIN for mark in self.seen.values()):
            return []
        return sorted(
            lane for lane, mark in self.seen.items() if mark <= WATERMARK_MIN and lane not in self.idle
        )


class Lanes:
    """When each lane of a run's sources had something last; seconds. `tell` takes warnings."""

    def __init__(self, tell: Callable[[Diagnostic], None]) -> None:
        self._fed: dict[tuple[str, str], float] = {}
        self._since: dict[tuple[str, str], float] = {}
        self._tell = tell
        self._reported: set[tuple[str, str]] = set()

    def start(self, states: Mapping[str, SourceState], now: float) -> None:
        """Count idle time from now."""
        self._fed = {(name, lane): now for name, state in states.items() for lane in state.lanes}

    def look(self, spec: SourceSpec, state: SourceState, plan: SourcePlan | None, now: float) -> SourceLanes:
        """The lanes of a source that is at `state` and plans to read `plan` (None: all was read)."""
        if spec.watermark is None:
            return SourceLanes()
        if plan is None:
            return SourceLanes(state.lanes)
        fed = {split.lane for split in plan.splits if split.lane}
        lanes = dict.fromkeys([*plan.lanes, *sorted(fed)])
        for lane in lanes:
            if lane in fed:
                self._fed[spec.name, lane] = now
            self._fed.setdefault((spec.name, lane), now)
        timeout = spec.watermark.idle_timeout_us if isinstance(spec.watermark, WatermarkSpec) else None
        idle = frozenset(
            lane
            for lane in lanes
            if timeout is not None and lane not in fed and now - self._fed[spec.name, lane] >= timeout / 1e6
        )
        return SourceLanes({lane: state.lanes.get(lane, WATERMARK_MIN) for lane in lanes}, idle)

    def warn(self, spec: SourceSpec, lanes: SourceLanes, now: float, *, ended: bool) -> None:
        """Say which lanes without a row keep windows of the others open: where the input has `ended`, or after a while."""
        if not isinstance(spec.watermark, WatermarkSpec) or spec.watermark.idle_timeout_us is not None:
            return
        waiting = [lane for lane in lanes.waiting if (spec.name, lane) not in self._reported]
        for lane in waiting:
            self._since.setdefault((spec.name, lane), now)
        due = [lane for lane in waiting if ended or now - self._since[spec.name, lane] >= HOLDS_S]
        if due:
            self._reported |= {(spec.name, lane) for lane in due}
            self._tell(_held_back(spec.name, due))


def _held_back(source: str, lanes: list[str]) -> Diagnostic:
    more = f" and {len(lanes) - _LISTED} more" if len(lanes) > _LISTED else ""
    listed = ", ".join(lanes[:_LISTED]) + more
    return Diagnostic(
        "DAT016",
        f"partitions of `{source}` without any row keep its windows open: {listed}"
        if len(lanes) > 1
        else f"a partition of `{source}` without any row keeps its windows open: {listed}",
        notes=("the watermark of a table is the least of its partitions', and these have none yet",)
        if len(lanes) > 1
        else ("the watermark of a table is the least of its partitions', and this one has none yet",),
        help="'scan.watermark.idle-timeout' = '1 min' in the table's WITH (…) lets a silent partition step aside",
        severity="warning",
    )
