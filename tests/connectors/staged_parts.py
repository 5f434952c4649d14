"""What a task reports of rows that it has staged for a sink."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from sqlstream.connectors.api import SinkPart
from sqlstream.connectors.exactly_once.staged import staging_folder
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.plan.spec import WEIGHT_COLUMN, SinkSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.staged_rows import INLINE_BYTES, stage

Row = tuple[Any, ...]
#: Rows and their weights.
Delta = Sequence[tuple[Row, int]]
_tasks = itertools.count()


def come(*rows: Row) -> Delta:
    return [(row, 1) for row in rows]


def go(*rows: Row) -> Delta:
    return [(row, -1) for row in rows]


def staged_part(store: CheckpointStore, spec: SinkSpec, epoch: int, delta: Delta) -> SinkPart:
    """The part of another task of the epoch; every other one stages a file."""
    columns = [
        pa.array([row[i] for row, _ in delta], to_arrow(column.type)) for i, column in enumerate(spec.schema)
    ]
    names = [column.name for column in spec.schema]
    if spec.changelog == "retract":
        columns.append(pa.array([weight for _, weight in delta], pa.int64()))
        names.append(WEIGHT_COLUMN)
    else:
        assert all(weight == 1 for _, weight in delta)
    table = pa.Table.from_arrays(columns, names=names)
    task = next(_tasks)
    folder = f"{staging_folder(spec.name)}/{epoch:06d}"
    staged = stage(store, folder, f"0-{task:05d}", table, inline_bytes=task % 2 * INLINE_BYTES)
    return SinkPart(table.num_rows, staged=staged)
