"""The first row of each key that comes: what INSERT … ON CONFLICT DO NOTHING writes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.operator import OperatorContext, OperatorResult
from sqlstream_operators.operators.phase_timer import PhaseTimer
from sqlstream_operators.plan.first_row_spec import FirstRowSpec
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column, column_of
from sqlstream_operators.plan.state_schema import FOUND
from sqlstream_operators.plan.types import BIGINT, quote_identifier
from sqlstream_operators.plan.watermarks import Watermarks

TABLE = "row"

_ROWS = "__arrived"
_ARRIVAL = "__arrival"


class FirstRow:
    """Runs a `FirstRowSpec`: see there for its input, its state and its output."""

    def __init__(self, spec: FirstRowSpec) -> None:
        self._spec = spec
        self._keys = tuple(column_of(spec.columns, name) for name in spec.keys)
        table = spec.state.table(TABLE)
        if table.layout != "key" or table.value or sorted(table.key_columns) != sorted(spec.keys):
            raise InternalError(
                f"state {spec.state.state_id}: table {TABLE} has not the columns of the operator"
            )

    def idle(self, inputs: Sequence[pa.Table], watermarks: Watermarks, *, stateless: bool) -> bool:
        """No rows arrived."""
        return not any(rows.num_rows for rows in inputs)

    def process(self, inputs: Sequence[pa.Table], context: OperatorContext) -> OperatorResult:
        """Emit rows of keys that are new; raises InternalError if changes come instead of rows."""
        timer, what = PhaseTimer(), f"state {self._spec.state.state_id}"
        [rows] = inputs
        if WEIGHT_COLUMN in rows.column_names:
            raise InternalError(f"{what}: retractions arrived, but the plan says append-only")
        with timer.phase("merge_us"):
            rows = conformed(rows, self._spec.columns, what)
            arrived = rows.num_rows
            if not arrived:
                return OperatorResult(rows, {"emitted_rows": 0})
            rows = rows.take(pa.array(self._first(context.duck, rows)))
        with timer.phase("state_us"):
            rows = rows.filter(pc.invert(context.state.get(TABLE, rows).column(FOUND)))
            context.state.put(TABLE, rows)
        metrics = {
            "emitted_rows": rows.num_rows,
            "dropped_rows": arrived - rows.num_rows,
            "state_rows_added": rows.num_rows,
            **timer.figures("merge_us", "state_us"),
        }
        return OperatorResult(rows, metrics)

    def _first(self, duck: DuckSession, rows: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The number of each key's first row, ascending."""
        keys = rows.select(self._spec.keys).append_column(_ARRIVAL, pa.array(np.arange(rows.num_rows)))
        by = ", ".join(quote_identifier(name) for name in self._spec.keys)
        duck.register(_ROWS, keys, (*self._keys, Column(_ARRIVAL, BIGINT)))
        try:
            found = duck.query(f"SELECT min({_ARRIVAL}) AS first FROM {_ROWS} GROUP BY {by}")
        finally:
            duck.drop(_ROWS)
        first: np.ndarray[tuple[int], np.dtype[np.int64]] = np.sort(found.column(0).to_numpy())
        return first
