"""Planning an epoch: what the sources have, how much of it is read, which windows close, and whether it is worth it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace

from sqlstream.connectors.api import SourcePlan
from sqlstream.connectors.capabilities import Awaited, LeavingOut, Polled, Reaching, StartingOnce
from sqlstream.runtime.loop import watermarks
from sqlstream.runtime.loop.admission import FEWEST_ROWS, MOST_ROWS, PART_OF_MEMORY, SMALLER, Pace
from sqlstream.runtime.loop.dimensions import Dimensions
from sqlstream.runtime.loop.drained import read_after_drain
from sqlstream.runtime.loop.epoch import Epoch
from sqlstream.runtime.loop.lanes import Lanes, SourceLanes
from sqlstream.runtime.loop.program import LoopSettings, Program
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream.runtime.loop.recovery import committed_epoch
from sqlstream.runtime.loop.run_state import RunState
from sqlstream.runtime.loop.transition import Transition
from sqlstream.storage.manifest import (
    EpochPlan,
    PlannedSource,
    PlannedSplit,
    RowsCap,
    RunInfo,
    SourceState,
)
from sqlstream_operators.duck.session import default_memory_limit
from sqlstream_operators.plan.epoch_values import EPOCH_RELATION
from sqlstream_operators.plan.spec import SourceSpec, WatermarkSpec
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN, Watermarks, clock_watermark
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic


@dataclass(frozen=True, slots=True)
class Ready:
    """What could be read now: the sources' states and plans, and the watermarks that would apply."""

    states: Mapping[str, SourceState]
    plans: Mapping[str, SourcePlan]
    late: Mapping[str, int]
    worth_it: bool
    lanes: Mapping[str, SourceLanes]


