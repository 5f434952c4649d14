"""The relations of a stage that are copies of dimension tables."""

from __future__ import annotations

from pathlib import Path

from sqlstream_operators.duck.relations import Relations, conformed
from sqlstream_operators.duck.weighted import empty
from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.spec import DimensionInput, PhysicalPlan, Stage
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.dimension_copies import LocalCopies

from .epoch import EpochContext

#: Of this process: a copy is read once, however many epochs look at it.
_COPIES = LocalCopies()


def add_dimensions(relations: Relations, plan: PhysicalPlan, stage: Stage, epoch: EpochContext) -> None:
    """Add what lookup joins of a stage read. Raises StateError for a copy that is gone or damaged."""
    schemas = {dimension.name: dimension.schema for dimension in plan.dimensions}
    for found in stage.inputs:
        if not isinstance(found, DimensionInput):
            continue
        schema = schemas[found.dimension]
        name = epoch.dimensions.get(found.dimension)
        if name is not None:
            store = CheckpointStore(epoch.checkpoint)
            rows = _COPIES.table(store, name, frozenset(epoch.dimensions.values()), Path(epoch.local_dir))
            rows = conformed(rows, schema, f"dimension {found.dimension}")
        elif epoch.reemitted or epoch.retracts:  # nothing is read, so nothing is looked up
            rows = empty(schema)
        else:
            raise InternalError(f"epoch {epoch.epoch} has no copy of {found.dimension}")
        relations.add_table(found.name, rows, schema)
