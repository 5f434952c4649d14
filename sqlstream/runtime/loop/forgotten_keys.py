"""How many keys states have forgotten, by their time to live: what was emitted for those is in no state any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlstream.storage.manifest import Manifest
from sqlstream_operators.plan.spec import OperatorSpec, PhysicalPlan


def known_forgotten(last: Manifest, plan: PhysicalPlan) -> dict[str, int]:
    """How many keys each state had forgotten by `last`, the manifest of an epoch of `plan`; 1 where nobody counted."""
    return forgotten_of(last, (step.operator for step in plan.operators))


def forgotten_of(last: Manifest, specs: Iterable[OperatorSpec]) -> dict[str, int]:
    """The same, where `specs` are the operators that the states may be of."""
    if last.forgotten is not None:
        return dict(last.forgotten)
    there = {state.state_id for state in last.states}
    return {s.state.state_id: 1 for s in specs if s.state.state_id in there and s.ttl_us is not None}


def forgotten_after(
    last: Manifest | None, made: Mapping[str, int] | None, plan: PhysicalPlan, now: Mapping[str, int]
) -> dict[str, int]:
    """How many keys each state of `plan` has ever forgotten, after an epoch in which its steps forgot `now`.

    `made` says it of the states as the epoch has made them of others first; None: they are those of `last`.
    """
    specs = {step.name: step.operator for step in plan.operators}
    known = dict(made) if made is not None else {} if last is None else known_forgotten(last, plan)
    for step, spec in specs.items():
        if now.get(step):
            known[spec.state.state_id] = known.get(spec.state.state_id, 0) + now[step]
    ids = {spec.state.state_id for spec in specs.values()}
    return {id_: keys for id_, keys in sorted(known.items()) if keys and id_ in ids}
