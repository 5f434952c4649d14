"""What runs it: `operators/sqlstream_operators/operators/top_n/every_nth.py`."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sqlstream_operators.operators.operator import OperatorContext, OperatorResult
from sqlstream_operators.plan.watermarks import Watermarks
from tests.planner.streaming.every_nth.spec import ROWS, TABLE, EveryNthSpec


class EveryNth:
    """Runs an `EveryNthSpec`."""

    def __init__(self, spec: EveryNthSpec) -> None:
        self._spec = spec

    def idle(self, inputs: Sequence[pa.Table], watermarks: Watermarks, *, stateless: bool) -> bool:
        return not any(rows.num_rows for rows in inputs)

    def process(self, inputs: Sequence[pa.Table], context: OperatorContext) -> OperatorResult:
        [rows] = inputs
        keys = rows.select(self._spec.keys)
        before = context.state.get(TABLE, keys).column(ROWS).to_pylist()
        seen: dict[tuple[object, ...], int] = {}
        numbers = []
        for key, known in zip(keys.to_pylist(), before, strict=True):
            name = tuple(key.values())
            seen[name] = seen.get(name, known or 0) + 1
            numbers.append(seen[name])
        context.state.put(TABLE, keys.append_column(ROWS, pa.array(numbers, pa.int64())))
        given = rows.append_column(self._spec.number, pa.array(numbers, pa.int64()))
        kept = pa.array([number % self._spec.every == 0 for number in numbers], pa.bool_())
        return OperatorResult(given.filter(kept), {"emitted_rows": sum(kept.to_pylist())})
