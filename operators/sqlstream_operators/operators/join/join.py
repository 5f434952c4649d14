"""A join that is kept up to date, and keeps the rows of both sides itself."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.operator import OperatorContext, OperatorResult
from sqlstream_operators.operators.phase_timer import PhaseTimer
from sqlstream_operators.plan.join_spec import JoinSpec
from sqlstream_operators.plan.watermarks import Watermarks

from .join_side import side_of
from .joining import Joining


class Join:
    """Runs a `JoinSpec`: see there for its inputs, its state and its output."""

    def __init__(self, spec: JoinSpec) -> None:
        if spec.ttl_us is not None:
            raise InternalError(f"state {spec.state.state_id}: not this operator but TimeToLive forgets rows")
        self._sides = side_of(spec, "left"), side_of(spec, "right")
        self._joining = Joining(spec, self._sides)

    def idle(self, inputs: Sequence[pa.Table], watermarks: Watermarks, *, stateless: bool) -> bool:
        """No rows arrived."""
        return not any(rows.num_rows for rows in inputs)

    def process(self, inputs: Sequence[pa.Table], context: OperatorContext) -> OperatorResult:
        """Join what changed, emit, and note it; raises InternalError if changes come where rows are promised to stay."""
        timer, state, duck = PhaseTimer(), context.state, context.duck
        with timer.phase("state_us"):
            left, right = (
                side.changed(duck, state, rows) for side, rows in zip(self._sides, inputs, strict=True)
            )
        output, read = self._joining.changes(duck, (state, state), (left, right), timer)
        with timer.phase("state_us"):
            written = [side.write(state, rows) for side, rows in zip(self._sides, (left, right), strict=True)]
        metrics = {
            "emitted_rows": output.num_rows,
            "read_rows": read,
            "state_rows_added": sum(added for added, _ in written),
            "state_rows_removed": sum(removed for _, removed in written),
            **timer.figures("merge_us", "state_us"),
        }
        return OperatorResult(output, metrics)

    def answer(self, context: OperatorContext) -> pa.Table:
        """See `KeepsAnswer.answer`; of a join whose rows are append-only, each row as often as it is there."""
        left, right = (side.as_new(side.read_all(context.state)) for side in self._sides)
        return self._joining.answer(context.duck, left, right)
