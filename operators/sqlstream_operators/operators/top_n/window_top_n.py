"""Window Top-N: the rows of each window with the least ranks, emitted when the window closes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.weighted import empty
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.operator import OperatorContext, OperatorResult
from sqlstream_operators.operators.phase_timer import PhaseTimer
from sqlstream_operators.operators.window.closing import nothing_closes
from sqlstream_operators.operators.window.windows import closed_upto
from sqlstream_operators.plan.schema import SLICE_COLUMN, WEIGHT_COLUMN, Column
from sqlstream_operators.plan.top_n_spec import WindowTopNSpec
from sqlstream_operators.plan.types import BIGINT
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN, Watermarks

from .ranked_state import TABLE, CountedRows, RankedState
from .ranking import Ranking, ranked_output


@dataclass(slots=True)
class _Figures:
    closed: int = 0
    last: int | None = None
    added: int = 0
    removed: int = 0
    timer: PhaseTimer = field(default_factory=PhaseTimer)


class WindowTopN:
    """Runs a `WindowTopNSpec`: see there for its input, its state and its output.

    Windows that the late watermark closes are emitted from the state alone. Of the others the state keeps the
    rows that can still be in the result; rows of windows that only the close watermark closes are never
    written.
    """

    def __init__(self, spec: WindowTopNSpec) -> None:
        self._spec = spec
        self._ranking = Ranking.of(spec, Column(SLICE_COLUMN, BIGINT, nullable=False))
        self._state = RankedState(spec, self._ranking)

    def idle(self, inputs: Sequence[pa.Table], watermarks: Watermarks, *, stateless: bool) -> bool:
        """Nothing came, and the watermark closes nothing or there is no state to emit."""
        return nothing_closes(inputs, watermarks, self._spec.tick_us, stateless=stateless)

    def process(self, inputs: Sequence[pa.Table], context: OperatorContext) -> OperatorResult:
        """Close, merge, close; raises InternalError for rows of windows that are closed, and for changes."""
        spec, marks, tick = self._spec, context.watermarks, self._spec.tick_us
        before, late, close = (closed_upto(mark, tick) for mark in (marks.previous, marks.late, marks.close))
        figures = _Figures()
        [rows] = inputs
        outputs = self._close(context, self._state.empty(), before, late, figures)
        dying = self._merge_in(context, rows, late, close, figures)
        outputs += self._close(context, dying, late, close, figures)
        output = pa.concat_tables(outputs) if outputs else empty(spec.output)
        metrics = {
            "emitted_rows": output.num_rows,
            "closed_windows": figures.closed,
            "state_rows_added": figures.added,
            "state_rows_removed": figures.removed,
            **figures.timer.figures("merge_us", "state_us", "close_us"),
        }
        if figures.last is not None:
            metrics["max_closed_end_us"] = figures.last
        return OperatorResult(output, metrics)

    def shown(self, context: OperatorContext) -> pa.Table:
        """What it would emit if the watermark closed all windows that are open; to be followed by no commit."""
        after = closed_upto(context.watermarks.close, self._spec.tick_us)
        outputs = self._close(context, self._state.empty(), after, WATERMARK_MAX, _Figures())
        return pa.concat_tables(outputs) if outputs else empty(self._spec.output)

    def _merge_in(
        self, context: OperatorContext, rows: pa.Table, late: int, close: int, figures: _Figures
    ) -> CountedRows:
        """Merge an epoch's rows into the state; those of windows that end by `close` are returned instead."""
        what = f"state {self._spec.state.state_id}"
        if WEIGHT_COLUMN in rows.column_names:
            raise InternalError(f"{what}: retractions arrived, but the plan says append-only")
        if not rows.num_rows:
            return self._state.empty()
        with figures.timer.phase("merge_us"):
            rows = conformed(rows, self._ranking.columns, what)
            ends = rows.column(SLICE_COLUMN).to_numpy()
            if late != WATERMARK_MIN and int(ends.min()) <= late:
                raise InternalError(f"{what}: rows of closed windows reached the operator")
            rows = self._ranking.candidates(context.duck, rows) if self._ranking.upto else rows.slice(0, 0)
            arrived = self._state.arrived(context.duck, rows, None)
            ends = arrived.rows.column(SLICE_COLUMN).to_numpy()
            dies = (ends <= close) & (close != WATERMARK_MIN)
        self._keep(context, arrived.take(np.flatnonzero(~dies)), figures)
        return arrived.take(np.flatnonzero(dies))

    def _keep(self, context: OperatorContext, arrived: CountedRows, figures: _Figures) -> None:
        """Write what can be in the result of windows that stay open."""
        if not arrived.rows.num_rows:
            return
        with figures.timer.phase("state_us"):
            state = context.state
            ends = arrived.rows.column(SLICE_COLUMN).to_numpy()
            windows = np.unique(ends)
            known = np.isin(ends, windows[state.has_time(TABLE, windows)])
            stored = self._state.empty()
            if known.any():
                keys, _ = self._state.partitions(context.duck, arrived.rows.filter(pa.array(known)))
                stored = self._state.loaded(state.scan_prefix(TABLE, keys))
        with figures.timer.phase("merge_us"):
            merged = self._state.merged(context.duck, stored, arrived)
            [position] = self._ranking.positions(context.duck, merged.rows, [merged.now])
        with figures.timer.phase("state_us"):
            added, removed = self._state.write(state, merged, self._ranking.retained(position, merged.now))
            figures.added += added
            figures.removed += removed

    def _close(
        self, context: OperatorContext, dying: CountedRows, after: int, upto: int, figures: _Figures
    ) -> list[pa.Table]:
        """Emit the windows that end in (after, upto] from state and `dying`, and delete their state."""
        if upto <= after:
            return []
        with figures.timer.phase("state_us"):
            low = None if after == WATERMARK_MIN else after + 1
            high = None if upto == WATERMARK_MAX else upto + 1
            stored = self._state.loaded(context.state.scan_time(TABLE, low, high))
            if len(stored.counts):
                context.state.delete_time(TABLE, low, high)
                figures.removed += len(stored.counts)
        with figures.timer.phase("close_us"):
            merged = self._state.merged(context.duck, stored, dying)
            if not merged.rows.num_rows:
                return []
            ends = np.unique(merged.rows.column(SLICE_COLUMN).to_numpy())
            figures.closed += len(ends)
            figures.last = int(ends[-1])
            [position] = self._ranking.positions(context.duck, merged.rows, [merged.now])
            shown = self._ranking.shown(position, merged.now)
            row, rank = np.repeat(shown.row, shown.copies), np.repeat(shown.rank, shown.copies)
            output = ranked_output(merged.rows.take(pa.array(row)), self._spec.output, self._spec.rank, rank)
        return [output]
