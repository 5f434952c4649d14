"""Names of columns as tables in a lake have them."""

from __future__ import annotations

from dataclasses import replace

from sqlstream_operators.plan.spec import SinkSpec


def spelled(spec: SinkSpec) -> SinkSpec:
    """The same with the names of columns in its key and partitions as the columns have them: lakes tell cases apart."""
    names = {column.name.lower(): column.name for column in spec.schema}
    return replace(
        spec,
        primary_key=tuple(names[name.lower()] for name in spec.primary_key),
        partitioned_by=tuple(names[name.lower()] for name in spec.partitioned_by),
    )
