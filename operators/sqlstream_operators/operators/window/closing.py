"""What operators have in common that keep rows until the watermark closes them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sqlstream_operators.plan.watermarks import WATERMARK_MAX, Watermarks
from sqlstream_operators.state.store import StateStore

from .windows import closed_upto


def nothing_closes(inputs: Sequence[pa.Table], watermarks: Watermarks, tick: int, *, stateless: bool) -> bool:
    """Whether an operator that closes what it keeps has nothing to do: no rows, nothing to close."""
    if any(rows.num_rows for rows in inputs):
        return False
    return stateless or closed_upto(watermarks.close, tick) <= closed_upto(watermarks.previous, tick)


def taken_upto(state: StateStore, table: str, upto: int) -> pa.Table:
    """Take out of a table with layout 'time' the rows with a time up to `upto` (µs, not WATERMARK_MIN), in its order."""
    high = None if upto == WATERMARK_MAX else upto + 1
    found = state.scan_time(table, None, high)
    if found.num_rows:
        state.delete_time(table, None, high)
    return found
