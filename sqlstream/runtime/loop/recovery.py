"""Where a run starts: the last manifest is the truth; an epoch that was begun after it is decided first.

What may be found, and what is done about it:

- *A manifest for epoch N and nothing after it.* N's sinks and dead letters are committed again (they may have
  been cut off half-way; committing is repeatable), and what later epochs staged is removed.
- *A plan for N+1 without a manifest, which this program can replay*: it is run again exactly as it is
  written. A driver that was only paused may be doing the same. Both write the same bytes under the same
  names, so it does not matter who wins the exclusive creation of the manifest; the other one stops. For that
  reason nothing that N+1 may have staged is removed before its manifest is there.
- *A plan for N+1 without a manifest, which can't be replayed exactly*: the file is damaged, or the query,
  the parallelism or a file that it reads has changed. Nothing of N+1 is visible, because sinks become visible after the
  manifest only. A *void* manifest is published under N+1: positions and state are N's. From then on no other
  driver can commit that plan, and it is safe to remove what it staged and to plan afresh as N+2.
  (A driver that was paused for so long that N+1's files were collected finds later manifests, and stops. What
  it staged after that stays where no reader looks.)
- *A damaged manifest*: if it is the last one, the run stops. Falling back to N-1 would replay an epoch
  whose results readers may have seen, perhaps with other splits.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace

from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import EpochPlan, Manifest, RunInfo
from sqlstream_operators.plan import plan_json
from sqlstream_operators.plan.spec import OperatorStep, PhysicalPlan, Step
from sqlstream_operators.plan.state_schema import StateSchema


@dataclass(frozen=True, slots=True)
class Recovered:
    """What the journal says: the last manifest, and the plan after it that must be replayed or given up.

    `begun` is the number of an epoch that has a plan and no manifest; `plan` is None if that can't be read.
    """

    last: Manifest | None
    begun: int | None
    plan: EpochPlan | None


def recover(journal: Journal) -> Recovered:
    """Read the end of the journal. Raises DiagnosticError (STA001) if the last manifest is damaged."""
    plans, manifests = journal.epochs()
    last = journal.manifest(manifests[-1]) if manifests else None
    after = [epoch for epoch in plans if last is None or epoch > last.epoch]
    if not after:
        return Recovered(last, None, None)
    begun = after[0]
    plan = journal.plan(begun)
    if plan is not None and plan.parent != (last.epoch if last else None):
        plan = None
    return Recovered(last, begun, plan)


def last_manifest(journal: Journal) -> Manifest | None:
    """The last manifest; a driver may be running, and collect it while it is looked for."""
    while True:
        _, manifests = journal.epochs()
        if not manifests:
            return None
        try:
            return journal.manifest(manifests[-1])
        except FileNotFoundError:
            continue


def void_manifest(epoch: int, last: Manifest | None, run: RunInfo, nothing: Manifest) -> Manifest:
    """The manifest that gives `epoch` up: `last` again under another number, or `nothing` if there is none.

    Its parent is the last epoch that is not void.
    """
    return (last or nothing).carried_on(epoch, run, previous=committed_epoch(last))


def committed_epoch(last: Manifest | None) -> int:
    """The last epoch that made something, 0 if none has; what later ones staged is not wanted."""
    return 0 if last is None else last.committed


def is_fresh_fork(last: Manifest) -> bool:
    """Whether a state directory began with a savepoint, and no sink has been given anything of it."""
    return bool(last.origin) and not committed_epoch(last)


def physical_plan(journal: Journal, manifest: Manifest) -> PhysicalPlan:
    """The physical plan that an epoch ran."""
    return plan_json.from_text(journal.physical_plan(manifest.plan_digest).decode())


def former_plan(journal: Journal, manifest: Manifest) -> PhysicalPlan:
    """The physical plan that an epoch ran, with what its states mean, which is kept with the manifest."""
    meant = {
        state.state_id: json.dumps(state.identity, sort_keys=True, separators=(",", ":"))
        for state in manifest.states
        if state.identity is not None
    }

    def with_meaning(schema: StateSchema) -> StateSchema:
        return replace(schema, identity=meant.get(schema.state_id, ""))

    def with_present_names(step: Step) -> Step:
        if not isinstance(step, OperatorStep):
            return step
        return replace(step, operator=replace(step.operator, state=with_meaning(step.operator.state)))

    plan = physical_plan(journal, manifest)
    return replace(
        plan,
        states=tuple(map(with_meaning, plan.states)),
        stages=tuple(
            replace(stage, steps=tuple(map(with_present_names, stage.steps))) for stage in plan.stages
        ),
    )


def program_fingerprint(program: PhysicalPlan) -> str:
    """What decides an epoch's results, given its plan: the program without options of running it."""
    data = plan_json.to_json(program)
    data.pop("options", None)
    data.pop("names", None)
    for sink in data["sinks"]:
        del sink["identity"]  # it says what the rest means
    data["max_parallelism"] = program.options.max_parallelism
    if program.options.failing_rows not in (None, "fail"):
        data["failing_rows"] = program.options.failing_rows
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
