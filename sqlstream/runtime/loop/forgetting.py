"""Which states have forgotten keys, by their time to live: what was emitted for those stays, and is in no state any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlstream.runtime.loop.sink_edit import Forgotten
from sqlstream.storage.manifest import Manifest
from sqlstream_operators.plan.answers import forgets
from sqlstream_operators.plan.spec import OperatorSpec, PhysicalPlan
from sqlstream_planner.edits.verdict import StateEdit


def forgetful_states(last: Manifest, plan: PhysicalPlan) -> frozenset[str]:
    """The ids of the states that have forgotten keys by `last`, the manifest of an epoch of `plan`."""
    return frozenset(id_ for id_, keys in known_forgotten(last, plan).items() if keys)


def known_forgotten(last: Manifest, plan: PhysicalPlan) -> dict[str, int]:
    """How many keys each state had forgotten by `last`, the manifest of an epoch of `plan`; 1 where nobody counted."""
    return _known(last, (step.operator for step in plan.operators))


def forgotten_at(last: Manifest, edits: Iterable[StateEdit], plan: PhysicalPlan) -> Forgotten:
    """As `forgotten_by`, of the edits that come after `last`, to `plan`."""
    edits = tuple(edits)
    specs = [*(step.operator for step in plan.operators), *(e.old for e in edits if e.old is not None)]
    return forgotten_by(edits, frozenset(id_ for id_, keys in _known(last, specs).items() if keys))


def forgotten_by(edits: Iterable[StateEdit], forgetful: frozenset[str]) -> Forgotten:
    """The forgetful states before some edits, and those that are made of them; without edits they are the same."""
    edits = tuple(edits)
    kept = (e.new.state.state_id for e in edits if e.new is not None and not forgetful.isdisjoint(e.sources))
    return Forgotten(forgetful, frozenset(kept) if edits else forgetful)


def forgotten_after(
    last: Manifest | None, edits: Iterable[StateEdit], plan: PhysicalPlan, now: Mapping[str, int]
) -> dict[str, int]:
    """How many keys each state of `plan` has ever forgotten, after an epoch in which its steps forgot `now`.

    `edits` are what became of the states in this epoch, if anything did.
    """
    edits = tuple(edits)
    specs = {step.name: step.operator for step in plan.operators}
    known = {}
    if last is not None:
        known = _known(last, [*specs.values(), *(edit.old for edit in edits if edit.old is not None)])
    if edits:
        known = {
            edit.new.state.state_id: sum(known.get(id_, 0) for id_ in edit.sources)
            for edit in edits
            if edit.new is not None
        }
    for step, spec in specs.items():
        if now.get(step):
            known[spec.state.state_id] = known.get(spec.state.state_id, 0) + now[step]
    ids = {spec.state.state_id for spec in specs.values()}
    return {id_: keys for id_, keys in sorted(known.items()) if keys and id_ in ids}


def _known(last: Manifest, specs: Iterable[OperatorSpec]) -> dict[str, int]:
    if last.forgotten is not None:
        return dict(last.forgotten)
    there = {state.state_id for state in last.states}
    return {s.state.state_id: 1 for s in specs if s.state.state_id in there and forgets(s)}
