"""The epoch loop: plan, run, prepare, publish, commit, collect; and then the next one.

    recover -> [ plan -> write it -> run -> prepare sinks -> publish manifest -> commit sinks -> collect ]*

The manifest is the only step that decides. Whatever breaks off before it leaves an epoch that is replayed,
whatever breaks off after it leaves sinks that are committed again; `recovery` says how a run starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from sqlstream.runtime import rivals, watermarks
from sqlstream.runtime.faults import Faults, no_faults
from sqlstream.runtime.garbage import GarbageCollector
from sqlstream.runtime.job import EpochJob, EpochOutcome, JobRunner
from sqlstream.runtime.journal import Journal
from sqlstream.runtime.manifest import CommittedPart, EpochPlan, Manifest, RunInfo, StateVersions
from sqlstream.runtime.outputs import Outputs
from sqlstream.runtime.planning import EpochPlanner, Ready
from sqlstream.runtime.program import LoopSettings, Program
from sqlstream.runtime.progress import EpochReport, RunResult
from sqlstream.runtime.recovery import Recovered, committed_epoch, recover, void_manifest
from sqlstream.runtime.reporting import Timer, epoch_report, run_result
from sqlstream.runtime.run_state import RunState
from sqlstream.runtime.stop import StopFlag


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
        self._journal = journal
        self._runner = runner
        self._collector = collector
        self._settings = settings
        self._run = run
        self._stop = stop
        self._on_epoch = on_epoch
        self._check_lease = check_lease
        self._faults = faults
        self._clock = clock
        self._state = RunState(lineage)
        self._planner = EpochPlanner(program, settings, self._state, run, clock=clock, wall_clock=wall_clock)
        self._outputs = Outputs(program, journal.store)
        self._done: list[EpochReport] = []
        self._digest: str | None = None

    def run(self) -> RunResult:
        """Recover, then run epochs of a program that fits the state. Raises DiagnosticError."""
        started = self._clock()
        try:
            found = recover(self._journal)
            self._state.start_from(found.last, self._program)
            self._planner.start()
            self._outputs.commit_again(found.last)
            self._decide(found)
            self._collector.sweep()
            outcome = self._epochs()
        finally:
            self._outputs.close()
        return run_result(outcome, self._state.last, self._done, self._clock() - started)

    def _epochs(self) -> str:
        while True:
            self._check_lease()
            if self._stop.requested:
                return "stopped"
            if self._settings.max_epochs is not None and len(self._done) >= self._settings.max_epochs:
                return "stopped"
            begun = self._clock()
            ready = self._planner.look()
            if ready.worth_it:
                report = self._execute(self._written(ready), planning=self._clock() - begun)
                if self._planner.caught_up(report):
                    self._stop.wait(self._settings.poll_s - (self._clock() - begun))
            elif self._planner.ended(ready):
                return "exhausted" if self._done else "nothing new"
            else:
                self._stop.wait(self._planner.pause())

    def _decide(self, found: Recovered) -> None:
        """Replay the epoch that was begun, or give its number up; afterwards nothing is under way."""
        committed = committed_epoch(found.last)
        if found.begun is None:
            self._outputs.abort_after(committed)
            return
        plan = found.plan
        if (
            plan is not None
            and plan.fingerprint == self._program.fingerprint
            and plan.parallelism == self._settings.parallelism
        ):
            self._outputs.abort_after(found.begun)
            self._state.resume(plan)
            self._execute(plan, planning=0.0, replayed=True)
            return
        void = void_manifest(found.begun, found.last, self._run, self._nothing())
        if not self._journal.publish(void):
            raise rivals.lost_manifest(self._journal, void.epoch)
        self._faults("voided", void.epoch)
        self._state.void(void)
        self._outputs.abort_after(committed)
        self._collector.committed(void)

    def _nothing(self) -> Manifest:
        """The manifest before the first epoch."""
        return Manifest(
            epoch=0,
            parent=None,
            lineage=self._state.lineage,
            run=self._run,
            fingerprint=self._program.fingerprint,
            plan_digest=self._kept_program(),
            parallelism=self._settings.parallelism,
            max_parallelism=self._program.plan.options.max_parallelism,
            sources=tuple(self._state.sources.values()),
            states=tuple(
                StateVersions(state.state_id, state.schema_id, ()) for state in self._program.plan.states
            ),
        )

    def _written(self, ready: Ready) -> EpochPlan:
        """Write the plan of the next epoch."""
        plan = self._planner.plan(ready)
        self._state.sources = dict(ready.states)
        if not self._journal.create_plan(plan):
            raise rivals.lost_plan(self._journal, plan.epoch)
        rivals.check_head(self._journal, plan.epoch)
        self._faults("planned", plan.epoch)
        return plan

    def _execute(self, plan: EpochPlan, *, planning: float, replayed: bool = False) -> EpochReport:
        """Run a written plan to its end."""
        timer = Timer(self._clock, {"plan": planning})
        digest = self._kept_program()
        previous = committed_epoch(self._state.last)
        job = EpochJob(
            program=self._program.plan,
            plan=plan,
            states=self._state.versions,
            store_uri=self._journal.store.uri,
            local_dir=self._settings.local_dir,
            base_dir=self._settings.base_dir,
        )
        try:
            outcome = self._runner.run(job)
            timer.lap("job")
            self._faults("run", plan.epoch)
            letter_file, letters = self._outputs.prepare(plan.epoch, outcome, previous)
            timer.lap("prepare")
        except Exception:
            # If another driver has gone on, that is why: it has taken away what this epoch needs.
            rivals.check_head(self._journal, plan.epoch - 1)
            raise
        self._faults("prepared", plan.epoch)
        self._check_lease()
        manifest = self._manifest(plan, outcome, digest, letter_file, letters)
        if not self._journal.publish(manifest):
            raise rivals.lost_manifest(self._journal, plan.epoch)
        rivals.check_head(self._journal, plan.epoch)
        timer.lap("publish")
        self._faults("published", plan.epoch)
        self._outputs.commit(manifest, outcome)
        timer.lap("commit")
        self._faults("committed", plan.epoch)
        self._planner.learn_paces(manifest)
        self._state.adopt(plan, manifest, outcome)
        self._collector.committed(manifest)
        timer.lap("collect")
        self._faults("collected", plan.epoch)
        self._planner.learn_speed(sum(manifest.rows.values()), timer.total)
        report = epoch_report(manifest, self._state, self._program.sources, timer.seconds, replayed=replayed)
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
                for clock in self._planner.clocks
                if source.name in clock.sources and clock.step in outcome.closed
            ]
            states.append(
                watermarks.after_epoch(
                    self._state.sources[source.name],
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
            max_parallelism=self._program.plan.options.max_parallelism,
            sources=tuple(states),
            states=tuple(
                StateVersions(
                    state.state_id,
                    state.schema_id,
                    tuple(version.to_json() for version in outcome.states[state.state_id]),
                )
                for state in self._program.plan.states
            ),
            sinks={
                name: tuple(CommittedPart(part.rows, part.payload, part.staged) for part in parts)
                for name, parts in outcome.parts.items()
            },
            rows={name: source.rows for name, source in outcome.sources.items()},
            dead_letters=letters,
            dead_letter_file=letter_file,
            metrics=outcome.metrics,
            previous=committed_epoch(self._state.last),
        )