class EpochPlanner:
    """Plans the epochs of one run, each behind where `state` is; `clock` decides when a source was idle for long.

    `window_ends` are those of all operators that a watermark moves, `dimensions` the tables that are looked up, of which
    `store` has copies. `tell` takes warnings.
    """

    def __init__(
        self,
        program: Program,
        settings: LoopSettings,
        state: RunState,
        run: RunInfo,
        store: CheckpointStore,
        *,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        tell: Callable[[Diagnostic], None] = lambda warning: None,
    ) -> None:
        self._program = program
        self._tell = tell
        self._reported_drained: set[str] = set()
        self._plan = program.plan
        self._settings = settings
        self._state = state
        self._run = run
        self._clock = clock
        self._wall_clock = wall_clock
        self._admission = settings.admission
        self._task_memory = self._plan.options.task_memory_bytes or default_memory_limit()
        self.dimensions = Dimensions(self._plan.dimensions, program.dimensions, store, clock)
        self._groups = watermarks.source_groups(self._plan)
        self.window_ends = watermarks.window_ends(self._plan)
        # A global aggregate has a row before any input: its first epoch runs whether there is input or not.
        self._seeded = any(step.operator.facts.seed is not None for step in self._plan.operators)
        # A source that is read again goes by what it had seen one epoch earlier: then it hardly matters to what is late how
        # its rows are cut into epochs, which are others than when they were read first.
        self._seen_earlier: dict[str, int] = {}
        self._fed: dict[str, float] = {}
        self._lanes = Lanes(tell)
        self._paces: dict[str, Pace] = {}

    def start(self) -> None:
        """Go on from where the state is: count idle time from now, and keep to what memory allowed before."""
        now = self._clock()
        self._fed = dict.fromkeys(self._state.sources, now)
        self._lanes.start(self._state.sources, now)
        if self._state.last is not None and self._state.last.rows_cap is not None:
            self._admission = replace(self._admission, cap=self._state.last.rows_cap)

    def reach(self) -> None:
        """Raise DiagnosticError if a source that is still read can't be reached."""
        for name, source in self._program.sources.items():
            if name not in self._state.finished and isinstance(source, Reaching):
                source.reach()

    def waiting(self) -> dict[str, int | None]:
        """The rows that wait behind the last committed epoch, by source, as the last look has seen them."""
        return self._waiting(self._state.finished)

    def _waiting(self, finished: Set[str]) -> dict[str, int | None]:
        return {
            name: source.lag(self._state.sources[name].position)
            for name, source in self._program.sources.items()
            if name not in finished
        }

    def look(self) -> Ready:
        """Ask the sources what they have, and decide whether an epoch is worth it."""
        finished = self._state.finished
        if self._settings.drain:  # an epoch may have been replayed whose run was not to drain
            finished &= {name for name, state in self._state.sources.items() if state.drained}
        waiting = self._waiting(finished)
        tasks = self._settings.tasks()
        limits = self._admission.share(
            waiting,
            tasks,
            self._paces,
            self._groups,
            ends=self.all_bounded,
            most_bytes=tasks * self._task_memory // PART_OF_MEMORY,
        )
        plans = {
            name: self._program.sources[name].plan(self._state.sources[name].position, limit)
            for name, limit in limits.items()
        }
        states = dict(self._state.sources)
        now = self._clock()
        for name, plan in plans.items():
            if plan.splits:
                self._fed[name] = now
            if states[name].drained:
                if plan.splits or not plan.exhausted:
                    if plan.splits:
                        self._report_drained(states[name])
                    states[name] = watermarks.resumed(states[name])
                else:
                    finished.add(name)
        lanes = {
            spec.name: self._lanes.look(spec, states[spec.name], plans.get(spec.name), now)
            for spec in self._plan.sources
        }
        self._report_what_holds_back(lanes, plans, now)
        late = watermarks.effective(
            own={name: self._seen(name, state, lanes[name]) for name, state in states.items()},
            drained={name for name, state in states.items() if state.drained},
            idle={name for name in states if self._idle(name, plans, now)},
            groups=self._groups,
            applied={name: state.applied for name, state in states.items()},
        )
        late = {name: min(mark, self._end(name)) for name, mark in late.items()}
        worth_it = any(plan.splits for plan in plans.values()) or self._closes(states, plans, late)
        worth_it = worth_it or (self._seeded and not committed_epoch(self._state.last))
        worth_it = worth_it or any(
            plan.exhausted and states[name].applied < self._end(name)
            for name, plan in plans.items()
            if name in self._program.ends
        )
        return Ready(states, plans, late, worth_it, lanes)

    def plan(self, ready: Ready) -> EpochPlan:
        """The plan of the next epoch."""
        planned = []
        for spec in self._plan.sources:
            state = ready.states[spec.name]
            plan = ready.plans.get(spec.name) or SourcePlan((), state.position, True, final=state.drained)
            drains = self._drains(spec.name, plan)
            planned.append(
                PlannedSource(
                    name=spec.name,
                    connector=spec.connector,
                    start=state.position,
                    next=plan.next_position,
                    splits=tuple(PlannedSplit(s.payload, s.rows, s.bytes, s.lane) for s in plan.splits),
                    exhausted=plan.exhausted,
                    watermarks=watermarks.planned(
                        state.applied,
                        ready.late[spec.name],
                        self._end(spec.name) if drains else None,
                        # One that is read again ends at the watermark that was applied when it was read first.
                        rises=spec.name not in self._program.ends,
                    ),
                    drains=drains,
                    starts=self._starts(spec),
                    lanes=ready.lanes[spec.name].seen,
                    idle_lanes=tuple(sorted(ready.lanes[spec.name].idle)),
                )
            )
        return replace(self._epoch(tuple(planned)), dimensions=self.dimensions.copies())

    def _epoch(self, planned: tuple[PlannedSource, ...]) -> EpochPlan:
        """The plan of the next epoch, which reads `planned`."""
        parent = None if self._state.last is None else self._state.last.epoch
        return EpochPlan(
            epoch=(parent or 0) + 1,
            parent=parent,
            lineage=self._state.lineage,
            run=self._run,
            fingerprint=self._program.fingerprint,
            parallelism=self._settings.parallelism,
            sources=planned,
            now_us=self._now_us(),
            clock_before_us=self._clock_before_us,
            admitted=self._admission.limit,
        )

    def _now_us(self) -> int:
        """The wall clock, µs; where it was set back, that of the last epoch: no row is read before one that came earlier."""
        return max(int(self._wall_clock() * 1e6), self._clock_before_us)

    @property
    def _clock_before_us(self) -> int:
        """The clock of the last epoch; 0 if there is none."""
        return 0 if self._state.last is None else self._state.last.now_us

    def transition(self, change: Transition) -> EpochPlan:
        """The plan of an epoch that reads nothing, and carries out what an edit of the query means."""
        planned = []
        for spec in self._plan.sources:
            state = self._state.sources[spec.name]
            marks = Watermarks(state.applied, state.applied, state.applied)
            planned.append(
                PlannedSource(
                    spec.name,
                    spec.connector,
                    state.position,
                    state.position,
                    (),
                    False,
                    marks,
                    starts=self._starts(spec),
                )
            )
        return replace(
            self._epoch(tuple(planned)),
            reemitted=change.given,
            retracts=change.retracts,
            edits=change.adapts,
            new_sinks=change.new_sinks,
            sink_edits=change.targets,
        )

    def _starts(self, spec: SourceSpec) -> str:
        """The identity of a source whose start this epoch is the first to write down."""
        source = self._program.sources[spec.name]
        decides = isinstance(source, StartingOnce) and source.starts_once
        return spec.identity if decides and spec.name not in self._state.known else ""

    @property
    def rows_cap(self) -> RowsCap | None:
        """What memory allows an epoch to read, as far as that is known."""
        return self._admission.cap

    def read_less(self, plan: EpochPlan) -> bool:
        """Let the next epochs read less than `plan`, which did not fit into memory; False if it is as small as can be."""
        rows = min(
            plan.admitted, sum(_most_rows(split) for source in plan.sources for split in source.splits)
        )
        if rows <= FEWEST_ROWS:
            return False
        self._admission = self._admission.capped(max(rows // SMALLER, FEWEST_ROWS))
        return True

    def learn_paces(self, facts: Epoch) -> None:
        """Learn from an epoch, before it is adopted, how fast event time goes on in each source."""
        for state in facts.manifest.sources:
            before = self._state.sources[state.name].seen
            self._seen_earlier[state.name] = self._state.sources[state.name].least_seen
            if before > WATERMARK_MIN:
                pace = Pace.between(before, state.seen, facts.rows_read[state.name])
                if pace is not None:
                    self._paces[state.name] = pace

    def learn_speed(self, rows: int, seconds: float) -> None:
        """Learn from an epoch how many rows the next one can have."""
        self._admission = self._admission.after(rows, seconds)

    def caught_up(self, report: EpochReport) -> bool:
        """Whether input only trickles in, so that the next epoch can wait until there is more of it."""
        return (
            not all(source.bounded for source in self._program.sources.values())
            and sum(report.rows_read.values()) < self._admission.limit // 2
            and not any(report.lag.values())
        )

    @property
    def all_bounded(self) -> bool:
        """Whether no source is watched."""
        return all(source.bounded for source in self._program.sources.values())

    def ended(self, ready: Ready) -> bool:
        """Whether all sources are bounded and have nothing left."""
        return all(
            name in self._state.finished or ready.plans[name].exhausted for name in self._program.sources
        ) and all(source.bounded for source in self._program.sources.values())

    def waits_for(self) -> str:
        """What a run with nothing to do waits for, in words."""
        named = (
            (source.waits_for if isinstance(source, Awaited) else "") or f"rows of {name}"
            for name, source in self._program.sources.items()
            if name not in self._state.finished
        )
        return " and ".join(dict.fromkeys(named))

    def passed_over(self, *, taken_back: bool) -> tuple[str, ...]:
        """What of the sources' data runs leave out on the user's order, and can take back or not."""
        sources = [s for s in self._program.sources.values() if isinstance(s, LeavingOut)]
        return tuple(sorted({o for s in sources if s.takes_back == taken_back for o in s.passed_over()}))

    def pause(self) -> float:
        """Seconds until it is worth asking the sources again."""
        intervals = [s.poll_seconds for s in self._program.sources.values() if isinstance(s, Polled)]
        return min((seconds for seconds in intervals if seconds is not None), default=self._settings.poll_s)

    def _end(self, name: str) -> int:
        """The watermark of a source once it is drained."""
        return self._program.ends.get(name, WATERMARK_MAX)

    def _drains(self, name: str, plan: SourcePlan) -> bool:
        """Whether a source is at its end for good behind `plan`."""
        return plan.exhausted and (self._settings.drain or plan.final or name in self._program.ends)

    def _report_drained(self, state: SourceState) -> None:
        """Warn once that a source which was drained has new rows, before they are read."""
        closed = any(state.name in ends.sources for ends in self.window_ends)
        if not closed or state.name in self._reported_drained:
            return
        self._reported_drained.add(state.name)
        self._tell(read_after_drain(state))

    def _report_what_holds_back(
        self, lanes: Mapping[str, SourceLanes], plans: Mapping[str, SourcePlan], now: float
    ) -> None:
        """Warn of partitions without a row that keep windows open."""
        if self._settings.drain or self._program.of_history:
            return
        moving = {name for ends in self.window_ends for name in ends.sources}
        for spec in self._plan.sources:
            plan = plans.get(spec.name)
            state = self._state.sources[spec.name]
            closing = state.drained or (plan is not None and self._drains(spec.name, plan))
            if spec.name in moving and not closing:
                ended = self.all_bounded and (plan is None or (plan.exhausted and not plan.splits))
                self._lanes.warn(spec, lanes[spec.name], now, ended=ended)

    def _seen(self, name: str, state: SourceState, lanes: SourceLanes) -> int:
        """The watermark of a source by what it has read."""
        if name in self._program.ends:
            return self._seen_earlier.get(name, state.applied)
        return lanes.own if lanes.seen else state.seen

    def _idle(self, name: str, plans: Mapping[str, SourcePlan], now: float) -> bool:
        plan = plans.get(name)
        if plan is None or (plan.exhausted and not plan.splits):
            # All that it has is read. Where the run goes on, nothing more comes of it before the next one.
            return not self.all_bounded
        spec = next(spec for spec in self._plan.sources if spec.name == name)
        timeout = spec.watermark.idle_timeout_us if isinstance(spec.watermark, WatermarkSpec) else None
        return timeout is not None and not plan.splits and now - self._fed[name] >= timeout / 1e6

    def _closes(
        self, states: Mapping[str, SourceState], plans: Mapping[str, SourcePlan], late: Mapping[str, int]
    ) -> bool:
        """Whether an epoch without input would close a window that has rows."""
        before = {name: state.applied for name, state in states.items()}
        after = {
            name: self._end(name) if name in plans and self._drains(name, plans[name]) else mark
            for name, mark in late.items()
        }
        if any(EPOCH_RELATION in ends.sources for ends in self.window_ends):
            before[EPOCH_RELATION] = clock_watermark(self._clock_before_us)
            after[EPOCH_RELATION] = clock_watermark(self._now_us())
        return any(
            ends.closes_any(ends.least(before), ends.least(after))
            and any(not shard.is_empty for shard in self._state.versions.get(ends.state_id, ()))
            for ends in self.window_ends
        )


#: A row has at least so many bytes, on average and compressed.
_ROW_BYTES = 4


def _most_rows(split: PlannedSplit) -> int:
    if split.rows is not None:
        return split.rows
    return MOST_ROWS if split.bytes is None else split.bytes // _ROW_BYTES + 1


def same_input(one: EpochPlan, other: EpochPlan) -> bool:
    """Whether two plans read the same, however it is cut into splits."""
    return {s.name: (s.start, s.next) for s in one.sources} == {
        s.name: (s.start, s.next) for s in other.sources
    }
