"""Whether the input of an epoch is what its plan says: asked before it is read again, and when it has been read."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream.connectors.api import Source
from sqlstream.connectors.capabilities import Confirming, Verifying
from sqlstream.runtime.tasks.planned_splits import splits_of
from sqlstream.storage.manifest import EpochPlan
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.dimension_copies import is_whole


class OtherInputError(Exception):
    """What an epoch has read is not what it planned: nothing of it may be written, the next plan says what there is."""


def is_there(plan: EpochPlan, sources: Mapping[str, Source], store: CheckpointStore) -> bool:
    """Whether all that a plan reads is as it was when the plan was written, as far as the sources know."""
    for planned in plan.sources:
        source = sources[planned.name]
        if isinstance(source, Verifying) and not source.can_replay(splits_of(planned)):
            return False
    return all(is_whole(store, copy.name) for copy in plan.dimensions.values())


def confirm(plan: EpochPlan, sources: Mapping[str, Source]) -> None:
    """Raises OtherInputError if a source knows that something else was read than was planned."""
    for planned in plan.sources:
        source, splits = sources[planned.name], splits_of(planned)
        if splits and isinstance(source, Confirming) and not source.confirm(planned.next, splits):
            raise OtherInputError(planned.name)
