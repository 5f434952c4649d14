"""What an operator would give now, out of its state alone: rows for people who look, not for a sink.

Beside the answers that operators keep (`KeepsAnswer`) these are the windows that are open, as they stand, and what is
left where state forgets.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.operators.aggregate.group_aggregate import GroupAggregate
from sqlstream_operators.operators.operator import KeepsAnswer, OperatorContext
from sqlstream_operators.operators.registry import OPERATORS
from sqlstream_operators.operators.top_n.window_top_n import WindowTopN
from sqlstream_operators.operators.window.suppress_until_close import TABLE as HELD
from sqlstream_operators.operators.window.window_aggregate import WindowAggregate
from sqlstream_operators.plan.changelog_spec import SuppressUntilCloseSpec, WindowTopNSpec
from sqlstream_operators.plan.schema import WEIGHT_COLUMN
from sqlstream_operators.plan.spec import OperatorSpec, WindowAggregateSpec


def view(spec: OperatorSpec, context: OperatorContext) -> pa.Table:
    """The rows of an operator that `has_view`, with the columns of its output, each as often as it is there.

    They are those of the keys that `context.state` shows; it must not be committed afterwards. Of its watermarks only
    `close` is looked at: what was closed is not shown again.
    """
    if isinstance(spec, SuppressUntilCloseSpec):
        return conformed(context.state.scan_all(HELD), spec.output, f"rows of {spec.state.state_id}")
    plain = (
        spec
        if isinstance(spec, WindowAggregateSpec | WindowTopNSpec)
        else replace(cast(Any, spec), ttl_us=None)
    )
    operator = OPERATORS[type(spec)](plain)
    if isinstance(operator, WindowAggregate | WindowTopN):
        rows = operator.open_windows(context)
    elif isinstance(operator, GroupAggregate):
        rows = operator.groups_kept(context)
    else:
        rows = cast(KeepsAnswer, operator).answer(context)
    if WEIGHT_COLUMN in rows.column_names:
        weights = rows.column(WEIGHT_COLUMN).to_numpy()
        if (weights != 1).any():
            rows = rows.take(pa.array(np.repeat(np.arange(rows.num_rows), weights)))
    return conformed(rows, spec.output, f"output of {spec.state.state_id}")
