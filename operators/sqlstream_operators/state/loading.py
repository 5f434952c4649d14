"""Filling a state table with rows that were computed elsewhere, and its columns as a relation has them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from sqlstream_operators.plan.schema import Column, Schema
from sqlstream_operators.plan.state_schema import TIME, StateTable
from sqlstream_operators.plan.types import BIGINT

from .store import StateStore


def columns_of(table: StateTable) -> Schema:
    """The key and value columns of a table."""
    time = (Column(TIME, BIGINT, nullable=False),) if table.layout == "time" else ()
    return (*time, *(Column(f.name, f.type) for f in (*table.key, *table.sub_key, *table.value)))


def load(store: StateStore, table: StateTable, rows: pa.Table) -> None:
    """Write rows, each key once; for layout 'list' those of a key stand in its order."""
    if not rows.num_rows:
        return
    if table.layout != "list":
        store.put(table.name, rows)
        return
    order, keys = store.sorted_keys(table.name, rows)
    starts = [0, *(i + 1 for i, (one, other) in enumerate(pairwise(keys)) if one != other)]
    ordered = rows.take(pa.array(order))
    sizes = np.diff([*starts, len(keys)])
    store.put_lists(table.name, ordered.take(pa.array(starts)), ordered, sizes)
