"""The epoch loop: plan, run, prepare, publish, commit, collect; and then the next one.

    recover -> [ plan -> write it -> run -> prepare sinks -> publish manifest -> commit sinks -> collect ]*

The manifest is the only step that decides. Whatever breaks off before it leaves an epoch that is replayed,
whatever breaks off after it leaves sinks that are committed again; `recovery` says how a run starts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from sqlstream.connectors.api import Split, TargetEdit
from sqlstream.runtime.coordination import fencing
from sqlstream.runtime.loop import watermarks
from sqlstream.runtime.loop.adaptation import Backfill, Backfilled, adapted, backfilled_states
from sqlstream.runtime.loop.faults import Faults, no_faults
from sqlstream.runtime.loop.forgetting import forgotten_after, forgotten_at
from sqlstream.runtime.loop.former_sinks import note_committed
from sqlstream.runtime.loop.outputs import Outputs
from sqlstream.runtime.loop.planning import EpochPlanner, same_input
from sqlstream.runtime.loop.program import LoopSettings, Program
from sqlstream.runtime.loop.progress import EpochReport, RunResult
from sqlstream.runtime.loop.recovery import Recovered, committed_epoch, is_fresh_fork, recover, void_manifest
from sqlstream.runtime.loop.reporting import Timer, Totals, epoch_report
from sqlstream.runtime.loop.run_state import RunState
from sqlstream.runtime.loop.sink_edit import answer_is_kept
from sqlstream.runtime.loop.stop import StopFlag
from sqlstream.runtime.tasks.failures import EpochTooLargeError, error_of
from sqlstream.runtime.tasks.job import EpochJob, EpochOutcome, JobRunner, SourceOutcome
from sqlstream.runtime.tasks.task_failure import describe
from sqlstream.storage.garbage import GarbageCollector
from sqlstream.storage.journal import Journal, digest_of
from sqlstream.storage.manifest import (
    CommittedPart,
    EpochPlan,
    LetterTally,
    Manifest,
    RunInfo,
    SourceState,
    StateVersions,
)
from sqlstream_operators.errors import MemoryExhaustedError
from sqlstream_operators.plan import plan_json
from sqlstream_operators.plan.state_schema import StateSchema
from sqlstream_operators.state.dimension_copies import is_whole
from sqlstream_operators.state.version import ShardVersion
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, InternalError

#: Codes of errors that are no surprise when all processes of a run are told to stop.
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
        totals: Totals | None = None,
        check_lease: Callable[[], None] = lambda: None,
        faults: Faults = no_faults,
        backfill: Backfill | None = None,
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
        self._on_epoch = on_epoch
        self._on_up = on_up
        self._on_phase = on_phase
        self._said: str | None = None
        self._checked = False
        self._check_lease = check_lease
        self._faults = faults
        self._backfill = backfill
        self._backfilled: Backfilled | None = None
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
        self._outputs = Outputs(program, journal.store)
        self._done = totals if totals is not None else Totals()
        self._digest: str | None = None
        self._sql_digest: str | None = None
        self._too_large: EpochPlan | None = None

    def run(self) -> RunResult:
        """Recover, then run epochs of a program that fits the state. Raises DiagnosticError."""
        started = self._clock()
        unfinished = None
        try:
            found = recover(self._journal)
            self._state.start_from(found.last, self._program)
            self._planner.start()
            self._outputs.commit_again(found.last)
            self._decide(found)
            self._sweep()
            self._restate()
            self._on_up()
            outcome = "stopped" if self._stop.requested else self._epochs()
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
        return replace(result, skipped=self._planner.passed_over())

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
                    self._stop.wait(self._settings.poll_s - (self._clock() - begun))
            elif self._planner.ended(ready):
                return "exhausted" if self._done.epochs else "nothing new"
            else:
                self._wait()

    def _wait(self) -> None:
        """Wait until it is worth asking the sources again, and say for what before the first epoch."""
        if not self._done.epochs:
            text = f"waiting for {self._planner.waits_for()}"
            if text != self._said:
                self._on_phase(text)
                self._said = text
        self._stop.wait(self._planner.pause())

    def _restate(self) -> None:
        """Bring sinks to the answer that the state has by now: those of a state directory that began with a savepoint, and
        those whose query was edited.
        """
        last, plan = self._state.last, self._program.plan
        if last is None:
            return
        program = self._program
        restated, new, targets = program.restated, program.new_sinks, program.sink_edits
        edits = bool(new or program.from_history) or not all(edit.is_same for edit in program.edits)
        if is_fresh_fork(last):
            restated, new = (), tuple(sink.name for sink in plan.sinks)
        elif last.plan_digest == digest_of(program.text) and not targets:
            return  # it was done by the epoch that had begun
        elif targets and last.run == self._run and dict(last.sink_edits) == dict(targets):
            return  # as well
        forgotten = forgotten_at(last, program.edits, plan)
        anew = [name for name, edit in targets.items() if edit is TargetEdit.REPLACE]
        kept = (sink.name for sink in plan.sinks if answer_is_kept(plan, sink, forgotten))
        sinks = (*restated, *(name for name in kept if name in (*new, *anew)))
        if not (sinks or edits or targets):
            return
        edits = edits or bool(targets)
        self._check_lease()
        self._outputs.check(committed_epoch(last), new, targets)
        if edits:
            self._on_phase("adapting the state to the edited query")
            if not self._has_backfilled():
                return
        planned = self._planner.restate(
            sinks, last.plan_digest if restated else "", edits=edits, new=new, sink_edits=targets
        )
        self._runner.make_ready(self._with_backfilled(self._job(planned)))
        self._attempt(self._begun(planned), planning=0.0)

    def _with_backfilled(self, job: EpochJob) -> EpochJob:
        """A job that carries an edit out, with all the state that it reads."""
        made = {} if self._backfilled is None else self._backfilled.versions
        return replace(job, states={**job.states, **made})

    def _has_backfilled(self) -> bool:
        """Compute what of an edited query's state needs the sources' history; False if the run is to stop."""
        wanted, sinks = backfilled_states(self._program.edits), self._program.from_history
        if not (wanted or sinks) or self._backfilled is not None:
            return True
        last = self._state.last
        if self._backfill is None or last is None:
            raise InternalError("a run that can't backfill was given an edit that needs it")
        self._on_phase("reading the sources' history again")
        self._backfilled = self._backfill(self._program, states=wanted, sinks=sinks, until=last)
        if self._backfilled is None:
            return False
        self._faults("backfilled", last.epoch)
        return True

    def _decide(self, found: Recovered) -> None:
        """Replay the epoch that was begun, or give its number up; afterwards nothing is under way."""
        committed = committed_epoch(found.last)
        if found.begun is None:
            self._outputs.abort_after(committed)
            return
        plan = found.plan
        if (
            plan is not None
            and self._agreed(plan)
            and plan.fingerprint == self._program.fingerprint
            and plan.parallelism == self._settings.parallelism
            and self._input_is_there(plan)
        ):
            self._outputs.abort_after(found.begun)
            self._state.resume(plan)
            if plan.edits and not self._has_backfilled():
                return
            if self._journal.replays(plan.epoch) < MOST_REPLAYS or not self._planner.read_less(plan):
                self._replay(plan)
                return
        self._give_up(found.begun)

    def _agreed(self, plan: EpochPlan) -> bool:
        """Whether a plan does to the sinks' targets what this run was told to do first (`--rewrite` …), if anything.

        One that doesn't may be what can't be done before that: its target is not as it was.
        """
        targets = {name: edit.value for name, edit in self._program.sink_edits.items()}
        return not targets or dict(plan.sink_edits) == targets

    def _input_is_there(self, plan: EpochPlan) -> bool:
        """Whether all that a plan reads is as it was when it was written, as far as the sources can tell."""
        for planned in plan.sources:
            can_replay = getattr(self._program.sources[planned.name], "can_replay", None)
            splits = [Split(planned.name, s.payload, s.rows, s.bytes) for s in planned.splits]
            if can_replay is not None and not can_replay(splits):
                return False
        return all(is_whole(self._journal.store, copy.name) for copy in plan.dimensions.values())

    def _replay(self, plan: EpochPlan) -> None:
        """Run an epoch again that an earlier run began; noted, so that one that ends its driver is not replayed for ever."""
        self._runner.make_ready(self._with_backfilled(self._job(plan)))
        self._journal.note_replay(plan.epoch)
        try:
            self._attempt(plan, planning=0.0, replayed=True)
        except Exception:
            self._journal.forget_replays(plan.epoch)
            raise
        self._journal.forget_replays(plan.epoch)

    def _give_up(self, epoch: int) -> None:
        """Void an epoch that is under way: no driver can commit it from now on, its input is read by the next ones."""
        void = void_manifest(epoch, self._state.last, self._run, self._nothing())
        void = replace(void, rows_cap=self._planner.rows_cap)
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
        of a watched source was written again after it was listed.

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
        self._too_large = None
        return report

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
            states=tuple(self._versions(state, ()) for state in self._program.plan.states),
            sql_digest=self._sql_digest,
            last_field_id=self._state.fields.last,
            sink_names=self._sink_names(),
            forgotten={},
        )

    def _sink_names(self) -> dict[str, str]:
        """By which names targets know sinks that are called otherwise."""
        return {name: was for name, was in self._program.known_as.items() if was != name}

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
        digest = self._kept_program()
        previous = committed_epoch(self._state.last)
        job = self._job(plan)
        try:
            outcome = self._outcome(job)
            timer.lap("job")
            self._faults("run", plan.epoch)
            tally = self._tallied(plan, outcome)
            self._outputs.prepare(plan.epoch, outcome, previous, plan.new_sinks, plan.sink_edits)
            timer.lap("prepare")
        except Exception as error:
            # If another driver has gone on, that is why: it has taken away what this epoch needs.
            fencing.check_head(self._journal, plan.epoch - 1)
            if isinstance(error, MemoryError | MemoryExhaustedError):
                raise error_of(describe(error), plan.epoch) from error
            raise
        self._faults("prepared", plan.epoch)
        self._check_lease()
        manifest = self._manifest(plan, outcome, digest, tally)
        # How long it took so far tells how long it would take to read the like again.
        manifest = replace(manifest, metrics={**manifest.metrics, "epoch_us": round(timer.total * 1e6)})
        if not self._journal.publish(manifest):
            raise fencing.lost_manifest(self._journal, plan.epoch)
        fencing.check_head(self._journal, plan.epoch)
        self._done.add(manifest)
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
        ahead = {name: source.ahead for name, source in outcome.sources.items() if source.ahead}
        report = replace(
            report,
            restated=plan.restated,
            ahead=ahead,
            uncounted=outcome.uncounted,
            bounded=self._planner.all_bounded,
        )
        self._on_epoch(report)
        return report

    def _outcome(self, job: EpochJob) -> EpochOutcome:
        """Run the jobs of an epoch: those that make an edited query's states, take answers back, and give them."""
        plan = job.plan
        if not plan.leaves_sources:
            return self._runner.run(job)
        now = job
        if self._program.edits:
            made = self._backfilled
            states = adapted(self._program.edits, job, self._runner, {} if made is None else made.versions)
            if made is not None:
                self._state.sources |= made.sources
            now = replace(job, states=states, states_max_parallelism=0)
            self._faults("adapted", plan.epoch)
        nothing = {source.name: SourceOutcome() for source in plan.sources}
        outcome = self._runner.run(now) if plan.restated else EpochOutcome(nothing, now.states, {})
        if self._backfilled is not None:
            history = self._backfilled
            wanted = [s for s in now.program.sinks if s.name in self._program.from_history]
            parts = {sink.name: history.rows_for(sink, plan.epoch) for sink in wanted}
            outcome = replace(outcome, parts={**outcome.parts, **parts})
            withdrawn = self._program.withdrawn
            letters = history.letters(withdrawn, self._program.other_rows - withdrawn.keys(), plan.epoch)
            if letters is not None:
                file, number = letters
                outcome = replace(
                    outcome,
                    dead_letters={"malformed": number},
                    dead_letter_files=(*outcome.dead_letter_files, file),
                )
        if plan.retracts:
            first = self._runner.run(self._retracting(job))
            names = {was: name for name, was in self._program.former_names.items()}
            parts = {names.get(name, name): made for name, made in first.parts.items()}
            outcome = _put_after(replace(first, parts=parts), outcome)
        return outcome

    def _retracting(self, job: EpochJob) -> EpochJob:
        """What takes back the answers that the sinks of an epoch had by a former program."""
        kept = self._journal.physical_plan(job.plan.retracts).decode()
        former = plan_json.from_text(kept)
        names = self._program.former_names
        now = {names.get(sink.name, sink.name): sink for sink in job.program.sinks}
        sinks = tuple(
            replace(sink, options=now[sink.name].options) if sink.name in now else sink
            for sink in former.sinks
        )
        given = {*job.plan.new_sinks, *job.plan.sink_edits}
        lose = tuple(names.get(name, name) for name in job.plan.restated if name not in given)
        # Its shards and key groups are those of the run: the state is read as it is now.
        options = replace(former.options, max_parallelism=job.program.options.max_parallelism)
        program = replace(former, sinks=sinks, options=options)
        return replace(job, program=program, plan=replace(job.plan, restated=lose), retracts=True)

    def _sweep(self) -> None:
        """Delete what no manifest names: this program too, if none does yet; then it is written once more."""
        self._collector.sweep()
        self._planner.dimensions.forget()
        self._digest = None

    def _kept_program(self) -> str:
        """The digest under which the physical plan is kept, and beside it the SQL.

        It is written once an epoch is under way: from then on no other driver sweeps what no manifest names.
        """
        if self._digest is None:
            self._digest = self._journal.put_physical_plan(self._program.text)
            self._sql_digest = None if self._program.sql is None else self._journal.put_sql(self._program.sql)
        return self._digest

    def _tallied(self, plan: EpochPlan, outcome: EpochOutcome) -> LetterTally:
        """The dead letters with those of an epoch. Raises DiagnosticError if there may not be so many."""
        before = LetterTally() if self._state.last is None else self._state.last.tally
        rows = sum(source.rows for source in outcome.sources.values())
        if plan.edits and self._state.last is not None:
            known = {state.name: state for state in self._state.last.positions}
            names = [name for names in self._program.withdrawn.values() for name in names]
            gone = sum(known[name].malformed or 0 for name in names if name in known)
            before = replace(before, total=max(before.total - gone, 0))
        tally = before.after(rows, sum(outcome.dead_letters.values()))
        self._settings.letters.check(
            plan.epoch, tally, outcome.dead_letters, self._journal.store, outcome.dead_letter_files, rows
        )
        return tally

    def _manifest(self, plan: EpochPlan, outcome: EpochOutcome, digest: str, tally: LetterTally) -> Manifest:
        # An epoch that is about state and sinks does not touch the sources.
        sources = self._state.sources.values() if plan.leaves_sources else self._read(plan, outcome)
        return Manifest(
            epoch=plan.epoch,
            parent=plan.parent,
            lineage=plan.lineage,
            run=self._run,
            fingerprint=self._program.fingerprint,
            plan_digest=digest,
            parallelism=plan.parallelism,
            max_parallelism=self._program.plan.options.max_parallelism,
            sources=tuple(sources),
            states=tuple(
                self._versions(state, outcome.states[state.state_id]) for state in self._program.plan.states
            ),
            sinks={
                name: tuple(CommittedPart(part.rows, part.payload, part.staged) for part in parts)
                for name, parts in outcome.parts.items()
            },
            rows={name: source.rows for name, source in outcome.sources.items()},
            dead_letters=outcome.dead_letters,
            dead_letter_files=outcome.dead_letter_files,
            metrics=outcome.metrics,
            previous=committed_epoch(self._state.last),
            rows_cap=self._planner.rows_cap,
            sql_digest=self._sql_digest,
            last_field_id=self._state.fields.last,
            origin="" if self._state.last is None else self._state.last.origin,
            moved={} if self._state.last is None else self._state.last.moved,
            tally=tally,
            now_us=plan.clock_before_us if plan.leaves_sources else plan.now_us,
            new_sinks=plan.new_sinks,
            parked=self._state.parked,
            sink_names=self._sink_names(),
            sink_edits=plan.sink_edits,
            edits=tuple(edit.to_json() for edit in self._program.edits) if plan.edits else (),
            withdrawn=self._withdrawn(plan),
            forgotten=forgotten_after(
                self._state.last,
                self._program.edits if plan.edits else (),
                self._program.plan,
                {} if plan.leaves_sources else outcome.forgotten,
            ),
            dimension_files=self._planner.dimensions.files,
        )

    def _withdrawn(self, plan: EpochPlan) -> tuple[str, ...]:
        """The tables whose malformed rows are told anew by an epoch."""
        return tuple(n for names in self._program.withdrawn.values() for n in names) if plan.edits else ()

    def _read(self, plan: EpochPlan, outcome: EpochOutcome) -> Iterator[SourceState]:
        """How far the sources are after an epoch."""
        for source in plan.sources:
            closed = [
                outcome.closed[ends.step] - ends.tick_us
                for ends in self._planner.window_ends
                if source.name in ends.sources and ends.step in outcome.closed
            ]
            read_up_to = outcome.sources[source.name].watermark
            yield watermarks.after_epoch(
                self._state.sources[source.name],
                position=source.next,
                drained=source.drains,
                read_up_to=read_up_to,
                applied=source.watermarks.raised(read_up_to).close,
                closed_up_to=max(closed, default=None),
                rows=outcome.sources[source.name].rows,
                malformed=outcome.sources[source.name].malformed,
            )

    def _versions(self, state: StateSchema, shards: Iterable[ShardVersion]) -> StateVersions:
        return StateVersions(
            state.state_id,
            state.schema_id,
            tuple(shard.to_json() for shard in shards),
            self._state.fields.fields[state.state_id],
            json.loads(state.identity) if state.identity else None,
        )


def _at_work(plan: EpochPlan) -> str:
    """What is done once Spark is there, which may take long."""
    splits = [split for source in plan.sources for split in source.splits]
    rows, size = sum(split.rows or 0 for split in splits), sum(split.bytes or 0 for split in splits)
    if splits and all(split.rows is not None for split in splits):
        return f"epoch {plan.epoch} is at work, {rows:,} rows"
    return f"epoch {plan.epoch} is at work" + (f", {size / 1e6:,.1f} MB" if size >= 100_000 else "")


def _put_after(first: EpochOutcome, outcome: EpochOutcome) -> EpochOutcome:
    """`outcome` with what another job made for its sinks before it."""
    parts = {name: (*first.parts.get(name, ()), *made) for name, made in outcome.parts.items()}
    return replace(outcome, parts=parts)
