"""A join with the versions of a table: each row is emitted once, beside the version that is valid at its time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.duck.weighted import concatenated, empty
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.groups import Int64s
from sqlstream_operators.operators.operator import OperatorContext, OperatorResult
from sqlstream_operators.operators.phase_timer import PhaseTimer
from sqlstream_operators.plan.join_spec import JoinSideSpec
from sqlstream_operators.plan.schema import SLICE_COLUMN, WEIGHT_COLUMN, Schema
from sqlstream_operators.plan.temporal_join_spec import TemporalJoinSpec
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN, Watermarks

from .versions import Versions
from .waiting_rows import COPIES, WaitingRows

_PAIRS = "__pairs"


class TemporalJoin:
    """Runs a `TemporalJoinSpec`: see there for its inputs, its state and its output.

    Nothing can come any more that changes which version is valid at a time that the watermark has reached. So the rows of
    the left up to there are given, and of the versions only the newest can still be looked up. An epoch reads the rows that
    leave, and the versions of their keys and of keys whose versions the watermark reaches.
    """

    def __init__(self, spec: TemporalJoinSpec) -> None:
        self._spec = spec
        self._what = f"state {spec.state.state_id}"
        self._waiting = WaitingRows(spec)
        self._versions = Versions(spec)

    def idle(self, inputs: Sequence[pa.Table], watermarks: Watermarks, *, stateless: bool) -> bool:
        """Nothing came, and the watermark reaches nothing or there is nothing to reach."""
        if any(rows.num_rows for rows in inputs):
            return False
        return stateless or self._at(watermarks.close) <= self._at(watermarks.previous)

    def _given_forward(
        self, context: OperatorContext, left: pa.Table, right: pa.Table, close: int
    ) -> tuple[pa.Table, dict[str, int]]:
        """Each row of the left beside the first version that comes behind it, when the watermark reaches that.

        What waits is all in the state, also at the end of the input, but for rows that a left join gives beside NULLs then.
        """
        state, duck = context.state, context.duck
        added = self._waiting.add(state, left)
        added += self._versions.add(duck, state, right, close)
        versions = self._versions.take(state, close)
        due = empty(self._waiting.schema)
        if versions.num_rows:
            last = pc.max(versions.column(SLICE_COLUMN)).as_py()
            keys = self._versions.distinct(self._versions.keys_of(versions))
            due = self._waiting.of_keys(state, keys, last)
            due = due.filter(pa.array(self._versions.valid(due, versions) >= 0))
            self._waiting.delete(state, due)
        if close == WATERMARK_MAX and self._spec.type == "left":
            rest = self._waiting.all(state)
            self._waiting.delete(state, rest)
            due = concatenated([due, rest])
        output = self._output(duck, due, versions)
        metrics = {"state_rows_added": added, "state_rows_removed": due.num_rows + versions.num_rows}
        times = [pc.max(rows.column(SLICE_COLUMN)).as_py() for rows in (due, versions) if rows.num_rows]
        if times:
            metrics["max_closed_end_us"] = max(times) + self._spec.delay_us + 1
        return output, metrics

    def process(self, inputs: Sequence[pa.Table], context: OperatorContext) -> OperatorResult:
        """Keep what came, and give the rows that the watermark reaches; raises InternalError for late rows and changes."""
        timer, state, duck = PhaseTimer(), context.state, context.duck
        late, close = self._at(context.watermarks.late), self._at(context.watermarks.close)
        left, right = (
            self._arrived(rows, side, late)
            for rows, side in zip(inputs, (self._spec.left, self._spec.right), strict=True)
        )
        with timer.phase("state_us"):
            copies = pa.array(np.ones(left.num_rows, np.int64))
            left = conformed(left.append_column(COPIES, copies), self._waiting.schema, self._what)
        if self._spec.forward:
            with timer.phase("state_us"):
                output, found = self._given_forward(context, left, right, close)
            return OperatorResult(
                output, {"emitted_rows": output.num_rows, **found, **timer.figures("state_us")}
            )
        with timer.phase("state_us"):
            now = left.column(SLICE_COLUMN).to_numpy() <= close
            due = concatenated([self._waiting.take(state, close), left.filter(pa.array(now))])
            added = self._waiting.add(state, left.filter(pa.array(~now)))
            reached = self._reached(due, late, close)
            added += self._versions.add(duck, state, right, reached)
            wanted = [self._versions.keys_of(rows) for rows in (due, right)]
            wanted.append(self._versions.reached(state, reached))
            versions = self._versions.read(state, concatenated(wanted), reached)
        with timer.phase("merge_us"):
            output = self._output(duck, due, versions)
        with timer.phase("state_us"):
            removed = self._versions.drop_old(state, versions)
        metrics = {
            "emitted_rows": output.num_rows,
            "state_rows_added": added,
            "state_rows_removed": removed + due.num_rows - int(np.count_nonzero(now)),
            **timer.figures("merge_us", "state_us"),
        }
        if due.num_rows:
            metrics["max_closed_end_us"] = reached + self._spec.delay_us + 1
        return OperatorResult(output, metrics)

    def _at(self, mark: int) -> int:
        """The time up to which all rows have come at a watermark."""
        return mark if mark in (WATERMARK_MIN, WATERMARK_MAX) else mark - self._spec.delay_us

    @staticmethod
    def _reached(due: pa.Table, late: int, close: int) -> int:
        """The time up to which versions are old: the watermark's, or at the end of the input that of the last row.

        More rows may come, of later times, if the input goes on.
        """
        if close != WATERMARK_MAX:
            return close
        times = [late] if late != WATERMARK_MAX else []
        if due.num_rows:
            times.append(pc.max(due.column(SLICE_COLUMN)).as_py())
        return max(times, default=WATERMARK_MIN)

    def _arrived(self, rows: pa.Table, side: JoinSideSpec, late: int) -> pa.Table:
        if WEIGHT_COLUMN in rows.column_names:
            raise InternalError(f"{self._what}: retractions arrived, but the plan says append-only")
        keys: Schema = tuple(self._spec.keys)
        names = [SLICE_COLUMN, *(column.name for column in (*keys, *side.stored))]
        rows = rows.select(names)
        times = rows.column(SLICE_COLUMN)
        if times.null_count or (late != WATERMARK_MIN and rows.num_rows and pc.min(times).as_py() <= late):
            raise InternalError(f"{self._what}: a row without a time, or a late one, reached the operator")
        schema = self._waiting.schema[:-1] if side is self._spec.left else self._versions.schema
        return conformed(rows, schema, self._what)

    def _output(self, duck: DuckSession, due: pa.Table, versions: pa.Table) -> pa.Table:
        """The rows that are due, each beside its version."""
        spec = self._spec
        if not due.num_rows:
            return empty(spec.output)
        valid = self._versions.valid(due, versions)
        if spec.condition is not None:
            at = np.flatnonzero(valid >= 0)
            pairs = self._beside(due.take(pa.array(at)), versions, valid[at])
            valid[at[~self._passing(duck, pairs)]] = -1
        times = due.column(COPIES).to_numpy()
        shown = np.arange(due.num_rows) if spec.type == "left" else np.flatnonzero(valid >= 0)
        shown = np.repeat(shown, times[shown])
        return self._beside(due.take(pa.array(shown)), versions, valid[shown])

    def _beside(self, rows: pa.Table, versions: pa.Table, valid: Int64s) -> pa.Table:
        """Rows of the left, each beside the version with the number `valid`, or NULLs."""
        spec = self._spec
        index = pa.array(valid, mask=valid < 0)
        columns = [_column(rows, spec.left, spec.keys, c.name) for c in spec.left.columns]
        columns += [_column(versions, spec.right, spec.keys, c.name).take(index) for c in spec.right.columns]
        names = [c.name for c in (*spec.left.columns, *spec.right.columns)]
        table = pa.Table.from_arrays([pa.array(valid), *columns], names=["__valid", *names])
        return conformed(table, spec.output, self._what)

    def _passing(self, duck: DuckSession, pairs: pa.Table) -> np.ndarray:
        """Which pairs the condition holds for."""
        if not pairs.num_rows:
            return np.zeros(0, bool)
        source = duck.source(_PAIRS, pairs, self._spec.output)
        try:
            found = duck.query(f"SELECT coalesce({self._spec.condition}, FALSE) AS passes FROM {source}")
        finally:
            duck.drop(_PAIRS)
        passing: np.ndarray = np.asarray(found.column(0)).astype(bool)
        return passing


def _column(rows: pa.Table, side: JoinSideSpec, keys: Schema, name: str) -> pa.ChunkedArray:
    """A column of a side: as it is stored, or the key that it is."""
    if name in side.keys:
        return rows.column(keys[side.keys.index(name)].name)
    return rows.column(name)
