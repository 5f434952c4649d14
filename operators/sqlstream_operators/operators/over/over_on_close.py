"""OVER by event time: each row is emitted once, with its values, when the watermark has passed it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.codec.binary import ragged
from sqlstream_operators.codec.sort_keys import digest_array, row_digests, sort_keys
from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.weighted import empty, names_of
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.groups import Groups, Int64s
from sqlstream_operators.operators.operator import OperatorContext, OperatorResult
from sqlstream_operators.operators.phase_timer import PhaseTimer
from sqlstream_operators.operators.window.closing import nothing_closes, taken_upto
from sqlstream_operators.operators.window.windows import closed_upto
from sqlstream_operators.plan.over_spec import (
    COPY,
    COUNT,
    END,
    LEAVING,
    ROW,
    ROWS,
    SORT,
    WAITING,
    OverOnCloseSpec,
)
from sqlstream_operators.plan.schema import SLICE_COLUMN, WEIGHT_COLUMN, Column, Schema, column_of
from sqlstream_operators.plan.state_schema import FOUND, TIME
from sqlstream_operators.plan.types import BIGINT, BLOB
from sqlstream_operators.plan.watermarks import WATERMARK_MIN, Watermarks
from sqlstream_operators.state.store import StateStore

from .functions import WindowFunctions
from .over_state import Mask
from .totals import Totals


class OverOnClose:
    """Runs an `OverOnCloseSpec`: see there for its input, its state and its output.

    Rows wait until the watermark has passed them. Those that it passes now are behind all that were given in their
    partition, so that they are computed over what is kept of these; then what no later row can reach is dropped.
    """

    def __init__(self, spec: OverOnCloseSpec) -> None:
        self._spec = spec
        self._functions = WindowFunctions(spec.columns, spec.partition, spec.order, spec.calls)
        self._totals = Totals.of(spec) if spec.carried else None
        table = spec.state.table(WAITING)
        by_name = {c.name: c for c in spec.columns}
        self._digested: Schema = tuple(
            by_name[f.name] for f in (*table.key, *table.value) if f.name in by_name
        )
        #: A row that waits, and a row that was given.
        self._waiting: Schema = (*spec.columns, Column(ROW, BLOB), Column(COUNT, BIGINT), Column(END, BIGINT))
        self._rows: Schema = (
            *spec.columns,
            Column(SORT, BLOB),
            Column(ROW, BLOB),
            Column(COPY, BIGINT),
            Column(END, BIGINT),
        )

    def idle(self, inputs: Sequence[pa.Table], watermarks: Watermarks, *, stateless: bool) -> bool:
        """Nothing came, and the watermark passes nothing or there is nothing that waits or leaves."""
        return nothing_closes(inputs, watermarks, self._spec.tick_us, stateless=stateless)

    def process(self, inputs: Sequence[pa.Table], context: OperatorContext) -> OperatorResult:
        """Keep, give, drop; raises InternalError for rows that the watermark had passed, and for changes."""
        spec, state, timer = self._spec, context.state, PhaseTimer()
        [rows] = inputs
        upto = closed_upto(context.watermarks.close, spec.tick_us)
        with timer.phase("merge_us"):
            arrived = self._arrived(rows, closed_upto(context.watermarks.previous, spec.tick_us))
        with timer.phase("state_us"):
            due = self._due(state, arrived, upto)
            groups = self._groups(due)
            # Before the partitions that only lose rows are added, the numbers are those of rows that are given.
            given = groups.numbers(due)
            self._expire(state, groups, upto)
            keys = groups.keys.select(list(spec.partition))
            past = self._past(state, keys, len(groups))
        with timer.phase("merge_us"):
            output = self._given(context, due, given, past, groups)
        with timer.phase("state_us"):
            removed = self._keep(state, due, given, past, groups.numbers(past), upto)
        metrics = {
            "emitted_rows": output.num_rows,
            "read_rows": past.num_rows,
            "state_rows_removed": removed,
            **timer.figures("merge_us", "state_us"),
        }
        return OperatorResult(output, metrics)

    def _arrived(self, rows: pa.Table, before: int) -> pa.Table:
        """The distinct rows that arrived, as they wait."""
        spec, what = self._spec, f"state {self._spec.state.state_id}"
        if WEIGHT_COLUMN in rows.column_names:
            raise InternalError(f"{what}: retractions arrived, but the plan says append-only")
        rows = conformed(rows, (Column(SLICE_COLUMN, BIGINT), *spec.columns), what)
        ends = rows.column(SLICE_COLUMN).to_numpy()
        if before != WATERMARK_MIN and len(ends) and int(ends.min()) <= before:
            raise InternalError(f"{what}: rows arrived that the watermark had passed")
        digests = digest_array(row_digests(rows, self._digested))
        codes = pc.dictionary_encode(digests).indices.to_numpy()
        _, first, counts = np.unique(codes, return_index=True, return_counts=True)
        at = pa.array(first)
        found = rows.take(at).append_column(ROW, digests.take(at)).append_column(COUNT, pa.array(counts))
        return conformed(found.append_column(END, found.column(SLICE_COLUMN)), self._waiting, what)

    def _due(self, state: StateStore, arrived: pa.Table, upto: int) -> pa.Table:
        """The rows whose time is over by `upto`, one a copy; the others that came wait."""
        ends = arrived.column(END).to_numpy()
        now = (ends <= upto) & (upto != WATERMARK_MIN)
        self._wait(state, arrived.filter(pa.array(~now)))
        pieces = [arrived.filter(pa.array(now))]
        if upto != WATERMARK_MIN:
            stored = taken_upto(state, WAITING, upto)
            if stored.num_rows:
                stored = stored.append_column(END, stored.column(TIME))
                pieces.append(conformed(stored, self._waiting, "rows that waited"))
        rows = pa.concat_tables(pieces)
        digests = (
            rows.column(ROW).combine_chunks().cast(pa.binary())
            if rows.num_rows
            else pa.array([], pa.binary())
        )
        codes = pc.dictionary_encode(digests).indices.to_numpy().astype(np.int64)
        total = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
        np.add.at(total, codes, rows.column(COUNT).to_numpy())
        _, first = np.unique(codes, return_index=True)
        times = total[codes[first]]
        rows = rows.take(pa.array(np.repeat(first, times)))
        copies = ragged(np.zeros(len(times), np.int64), times)
        rows = rows.append_column(SORT, sort_keys(rows, self._spec.order, self._spec.columns))
        return conformed(rows.append_column(COPY, pa.array(copies)), self._rows, "rows that are given")

    def _wait(self, state: StateStore, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        keyed = rows.append_column(TIME, rows.column(END))
        there = state.get(WAITING, keyed)
        found = there.column(FOUND).to_numpy(zero_copy_only=False)
        counts = rows.column(COUNT).to_numpy().copy()
        known = np.flatnonzero(found)
        counts[known] += there.column(COUNT).take(pa.array(known)).to_numpy().astype(np.int64)
        state.put(WAITING, keyed.set_column(keyed.column_names.index(COUNT), COUNT, pa.array(counts)))

    def _groups(self, due: pa.Table) -> Groups:
        columns = tuple(column_of(self._spec.columns, name) for name in self._spec.partition)
        groups = Groups(columns, self._spec.partition, due.slice(0, 0))
        groups.add(due)
        return groups

    def _expire(self, state: StateStore, groups: Groups, upto: int) -> None:
        """Add the partitions with rows that leave."""
        low = self._oldest(upto)
        if low is None:
            return
        leaving = state.scan_time(LEAVING, None, low)
        if leaving.num_rows:
            state.delete_time(LEAVING, None, low)
            groups.add(leaving)

    def _oldest(self, upto: int) -> int | None:
        """The least end of a row that is kept for its time; None where none is.

        Rows to come end after `upto`, so that their times are after that less a slot.
        """
        span = self._spec.kept.time_us
        if span is None or upto == WATERMARK_MIN:
            return None
        return max(upto - span - self._spec.slot_us, WATERMARK_MIN)

    def _past(self, state: StateStore, keys: pa.Table, number: int) -> pa.Table:
        """What is kept of the rows of partitions."""
        if not self._spec.kept.any or not number:
            return empty(self._rows)
        return conformed(state.scan_prefix(ROWS, keys), self._rows, f"rows of {self._spec.state.state_id}")

    def _given(
        self, context: OperatorContext, due: pa.Table, part: Int64s, past: pa.Table, groups: Groups
    ) -> pa.Table:
        spec = self._spec
        if not due.num_rows:
            return empty(spec.output)
        found = due
        if spec.calls:
            rows = pa.concat_tables([past, due])
            of_all = np.concatenate([groups.numbers(past), part])
            values = self._functions.values(context.duck, rows, of_all).slice(past.num_rows)
            for column in self._functions.given:
                found = found.append_column(column.name, values.column(column.name))
        if self._totals is not None:
            keys = groups.keys.select(list(spec.partition)).slice(0, int(part.max()) + 1)
            values = self._totals.values(context.duck, context.state, due, part, keys)
            for name in values.column_names:
                found = found.append_column(name, values.column(name))
        return conformed(found.select(names_of(spec.output)), spec.output, f"output of {spec.state.state_id}")

    def _keep(
        self, state: StateStore, due: pa.Table, given: Int64s, past: pa.Table, older: Int64s, upto: int
    ) -> int:
        """Keep what later rows may reach, drop the rest; how many rows go."""
        kept = self._spec.kept
        if not kept.any:
            return 0
        rows = pa.concat_tables([past, due])
        stays = self._reached(rows, np.concatenate([older, given]), upto)
        n = past.num_rows
        gone = np.flatnonzero(~stays[:n])
        if len(gone):
            state.delete(ROWS, past.take(pa.array(gone)))
        new = due.take(pa.array(np.flatnonzero(stays[n:])))
        if new.num_rows:
            state.put(ROWS, new)
            if kept.time_us is not None:
                state.put(LEAVING, new.append_column(TIME, new.column(END)))
        return len(gone)

    def _reached(self, rows: pa.Table, part: Int64s, upto: int) -> Mask:
        """Which rows a later one may need."""
        kept = self._spec.kept
        if kept.everything or not rows.num_rows:
            return np.ones(rows.num_rows, bool)
        stays = np.zeros(rows.num_rows, bool)
        low = self._oldest(upto)
        if low is not None:
            stays |= rows.column(END).to_numpy() >= low
        if kept.places:
            encoded = pc.dictionary_encode(rows.column(SORT).cast(pa.binary()).combine_chunks())
            rank = np.empty(len(encoded.dictionary), np.int64)
            rank[pc.array_sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(rank))
            place = rank[encoded.indices.to_numpy()]
            order = np.lexsort((place, part))
            begins = np.ones(len(order), bool)
            begins[1:] = (np.diff(place[order]) != 0) | (np.diff(part[order]) != 0)
            group = np.cumsum(begins) - 1
            ends = np.append(np.diff(part[order]) != 0, True)
            last = group[ends][np.cumsum(np.append(False, ends[:-1]))]
            stays[order] |= last - group < kept.places
        return stays
