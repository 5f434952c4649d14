"""The jobs of an epoch: that of its program, and those of an edit, which make its states and take results back before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlstream.runtime.loop.program import Program
from sqlstream.runtime.loop.transition import History, states_after
from sqlstream.runtime.tasks.job import EpochJob, EpochOutcome, JobRunner, SourceOutcome
from sqlstream.storage.journal import Journal
from sqlstream_operators.plan import plan_json


def outcome_of(
    job: EpochJob,
    program: Program,
    history: History | None,
    runner: JobRunner,
    journal: Journal,
    *,
    adapted: Callable[[], None],
) -> EpochOutcome:
    """Run the jobs of an epoch; `history` is what its transition needs of it, `adapted` is called once states are made."""
    plan, change = job.plan, program.transition
    if not plan.is_state_only:
        return runner.run(job)
    now = job
    if change.states is not None:
        states = states_after(change.states, job, runner, history)
        now = replace(job, states=states, states_max_parallelism=0)
        adapted()
    nothing = {source.name: SourceOutcome() for source in plan.sources}
    outcome = runner.run(now) if plan.reemitted else EpochOutcome(nothing, now.states, {})
    if history is not None:
        outcome = _with_history(outcome, job, program, history)
    if plan.retracts:
        first = runner.run(_retracting(job, program, journal))
        names = {was: name for name, was in change.former_names.items()}
        parts = {names.get(name, name): made for name, made in first.parts.items()}
        outcome = _put_after(replace(first, parts=parts), outcome)
    return outcome


def _with_history(outcome: EpochOutcome, job: EpochJob, program: Program, history: History) -> EpochOutcome:
    """`outcome` with the rows that the history has for sinks, and its dead letters."""
    wanted = [sink for sink in job.program.sinks if sink.name in program.transition.from_history]
    parts = {sink.name: history.rows_for(sink, job.plan.epoch) for sink in wanted}
    outcome = replace(outcome, parts={**outcome.parts, **parts})
    letters = history.letters(job.plan.epoch)
    if letters is None:
        return outcome
    file, number = letters
    files = (*outcome.dead_letter_files, file)
    return replace(outcome, dead_letters={"malformed": number}, dead_letter_files=files)


def _retracting(job: EpochJob, program: Program, journal: Journal) -> EpochJob:
    """What takes back the results that the sinks of an epoch had by a former program."""
    former = plan_json.from_text(journal.physical_plan(job.plan.retracts).decode())
    names = program.transition.former_names
    now = {names.get(sink.name, sink.name): sink for sink in job.program.sinks}
    sinks = tuple(
        replace(sink, options=now[sink.name].options) if sink.name in now else sink for sink in former.sinks
    )
    given = {*job.plan.new_sinks, *job.plan.sink_edits}
    lose = tuple(names.get(name, name) for name in job.plan.reemitted if name not in given)
    # Its shards and key groups are those of the run: the state is read as it is now.
    options = replace(former.options, max_parallelism=job.program.options.max_parallelism)
    plan = replace(former, sinks=sinks, options=options)
    return replace(job, program=plan, plan=replace(job.plan, reemitted=lose), retracts=True)


def _put_after(first: EpochOutcome, outcome: EpochOutcome) -> EpochOutcome:
    """`outcome` with what another job made for its sinks before it."""
    parts = {name: (*first.parts.get(name, ()), *made) for name, made in outcome.parts.items()}
    return replace(outcome, parts=parts)
