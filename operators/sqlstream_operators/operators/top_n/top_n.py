"""Top-N: the rows of each partition with the least ranks, kept up to date over updating rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.weighted import consolidated, empty, with_weight
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.operator import OperatorContext, OperatorResult, ShowsAnswer
from sqlstream_operators.operators.phase_timer import PhaseTimer
from sqlstream_operators.plan.schema import WEIGHT_COLUMN
from sqlstream_operators.plan.top_n_spec import TopNSpec
from sqlstream_operators.plan.watermarks import Watermarks

from .ranked_state import TABLE, CountedRows, Merged, RankedState
from .ranking import Int64s, Ranking, projects, ranked_output


class TopN(ShowsAnswer):
    """Runs a `TopNSpec`: see there for its input, its state and its output.

    The partitions with new rows are read, ranked without and with the changes, and the difference is
    emitted. About `offset + limit` rows of a partition are read, and as many more as go from it; all of it only
    where the order is by nested values or JSON, or none is given.
    """

    def __init__(self, spec: TopNSpec) -> None:
        self._spec = spec
        self._ranking = Ranking.of(spec)
        self._state = RankedState(spec, self._ranking)
        if spec.ttl_us is not None:
            raise InternalError(f"state {spec.state.state_id}: Top-N does not forget by time")

    def idle(self, inputs: Sequence[pa.Table], watermarks: Watermarks, *, stateless: bool) -> bool:
        """No rows arrived."""
        return not any(rows.num_rows for rows in inputs)

    def process(self, inputs: Sequence[pa.Table], context: OperatorContext) -> OperatorResult:
        """Merge, rank, emit; raises InternalError if changes come where the spec promises appended rows."""
        spec, ranking, state, timer = self._spec, self._ranking, self._state, PhaseTimer()
        [rows] = inputs
        with timer.phase("merge_us"):
            weights = self._weights(rows)
            rows = conformed(rows, spec.columns, f"state {spec.state.state_id}")
            if not spec.retracting:
                rows = ranking.candidates(context.duck, rows) if ranking.upto else rows.slice(0, 0)
            arrived = state.arrived(context.duck, rows, weights)
            if not arrived.rows.num_rows:
                return OperatorResult(empty(with_weight(spec.output)), {"emitted_rows": 0})
            keys, gone = state.partitions(context.duck, arrived.rows, np.maximum(-arrived.counts, 0))
        with timer.phase("state_us"):
            stored = self._stored(context, arrived, keys, gone)
        with timer.phase("merge_us"):
            merged = state.merged(context.duck, stored, arrived)
            was, now = np.maximum(merged.was, 0), np.maximum(merged.now, 0)
            before, after = ranking.positions(context.duck, merged.rows, [was, now])
            output = self._changes(merged, (before, was), (after, now))
            if projects(spec):
                output = consolidated(context.duck, output, spec.output)
        with timer.phase("state_us"):
            retained = merged.now if spec.retracting else ranking.retained(after, now)
            added, removed = state.write(context.state, merged, retained)
        metrics = {
            "emitted_rows": output.num_rows,
            "read_rows": len(stored.counts),
            "state_rows_added": added,
            "state_rows_removed": removed,
            **timer.figures("merge_us", "state_us"),
        }
        return OperatorResult(output, metrics)

    def answer(self, context: OperatorContext) -> pa.Table:
        """See `KeepsAnswer.answer`."""
        stored = self._state.loaded(context.state.scan_all(TABLE))
        now = np.maximum(stored.counts, 0)
        none = np.zeros(len(now), np.int64)
        if not len(now):
            return empty(with_weight(self._spec.output))
        before, after = self._ranking.positions(context.duck, stored.rows, [none, now])
        output = self._changes(Merged(stored.rows, none, stored.counts), (before, none), (after, now))
        return consolidated(context.duck, output, self._spec.output) if projects(self._spec) else output

    def _stored(
        self, context: OperatorContext, arrived: CountedRows, keys: pa.Table, gone: Int64s
    ) -> CountedRows:
        """What must be ranked of state, given the keys with new rows and how many go from each at most.

        Of a long partition that may lose rows these are as many more than the result can have as it may lose,
        and the rows that come or go: where they are behind all that, they are not in the result before or after.
        """
        state = self._state
        if not (self._spec.retracting and state.ordered):
            return state.loaded(context.state.scan_prefix(TABLE, keys))
        first = state.first(context.state, keys, gone + self._ranking.upto)
        return state.joined(first, state.stored(context.state, arrived))

    def _weights(self, rows: pa.Table) -> Int64s | None:
        if WEIGHT_COLUMN not in rows.column_names:
            return None
        if not self._spec.retracting:
            raise InternalError(
                f"state {self._spec.state.state_id}: retractions arrived, but the plan says append-only"
            )
        weights: Int64s = rows.column(WEIGHT_COLUMN).to_numpy().astype(np.int64)
        return weights

    def _changes(
        self, merged: Merged, before: tuple[Int64s, Int64s], after: tuple[Int64s, Int64s]
    ) -> pa.Table:
        """What leaves and what enters the result, given each row's position and count before and after."""
        ranking, spec = self._ranking, self._spec
        if spec.rank is None:
            weight = ranking.copies(*after) - ranking.copies(*before)
            at = np.flatnonzero(weight)
            output = ranked_output(merged.rows.take(pa.array(at)), spec.output, None, weight)
            return _weighted(output, weight[at])
        old, new = ranking.shown(*before), ranking.shown(*after)
        if ranking.function == "row_number":
            leaves = ~_within(old.row, old.rank, ranking.bounds(*after))
            enters = ~_within(new.row, new.rank, ranking.bounds(*before))
            row = np.concatenate([old.row[leaves], new.row[enters]])
            rank = np.concatenate([old.rank[leaves], new.rank[enters]])
            weight = np.concatenate([-old.copies[leaves], new.copies[enters]])
        else:
            # A row has one rank, so what it loses and gains is by row; where the rank stays, the difference.
            ranks = np.zeros((2, merged.rows.num_rows), np.int64)
            copies = np.zeros((2, merged.rows.num_rows), np.int64)
            for side, shown in enumerate((old, new)):
                ranks[side, shown.row] = shown.rank
                copies[side, shown.row] = shown.copies
            stays = ranks[0] == ranks[1]
            goes, comes = np.flatnonzero(~stays & (ranks[0] > 0)), np.flatnonzero(~stays & (ranks[1] > 0))
            same = np.flatnonzero(stays & (copies[0] != copies[1]))
            row = np.concatenate([goes, comes, same])
            rank = np.concatenate([ranks[0, goes], ranks[1, comes], ranks[1, same]])
            weight = np.concatenate([-copies[0, goes], copies[1, comes], (copies[1] - copies[0])[same]])
        output = ranked_output(merged.rows.take(pa.array(row)), spec.output, spec.rank, rank)
        return _weighted(output, weight)


def _within(row: Int64s, rank: Int64s, bounds: tuple[Int64s, Int64s]) -> npt.NDArray[np.bool_]:
    first, last = bounds
    inside: npt.NDArray[np.bool_] = (rank > first[row]) & (rank <= last[row])
    return inside


def _weighted(rows: pa.Table, weight: Int64s) -> pa.Table:
    return rows.append_column(WEIGHT_COLUMN, pa.array(weight))
