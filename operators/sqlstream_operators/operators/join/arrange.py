"""Keeps the rows of a relation by a key, for all joins that read them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sqlstream_operators.operators.operator import OperatorContext, OperatorResult
from sqlstream_operators.operators.phase_timer import PhaseTimer
from sqlstream_operators.plan.arranged_spec import ROWS, ArrangeSpec
from sqlstream_operators.plan.watermarks import Watermarks

from .join_side import JoinSide


class Arrange:
    """Runs an `ArrangeSpec`: see there for its input, its state and its output."""

    def __init__(self, spec: ArrangeSpec) -> None:
        self._side = arranged_rows(spec)

    def idle(self, inputs: Sequence[pa.Table], watermarks: Watermarks, *, stateless: bool) -> bool:
        """No rows arrived."""
        return not inputs[0].num_rows

    def process(self, inputs: Sequence[pa.Table], context: OperatorContext) -> OperatorResult:
        """Note what came, and say what that changes."""
        timer, state = PhaseTimer(), context.state
        with timer.phase("state_us"):
            changed = self._side.changed(context.duck, state, inputs[0])
            added, removed = self._side.write(state, changed)
        metrics = {
            "emitted_rows": changed.rows.num_rows,
            "state_rows_added": added,
            "state_rows_removed": removed,
            **timer.figures("state_us"),
        }
        return OperatorResult(changed.rows, metrics)

    def answer(self, context: OperatorContext) -> pa.Table:
        """See `KeepsAnswer.answer`: all rows as if they came just now, which the joins make their results of."""
        return self._side.as_new(self._side.read_all(context.state))


def arranged_rows(spec: ArrangeSpec) -> JoinSide:
    """The rows of an arrangement in its state."""
    only_come = not spec.rows.retracting
    return JoinSide(spec.state, ROWS, spec.keys, spec.rows, whole=spec.whole, only_come=only_come)
