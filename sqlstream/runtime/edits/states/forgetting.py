"""Which states have forgotten keys, by their time to live, before an edit and after it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlstream.runtime.loop.forgotten_keys import forgotten_of, known_forgotten
from sqlstream.storage.manifest import Manifest
from sqlstream_operators.plan.answers import answering_states
from sqlstream_operators.plan.spec import PhysicalPlan, SinkSpec
from sqlstream_planner.edits.verdict import StateEdit


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The states, by ids, that have forgotten keys by their time to live: `before` an edit, and those `now` made of such."""

    before: frozenset[str] = frozenset()
    now: frozenset[str] = frozenset()

    def stays_twice(self, before: PhysicalPlan, former: SinkSpec, now: PhysicalPlan, sink: SinkSpec) -> bool:
        """Whether a sink would have rows of forgotten keys beside others of them that are read again.

        They can't be retracted, as no state has them; by a PRIMARY KEY the new ones are written over them.
        """
        stay = not self.before.isdisjoint(answering_states(before, former.name))
        return stay and not sink.primary_key and not answering_states(now, sink.name) <= self.now


NOTHING_FORGOTTEN = Forgotten()


def forgetful_states(last: Manifest, plan: PhysicalPlan) -> frozenset[str]:
    """The ids of the states that have forgotten keys by `last`, the manifest of an epoch of `plan`."""
    return frozenset(id_ for id_, keys in known_forgotten(last, plan).items() if keys)


def forgotten_at(last: Manifest, edits: Iterable[StateEdit], plan: PhysicalPlan) -> Forgotten:
    """As `forgotten_by`, of the edits that come after `last`, to `plan`."""
    edits = tuple(edits)
    known = _known(last, edits, plan)
    return forgotten_by(edits, frozenset(id_ for id_, keys in known.items() if keys))


def forgotten_by(edits: Iterable[StateEdit], forgetful: frozenset[str]) -> Forgotten:
    """The forgetful states before some edits, and those that are made of them; without edits they are the same."""
    edits = tuple(edits)
    kept = (e.new.state.state_id for e in edits if e.new is not None and not forgetful.isdisjoint(e.sources))
    return Forgotten(forgetful, frozenset(kept) if edits else forgetful)


def forgotten_keys(last: Manifest, edits: Iterable[StateEdit], plan: PhysicalPlan) -> dict[str, int] | None:
    """How many keys the states of `plan` have forgotten once `edits` have made them; None without edits: as before."""
    edits = tuple(edits)
    if not edits:
        return None
    known = _known(last, edits, plan)
    return {
        edit.new.state.state_id: sum(known.get(id_, 0) for id_ in edit.sources)
        for edit in edits
        if edit.new is not None
    }


def _known(last: Manifest, edits: Iterable[StateEdit], plan: PhysicalPlan) -> dict[str, int]:
    specs = (*(step.operator for step in plan.operators), *(e.old for e in edits if e.old is not None))
    return forgotten_of(last, specs)
