"""What was decided about an edit, as the one value that the loop carries out (`loop/transition.py`)."""

from __future__ import annotations

from sqlstream.connectors.api import TargetEdit
from sqlstream.runtime.edits.plan.plan_parts import EditPlan
from sqlstream.runtime.edits.sinks.sink_edit import answer_is_kept
from sqlstream.runtime.edits.states.adaptation import backfilled_states, state_changes
from sqlstream.runtime.edits.states.forgetting import forgotten_at, forgotten_keys
from sqlstream.runtime.loop.recovery import committed_epoch, is_fresh_fork
from sqlstream.runtime.loop.transition import NO_TRANSITION, Transition
from sqlstream.storage.manifest import Manifest, RunInfo
from sqlstream_operators.plan.spec import PhysicalPlan


def transition_of(
    decided: EditPlan, plan: PhysicalPlan, digest: str, last: Manifest | None, run: RunInfo
) -> Transition:
    """What `decided`, which may be carried out, means to `plan` behind `last`; `digest` is that of the plan's text.

    It was done by the epoch `last` if that ran this very plan, or if this `run` has done the same to targets before it was
    begun again by itself.
    """
    if last is None:
        return NO_TRANSITION
    edits = decided.edits
    targets = {sink.spec.name: sink.target for sink in decided.sink_edits if sink.target is not None}
    brought, new = decided.reemitted, decided.new_sinks if committed_epoch(last) else ()
    adapts = bool(new or decided.from_history or edits)
    done = False
    if is_fresh_fork(last):
        brought, new = (), tuple(sink.name for sink in plan.sinks)
    elif not targets:
        done = last.plan_digest == digest
    else:
        done = last.run == run and dict(last.sink_edits) == targets
    forgotten = forgotten_at(last, edits, plan)
    anew = [name for name, target in targets.items() if target is TargetEdit.REPLACE]
    whole = [sink.name for sink in plan.sinks if answer_is_kept(plan, sink, forgotten)]
    given = (*brought, *(name for name in whole if name in (*new, *anew)))
    return Transition(
        due=not done and bool(given or adapts or targets),
        given=given,
        retracts=last.plan_digest if brought else "",
        adapts=adapts or bool(targets),
        new_sinks=new,
        targets=targets,
        former_names={s.spec.name: s.former.name for s in decided.sink_edits if s.former is not None},
        states=state_changes(edits, plan.options, last.max_parallelism) if edits else None,
        needs_history=backfilled_states(edits),
        from_history=decided.from_history,
        came_from={e.new.state.state_id: e.old.state.state_id for e in edits if e.new and e.old},
        forgotten=forgotten_keys(last, edits, plan),
        edits=tuple(edit.to_json() for edit in edits),
        withdrawn=tuple(name for names in decided.withdrawn.values() for name in names),
    )
