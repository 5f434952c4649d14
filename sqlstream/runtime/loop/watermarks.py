"""Watermarks of sources: computed before an epoch from what epochs before it read, and written into its plan.

That decides what is late. What closes, the rows of the epoch raise (`Watermarks.raised`), in its tasks and in its manifest.
A source's own watermark is the greatest value of its watermark expression seen so far; where it has lanes (partitions), the
least of theirs (`lanes`). Two things make the
watermark that is *applied* to a source greater than its own: it is drained (then nothing can come that
is not late: +infinity), or it is idle (then it does not hold back the sources that it shares an operator with): for its
timeout, or where all that it had is read and the run goes on with others. Neither ever makes a watermark go back.
The end of what is there now is not the end of time: without being drained a source stays at its own watermark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sqlstream.storage.manifest import SourceState
from sqlstream_operators.plan.epoch_values import EPOCH_RELATION
from sqlstream_operators.plan.spec import LateStep, OperatorStep, PhysicalPlan
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN, Watermarks


def source_groups(plan: PhysicalPlan) -> tuple[frozenset[str], ...]:
    """Sources whose watermarks meet in some operator, as disjoint groups."""
    groups: list[frozenset[str]] = []
    for stage in plan.stages:
        for step in stage.steps:
            if isinstance(step, LateStep):
                names = frozenset(step.watermark_sources)
            elif isinstance(step, OperatorStep):
                names = frozenset(step.operator.watermark_sources)
            else:
                continue
            names -= {EPOCH_RELATION}  # no source: the clock waits for none
            if not names:
                continue
            meeting = [group for group in groups if group & names]
            groups = [group for group in groups if not group & names]
            groups.append(names.union(*meeting))
    return tuple(groups)


@dataclass(frozen=True, slots=True)
class WindowEnds:
    """When windows of one operator can close: all ends are at offset (mod slice); times in µs.

    An operator that only sees the ends of windows, not how they are cut, may close one at any tick. A slice of 0: what
    closes emits nothing, so only the end of the input is worth an epoch.
    """

    step: str
    sources: tuple[str, ...]
    slice_us: int
    offset_us: int
    tick_us: int
    state_id: str

    @classmethod
    def of(cls, step: OperatorStep) -> WindowEnds | None:
        """The ends of an operator, None if no watermark moves it."""
        spec, waiting = step.operator, step.operator.facts.waiting
        if waiting is None or not spec.watermark_sources:
            return None
        return cls(
            step.name,
            spec.watermark_sources,
            waiting.slice_us,
            waiting.offset_us,
            waiting.tick_us,
            spec.state.state_id,
        )

    def least(self, marks: Mapping[str, int]) -> int:
        """The watermark of the operator, given its sources'."""
        return min(marks[source] for source in self.sources)

    def last_closed(self, watermark: int) -> int:
        """The number of the last window end that is closed at a watermark.

        >>> ends = WindowEnds("w", ("t",), slice_us=10, offset_us=0, tick_us=1, state_id="s")
        >>> ends.last_closed(98), ends.last_closed(99)
        (9, 10)
        """
        return (watermark + self.tick_us - self.offset_us) // self.slice_us

    def closes_any(self, before: int, after: int) -> bool:
        """Whether any window end is closed at `after` that was not at `before`."""
        if not self.slice_us:
            return before < after == WATERMARK_MAX
        return self.last_closed(after) > self.last_closed(before)


def window_ends(plan: PhysicalPlan) -> tuple[WindowEnds, ...]:
    """The window ends of all operators that a watermark moves."""
    return tuple(ends for step in plan.operators if (ends := WindowEnds.of(step)) is not None)


def effective(
    own: Mapping[str, int],
    drained: Iterable[str],
    idle: Iterable[str],
    groups: Iterable[frozenset[str]],
    applied: Mapping[str, int],
) -> dict[str, int]:
    """The watermark to apply to each source (µs), never less than `applied`, what was applied before.

    `own` are the sources' own watermarks. A drained source has +infinity. An idle one follows the least
    of the others in its group that are not idle, or the greatest if all are.

    >>> groups = (frozenset({"a", "b"}),)
    >>> effective({"a": 100, "b": 5}, (), {"b"}, groups, {"a": 0, "b": 0})
    {'a': 100, 'b': 100}
    """
    finished, quiet = set(drained), set(idle)
    result = {name: WATERMARK_MAX if name in finished else own[name] for name in own}
    for group in groups:
        active = [result[name] for name in group if name not in quiet and name not in finished]
        sleeping = [name for name in group if name in quiet and name not in finished]
        reference = min(active) if active else max((result[name] for name in sleeping), default=WATERMARK_MIN)
        for name in sleeping:
            result[name] = max(result[name], reference)
    return {name: max(value, applied[name]) for name, value in result.items()}


def after_epoch(
    state: SourceState,
    *,
    position: Mapping[str, object],
    drained: bool,
    read_up_to: int | None,
    applied: int,
    closed_up_to: int | None,
    rows: int = 0,
    malformed: int = 0,
    lanes: Mapping[str, int] | None = None,
) -> SourceState:
    """A source's state after an epoch that read `rows` of it, of which some were `malformed`.

    `read_up_to` is the greatest watermark expression of the rows read (None: no row), `applied` the
    epoch's close watermark, `closed_up_to` the greatest (window end - tick) that any operator on this source
    has emitted in the epoch (None: none), `lanes` what is seen of each lane by now. All µs.
    """
    seen = state.seen if read_up_to is None else max(state.seen, read_up_to)
    resume = max(state.resume, seen, WATERMARK_MIN if closed_up_to is None else closed_up_to)
    if applied != WATERMARK_MAX:
        resume = max(resume, applied)
    return replace(
        state,
        position=dict(position),
        drained=drained,
        seen=seen,
        applied=applied,
        resume=resume,
        rows=None if state.rows is None else state.rows + rows,
        malformed=None if state.malformed is None else state.malformed + malformed,
        lanes=dict(lanes or {}),
    )


def resumed(state: SourceState) -> SourceState:
    """A drained source that has new input: it goes on at its resume watermark."""
    return replace(
        state,
        drained=False,
        seen=max(state.seen, state.resume),
        applied=state.resume,
    )


def planned(previous: int, late: int, end: int | None, *, rises: bool) -> Watermarks:
    """The watermarks of a source in an epoch; `end` is what it is at once it is drained, None if it is not.

    `rises`: what the epoch reads of it closes windows in this very epoch.
    """
    most = WATERMARK_MAX if rises else WATERMARK_MIN
    return Watermarks(previous, late, late if end is None else end, most)
