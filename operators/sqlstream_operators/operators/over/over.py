"""OVER over updating rows: what functions of rows give over the rows of their partition, kept up to date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.weighted import concatenated, consolidated, empty, names_of, with_weight
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.groups import Groups, Int64s, as_stored
from sqlstream_operators.operators.operator import OperatorContext, OperatorResult, ShowsAnswer
from sqlstream_operators.operators.phase_timer import PhaseTimer
from sqlstream_operators.plan.over_spec import COPY, ROWS, OverSpec
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, column_of
from sqlstream_operators.plan.watermarks import Watermarks
from sqlstream_operators.state.store import StateStore

from .functions import WindowFunctions
from .neighbourhood import Region, near, read_around
from .over_state import Arrived, Mask, Merged, OverState


class Over(ShowsAnswer):
    """Runs an `OverSpec`: see there for its input, its state and its output.

    The partitions with new rows are read, or where the frames are bounded the rows around those; the functions are
    computed over them anew, and where that gives another value than before, the row is retracted and given again.
    """

    def __init__(self, spec: OverSpec) -> None:
        if spec.ttl_us is not None:
            raise InternalError(f"state {spec.state.state_id}: not this operator but TimeToLive forgets rows")
        self._spec = spec
        self._state = OverState(spec)
        self._functions = WindowFunctions(spec.columns, spec.partition, spec.order, spec.calls)
        self._reach = spec.reach if self._state.ordered else None
        #: State gives these back as keys do, and what is retracted must be what was given.
        self._partition = tuple(column_of(spec.columns, name) for name in spec.partition)

    def idle(self, inputs: Sequence[pa.Table], watermarks: Watermarks, *, stateless: bool) -> bool:
        """No rows arrived."""
        return not any(rows.num_rows for rows in inputs)

    def process(self, inputs: Sequence[pa.Table], context: OperatorContext) -> OperatorResult:
        """Merge, compute, emit; raises InternalError if changes come where the spec promises appended rows."""
        spec, state, timer = self._spec, self._state, PhaseTimer()
        [rows] = inputs
        with timer.phase("merge_us"):
            weights = self._weights(rows)
            rows = as_stored(conformed(rows, spec.columns, f"state {spec.state.state_id}"), self._partition)
            arrived = state.arrived(rows, weights)
        if not arrived.rows.num_rows:
            return OperatorResult(empty(with_weight(spec.output)), {"emitted_rows": 0})
        with timer.phase("state_us"):
            region = self._region(context.state, arrived)
        with timer.phase("merge_us"):
            merged = state.merged(region.rows, arrived)
            part = np.concatenate([region.island, region.of_arrived[merged.origin]])
            output, values, changed = self._changes(context, merged, part)
        with timer.phase("state_us"):
            added, removed = state.write(context.state, merged, values, changed)
        metrics = {
            "emitted_rows": output.num_rows,
            "read_rows": region.rows.num_rows,
            "state_rows_added": added,
            "state_rows_removed": removed,
            **timer.figures("merge_us", "state_us"),
        }
        return OperatorResult(output, metrics)

    def answer(self, context: OperatorContext) -> pa.Table:
        """See `KeepsAnswer.answer`."""
        stored = self._state.loaded(context.state.scan_all(ROWS))
        there = np.flatnonzero(stored.column(COPY).to_numpy() >= 0)
        return self._consolidated(context, [_weighted(stored.take(pa.array(there)), 1)])

    def _region(self, state: StateStore, arrived: Arrived) -> Region:
        """The rows that the changes can matter to: those around them, or all of their partitions."""
        spec = self._spec
        if self._reach is not None:
            found = read_around(state, arrived, self._reach)
            return replace(found, rows=self._state.loaded(found.rows))
        groups = Groups(self._partition, spec.partition, arrived.rows.slice(0, 0))
        of_arrived = groups.add(arrived.rows)
        stored = self._state.loaded(state.scan_prefix(ROWS, groups.keys.select(list(spec.partition))))
        return Region(stored, groups.numbers(stored), of_arrived)

    def _changes(
        self, context: OperatorContext, merged: Merged, part: Int64s
    ) -> tuple[pa.Table, pa.Table, Mask]:
        """What changes, the values of the rows that are there now, and which of these are new."""
        here = np.flatnonzero(merged.now)
        rows = merged.rows.take(pa.array(here))
        values, differs = self._functions.changed(context.duck, rows, part[here], rows)
        known = merged.was[here]
        gone = merged.rows.take(pa.array(np.flatnonzero(merged.was & ~merged.now)))
        if self._reach is not None:
            # What is further away was read for the sake of those that are near, and is computed without all that it needs.
            differs &= near(merged, part, self._reach)[here]
        changed = differs | ~known
        other = rows.take(pa.array(np.flatnonzero(known & differs)))
        fresh = rows.drop_columns([c.name for c in self._functions.given])
        for column in self._functions.given:
            fresh = fresh.append_column(column.name, values.column(column.name))
        fresh = fresh.take(pa.array(np.flatnonzero(changed)))
        pieces = [_weighted(gone, -1), _weighted(other, -1), _weighted(fresh, 1)]
        return self._consolidated(context, pieces), values, changed

    def _consolidated(self, context: OperatorContext, pieces: Sequence[pa.Table]) -> pa.Table:
        listed = names_of(with_weight(self._spec.output))
        return consolidated(context.duck, concatenated([p.select(listed) for p in pieces]), self._spec.output)

    def _weights(self, rows: pa.Table) -> Int64s:
        if WEIGHT_COLUMN not in rows.column_names:
            return np.ones(rows.num_rows, np.int64)
        if not self._spec.retracting:
            raise InternalError(
                f"state {self._spec.state.state_id}: retractions arrived, but the plan says append-only"
            )
        weights: Int64s = rows.column(WEIGHT_COLUMN).to_numpy().astype(np.int64)
        return weights


def _weighted(rows: pa.Table, weight: int) -> pa.Table:
    return rows.append_column(WEIGHT_COLUMN, pa.array(np.full(rows.num_rows, weight, np.int64)))
