"""The splits of a source as a connector takes them, from how the plan of an epoch keeps them."""

from __future__ import annotations

from sqlstream.connectors.api import Split
from sqlstream.storage.manifest import PlannedSource


def splits_of(planned: PlannedSource) -> list[Split]:
    """The splits that an epoch reads of one source."""
    return [Split(planned.name, s.payload, s.rows, s.bytes, s.lane) for s in planned.splits]
