"""What an operator would give now, out of its state alone: rows for people who look, not for a sink.

Beside the results that operators keep (`KeepsAnswer`) these are the windows that are open, as they stand, and what is
left where state forgets.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import pyarrow as pa

from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.operator import OperatorContext, Shows
from sqlstream_operators.operators.registry import operator_of
from sqlstream_operators.plan.schema import WEIGHT_COLUMN
from sqlstream_operators.plan.spec import OperatorSpec


def view(spec: OperatorSpec, context: OperatorContext) -> pa.Table:
    """The rows that an operator with a view shows, with the columns of its output, each as often as it is there.

    They are those of the keys that `context.state` shows; it must not be committed afterwards. Of its watermarks only
    `close` is looked at: what was closed is not shown again.
    """
    if spec.facts.view is None:
        raise InternalError(f"a {spec.kind} shows nothing but what is stored")
    rows = cast(Shows, operator_of(spec)).shown(context)
    if WEIGHT_COLUMN in rows.column_names:
        weights = rows.column(WEIGHT_COLUMN).to_numpy()
        if (weights != 1).any():
            rows = rows.take(pa.array(np.repeat(np.arange(rows.num_rows), weights)))
    return conformed(rows, spec.output, f"output of {spec.state.state_id}")
