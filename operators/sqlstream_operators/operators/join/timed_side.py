"""One side of an interval join: its rows in state by time and key, so that those that are done go as a range."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.groups import Int64s
from sqlstream_operators.plan.arranged_spec import IS, ROW, WAS
from sqlstream_operators.plan.interval_join_spec import IntervalJoinSpec
from sqlstream_operators.plan.join_spec import gives_alone
from sqlstream_operators.plan.schema import Column, Schema, column_of
from sqlstream_operators.plan.state_schema import FOUND, TIME, Layout
from sqlstream_operators.plan.types import BLOB
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN
from sqlstream_operators.state.store import StateStore

from .join_side import JoinSide
from .side_rows import Changed, any_null

#: Times are compared within these bounds, so that no sum overflows: DuckDB's infinity is the last int64.
_FAR = 1 << 61


class TimedSide(JoinSide):
    """Reads and writes the state of one side of an `IntervalJoinSpec`: see there."""

    layout: ClassVar[Layout] = "time"

    def __init__(self, spec: IntervalJoinSpec, side: str) -> None:
        rows = spec.left if side == "left" else spec.right
        whole, only_come = gives_alone(spec.type, side), not spec.emits_changes
        super().__init__(spec.state, side, spec.keys, rows, whole=whole, only_come=only_come)
        bounds = spec.bounds
        left = side == "left"
        self._time = bounds.left if left else bounds.right
        self.wait_us = bounds.left_wait_us if left else bounds.right_wait_us
        self._bucket_us = bounds.bucket_us
        #: How much later than a row of the other side a partner of it can be here.
        self._reach = (bounds.lower_us, bounds.upper_us) if left else (-bounds.upper_us, -bounds.lower_us)
        self.input_columns: Schema = (*spec.keys, *self.spec.stored)
        column_of(self.spec.columns, self._time)
        of_key = dict(zip(self.spec.keys, self.key_names, strict=True))
        self._time_there = of_key.get(self._time, self._time)
        #: The table of the rows that have had no partner; None where nobody asks.
        self.alone: str | None = f"alone_{side}"
        if all(table.name != self.alone for table in spec.state.tables):
            self.alone = None

    # ------------------------------------------------------------------------------------------------ times

    def times(self, rows: pa.Table) -> Int64s:
        """The times of rows, µs; of rows of the input or of `schema`, of which none is NULL."""
        name = self._time if self._time in rows.column_names else self._time_there
        found = rows.column(name).cast(pa.timestamp("us")).cast(pa.int64())
        if found.null_count:
            raise InternalError(f"{self._what}: a row has no time")
        times: Int64s = np.clip(found.to_numpy().astype(np.int64), -_FAR, _FAR)
        return times

    def done_upto(self, watermark: int) -> int:
        """The greatest time (µs) of rows that can be in no pair with rows that arrive after `watermark`."""
        if watermark in (WATERMARK_MIN, WATERMARK_MAX):
            return watermark
        return max(WATERMARK_MIN + 1, min(watermark - self.wait_us, WATERMARK_MAX - 1))

    def gone_before(self, watermark: int) -> int | None:
        """The beginning (µs) of the first bucket that is kept at a watermark, None if none is."""
        done = self.done_upto(watermark)
        if done == WATERMARK_MAX:
            return None
        if done < -_FAR:
            return WATERMARK_MIN
        return self._buckets(np.array([min(done, _FAR) + 1], np.int64)).item()

    def _buckets(self, times: Int64s) -> Int64s:
        return times - times % self._bucket_us

    def _order(self, state: StateStore, rows: pa.Table) -> Int64s | None:
        return None

    def _append(self, state: StateStore, rows: pa.Table) -> None:
        state.append(self.table, rows)  # each by itself: it may go before the others of its key

    def _placed(self, rows: pa.Table) -> pa.Table:
        return rows.append_column(TIME, pa.array(self._buckets(self.times(rows))))

    # ------------------------------------------------------------------------------------------------- rows

    def parted(self, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
        """The rows of an epoch's input that may have partners, and those that can't: with a NULL in key or time."""
        rows = conformed(rows, self.input_columns, self._what)
        missing = any_null(rows, list(dict.fromkeys([*self.key_names, self._time_there])))
        if missing is None:
            return rows, rows.slice(0, 0)
        return rows.filter(pc.invert(missing)), rows.filter(missing)

    def as_given(self, rows: pa.Table) -> pa.Table:
        """Rows of the input as `schema` has them, each once."""
        ones = np.ones(rows.num_rows, np.int64)
        digests = pa.chunked_array([pa.nulls(rows.num_rows, pa.binary())])
        return self._shown(rows, digests, ones, ones)

    def partners(self, state: StateStore, theirs: pa.Table, their_times: Int64s) -> pa.Table:
        """The rows in state that may be partners of rows of the other side, as if nothing changed."""
        if not theirs.num_rows:
            return self.empty()
        low, high = self._reach
        first, last = (self._buckets(np.clip(their_times + by, -_FAR, _FAR)) for by in (low, high))
        keys = theirs.select(self.key_columns)
        pieces = [keys.append_column(TIME, pa.array(first))]
        wider = np.flatnonzero(first != last)
        if len(wider):
            pieces.append(keys.take(pa.array(wider)).append_column(TIME, pa.array(last[wider])))
        return self._loaded(state.scan_prefix(self.table, pa.concat_tables(pieces)))

    def keep(self, state: StateStore, changed: Changed, kept: npt.NDArray[np.bool_]) -> tuple[int, int]:
        """Make the state have the rows that are `kept` and none of the others; how many are new, and how many are gone."""
        counts = np.where(kept, changed.counts, 0)
        return self.write(state, Changed(changed.rows, changed.names, counts, changed.there))

    def forget(self, state: StateStore, rows: pa.Table) -> None:
        """Take rows (of `schema`) out of the state."""
        if rows.num_rows:
            state.delete(self.table, self._named(rows, self._buckets(self.times(rows))))

    # --------------------------------------------------------------------------------------- without partner

    def note_alone(self, state: StateStore, rows: pa.Table) -> None:
        """Remember that rows (of `schema`) have had no partner so far."""
        if rows.num_rows and self.alone is not None:
            state.put(self.alone, self._named(rows, self.times(rows)))

    def note_partner(self, state: StateStore, rows: pa.Table) -> None:
        """Forget of rows (of `schema`) that they have had no partner, where that was so."""
        if rows.num_rows and self.alone is not None:
            keys = self._named(rows, self.times(rows))
            found = state.get(self.alone, keys).column(FOUND)
            state.delete(self.alone, keys.filter(found))

    def released(self, state: StateStore, upto: int) -> pa.Table:
        """The rows without a partner whose time is at most `upto` (µs): none can come any more. They are noted no longer."""
        if self.alone is None or upto == WATERMARK_MIN:
            return self.empty()
        high = None if upto == WATERMARK_MAX else upto + 1
        names = state.scan_time(self.alone, None, high)
        if not names.num_rows:
            return self.empty()
        state.delete_time(self.alone, None, high)
        times = names.column(TIME).to_numpy().astype(np.int64)
        keys = names.set_column(names.column_names.index(TIME), TIME, pa.array(self._buckets(times)))
        found = state.get(self.table, keys)
        if pc.any(pc.invert(found.column(FOUND))).as_py():
            raise InternalError(f"{self._what}: a row without a partner is not there")
        both = pa.Table.from_arrays(
            [*keys.columns, *found.drop_columns([FOUND]).columns],
            names=[*keys.column_names, *(n for n in found.column_names if n != FOUND)],
        )
        return self._loaded(both)

    def _named(self, rows: pa.Table, times: Int64s) -> pa.Table:
        """What rows (of `schema`) are called in state: their keys and digests, at some times."""
        wanted: Schema = (*self.keys, Column(ROW, BLOB))
        names = rows.select([c.name for c in wanted]).rename_columns([*self.key_names, self._row])
        return names.append_column(TIME, pa.array(times))


def counts_of(rows: pa.Table, when: str = IS) -> Int64s:
    """How often rows (of a side's `schema`) are there (IS), or were before the epoch (WAS)."""
    assert when in (IS, WAS)
    counts: Int64s = rows.column(when).to_numpy().astype(np.int64)
    return counts
