"""The epoch loop: plan, run, prepare, publish, commit, collect; and then the next one.

    recover -> [ plan -> write it -> run -> prepare sinks -> publish manifest -> commit sinks -> collect ]*

A sink may go on with a large epoch behind: it is committed in a thread while the next one is planned and run
(`background_commit`). That is waited for before anything of the next epoch is prepared.

The manifest is the only step that decides. Whatever breaks off before it leaves an epoch that is replayed,
whatever breaks off after it leaves sinks that are committed again; `recovery` says how a run starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace

from sqlstream.runtime.coordination import fencing
from sqlstream.runtime.loop import planned_input
from sqlstream.runtime.loop.committed_sinks import note_committed
from sqlstream.runtime.loop.completion import Completion
from sqlstream.runtime.loop.epoch import Epoch
from sqlstream.runtime.loop.epoch_jobs import outcome_of
from sqlstream.runtime.loop.faults import Faults, no_faults
from sqlstream.runtime.loop.interval import EpochInterval
from sqlstream.runtime.loop.manifests import Manifests
from sqlstream.runtime.loop.outputs import Outputs
from sqlstream.runtime.loop.planning import EpochPlanner, same_input
from sqlstream.runtime.loop.program import LoopSettings, Program
from sqlstream.runtime.loop.progress import EpochReport, RunResult
from sqlstream.runtime.loop.recovery import committed_epoch, recover
from sqlstream.runtime.loop.reporting import Timer, Totals, epoch_report
from sqlstream.runtime.loop.run_state import RunState
from sqlstream.runtime.loop.stop import StopFlag
from sqlstream.runtime.loop.transition import History, ReadHistory, Transition
from sqlstream.runtime.tasks.failures import EpochTooLargeError, error_of
from sqlstream.runtime.tasks.job import EpochJob, EpochOutcome, JobRunner
from sqlstream.runtime.tasks.task_failure import describe
from sqlstream.storage.garbage import GarbageCollector
from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import EpochPlan, RunInfo
from sqlstream_operators.errors import MemoryExhaustedError
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, InternalError

#: Codes of errors that are no surprise when all processes of a run are signalled to stop.
_SPARK_IS_GONE = frozenset({"ENV003", "ENV004", "ENV007"})
#: An epoch whose replay has ended so many drivers is not replayed once more, but planned anew, smaller.
MOST_REPLAYS = 2


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
        on_up: Callable[[], None] = lambda: None,
        on_phase: Callable[[str], None] = lambda text: None,
        on_lag: Callable[[Mapping[str, int | None]], None] = lambda lag: None,
        totals: Totals | None = None,
        check_lease: Callable[[], None] = lambda: None,
        faults: Faults = no_faults,
        read_history: ReadHistory | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        tell: Callable[[Diagnostic], None] = lambda warning: None,
    ) -> None:
        self._program = program
        self._journal = journal
        self._runner = runner
        self._collector = collector
        self._settings = settings
        self._run = run
        self._stop = stop
        self._on_up = on_up
        self._on_phase = on_phase
        self._on_lag = on_lag
        self._last_trouble: str | None = None
        self._checked = False
        self._check_lease = check_lease
        self._faults = faults
        self._read_history = read_history
        self._history: History | None = None
        self._clock = clock
        self._state = RunState(lineage)
        self._planner = EpochPlanner(
            program,
            settings,
            self._state,
            run,
            journal.store,
            clock=clock,
            wall_clock=wall_clock,
            tell=tell,
        )
        self._interval = EpochInterval(
            settings.interval_s,
            settings.poll_s,
            program.sinks.values(),
            state_is_local=journal.store.is_local,
        )
        self._outputs = Outputs(program, journal.store, tell)
        self._completion = Completion(
            self._outputs, collector, self._planner, faults=faults, on_epoch=on_epoch
        )
        self._done = totals if totals is not None else Totals()
        self._manifests = Manifests(program, settings, self._state, self._planner, run, journal)
        self._too_large: EpochPlan | None = None

    def run(self) -> RunResult:
        """Recover, then run epochs of a program that fits the state. Raises DiagnosticError."""
        started = self._clock()
        unfinished = None
        try:
            outcome = self._to_the_end()
            if self._state.last is not None:
                note_committed(self._journal.store, self._state.last)
        except DiagnosticError as error:
            # Whoever stopped the run may have stopped Spark as well: the epoch is done again by the next run.
            gone = all(diagnostic.code in _SPARK_IS_GONE for diagnostic in error.diagnostics)
            if not (self._stop.requested and gone) or self._stop.interrupted is not None:
                raise
            outcome, unfinished = "stopped", self._journal.begun()
        finally:
            self._outputs.close()
        seconds = self._clock() - started
        result = self._done.result(outcome, self._state.last, seconds, unfinished=unfinished)
        skipped, left_out = (self._planner.passed_over(taken_back=back) for back in (True, False))
        return replace(result, skipped=skipped, left_out=left_out)

    def _to_the_end(self) -> str:
        """Recover, and run epochs; however that ends, the last one that is published gets its results."""
        try:
            self._recover()
            self._planner.reach()
            self._on_up()
            outcome = "stopped" if self._stop.requested else self._epochs()
        except Exception:
            with suppress(Exception):  # the next run commits it again, and says what is wrong with it
                self._completion.wait()
            raise
        self._completion.wait()
        self._outputs.flush()
        return outcome

    def _recover(self) -> None:
        """Go on behind the last manifest: nothing is under way then, and what an edit of the query means is carried out."""
        found = recover(self._journal)
        self._state.start_from(found.last, self._program, found.plan)
        self._planner.start()
        self._outputs.commit_again(found.last)
        if found.begun is None:
            self._outputs.abort_after(committed_epoch(found.last))
            committed = False
        elif found.plan is not None and self._can_replay(found.plan):
            committed = self._replay(found.plan)
        else:
            self._give_up(found.begun)
            committed = False
        self._sweep()
        if not committed:  # an epoch that was replayed has done it, or came after it
            self._carry_out(self._program.transition)

    def _epochs(self) -> str:
        starting = False
        while True:
            self._check_lease()
            if self._stop.requested:
                return "stopped"
            if self._settings.max_epochs is not None and self._done.epochs >= self._settings.max_epochs:
                return "stopped"
            begun = self._clock()
            ready = self._planner.look()
            if ready.worth_it:
                self._on_lag(self._planner.waiting())
                if not self._checked:
                    self._outputs.check(committed_epoch(self._state.last))
                    self._checked = True
                plan = self._planner.plan(ready)
                if self._runner.make_ready(self._job(plan)):
                    starting = True
                    continue  # meanwhile more may have come
                if starting:
                    self._on_phase(_at_work(plan))
                    starting = False
                self._state.sources = dict(ready.states)
                self._begun(plan)
                report = self._attempt(plan, planning=self._clock() - begun)
                if report is not None and self._planner.caught_up(report):
                    self._completion.wait()
                    took = self._clock() - begun
                    self._stop.wait(self._interval.after(took) - took)
            elif self._planner.ended(ready):
                return "exhausted" if self._done.epochs else "nothing new"
            else:
                self._wait()

    def _wait(self) -> None:
        """Wait until it is worth asking the sources again, and say for what before the first epoch."""
        self._completion.wait()
        self._outputs.flush(due=True)
        if not self._done.epochs:
            text = f"waiting for {self._planner.waits_for()}"
            if text != self._last_trouble:
                self._on_phase(text)
                self._last_trouble = text
        self._stop.wait(self._planner.pause())

    def _carry_out(self, change: Transition) -> None:
        """Carry out what an edit of the query means, or what a savepoint is begun with, in an epoch that reads nothing."""
        if not change.due:
            return
        self._check_lease()
        self._outputs.check(committed_epoch(self._state.last), change.new_sinks, change.targets)
        if change.adapts:
            self._on_phase("adapting the state to the edited query")
            if not self._has_history():
                return
        planned = self._planner.transition(change)
        self._runner.make_ready(self._with_history(self._job(planned)))
        self._attempt(self._begun(planned), planning=0.0)

    def _with_history(self, job: EpochJob) -> EpochJob:
        """A job that carries an edit out, with all the state that it reads."""
        made = {} if self._history is None else self._history.versions
        return replace(job, states={**job.states, **made})

    def _has_history(self) -> bool:
        """Compute what of an edited query needs the sources' history; False if the run is to stop."""
        if not self._program.transition.reads_history or self._history is not None:
            return True
        last = self._state.last
        if self._read_history is None or last is None:
            raise InternalError("a run that can't backfill was given an edit that needs it")
        self._on_phase("reading the sources' history again")
        self._history = self._read_history(last)
        if self._history is None:
            return False
        self._faults("backfilled", last.epoch)
        return True

    def _can_replay(self, plan: EpochPlan) -> bool:
        """Whether this program, with this run's options, would do exactly what a plan says."""
        return (
            self._agreed(plan)
            and plan.fingerprint == self._program.fingerprint
            and plan.parallelism == self._settings.parallelism
            and self._input_is_there(plan)
        )

    def _agreed(self, plan: EpochPlan) -> bool:
        """Whether a plan does to the sinks' targets what this run's options require first (`--rewrite` …), if anything.

        One that doesn't may be what can't be done before that: its target is not as it was.
        """
        targets = {name: edit.value for name, edit in self._program.transition.targets.items()}
        return not targets or dict(plan.sink_edits) == targets

    def _input_is_there(self, plan: EpochPlan) -> bool:
        return planned_input.is_there(plan, self._program.sources, self._journal.store)

    def _replay(self, plan: EpochPlan) -> bool:
        """Run an epoch again that an earlier run began, or give it up if it has ended its drivers; True: it is committed.

        It is noted, so that one that ends its driver is not replayed for ever.
        """
        self._outputs.abort_after(plan.epoch)
        self._state.resume(plan)
        if plan.edits and not self._has_history():
            return False
        if self._journal.replays(plan.epoch) >= MOST_REPLAYS and self._planner.read_less(plan):
            self._give_up(plan.epoch)
            return False
        self._runner.make_ready(self._with_history(self._job(plan)))
        self._journal.note_replay(plan.epoch)
        try:
            report = self._attempt(plan, planning=0.0, replayed=True)
        except Exception:
            self._journal.forget_replays(plan.epoch)
            raise
        self._journal.forget_replays(plan.epoch)
        return report is not None

    def _give_up(self, epoch: int) -> None:
        """Void an epoch that is under way: no driver can commit it from now on, its input is read by the next ones."""
        self._completion.wait()
        void = self._manifests.void(epoch)
        committed = committed_epoch(self._state.last)
        self._check_lease()
        if not self._journal.publish(void):
            raise fencing.lost_manifest(self._journal, void.epoch)
        fencing.check_head(self._journal, void.epoch)
        self._faults("voided", void.epoch)
        self._journal.forget_replays(epoch)
        self._state.void(void, self._program)
        self._outputs.abort_after(committed)
        self._collector.committed(void)

    def _attempt(self, plan: EpochPlan, *, planning: float, replayed: bool = False) -> EpochReport | None:
        """Run a written plan; None if it is given up: it did not fit into memory, and the next epochs read less, or a file
        of a watched source was written again after it was listed, or a source had something else by the time it was read.

        Raises EpochTooLargeError if it can't be made smaller; then it stays as it is, for a run with more memory.
        """
        try:
            report = self._execute(plan, planning=planning, replayed=replayed)
        except EpochTooLargeError as error:
            if self._stop.requested:  # whoever stopped the run may have ended what ran the epoch
                raise
            before, self._too_large = self._too_large, plan
            cut = before is None or not same_input(before, plan)
            if not (cut and self._planner.read_less(plan)):
                raise error.unrecoverable(committed_epoch(self._state.last)) from error
            self._give_up(plan.epoch)
            self._sweep()
            if error.runner_lost:
                raise
            return None
        except DiagnosticError as error:
            changed = error.diagnostics[0].code == "DAT003" and not self._input_is_there(plan)
            if not changed or self._planner.all_bounded:
                raise
            # A file changed after it was listed: if something of it was read, the next look says so, else it is waited for.
            self._give_up(plan.epoch)
            self._sweep()
            self._stop.wait(self._planner.pause())
            return None
        except planned_input.OtherInputError:
            self._give_up(plan.epoch)
            self._sweep()
            return None
        self._too_large = None
        return report

    def _begun(self, plan: EpochPlan) -> EpochPlan:
        """Write a plan, so that the epoch is under way."""
        if not self._journal.create_plan(plan):
            raise fencing.lost_plan(self._journal, plan.epoch)
        fencing.check_head(self._journal, plan.epoch)
        self._faults("planned", plan.epoch)
        return plan

    def _job(self, plan: EpochPlan) -> EpochJob:
        """An epoch of the program, from where the state is."""
        return EpochJob(
            program=self._program.plan,
            plan=plan,
            states=self._state.versions,
            store_uri=self._journal.store.uri,
            local_dir=self._settings.local_dir,
            base_dir=self._settings.base_dir,
            secrets=self._program.secrets,
            states_max_parallelism=self._state.max_parallelism,
            of_history=self._program.of_history,
            latest=self._program.ends,
        )

    def _execute(self, plan: EpochPlan, *, planning: float, replayed: bool = False) -> EpochReport:
        """Run a written plan to its end."""
        timer = Timer(self._clock, {"plan": planning})
        self._manifests.keep_program()
        previous = committed_epoch(self._state.last)
        job = self._job(plan)
        with self._failures_of(plan):
            outcome = self._outcome(job)
            timer.lap("job")
            self._faults("run", plan.epoch)
        self._completion.wait()
        with self._failures_of(plan):
            planned_input.confirm(plan, self._program.sources)
            tally = self._manifests.tally(plan, outcome)
            self._outputs.prepare(plan, outcome, previous)
            timer.lap("prepare")
        self._faults("prepared", plan.epoch)
        self._check_lease()
        manifest = self._manifests.of(plan, outcome, tally)
        # How long it took so far is how long it would take to read the like again.
        manifest = replace(manifest, metrics={**manifest.metrics, "epoch_us": round(timer.total * 1e6)})
        if not self._journal.publish(manifest):
            raise fencing.lost_manifest(self._journal, plan.epoch)
        fencing.check_head(self._journal, plan.epoch)
        facts = Epoch(plan, outcome, manifest)
        self._done.add(facts)
        timer.lap("publish")
        self._faults("published", plan.epoch)
        self._outputs.commit(facts)
        self._planner.learn_paces(facts)
        self._state.adopt(facts)
        report = epoch_report(facts, self._state, self._program.sources, replayed=replayed)
        self._completion.begin(report, timer)
        return report

    @contextmanager
    def _failures_of(self, plan: EpochPlan) -> Iterator[None]:
        """What goes wrong before an epoch is published, as what it is."""
        try:
            yield
        except Exception as error:
            # If another driver has gone on, that is why: it has taken away what this epoch needs.
            fencing.check_head(self._journal, plan.epoch - 1)
            if isinstance(error, MemoryError | MemoryExhaustedError):
                raise error_of(describe(error), plan.epoch) from error
            raise

    def _outcome(self, job: EpochJob) -> EpochOutcome:
        """What the jobs of an epoch make; where one carries an edit out, the sources go on as its history says."""
        epoch = job.plan.epoch
        outcome = outcome_of(
            job,
            self._program,
            self._history,
            self._runner,
            self._journal,
            adapted=lambda: self._faults("adapted", epoch),
        )
        adapts = job.plan.is_state_only and self._program.transition.states is not None
        if adapts and self._history is not None:
            self._state.sources |= self._history.sources
        return outcome

    def _sweep(self) -> None:
        """Delete what no manifest names: this program too, if none does yet; then it is written once more."""
        self._collector.sweep()
        self._planner.dimensions.forget()
        self._manifests.program_was_swept()


def _at_work(plan: EpochPlan) -> str:
    """What is done once Spark is there, which may take long."""
    splits = [split for source in plan.sources for split in source.splits]
    rows, size = sum(split.rows or 0 for split in splits), sum(split.bytes or 0 for split in splits)
    if splits and all(split.rows is not None for split in splits):
        return f"epoch {plan.epoch} is at work, {rows:,} rows"
    return f"epoch {plan.epoch} is at work" + (f", {size / 1e6:,.1f} MB" if size >= 100_000 else "")
