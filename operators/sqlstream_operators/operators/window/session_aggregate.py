"""Aggregates of sessions: accumulators of each open session, merged when sessions become one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.duck.weighted import chosen, concatenated, consolidated, empty, with_weight
from sqlstream_operators.operators.operator import OperatorContext, OperatorResult
from sqlstream_operators.operators.phase_timer import PhaseTimer
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.session_spec import SessionAggregateSpec
from sqlstream_operators.plan.types import BIGINT, TIMESTAMP, quote_identifier
from sqlstream_operators.plan.watermarks import Watermarks

from .closing import nothing_closes
from .open_sessions import OpenSessions, Taken
from .windows import Int64s, closed_upto

_SESSION = "__session"
_INPUT = "__rows"


class SessionAggregate:
    """Runs a `SessionAggregateSpec`: see there for its inputs, its state and its output.

    Sessions that the late watermark closes are done with before this epoch's rows are looked at. Work is proportional to
    these rows, the open sessions of their partitions (which are at least a gap apart) and the sessions that close.
    """

    def __init__(self, spec: SessionAggregateSpec) -> None:
        self._spec = spec
        self._kept = [c.name for c in spec.accumulators]
        self._sessions = OpenSessions(spec.state, spec.columns, spec.partition, spec.gap_us, self._kept)
        by_name = {c.name: c for c in spec.columns}
        self._keys: Schema = tuple(by_name[name] for name in spec.partition)
        self._numbered: Schema = (Column(_SESSION, BIGINT), *spec.accumulators)

    def idle(self, inputs: Sequence[pa.Table], watermarks: Watermarks, *, stateless: bool) -> bool:
        """Nothing came, and the watermark closes nothing or there is no session."""
        return nothing_closes(inputs, watermarks, self._spec.tick_us, stateless=stateless)

    def process(self, inputs: Sequence[pa.Table], context: OperatorContext) -> OperatorResult:
        """Close, merge, close; raises InternalError for rows that should have been decided about before."""
        marks, tick = context.watermarks, self._spec.tick_us
        late, close = closed_upto(marks.late, tick), closed_upto(marks.close, tick)
        timer = PhaseTimer()
        metrics = {"closed_windows": 0, "state_rows_added": 0, "state_rows_removed": 0}
        letters = None
        with timer.phase("close_us"):
            outputs = [self._close(context, late, metrics)]
        with timer.phase("state_us"):
            taken = self._sessions.take_in(inputs, context.state, late)
            if taken is not None:
                letters = taken.late
                outputs.append(self._merge_in(taken, context))
                metrics["state_rows_added"] = taken.added
        if close > late:
            with timer.phase("close_us"):
                outputs.append(self._close(context, close, metrics))
        output = concatenated(outputs)
        metrics |= {"emitted_rows": output.num_rows, **timer.figures("state_us", "close_us")}
        return OperatorResult(output, metrics, letters)

    def _merge_in(self, taken: Taken, context: OperatorContext) -> pa.Table:
        """Merge an epoch's rows into their sessions; what that changes in the result."""
        duck, known, made, gap = context.duck, taken.known, taken.made, self._spec.gap_us
        at = taken.changed
        if not len(at):  # all rows are late
            return self._nothing()
        old = np.flatnonzero(taken.touched[taken.now])
        stored = chosen(taken.stored, self._kept, old)
        new = self._merged(duck, taken, stored, taken.now[old])
        self._sessions.write(context.state, taken, {name: new.column(name) for name in self._kept})
        if not self._spec.changes:
            return self._nothing()
        pieces = []
        for accumulators, part, first, last, weight in (
            (stored, known.part[old], known.first[old], known.last[old], -1),
            (new, made.part[at], made.first[at], made.last[at], 1),
        ):
            if len(part):
                keys = taken.keys.take(pa.array(part))
                rows = self._given(duck, keys, first, last + gap, accumulators)
                weights = pa.array(np.full(rows.num_rows, weight, np.int64))
                pieces.append(rows.append_column(WEIGHT_COLUMN, weights))
        return consolidated(duck, concatenated(pieces), self._spec.output)

    def _merged(self, duck: DuckSession, taken: Taken, stored: pa.Table, now: Int64s) -> pa.Table:
        """The accumulators of the sessions that have new rows, in their order: those of the rows, and `stored` ones."""
        rows = taken.rows.append_column(_SESSION, pa.array(taken.session))
        new = self._aggregated(
            duck, rows, (*self._spec.columns, Column(_SESSION, BIGINT)), self._spec.partial
        )
        if not stored.num_rows:
            return new
        old = stored.add_column(0, _SESSION, pa.array(now))
        both = pa.concat_tables(
            [conformed(t, self._numbered, "accumulators of sessions") for t in (old, new)]
        )
        return self._aggregated(duck, both, self._numbered, self._spec.merge)

    def _aggregated(
        self, duck: DuckSession, rows: pa.Table, schema: Schema, aggregates: Sequence[str]
    ) -> pa.Table:
        """One row for each session, by its number."""
        listed = ", ".join(
            f"CAST({text} AS {c.type}) AS {quote_identifier(c.name)}"
            for text, c in zip(aggregates, self._spec.accumulators, strict=True)
        )
        sql = f"SELECT {_SESSION}, {listed} FROM {_INPUT} GROUP BY {_SESSION} ORDER BY {_SESSION}"
        duck.register(_INPUT, rows, schema)
        try:
            found = duck.query(sql)
        finally:
            duck.drop(_INPUT)
        return conformed(found, self._numbered, "accumulators of sessions")

    def _close(self, context: OperatorContext, upto: int, metrics: dict[str, int]) -> pa.Table:
        """Forget the sessions that end at `upto` or before, and give them unless they were given at once."""
        closed = self._sessions.close(context.state, upto)
        if closed is None:
            return self._nothing()
        metrics["closed_windows"] += len(closed.end)
        metrics["state_rows_removed"] += len(closed.end)
        metrics["max_closed_end_us"] = int(closed.end.max())
        if self._spec.changes:
            return self._nothing()
        order = np.lexsort((closed.part, closed.end))
        keys = closed.keys.take(pa.array(closed.part[order]))
        accumulators = chosen(closed.stored, self._kept, order)
        return self._given(context.duck, keys, closed.start[order], closed.end[order], accumulators)

    def _given(
        self, duck: DuckSession, keys: pa.Table, start: Int64s, end: Int64s, accumulators: pa.Table
    ) -> pa.Table:
        """Sessions as the operator gives them."""
        bounds = (Column("window_start", TIMESTAMP), Column("window_end", TIMESTAMP))
        schema = (*self._keys, *bounds, *self._spec.accumulators)
        columns = [
            *(keys.column(c.name) for c in self._keys),
            *(pa.array(times).cast(to_arrow(TIMESTAMP)) for times in (start, end)),
            *(accumulators.column(name) for name in self._kept),
        ]
        duck.register("merged", pa.table(columns, names=[c.name for c in schema]), schema)
        try:
            found = duck.query(self._spec.emit)
        finally:
            duck.drop("merged")
        return conformed(found, self._spec.output, f"output of {self._spec.state.state_id}")

    def _nothing(self) -> pa.Table:
        spec = self._spec
        return empty(with_weight(spec.output) if spec.changes else spec.output)
