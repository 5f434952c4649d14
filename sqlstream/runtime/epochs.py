"""The epoch loop: plan, run, prepare, publish, commit, collect; and then the next one.

    recover -> [ plan -> write it -> run -> prepare sinks -> publish manifest -> commit sinks -> collect ]*

The manifest is the only step that decides. Whatever breaks off before it leaves an epoch that is replayed,
whatever breaks off after it leaves sinks that are committed again; `recovery` says how a run starts.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlstream.connectors.api import Sink, SinkPart, Source, SourcePlan
from sqlstream.runtime import dead_letter, watermarks
from sqlstream.runtime.admission import Admission, Pace
from sqlstream.runtime.faults import Faults, no_faults
from sqlstream.runtime.garbage import GarbageCollector
from sqlstream.runtime.job import EpochJob, EpochOutcome, JobRunner
from sqlstream.runtime.journal import Journal
from sqlstream.runtime.lease import another_driver
from sqlstream.runtime.manifest import (
    CommittedPart,
    EpochPlan,
    Manifest,
    PlannedSource,
    PlannedSplit,
    RunInfo,
    SourceState,
    StateVersions,
)
from sqlstream.runtime.progress import EpochReport, RunResult, shown_watermark
from sqlstream.runtime.recovery import Recovered, committed_epoch, recover, void_manifest
from sqlstream.runtime.stop import StopFlag
from sqlstream_operators.changelog_spec import GroupAggregateSpec
from sqlstream_operators.operator import WATERMARK_MAX, WATERMARK_MIN
from sqlstream_operators.spec import OperatorStep, PhysicalPlan, WatermarkSpec
from sqlstream_operators.state.version import ShardVersion

#: How long to wait when no source has anything new, unless a source asks for another interval.
POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """How the loop runs a program: shards, limits, and the directories that tasks need.

    `tasks` is how many splits of a source are useful (tasks that run at the same time), `poll_s` how long to
    wait when nothing is new, and between epochs that read little. `max_epochs` ends the run early, for tests.
    """

    parallelism: int
    base_dir: str
    local_dir: str
    admission: Admission = field(default_factory=Admission)
    tasks: int = 4
    poll_s: float = POLL_S
    max_epochs: int | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """What the loop runs: the plan, as text too, its fingerprint, and the driver's halves of its connectors.

    `former_sinks` are those of the program that wrote the last manifest, to commit it again.
    """

    plan: PhysicalPlan
    text: bytes
    fingerprint: str
    sources: Mapping[str, Source]
    sinks: Mapping[str, Sink]
    former_sinks: Mapping[str, Sink]


@dataclass(frozen=True, slots=True)
class Ready:
    """What could be read now: the sources' states and plans, and the watermarks that would apply."""

    states: Mapping[str, SourceState]
    plans: Mapping[str, SourcePlan]
    late: Mapping[str, int]
    worth_it: bool


