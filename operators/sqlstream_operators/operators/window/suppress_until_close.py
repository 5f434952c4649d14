"""Holds the results of windows back until the watermark closes them; corrections pass after that."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.weighted import with_weight
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.operator import OperatorContext, OperatorResult
from sqlstream_operators.operators.phase_timer import PhaseTimer
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Schema, column_of
from sqlstream_operators.plan.state_schema import TIME
from sqlstream_operators.plan.suppress_until_close_spec import SuppressUntilCloseSpec
from sqlstream_operators.plan.watermarks import WATERMARK_MIN, Watermarks

from .closing import nothing_closes, taken_upto
from .windows import closed_upto

TABLE = "held"


class SuppressUntilClose:
    """Runs a `SuppressUntilCloseSpec`: see there for its input, its state and its output.

    A window that was closed before the epoch lets its changes pass. The others are brought up to date in the
    state; those that the epoch's watermark closes leave it then, as rows that come.
    """

    def __init__(self, spec: SuppressUntilCloseSpec) -> None:
        self._spec = spec
        self._values = [column.name for column in spec.columns if column.name not in spec.keys]
        self._end = column_of(spec.columns, spec.end)
        table = spec.state.table(TABLE)
        if (
            table.layout != "time"
            or table.sub_key
            or {field.name for field in table.key} != set(spec.keys)
            or {field.name for field in table.value} != set(self._values)
        ):
            raise InternalError(
                f"state {spec.state.state_id}: table {TABLE} has not the columns of the operator"
            )

    def idle(self, inputs: Sequence[pa.Table], watermarks: Watermarks, *, stateless: bool) -> bool:
        """Nothing came, and the watermark closes nothing or there is nothing to emit."""
        return nothing_closes(inputs, watermarks, self._spec.tick_us, stateless=stateless)

    def shown(self, context: OperatorContext) -> pa.Table:
        """See `Shows.shown`: the rows that are held back."""
        return context.state.scan_all(TABLE)

    def process(self, inputs: Sequence[pa.Table], context: OperatorContext) -> OperatorResult:
        """Let pass, hold, release; raises InternalError for a row without a window."""
        timer = PhaseTimer()
        with timer.phase("state_us"):
            output, metrics = self._passed_and_released(inputs, context)
        metrics |= {"emitted_rows": output.num_rows, **timer.figures("state_us")}
        return OperatorResult(output, metrics)

    def _passed_and_released(
        self, inputs: Sequence[pa.Table], context: OperatorContext
    ) -> tuple[pa.Table, dict[str, int]]:
        """The changes of closed windows, then the rows of those that close now, and what there is to report of these."""
        spec, marks, state = self._spec, context.watermarks, context.state
        [rows] = inputs
        rows = self._timed(conformed(rows, self._input, f"input of {spec.state.state_id}"))
        before, upto = closed_upto(marks.previous, spec.tick_us), closed_upto(marks.close, spec.tick_us)
        closed = pa.array(np.full(rows.num_rows, False))
        if before != WATERMARK_MIN:
            closed = pc.less_equal(rows.column(TIME), before)
        passing = rows.filter(closed).drop_columns([TIME])
        if spec.final and passing.num_rows:
            raise InternalError(f"state {spec.state.state_id}: a change of a closed window arrived")
        held = rows.filter(pc.invert(closed))
        if spec.weighted:
            comes = pc.greater(held.column(WEIGHT_COLUMN), 0)
            state.delete(TABLE, held.filter(pc.invert(comes)))
            held = held.filter(comes)
        state.put(TABLE, held)
        outputs = [passing]
        metrics: dict[str, int] = {}
        if upto > before:
            stored = taken_upto(state, TABLE, upto)
            if stored.num_rows:
                ends = np.unique(stored.column(TIME).to_numpy())
                metrics = {"closed_windows": len(ends), "max_closed_end_us": int(ends[-1])}
                outputs.append(self._released(stored))
        output = pa.concat_tables(outputs)
        if spec.weighted and not spec.emits_changes:
            output = output.drop_columns([WEIGHT_COLUMN])
        return output, metrics

    @property
    def _input(self) -> Schema:
        return with_weight(self._spec.columns) if self._spec.weighted else self._spec.columns

    def _timed(self, rows: pa.Table) -> pa.Table:
        """`rows` with the end of each row's window as TIME."""
        ends = rows.column(self._end.name).cast(pa.timestamp("us")).cast(pa.int64())
        if ends.null_count:
            raise InternalError(f"state {self._spec.state.state_id}: a row has no window")
        return rows.append_column(TIME, ends)

    def _released(self, stored: pa.Table) -> pa.Table:
        if self._spec.weighted:
            ones = pa.repeat(pa.scalar(1, pa.int64()), stored.num_rows)
            stored = stored.append_column(WEIGHT_COLUMN, ones)
        return conformed(stored, self._input, f"rows of {self._spec.state.state_id}")
