"""SESSION windows: rows are kept until their session closes, or given at once and retracted when it changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.weighted import concatenated, consolidated, empty, with_weight
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.operator import OperatorContext, OperatorResult
from sqlstream_operators.operators.phase_timer import PhaseTimer
from sqlstream_operators.plan.schema import WEIGHT_COLUMN
from sqlstream_operators.plan.session_spec import NEXT, NUMBER_OF_ROW, ROWS, TIME_OF_ROW, SessionWindowsSpec
from sqlstream_operators.plan.watermarks import Watermarks
from sqlstream_operators.state.store import StateStore

from .closing import nothing_closes
from .open_sessions import OpenSessions, Taken, numbers
from .sessions import numbered_by
from .windows import Int64s, closed_upto

KEPT = "rows"


@dataclass(slots=True)
class _Figures:
    added: int = 0
    removed: int = 0
    closed: int = 0
    last_end: int | None = None
    timer: PhaseTimer = field(default_factory=PhaseTimer)


class SessionWindows:
    """Runs a `SessionWindowsSpec`: see there for its inputs, its state and its output.

    Sessions that the late watermark closes are done with before this epoch's rows are looked at. Work is proportional to
    these rows, the open sessions of their partitions (which are at least a gap apart) and the rows of sessions that close;
    where rows are given at once, also to the rows of sessions whose bounds change, and of those before them.
    """

    def __init__(self, spec: SessionWindowsSpec) -> None:
        self._spec = spec
        self._sessions = OpenSessions(spec.state, spec.columns, spec.partition, spec.gap_us, (ROWS, NEXT))
        table = spec.state.table(KEPT)
        if (
            table.layout != "key"
            or {f.name for f in table.key} != set(spec.partition)
            or [f.name for f in table.sub_key] != [TIME_OF_ROW, NUMBER_OF_ROW]
            or {f.name for f in table.value} != {c.name for c in spec.columns} - set(spec.partition)
        ):
            raise InternalError(
                f"state {spec.state.state_id}: table {KEPT} has not the columns of the operator"
            )

    def idle(self, inputs: Sequence[pa.Table], watermarks: Watermarks, *, stateless: bool) -> bool:
        """Nothing came, and the watermark closes nothing or there is no session."""
        return nothing_closes(inputs, watermarks, self._spec.tick_us, stateless=stateless)

    def process(self, inputs: Sequence[pa.Table], context: OperatorContext) -> OperatorResult:
        """Close, take rows in, close; raises InternalError for rows that should have been decided about before."""
        marks, tick = context.watermarks, self._spec.tick_us
        late, close = closed_upto(marks.late, tick), closed_upto(marks.close, tick)
        figures = _Figures()
        letters = None
        with figures.timer.phase("close_us"):
            outputs = [self._close(context.state, late, figures)]
        with figures.timer.phase("state_us"):
            taken = self._sessions.take_in(inputs, context.state, late)
            if taken is not None:
                outputs.append(self._take_in(taken, context, figures))
                letters = taken.late
        if close > late:
            with figures.timer.phase("close_us"):
                outputs.append(self._close(context.state, close, figures))
        output = concatenated(outputs)
        metrics = {
            "emitted_rows": output.num_rows,
            "closed_windows": figures.closed,
            "state_rows_added": figures.added,
            "state_rows_removed": figures.removed,
            **figures.timer.figures("state_us", "close_us"),
        }
        if figures.last_end is not None:
            metrics["max_closed_end_us"] = figures.last_end
        return OperatorResult(output, metrics, letters)

    def _take_in(self, taken: Taken, context: OperatorContext, figures: _Figures) -> pa.Table:
        """Put an epoch's rows into sessions; what that changes in the result."""
        state, known, made = context.state, taken.known, taken.made
        moved = self._moved(state, taken) if self._spec.changes else []
        counts = np.bincount(taken.session, minlength=len(made.part)).astype(np.int64)
        np.add.at(counts, taken.now, numbers(taken.stored, ROWS))
        # Rows are numbered on in the order in which they came.
        base = np.zeros(taken.keys.num_rows, np.int64)
        np.maximum.at(base, known.part, numbers(taken.stored, NEXT))
        of_rows, next_ = numbered_by(taken.part, base)
        at = taken.changed
        self._sessions.write(state, taken, {ROWS: pa.array(counts[at]), NEXT: pa.array(next_[made.part[at]])})
        rows = taken.rows.append_column(TIME_OF_ROW, pa.array(taken.time))
        state.put(KEPT, rows.append_column(NUMBER_OF_ROW, pa.array(of_rows)))
        figures.added += taken.added + rows.num_rows
        if not self._spec.changes:
            return self._nothing()
        given = self._given(taken.rows, made.first[taken.session], self._end(made.last[taken.session]), 1)
        return consolidated(context.duck, concatenated([*moved, given]), self._spec.output)

    def _moved(self, state: StateStore, taken: Taken) -> list[pa.Table]:
        """The rows of sessions whose bounds change: retracted with the old ones, given with the new ones."""
        known, made = taken.known, taken.made
        changing = np.flatnonzero(~taken.same)
        if not len(changing):
            return []
        # A partition's rows are read up to those of its last session that changes.
        last = np.full(taken.keys.num_rows, -1, np.int64)
        np.maximum.at(last, known.part[changing], changing)
        read = np.flatnonzero(np.arange(len(known.part)) <= last[known.part])
        rows, owner = self._read(state, taken.keys, known.part[read], numbers(taken.stored, ROWS)[read])
        chosen = ~taken.same[read[owner]]
        rows, owner = rows.filter(pa.array(chosen)), read[owner[chosen]]
        now = taken.now[owner]
        return [
            self._given(rows, known.first[owner], self._end(known.last[owner]), -1),
            self._given(rows, made.first[now], self._end(made.last[now]), 1),
        ]

    def _close(self, state: StateStore, upto: int, figures: _Figures) -> pa.Table:
        """Forget the sessions that end at `upto` or before; their rows, unless they were given at once."""
        closed = self._sessions.close(state, upto)
        if closed is None:
            return self._nothing()
        rows, owner = self._read(state, closed.keys, closed.part, numbers(closed.stored, ROWS))
        state.delete(KEPT, rows)
        figures.closed += len(closed.end)
        figures.removed += len(closed.end) + rows.num_rows
        figures.last_end = int(closed.end.max())
        if self._spec.changes:
            return self._nothing()
        order = np.lexsort((numbers(rows, NUMBER_OF_ROW), closed.part[owner], closed.end[owner]))
        rows, owner = rows.take(pa.array(order)), owner[order]
        return self._given(rows, closed.start[owner], closed.end[owner], None)

    def _read(
        self, state: StateStore, keys: pa.Table, part: Int64s, counts: Int64s
    ) -> tuple[pa.Table, npt.NDArray[np.int64]]:
        """The rows of the first sessions of partitions, of which `counts` says how many rows each has, by their order.

        And for each row which of the sessions it is of. Partitions without a session are not read.
        """
        most = np.zeros(keys.num_rows, np.int64)
        np.add.at(most, part, counts)
        wanted = np.flatnonzero(most)
        rows, _ = state.scan_first(KEPT, keys.take(pa.array(wanted)), most[wanted])
        if rows.num_rows != int(counts.sum()):
            raise InternalError(f"state {self._spec.state.state_id}: rows of a session are not there")
        return rows, np.repeat(np.arange(len(counts)), counts)

    def _end(self, last: Int64s) -> Int64s:
        return last + self._spec.gap_us

    def _given(self, rows: pa.Table, start: Int64s, end: Int64s, weight: int | None) -> pa.Table:
        """Rows with the bounds of their session as the operator gives them."""
        bounds = {self._spec.start: start, self._spec.end: end, self._spec.time: end - 1_000}
        columns = []
        for column in self._spec.output:
            if column.name in bounds:
                columns.append(pa.chunked_array([pa.array(bounds[column.name]).cast(to_arrow(column.type))]))
            else:
                columns.append(rows.column(column.name))
        table = pa.table(columns, names=[c.name for c in self._spec.output])
        table = conformed(table, self._spec.output, f"output of {self._spec.state.state_id}")
        if weight is None:
            return table
        return table.append_column(WEIGHT_COLUMN, pa.array(np.full(table.num_rows, weight, np.int64)))

    def _nothing(self) -> pa.Table:
        spec = self._spec
        return empty(with_weight(spec.output) if spec.changes else spec.output)