class EpochLoop:
    """Runs the epochs of one program on one state directory until the input ends or `stop` is set."""

    def __init__(
        self,
        program: Program,
        journal: Journal,
        runner: JobRunner,
        collector: GarbageCollector,
        settings: LoopSettings,
        run: RunInfo,
        *,
        lineage: str,
        stop: StopFlag,
        on_epoch: Callable[[EpochReport], None] = lambda report: None,
        check_lease: Callable[[], None] = lambda: None,
        faults: Faults = no_faults,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._program = program
        self._plan = program.plan
        self._journal = journal
        self._runner = runner
        self._collector = collector
        self._settings = settings
        self._run = run
        self._lineage = lineage
        self._stop = stop
        self._on_epoch = on_epoch
        self._check_lease = check_lease
        self._faults = faults
        self._clock = clock
        self._wall_clock = wall_clock
        self._admission = settings.admission
        self._groups = watermarks.source_groups(self._plan)
        self._clocks = watermarks.window_clocks(self._plan)
        # A global aggregate has a row before any input: its first epoch runs whether there is input or not.
        self._seeded = any(
            isinstance(step, OperatorStep)
            and isinstance(step.operator, GroupAggregateSpec)
            and step.operator.seed is not None
            for stage in self._plan.stages
            for step in stage.steps
        )
        self._last: Manifest | None = None
        self._states: dict[str, SourceState] = {}
        self._versions: dict[str, tuple[ShardVersion, ...]] = {}
        self._finished: set[str] = set()
        self._fed: dict[str, float] = {}
        self._paces: dict[str, Pace] = {}
        self._done: list[EpochReport] = []
        self._digest: str | None = None

    # -------------------------------------------------------------------------------------------- the run

    def run(self) -> RunResult:
        """Recover, then run epochs of a program that fits the state. Raises DiagnosticError."""
        started = self._clock()
        try:
            found = recover(self._journal)
            self._start_from(found.last)
            self._commit_again(found.last)
            self._decide(found)
            self._collector.sweep()
            outcome = self._epochs()
        finally:
            self._close_sinks()
        return self._result(outcome, self._clock() - started)

    def _close_sinks(self) -> None:
        """Let go of connections; a transaction that a sink prepared and did not commit is rolled back."""
        for sink in (*self._program.former_sinks.values(), *self._program.sinks.values()):
            close = getattr(sink, "close", None)
            if close is not None:
                close()

    def _epochs(self) -> str:
        while True:
            self._check_lease()
            if self._stop.requested:
                return "stopped"
            if self._settings.max_epochs is not None and len(self._done) >= self._settings.max_epochs:
                return "stopped"
            begun = self._clock()
            ready = self._look()
            if ready.worth_it:
                report = self._execute(self._written(ready), planning=self._clock() - begun)
                if self._caught_up(report):
                    self._stop.wait(self._settings.poll_s - (self._clock() - begun))
            elif self._ended(ready):
                return "exhausted" if self._done else "nothing new"
            else:
                self._stop.wait(self._pause())

    def _caught_up(self, report: EpochReport) -> bool:
        """Whether input only trickles in, so that the next epoch can wait until there is more of it."""
        return (
            not all(source.bounded for source in self._program.sources.values())
            and sum(report.rows_read.values()) < self._admission.limit // 2
            and not any(report.lag.values())
        )

    def _ended(self, ready: Ready) -> bool:
        return all(
            name in self._finished or ready.plans[name].exhausted for name in self._program.sources
        ) and all(source.bounded for source in self._program.sources.values())

    def _pause(self) -> float:
        """Seconds until it is worth asking the sources again."""
        asked = [getattr(source, "poll_seconds", None) for source in self._program.sources.values()]
        return min(
            (float(seconds) for seconds in asked if seconds is not None), default=self._settings.poll_s
        )

    def _result(self, outcome: str, seconds: float) -> RunResult:
        read: Counter[str] = Counter()
        written: Counter[str] = Counter()
        letters: Counter[str] = Counter()
        for report in self._done:
            read.update(report.rows_read)
            written.update(report.rows_written)
            letters.update(report.dead_letters)
        last = None if self._last is None else self._last.epoch
        return RunResult(outcome, last, len(self._done), dict(read), dict(written), dict(letters), seconds)

    # ------------------------------------------------------------------------------------------- recovery

    def _start_from(self, last: Manifest | None) -> None:
        self._last = last
        known = {} if last is None else {source.name: source for source in last.sources}
        self._states = {
            spec.name: known.get(
                spec.name,
                SourceState(spec.name, spec.connector, self._program.sources[spec.name].initial_position()),
            )
            for spec in self._plan.sources
        }
        if last is not None:
            self._lineage = last.lineage
            self._versions = {
                state.state_id: tuple(ShardVersion.from_json(shard) for shard in state.shards)
                for state in last.states
            }
        now = self._clock()
        self._fed = dict.fromkeys(self._states, now)

    def _commit_again(self, last: Manifest | None) -> None:
        if last is None or last.void:
            return
        for name, sink in self._program.former_sinks.items():
            parts = [SinkPart(part.rows, part.payload) for part in last.sinks.get(name, ())]
            sink.commit(last.epoch, parts)
        dead_letter.commit(self._journal.store, last.epoch, last.dead_letter_file)

    def _decide(self, found: Recovered) -> None:
        """Replay the epoch that was begun, or give its number up; afterwards nothing is under way."""
        committed = committed_epoch(found.last)
        if found.begun is None:
            self._abort_after(committed)
            return
        plan = found.plan
        if (
            plan is not None
            and plan.fingerprint == self._program.fingerprint
            and plan.parallelism == self._settings.parallelism
        ):
            self._abort_after(found.begun)
            self._resume(plan)
            self._execute(plan, planning=0.0, replayed=True)
            return
        void = void_manifest(found.begun, found.last, self._run, self._nothing())
        if not self._journal.publish(void):
            raise self._lost_manifest(void.epoch)
        self._faults("voided", void.epoch)
        self._last = void
        self._lineage = void.lineage
        self._abort_after(committed)
        self._collector.committed(void)

    def _nothing(self) -> Manifest:
        """The manifest before the first epoch."""
        return Manifest(
            epoch=0,
            parent=None,
            lineage=self._lineage,
            run=self._run,
            fingerprint=self._program.fingerprint,
            plan_digest=self._kept_program(),
            parallelism=self._settings.parallelism,
            max_parallelism=self._plan.options.max_parallelism,
            sources=tuple(self._states.values()),
            states=tuple(StateVersions(state.state_id, state.schema_id, ()) for state in self._plan.states),
        )

    def _resume(self, plan: EpochPlan) -> None:
        """Take over what the plan says of sources that had ended and have new input."""
        for source in plan.sources:
            state = self._states[source.name]
            if state.exhausted and (source.splits or not source.exhausted):
                self._states[source.name] = watermarks.resumed(state)
            elif state.exhausted:
                self._finished.add(source.name)

    def _abort_after(self, epoch: int) -> None:
        for sink in (*self._program.former_sinks.values(), *self._program.sinks.values()):
            sink.abort_uncommitted(epoch)
        dead_letter.abort_uncommitted(self._journal.store, epoch)

    # ------------------------------------------------------------------------------------------- planning

    def _look(self) -> Ready:
        """Ask the sources what they have, and decide whether an epoch is worth it."""
        waiting = {
            name: source.lag(self._states[name].position)
            for name, source in self._program.sources.items()
            if name not in self._finished
        }
        limits = self._admission.share(waiting, self._settings.tasks, self._paces, self._groups)
        plans = {
            name: self._program.sources[name].plan(self._states[name].position, limit)
            for name, limit in limits.items()
        }
        states = dict(self._states)
        now = self._clock()
        for name, plan in plans.items():
            if plan.splits:
                self._fed[name] = now
            if states[name].exhausted:
                if plan.splits or not plan.exhausted:
                    states[name] = watermarks.resumed(states[name])
                else:
                    self._finished.add(name)
        late = watermarks.effective(
            own={name: state.seen for name, state in states.items()},
            exhausted={name for name, state in states.items() if state.exhausted},
            idle={name for name in states if name not in self._finished and self._idle(name, plans, now)},
            groups=self._groups,
            applied={name: state.applied for name, state in states.items()},
        )
        worth_it = any(plan.splits for plan in plans.values()) or self._closes(states, plans, late)
        worth_it = worth_it or (self._last is None and self._seeded)
        return Ready(states, plans, late, worth_it)

    def _idle(self, name: str, plans: Mapping[str, SourcePlan], now: float) -> bool:
        spec = next(spec for spec in self._plan.sources if spec.name == name)
        timeout = spec.watermark.idle_timeout_us if isinstance(spec.watermark, WatermarkSpec) else None
        return (
            timeout is not None
            and not plans[name].splits
            and not plans[name].exhausted
            and now - self._fed[name] >= timeout / 1e6
        )

    def _closes(
        self, states: Mapping[str, SourceState], plans: Mapping[str, SourcePlan], late: Mapping[str, int]
    ) -> bool:
        """Whether an epoch without input would close a window that has rows."""
        before = {name: state.applied for name, state in states.items()}
        after = {
            name: WATERMARK_MAX if name in plans and plans[name].exhausted else mark
            for name, mark in late.items()
        }
        return any(
            clock.strikes(clock.least(before), clock.least(after))
            and any(not shard.is_empty for shard in self._versions.get(clock.state_id, ()))
            for clock in self._clocks
        )

    def _written(self, ready: Ready) -> EpochPlan:
        """Write the plan of the next epoch."""
        planned = []
        for spec in self._plan.sources:
            state = ready.states[spec.name]
            plan = ready.plans.get(spec.name) or SourcePlan((), state.position, True)
            planned.append(
                PlannedSource(
                    name=spec.name,
                    connector=spec.connector,
                    start=state.position,
                    next=plan.next_position,
                    splits=tuple(PlannedSplit(s.payload, s.rows, s.bytes) for s in plan.splits),
                    exhausted=plan.exhausted,
                    watermarks=watermarks.planned(
                        state.applied, ready.late[spec.name], closes_everything=plan.exhausted
                    ),
                )
            )
        parent = None if self._last is None else self._last.epoch
        epoch_plan = EpochPlan(
            epoch=(parent or 0) + 1,
            parent=parent,
            lineage=self._lineage,
            run=self._run,
            fingerprint=self._program.fingerprint,
            parallelism=self._settings.parallelism,
            sources=tuple(planned),
            now_us=int(self._wall_clock() * 1e6),
        )
        self._states = dict(ready.states)
        if not self._journal.create_plan(epoch_plan):
            raise self._lost_plan(epoch_plan.epoch)
        self._check_head(epoch_plan.epoch)
        self._faults("planned", epoch_plan.epoch)
        return epoch_plan

    def _check_head(self, epoch: int) -> None:
        """Raise DiagnosticError (STA002) if there is a manifest after `epoch`.

        A driver that was paused for long may create a name again that has been collected meanwhile, since only
        the last manifests are kept. So creating one is not enough: it must be the last as well, and until that
        is known nothing of the epoch is made visible. An old manifest that is left behind harms nobody.
        """
        _, manifests = self._journal.epochs()
        if manifests and manifests[-1] > epoch:
            raise self._lost_manifest(manifests[-1])

    def _lost_plan(self, epoch: int) -> Exception:
        """The message for a plan that another driver has written first."""
        try:
            plan = self._journal.plan(epoch)
        except FileNotFoundError:
            plan = None
        other = "it has gone already" if plan is None else str(plan.run)
        return another_driver(other, self._journal.store)

    def _lost_manifest(self, epoch: int) -> Exception:
        """The message for a manifest that another driver has published first."""
        return another_driver(str(self._journal.manifest(epoch).run), self._journal.store)

    # ---------------------------------------------------------------------------------------- one epoch

    def _execute(self, plan: EpochPlan, *, planning: float, replayed: bool = False) -> EpochReport:
        """Run a written plan to its end."""
        timer = _Timer(self._clock, {"plan": planning})
        store = self._journal.store
        digest = self._kept_program()
        job = EpochJob(
            program=self._plan,
            plan=plan,
            states=self._versions,
            store_uri=store.uri,
            local_dir=self._settings.local_dir,
            base_dir=self._settings.base_dir,
        )
        try:
            outcome = self._runner.run(job)
            timer.lap("job")
            self._faults("run", plan.epoch)
            for name, sink in self._program.sinks.items():
                sink.prepare(plan.epoch, outcome.parts.get(name, ()))
            letter_file, letters = dead_letter.stage(store, plan.epoch, outcome.dead_letters)
            timer.lap("prepare")
        except Exception:
            # If another driver has gone on, that is why: it has taken away what this epoch needs.
            self._check_head(plan.epoch - 1)
            raise
        self._faults("prepared", plan.epoch)
        self._check_lease()
        manifest = self._manifest(plan, outcome, digest, letter_file, letters)
        if not self._journal.publish(manifest):
            raise self._lost_manifest(plan.epoch)
        self._check_head(plan.epoch)
        timer.lap("publish")
        self._faults("published", plan.epoch)
        for name, sink in self._program.sinks.items():
            sink.commit(plan.epoch, outcome.parts.get(name, ()))
        dead_letter.commit(store, plan.epoch, letter_file)
        timer.lap("commit")
        self._faults("committed", plan.epoch)
        self._adopt(plan, manifest, outcome)
        self._collector.committed(manifest)
        timer.lap("collect")
        self._faults("collected", plan.epoch)
        self._admission = self._admission.after(sum(manifest.rows.values()), timer.total)
        report = self._report(manifest, timer.seconds, replayed)
        self._done.append(report)
        self._on_epoch(report)
        return report

    def _kept_program(self) -> str:
        """The digest under which the physical plan is kept.

        It is written once an epoch is under way: from then on no other driver sweeps what no manifest names.
        """
        if self._digest is None:
            self._digest = self._journal.put_physical_plan(self._program.text)
        return self._digest

    def _manifest(
        self,
        plan: EpochPlan,
        outcome: EpochOutcome,
        digest: str,
        letter_file: str | None,
        letters: Mapping[str, int],
    ) -> Manifest:
        states = []
        for source in plan.sources:
            closed = [
                outcome.closed[clock.step] - clock.tick_us
                for clock in self._clocks
                if source.name in clock.sources and clock.step in outcome.closed
            ]
            states.append(
                watermarks.after_epoch(
                    self._states[source.name],
                    position=source.next,
                    exhausted=source.exhausted,
                    read_up_to=outcome.sources[source.name].watermark,
                    applied=source.watermarks.close,
                    closed_up_to=max(closed, default=None),
                )
            )
        return Manifest(
            epoch=plan.epoch,
            parent=plan.parent,
            lineage=plan.lineage,
            run=self._run,
            fingerprint=self._program.fingerprint,
            plan_digest=digest,
            parallelism=plan.parallelism,
            max_parallelism=self._plan.options.max_parallelism,
            sources=tuple(states),
            states=tuple(
                StateVersions(
                    state.state_id,
                    state.schema_id,
                    tuple(version.to_json() for version in outcome.states[state.state_id]),
                )
                for state in self._plan.states
            ),
            sinks={
                name: tuple(CommittedPart(part.rows, part.payload) for part in parts)
                for name, parts in outcome.parts.items()
            },
            rows={name: source.rows for name, source in outcome.sources.items()},
            dead_letters=letters,
            dead_letter_file=letter_file,
            metrics=outcome.metrics,
        )

    def _adopt(self, plan: EpochPlan, manifest: Manifest, outcome: EpochOutcome) -> None:
        self._last = manifest
        for state in manifest.sources:
            before = self._states[state.name].seen
            if before > WATERMARK_MIN:
                pace = Pace.between(before, state.seen, outcome.sources[state.name].rows)
                if pace is not None:
                    self._paces[state.name] = pace
        self._states = {state.name: state for state in manifest.sources}
        self._versions = dict(outcome.states)
        self._finished |= {source.name for source in plan.sources if source.exhausted}

    def _report(self, manifest: Manifest, seconds: Mapping[str, float], replayed: bool) -> EpochReport:
        shards = [shard for versions in self._versions.values() for shard in versions]
        return EpochReport(
            epoch=manifest.epoch,
            rows_read=manifest.rows,
            rows_written={name: sum(p.rows for p in parts) for name, parts in manifest.sinks.items()},
            dead_letters=manifest.dead_letters,
            watermarks={state.name: shown_watermark(state.applied) for state in manifest.sources},
            lag={
                name: 0 if name in self._finished else source.lag(self._states[name].position)
                for name, source in self._program.sources.items()
            },
            state_rows=sum(shard.rows for shard in shards),
            state_bytes=sum(shard.bytes for shard in shards),
            metrics=manifest.metrics,
            seconds=seconds,
            replayed=replayed,
        )


class _Timer:
    """Seconds by step."""

    def __init__(self, clock: Callable[[], float], seconds: Mapping[str, float]) -> None:
        self._clock = clock
        self._since = clock()
        self.seconds = dict(seconds)

    def lap(self, name: str) -> None:
        now = self._clock()
        self.seconds[name] = now - self._since
        self._since = now

    @property
    def total(self) -> float:
        return sum(self.seconds.values())
